/* SPDX-License-Identifier: Apache-2.0 */
#include "core/mem.h"

#include <stdlib.h>

static int thread_create(pthread_t *t, void *(*fn)(void *), void *arg)
{
	return pthread_create(t, NULL, fn, arg);
}

const struct h2d_mem_ops h2d_mem_libc = {
	.malloc = malloc,
	.calloc = calloc,
	.realloc = realloc,
	.thread_create = thread_create,
};

const struct h2d_mem_ops *h2d_mem = &h2d_mem_libc;
