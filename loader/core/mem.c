/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mem.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *map(size_t bytes, int prot)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (prot == PROT_NONE ? MAP_NORESERVE : 0);
	void *p = mmap(NULL, bytes, prot, flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int thread_create(pthread_t *t, void *(*fn)(void *), void *arg)
{
	static const int own[] = {SIGBUS, SIGSEGV, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
	sigset_t mask, old;
	int rc;

	sigfillset(&mask);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&mask, own[i]);
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	rc = pthread_create(t, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

const struct h2d_mem_ops h2d_mem_libc = {
	.malloc = malloc,
	.calloc = calloc,
	.realloc = realloc,
	.map = map,
	.thread_create = thread_create,
};

const struct h2d_mem_ops *h2d_mem = &h2d_mem_libc;
