/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file file.h
 * One data file: descriptor, identity at opening, exact reads, and the question whether it is
 * still the same file.
 */
#ifndef H2D_FILE_FILE_H
#define H2D_FILE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "core/log.h"

/** What identified the file when it was opened. */
struct h2d_file_id {
	dev_t dev;
	ino_t ino;
	uint64_t size_bytes;
	struct timespec mtime, ctime;
};

struct h2d_file {
	char *path;	    /**< for messages and re-opening; owned */
	int fd;		    /**< -1 for memory */
	const void *memory; /**< of h2d_checkpoint_open_memory(), else NULL */
	struct h2d_file_id id;
	bool by_fd; /**< opened from a caller's descriptor: `path` is only a name */
};

/** Open a regular file read-only (O_CLOEXEC; a FIFO does not block) and note its identity.
 *  @return 0 or a status; H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_FORMAT (not a regular file).
 */
int h2d_file_open(struct h2d_file *f, const char *path, const struct h2d_log *log);
int h2d_file_open_fd(struct h2d_file *f, int fd, const char *name, const struct h2d_log *log);
int h2d_file_open_memory(struct h2d_file *f, const void *data, uint64_t bytes,
			 const struct h2d_log *log);
void h2d_file_close(struct h2d_file *f);

/** Read exactly `bytes` at `offset`; short reads and EINTR are continued.
 *  @return 0; H2D_E_CHANGED when the file ends early although its size at opening covers the
 *          range; H2D_E_FORMAT when the range passes that size; H2D_E_IO. */
int h2d_file_read(const struct h2d_file *f, void *dst, uint64_t bytes, uint64_t offset,
		  const struct h2d_log *log);

/** As h2d_file_read() into several buffers, in order; `iov` is used up (its contents are
 *  undefined afterwards). Any `count`; empty buffers are allowed. */
int h2d_file_readv(const struct h2d_file *f, struct iovec *iov, size_t count, uint64_t offset,
		   const struct h2d_log *log);

/** Compare size, mtime, ctime and inode with those at opening, of the descriptor and (where the
 *  path is ours) of what the path now names. @return 0, H2D_E_CHANGED with the member that
 *  differs in the message, or H2D_E_IO. An in-place write that leaves all equal is
 *  undetectable; so are stores through a shared mapping into pages that were dirty at opening,
 *  until these are written back. */
int h2d_file_check_unchanged(const struct h2d_file *f, const struct h2d_log *log);

#endif
