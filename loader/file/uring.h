/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file uring.h
 * One io_uring per reader, for reads only. A ring is used by one thread at a time.
 * Goes through the I/O table, so completions can be made to fail.
 */
#ifndef H2D_FILE_URING_H
#define H2D_FILE_URING_H

#include <liburing.h>

#include "core/log.h"

struct h2d_uring {
	struct io_uring ring;
	unsigned depth;	    /**< most reads in flight */
	unsigned in_flight; /**< queued and not yet returned by h2d_uring_wait() */
};

/** What became of one read. */
struct h2d_uring_done {
	uint64_t user; /**< as given to h2d_uring_read() */
	int result;    /**< bytes read (may be short, 0 at end of file) or negative errno */
};

/**
 * @param depth  most reads in flight, 1 … 32768
 * @param why    (out) static text when H2D_E_UNSUPPORTED is returned: the kernel is without
 *               io_uring or too old for IORING_OP_READ (5.6), it is refused by seccomp or by
 *               kernel.io_uring_disabled, or the memlock limit is too small
 * @return 0; H2D_E_UNSUPPORTED; H2D_E_INVALID; H2D_E_IO
 */
int h2d_uring_open(struct h2d_uring *u, unsigned depth, const char **why,
		   const struct h2d_log *log);
/** Queue one read; it starts with the next h2d_uring_submit() or h2d_uring_wait().
 *  @return 0; H2D_E_INVALID when `depth` reads are in flight or `bytes` passes 2^31 - 4096 */
int h2d_uring_read(struct h2d_uring *u, int fd, void *dst, size_t bytes, uint64_t offset,
		   uint64_t user);
/** Start what was queued. @return 0 or H2D_E_IO */
int h2d_uring_submit(struct h2d_uring *u, const struct h2d_log *log);
/** Start what was queued and wait for one read, in order of completion. EINTR is continued.
 *  @return 0; H2D_E_INVALID when none is in flight; H2D_E_IO when the ring itself failed */
int h2d_uring_wait(struct h2d_uring *u, struct h2d_uring_done *done, const struct h2d_log *log);
/** As h2d_uring_wait() without waiting. @return 1: `done` is filled, 0: nothing yet, or a
 *  status */
int h2d_uring_peek(struct h2d_uring *u, struct h2d_uring_done *done, const struct h2d_log *log);
/** Wait for every read in flight and give the ring back.
 *  @return 0, or the number of reads that could not be waited for because the ring failed:
 *          their buffers may still be written to and must never be used or freed again */
unsigned h2d_uring_close(struct h2d_uring *u);

#endif
