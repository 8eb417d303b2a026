/* SPDX-License-Identifier: Apache-2.0 */
#include "file/io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __NR_cachestat
#define __NR_cachestat                                                                         \
	451 /* the same on every architecture, include/uapi/asm-generic/unistd.h */
#endif

static int sys_open(const char *path, int flags)
{
	return open(path, flags);
}

static int sys_statx(int fd, unsigned mask, struct statx *stx)
{
	return statx(fd, "", AT_EMPTY_PATH, mask, stx);
}

static int sys_cachestat(int fd, uint64_t offset, uint64_t bytes, struct h2d_cachestat *out)
{
	struct {
		uint64_t off, len;
	} range = {offset, bytes};

	return (int)syscall(__NR_cachestat, fd, &range, out, 0);
}

static int sys_uring_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	return io_uring_queue_init(entries, ring, flags);
}

static int sys_uring_wait(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	return io_uring_wait_cqe(ring, cqe);
}

static int sys_uring_peek(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	return io_uring_peek_cqe(ring, cqe);
}

const struct h2d_io_ops h2d_io_system = {
	.open = sys_open,
	.close = close,
	.fstat = fstat,
	.stat = stat,
	.statx = sys_statx,
	.pread = pread,
	.preadv = preadv,
	.mmap = mmap,
	.munmap = munmap,
	.madvise = madvise,
	.fadvise = posix_fadvise,
	.fdatasync = fdatasync,
	.cachestat = sys_cachestat,
	.mincore = mincore,
	.uring_init = sys_uring_init,
	.uring_submit = io_uring_submit,
	.uring_wait = sys_uring_wait,
	.uring_peek = sys_uring_peek,
	.uring_exit = io_uring_queue_exit,
};

const struct h2d_io_ops *h2d_io = &h2d_io_system;
