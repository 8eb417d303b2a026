/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file engine_thread.h
 * The software copy engine: what a GPU's copy engine and its runtime do for a back-end that has
 * none. Streams are FIFOs, each served by a thread of its own that starts with the first copy;
 * events mark places in them. `host`, `null` and `hmm` put the functions below straight into
 * their table; such a back-end sets dev->priv to what h2d_soft_create() gave.
 *
 * Rules, which are those of the GPU runtimes where these agree:
 *  - Operations of one stream run in order; streams run independently.
 *  - A copy that fails does not stop the stream. Its status is carried by every event that is
 *    reached after it in that stream, at least by the next one, until one of them was seen to
 *    fail by event_query() or event_wait(). Other streams never carry it.
 *  - An event that was never recorded is complete. Recording it again forgets the earlier
 *    place. It may be destroyed while pending.
 *  - At most H2D_SOFT_QUEUE_MAX operations wait in a stream; the next one then waits for room,
 *    at most dev->copy_timeout_ns, and fails with H2D_E_DEVICE_LOST.
 *  - stream_destroy() lets pending operations finish. When they do not within copy_timeout_ns
 *    (0.1 s if the device is lost already), the device becomes lost, the rest is thrown
 *    away, its events fail with H2D_E_DEVICE_LOST, and the thread is left behind under the copy
 *    it is in. That copy's buffers must never be freed or used again.
 * Nothing polls: all waits are on condition variables.
 */
#ifndef H2D_DEVICE_ENGINE_THREAD_H
#define H2D_DEVICE_ENGINE_THREAD_H

#include "device/device.h"

enum { H2D_SOFT_QUEUE_MAX = 1024 };

/** The software runtime of one device. Outlives the device while a thread is stuck in it. */
struct h2d_soft;

/** Move `bytes` bytes. Called from copy threads, several at once. @return 0 or a status, which
 *  the next event of the stream carries. */
typedef int (*h2d_soft_move_fn)(void *ctx, void *dst, const void *src, uint64_t bytes);

/** @param ctx       back-end's own, passed to `move`
 *  @param ctx_free  releases it, after the last thread ended; may be NULL */
int h2d_soft_create(const struct h2d_log *log, h2d_soft_move_fn move, void *ctx,
		    void (*ctx_free)(void *ctx), struct h2d_soft **out);
/** Drop the device's hold on it, from close(). All streams must have been destroyed. */
void h2d_soft_release(struct h2d_soft *soft);
void *h2d_soft_context(struct h2d_soft *soft);

/* Members of a back-end's table. */
int h2d_soft_stream_create(struct h2d_device *dev, struct h2d_stream **out);
void h2d_soft_stream_destroy(struct h2d_device *dev, struct h2d_stream *s);
/** `native` is a stream made by stream_create() on the same device, the only streams this
 *  runtime has; anything else is H2D_E_INVALID. */
int h2d_soft_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out);
int h2d_soft_copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
int h2d_soft_copy_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch, const void *src,
		     uint64_t src_pitch, uint64_t row_bytes, uint64_t rows);
int h2d_soft_event_create(struct h2d_device *dev, struct h2d_event **out);
void h2d_soft_event_destroy(struct h2d_device *dev, struct h2d_event *e);
int h2d_soft_event_record(struct h2d_event *e, struct h2d_stream *s);
int h2d_soft_event_query(struct h2d_event *e);
int h2d_soft_event_wait(struct h2d_event *e, uint64_t timeout_ns);
/** Staging memory that is not pinned, since nothing here needs it: page-aligned, huge pages. */
int h2d_soft_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out);
void h2d_soft_host_free(struct h2d_device *dev, void *p, uint64_t bytes);

/* ---- for tests */

enum h2d_copy_fault_kind {
	H2D_COPY_FAULT_NONE,
	H2D_COPY_FAULT_FAIL,  /**< moves nothing and fails with `status` */
	H2D_COPY_FAULT_HANG,  /**< does not complete until h2d_copy_fault_release() */
	H2D_COPY_FAULT_DELAY, /**< starts after `delay_ns` */
};

/** What happens to some copies of a device. */
struct h2d_copy_fault {
	enum h2d_copy_fault_kind kind;
	uint64_t first; /**< first copy concerned, counted from 1 since this was set */
	uint64_t count; /**< copies concerned from there on; 0: all */
	int status;
	uint64_t delay_ns;
};

/** Put a fault in force on an opened device of this engine; NULL: none. Releases nothing. */
void h2d_copy_fault_set(struct h2d_device *dev, const struct h2d_copy_fault *fault);
/** Let copies that hang or are delayed end now, with H2D_E_DEVICE_LOST, without moving a byte.
 *  Takes what h2d_soft_hold() gave, since the device may be closed by then. */
void h2d_copy_fault_release(struct h2d_soft *soft);
/** Hold the runtime beyond the device; dropped by h2d_soft_release(). */
struct h2d_soft *h2d_soft_hold(struct h2d_device *dev);

/** What a runtime has done and still has. */
struct h2d_soft_counts {
	uint64_t copy_count, copy_bytes; /**< executed, failed ones included */
	uint64_t failed_count;
	uint64_t stream_count, thread_count, event_count; /**< alive */
	uint64_t thread_total;				  /**< ever started */
	uint64_t hanging_count;				  /**< copies that hang now */
	uint64_t alloc_count, alloc_bytes;		  /**< alive, of alloc() */
	uint64_t host_alloc_count, host_alloc_bytes;	  /**< alive, of host_alloc() */
};
void h2d_soft_count(struct h2d_soft *soft, struct h2d_soft_counts *out);
/** Wait until at least `n` copies hang. @return whether they did within `timeout_ns` */
bool h2d_soft_wait_hanging(struct h2d_soft *soft, uint64_t n, uint64_t timeout_ns);
/** Wait until no more than `n` copy threads are alive. */
bool h2d_soft_wait_threads(struct h2d_soft *soft, uint64_t n, uint64_t timeout_ns);

/** Accounting by the back-end: `count` +1 or -1. */
void h2d_soft_account(struct h2d_soft *soft, bool host, int count, uint64_t bytes);

#endif
