/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file io.h
 * The one table of I/O calls. Every call by which the library touches a file, a mapping or the
 * page cache goes through it, so that tests can inject short reads, EINTR, EIO, truncation and
 * failing io_uring completions (which a preloaded shim would not reach).
 *
 * Members behave as the system calls of the same name: result or -1 with errno set; the uring_*
 * members behave as liburing's functions: negative errno.
 */
#ifndef H2D_FILE_IO_H
#define H2D_FILE_IO_H

#include <liburing.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/** Answer of cachestat(2) (mm/filemap.c, Linux 6.5), in pages. */
struct h2d_cachestat {
	uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct h2d_io_ops {
	int (*open)(const char *path, int flags);
	int (*close)(int fd);
	int (*fstat)(int fd, struct stat *st);
	int (*stat)(const char *path, struct stat *st);
	int (*statx)(int fd, unsigned mask, struct statx *stx); /**< of the descriptor */
	ssize_t (*pread)(int fd, void *buf, size_t bytes, off_t offset);
	ssize_t (*preadv)(int fd, const struct iovec *iov, int count, off_t offset);
	void *(*mmap)(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *addr, size_t bytes);
	int (*madvise)(void *addr, size_t bytes, int advice);
	int (*fadvise)(int fd, off_t offset, off_t bytes,
		       int advice); /**< 0 or errno, as posix_fadvise */
	int (*fdatasync)(int fd);
	int (*cachestat)(int fd, uint64_t offset, uint64_t bytes, struct h2d_cachestat *out);
	int (*mincore)(void *addr, size_t bytes, unsigned char *vec);
	int (*uring_init)(unsigned entries, struct io_uring *ring, unsigned flags);
	int (*uring_submit)(struct io_uring *ring);
	int (*uring_wait)(struct io_uring *ring,
			  struct io_uring_cqe **cqe); /**< one completion */
	int (*uring_peek)(struct io_uring *ring, struct io_uring_cqe **cqe);
	void (*uring_exit)(struct io_uring *ring);
};

extern const struct h2d_io_ops h2d_io_system;
/** In force; only tests point it elsewhere, before any other thread runs. */
extern const struct h2d_io_ops *h2d_io;

#endif
