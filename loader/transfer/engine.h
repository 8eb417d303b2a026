/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file engine.h
 * The one engine loop.
 *
 * Readers take chunks, in the plan's order, from one counter. Each reader owns some slots of
 * the staging ring, a stream and an event per slot, and moves each slot through
 *
 *     free -> filling -> copying -> free
 *
 * where a source (source.h) does the filling, at once or in the background. A reader begins as
 * many chunks as it has slots, hands what is filled to the device, and waits for the oldest
 * fill or copy only when no slot is free. Chunks that a reader writes straight to their
 * destination skip the copy.
 *
 * The first failure wins; everybody then stops at the next chunk, and nobody leaves before its
 * reads and copies have ended. A copy that does not end in time makes the device lost: its
 * buffers are never freed (see h2d_engine_result).
 */
#ifndef H2D_TRANSFER_ENGINE_H
#define H2D_TRANSFER_ENGINE_H

#include "device/device.h"
#include "transfer/near.h"
#include "transfer/source_file.h"
#include "transfer/plan.h"
#include "transfer/ring.h"
#include "transfer/source.h"
#include "transfer/windows.h"

struct h2d_trace;
struct h2d_trace_lane;

/** Measurements of one target (only with `per_target`). */
struct h2d_measure {
	uint64_t elapsed_ns;
	uint64_t present_before_bytes; /**< UINT64_MAX: its source is not a mapping */
	int64_t windows;	       /**< -1: the device cannot count them */
};

struct h2d_engine_config {
	struct h2d_device *dev;
	struct h2d_plan *plan;		/**< with `source` and `route` of every chunk decided */
	struct h2d_source_file *inputs; /**< opened, by file of the catalogue */
	uint32_t readers, slots;	/**< at least 1; slots per reader */
	uint64_t slot_bytes; /**< of staging memory, page multiple; 0: no slot needs any */
	uint64_t staging_max_bytes; /**< bound on the ring, when it is one of an earlier load */
	uint64_t window_bytes;	    /**< of registered mappings; 0: none are registered */
	uint64_t block_bytes;	    /**< one direct read, a multiple of every alignment */
	bool slot_per_chunk; /**< slots get anonymous memory of the chunk's size, for its time
			      */
	bool pageable;	     /**< staging is plain memory */
	bool uring;	     /**< direct reads through io_uring, else by the readers */
	bool drop;	     /**< give pages back to the page cache as the load goes on */
	enum h2d_present_mode present;
	struct h2d_measure *measures; /**< by target, or NULL: one target after the other */
	void *native_stream;	      /**< the caller's, or NULL */
	h2d_progress_fn progress;
	void *progress_user;
	h2d_tensor_done_fn target_done;
	void *target_done_user;
	bool done_by_tensor; /**< call it with the tensor's index, not the target's number */
	struct h2d_trace *trace; /**< or NULL */
	struct h2d_log log;
};

struct h2d_engine_result {
	uint64_t read_bytes; /**< of files, whatever the source; gaps and repeats included */
	uint64_t copy_count, max_in_flight_count;
	uint64_t staging_bytes; /**< allocated, or the most of it when it was by chunk */
	/** Something outside still reads or writes memory of the load: mappings and device
	 * memory of it must stay. Staging has been quarantined already. */
	bool quarantine;
	bool direct_refused; /**< the device's staging memory takes no direct reads: buffered
			      *   ones were made instead */
	bool bound;	     /**< readers ran on the device's NUMA node only */
	struct h2d_windows_facts windows; /**< of registered mappings */
};

/**
 * Deliver everything in the plan. Callbacks come from the calling thread (which is reader 0)
 * and from other readers, never two at a time.
 * @return 0 when every byte has arrived, else the first failure
 */
int h2d_engine_run(const struct h2d_engine_config *config, struct h2d_engine_result *result);

/* ---------------------------------------------------------------- inside the engine */

enum h2d_slot_state { H2D_SLOT_FREE, H2D_SLOT_FILLING, H2D_SLOT_COPYING };

/** What a source has made of a chunk. */
enum h2d_filled {
	H2D_FILLED_DST,	  /**< it is where it belongs */
	H2D_FILLED_SPAN,  /**< `src` is the span in the file */
	H2D_FILLED_IMAGE, /**< `src` is the image */
};

struct h2d_slot {
	struct h2d_slot *next; /**< in the queue of its state */
	uint32_t index;
	const struct h2d_chunk *chunk;
	unsigned char *buf; /**< staging memory, or NULL */
	uint64_t buf_bytes;
	enum h2d_filled filled;
	const unsigned char *src;
	struct h2d_event *event;
	uint32_t copies;   /**< under way */
	uint64_t began_ns; /**< of the state, for the trace */
	bool pending;	   /**< its source fills it in the background */
	bool stuck;	   /**< its memory may still be read or written from outside */
	struct h2d_direct_read *direct; /**< of source_direct.c */
	struct h2d_window *windows[2];	/**< of source_register.c */
	const unsigned char *split;	/**< no copy may reach over it; NULL: anyone may */
};

struct h2d_slot_queue {
	struct h2d_slot *head, **tail;
};

struct h2d_reader {
	struct h2d_engine *engine;
	uint32_t index;
	pthread_t thread;
	bool started;
	struct h2d_stream *stream; /**< NULL: nothing is copied */
	struct h2d_slot *slots;
	struct h2d_slot_queue free, filling, copying;
	bool exhausted;	 /**< the counter has passed the last chunk */
	uint64_t target; /**< being measured, or UINT64_MAX */
	uint64_t target_began_ns;
	void *source_state[H2D_SOURCE_COUNT]; /**< by enum h2d_source, freed by teardown() */
	struct h2d_trace_lane *lane;	      /**< NULL: no trace */
};

struct h2d_engine {
	const struct h2d_engine_config *config;
	struct h2d_device *dev;
	struct h2d_plan *plan;
	struct h2d_log log; /**< lets one error line through */
	struct h2d_reader *readers;
	struct h2d_ring ring;
	bool bind; /**< readers run on `near` */
	cpu_set_t near;
	struct h2d_windows *windows; /**< NULL: nothing is registered */
	struct h2d_stream *caller_stream;
	_Atomic int status; /**< the first failure */
	_Atomic bool error_logged;
	_Atomic uint64_t next_chunk;
	_Atomic uint64_t read_bytes, done_bytes, copy_count, in_flight, max_in_flight;
	_Atomic bool quarantine;
	pthread_mutex_t callback_lock;
	_Atomic uint64_t progress_ns; /**< when the last progress callback was */
};

/** Note a failure; only the first counts. @return `status` */
int h2d_engine_fail(struct h2d_engine *e, int status);
bool h2d_engine_stopped(struct h2d_engine *e);
/** Tell the caller how far we are, if it is time (or `always`), and learn of cancellation. */
void h2d_engine_progress(struct h2d_engine *e, bool always);
/** All bytes of a chunk have arrived. */
void h2d_engine_arrived(struct h2d_engine *e, const struct h2d_chunk *c);

/** The loop of one reader, and its end: returns when nothing of it is under way. */
void h2d_reader_run(struct h2d_reader *r);
/** Finish what the reader has begun. @return 0 or a failure, noted already */
int h2d_reader_drain(struct h2d_reader *r);

/** Hand a filled slot to the device and record its event; 0 copies when nothing is left to
 *  do. On failure `copies` tells whether some were submitted. */
int h2d_copy_submit(struct h2d_reader *r, struct h2d_slot *s);
/** Wait until the slot's copies have ended. @return 0; their failure; H2D_E_DEVICE_LOST, with
 *  the slot stuck, when they did not end in time */
int h2d_copy_wait(struct h2d_reader *r, struct h2d_slot *s);
/** Nobody can tell when the slot's copies end: it is stuck and the device lost. */
void h2d_copy_abandon(struct h2d_reader *r, struct h2d_slot *s);
/** The device reported that it is lost, with this slot's copies under way: as abandon, told. */
void h2d_copy_lost(struct h2d_reader *r, struct h2d_slot *s);

/** Read one byte of every page, or of every 2 MiB span, so that they have page-table entries.
 */
void h2d_make_present(const unsigned char *p, uint64_t bytes, enum h2d_present_mode mode);

/** Start and end the measurement of a target, around all of its chunks. */
void h2d_measure_begin(struct h2d_reader *r, const struct h2d_chunk *c);
void h2d_measure_end(struct h2d_reader *r);

#endif
