/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
	int fd;
	unsigned char *dst;
	uint64_t bytes, block_bytes;
	_Atomic uint64_t next;
	_Atomic int failed;
};

/* Threads take blocks in file order, so that they read neighbouring data. */
static void *reader(void *arg)
{
	struct job *j = arg;

	for (;;) {
		uint64_t at = atomic_fetch_add(&j->next, j->block_bytes), end;

		if (at >= j->bytes)
			return NULL;
		end = j->bytes - at < j->block_bytes ? j->bytes : at + j->block_bytes;
		while (at < end) {
			ssize_t n = pread(j->fd, j->dst + at, end - at, (off_t)at);

			if (n <= 0) {
				j->failed = 1;
				return NULL;
			}
			at += (uint64_t)n;
		}
	}
}

static int read_once(struct job *j, const struct reference_opts *o, uint64_t *elapsed_ns)
{
	pthread_t threads[256];
	uint64_t begin;

	j->next = 0;
	j->dst = o->touched ? reference_memory(j->bytes, o->huge, 1) : NULL;
	begin = reference_now_ns();
	if (!o->touched)
		j->dst = reference_memory(j->bytes, o->huge, 0);
	if (!j->dst) {
		perror("memory");
		return 5;
	}
	for (unsigned i = 1; i < o->threads; i++)
		if (pthread_create(&threads[i], NULL, reader, j)) {
			fputs("no thread could be made\n", stderr);
			return 5;
		}
	reader(j);
	for (unsigned i = 1; i < o->threads; i++)
		pthread_join(threads[i], NULL);
	*elapsed_ns = reference_now_ns() - begin;
	munmap(j->dst, j->bytes);
	return 0;
}

int reference_pread(const struct reference_opts *o)
{
	struct job j = {.block_bytes = o->block_bytes};
	uint64_t elapsed[REFERENCE_REPEAT_MAX];
	struct stat st;

	j.fd = open(o->file, O_RDONLY | O_CLOEXEC);
	if (j.fd < 0 || fstat(j.fd, &st)) {
		perror(o->file);
		return 3;
	}
	j.bytes = (uint64_t)st.st_size;
	for (unsigned i = 0; i < o->repeat; i++) {
		int rc = read_once(&j, o, &elapsed[i]);

		if (rc)
			return rc;
		if (j.failed) {
			fprintf(stderr, "%s: reading failed\n", o->file);
			return 5;
		}
	}
	reference_print(elapsed, o->repeat, j.bytes);
	return 0;
}

int reference_touch(const struct reference_opts *o)
{
	uint64_t bytes = strtoull(o->file, NULL, 10), begin = reference_now_ns();

	if (!bytes || bytes > UINT64_C(1) << 40 || !reference_memory(bytes, 1, 1)) {
		fprintf(stderr, "touch: %s bytes cannot be had\n", o->file);
		return 5;
	}
	printf("{\"elapsed_ns\": %llu}\n", (unsigned long long)(reference_now_ns() - begin));
	return 0;
}
