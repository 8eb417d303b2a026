/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int reference_direct(const struct reference_opts *o)
{
	uint64_t begin, elapsed, next = 0, done = 0, size, block = o->block_bytes & ~4095ull;
	unsigned in_flight = 0;
	struct io_uring ring;
	unsigned char *buffers;
	struct stat st;
	int fd = open(o->file, O_RDONLY | O_CLOEXEC | O_DIRECT), rc;

	if (fd < 0 || fstat(fd, &st)) {
		perror(o->file);
		return 3;
	}
	size = (uint64_t)st.st_size;
	rc = io_uring_queue_init(o->depth, &ring, 0);
	if (rc) {
		fprintf(stderr, "io_uring: %s\n", strerror(-rc));
		return 77;
	}
	/* Where the bytes go: buffers used again and again, or fresh memory for all of the
	 * file, as a loader needs it. */
	buffers = o->fresh ? NULL : reference_memory(block * o->depth, 1, 1);
	begin = reference_now_ns();
	if (o->fresh)
		buffers = reference_memory(size + block, 1, 0);
	if (!buffers || !block)
		return 5;
	while (done < size) {
		struct io_uring_cqe *cqe;

		while (in_flight < o->depth && next < size) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			/* Buffers are never looked at: which one a read uses does not matter.
			 */
			io_uring_prep_read(sqe, fd, buffers + block * (next / block % o->depth),
					   (unsigned)block, next);
			next += block;
			in_flight++;
		}
		io_uring_submit(&ring);
		if (io_uring_wait_cqe(&ring, &cqe))
			continue;
		if (cqe->res <= 0) {
			fprintf(stderr, "%s: %s\n", o->file, strerror(-cqe->res));
			return 5;
		}
		done += (uint64_t)cqe->res;
		io_uring_cqe_seen(&ring, cqe);
		in_flight--;
	}
	elapsed = reference_now_ns() - begin;
	printf("{\"elapsed_ns\": %llu, \"read_bytes\": %llu}\n", (unsigned long long)elapsed,
	       (unsigned long long)size);
	return 0;
}
