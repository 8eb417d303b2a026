/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file source.h
 * Where the bytes of a chunk come from. A source fills a slot according to the chunk's route:
 *   FILL    write the destination itself                    -> H2D_FILLED_DST
 *   SLOT    put the chunk's image (where it has one) or its
 *           span into the slot's memory                     -> H2D_FILLED_IMAGE or _SPAN
 *   SOURCE  point at memory of its own                      -> H2D_FILLED_IMAGE or _SPAN
 * A source belongs to one reader's thread; begin() and finish() are called in the plan's order.
 */
#ifndef H2D_TRANSFER_SOURCE_H
#define H2D_TRANSFER_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

struct h2d_reader;
struct h2d_slot;

struct h2d_source_ops {
	const char *name;
	/** Once per reader that will serve such chunks, in the thread that starts the load;
	 * state goes to `source_state`. Optional. */
	int (*setup)(struct h2d_reader *r);
	/** Release that state; also after a setup() that failed, or none.
	 *  @return true when reads could not be ended and staging must be quarantined.
	 * Optional. */
	bool (*teardown)(struct h2d_reader *r);
	/** Start filling `s` for `s->chunk`; `pending` of the slot is set when it goes on in
	 * the background. On failure nothing of it is under way, unless the slot is `stuck`. */
	int (*begin)(struct h2d_reader *r, struct h2d_slot *s);
	/** Wait until it is filled; called only for `pending` slots, the oldest first. On
	 * failure nothing of it is under way either, unless the slot is `stuck`. */
	int (*finish)(struct h2d_reader *r, struct h2d_slot *s);
	/** The slot's copies have ended, or will never be made: give back what begin() took.
	 *  Not called while the slot is `stuck`. Optional. */
	void (*end)(struct h2d_reader *r, struct h2d_slot *s);
};

extern const struct h2d_source_ops h2d_source_map;	/**< any mapping */
extern const struct h2d_source_ops h2d_source_register; /**< registered windows of one */
extern const struct h2d_source_ops h2d_source_device;	/**< the device's own reads */
extern const struct h2d_source_ops h2d_source_whole;	/**< whole files in memory */
extern const struct h2d_source_ops h2d_source_pread;	/**< buffered reads */
extern const struct h2d_source_ops h2d_source_direct; /**< O_DIRECT, by io_uring if there is */

/** The table, by enum h2d_source; NULL where no engine source exists. */
extern const struct h2d_source_ops *const h2d_sources[];

#endif
