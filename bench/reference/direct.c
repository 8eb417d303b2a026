/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
	struct io_uring ring;
	int fd;
	uint64_t size, block;
	unsigned char *buffers;
};

static int read_once(struct job *j, const struct reference_opts *o, uint64_t *elapsed_ns)
{
	uint64_t begin, next = 0, done = 0, memory_bytes = j->size + j->block;
	unsigned in_flight = 0;

	/* Where the bytes go: buffers used again and again, or fresh memory for all of the
	 * file, as a loader needs it. */
	begin = reference_now_ns();
	if (o->fresh)
		j->buffers = reference_memory(memory_bytes, 1, 0);
	if (!j->buffers) {
		perror("memory");
		return 5;
	}
	while (done < j->size) {
		struct io_uring_cqe *cqe;

		while (in_flight < o->depth && next < j->size) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&j->ring);
			/* What a reused buffer holds is never looked at: which one a read uses
			 * does not matter. */
			uint64_t at = o->fresh ? next : j->block * (next / j->block % o->depth);

			io_uring_prep_read(sqe, j->fd, j->buffers + at, (unsigned)j->block,
					   next);
			next += j->block;
			in_flight++;
		}
		io_uring_submit(&j->ring);
		if (io_uring_wait_cqe(&j->ring, &cqe))
			continue;
		if (cqe->res <= 0) {
			fprintf(stderr, "%s: %s\n", o->file, strerror(-cqe->res));
			return 5;
		}
		done += (uint64_t)cqe->res;
		io_uring_cqe_seen(&j->ring, cqe);
		in_flight--;
	}
	*elapsed_ns = reference_now_ns() - begin;
	if (o->fresh)
		munmap(j->buffers, memory_bytes);
	return 0;
}

int reference_direct(const struct reference_opts *o)
{
	uint64_t elapsed[REFERENCE_REPEAT_MAX];
	struct job j = {.block = o->block_bytes & ~4095ull};
	struct stat st;
	int rc;

	j.fd = open(o->file, O_RDONLY | O_CLOEXEC | O_DIRECT);
	if (j.fd < 0 || fstat(j.fd, &st)) {
		perror(o->file);
		return 3;
	}
	if (!j.block)
		return 2;
	j.size = (uint64_t)st.st_size;
	rc = io_uring_queue_init(o->depth, &j.ring, 0);
	if (rc) {
		fprintf(stderr, "io_uring: %s\n", strerror(-rc));
		return 77;
	}
	if (!o->fresh)
		j.buffers = reference_memory(j.block * o->depth, 1, 1);
	for (unsigned i = 0; i < o->repeat; i++) {
		rc = read_once(&j, o, &elapsed[i]);
		if (rc)
			return rc;
	}
	reference_print(elapsed, o->repeat, j.size);
	return 0;
}
