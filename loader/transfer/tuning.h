/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file tuning.h
 * The figures of the engine in one place. Defaults are choices, which scripts/measure-loader
 * holds against plain readers; a load's options override those that they name.
 */
#ifndef H2D_TRANSFER_TUNING_H
#define H2D_TRANSFER_TUNING_H

#include <stdint.h>

struct h2d_tuning {
	uint32_t thread_max_count;    /**< readers, where the processor has as many cores */
	uint32_t direct_thread_count; /**< readers of O_DIRECT without io_uring */
	uint32_t slots_per_reader;    /**< of the staging ring */
	uint32_t register_slots;      /**< … where chunks lie in registered windows */
	uint64_t fill_chunk_bytes;    /**< where readers write the destination in place */
	uint64_t ring_chunk_bytes;    /**< where chunks pass through the ring */
	uint64_t direct_chunk_bytes;  /**< … and are read by O_DIRECT: the slots together are
				       *   what is in flight, and a disk slows when it is more
				       *   than it needs */
	uint32_t direct_slot_count; /**< slots of a reader whose io_uring keeps them in flight:
				     *   a finished one is asked for again while the others
				     *   keep the disk busy */
	uint32_t direct_reader_count;  /**< readers of path direct with an io_uring each */
	uint64_t staging_max_bytes;    /**< bound on a staging ring nobody gave a size */
	uint64_t direct_block_bytes;   /**< one O_DIRECT request */
	uint64_t read_through_bytes;   /**< gaps up to this do not end a chunk */
	uint64_t sink_bytes;	       /**< gaps up to this are read and thrown away by one
					*   preadv() rather than split into two */
	uint64_t gather_below_bytes;   /**< pieces smaller than this on average are put
					*   together in memory instead of copied one by one */
	uint64_t arena_bytes;	       /**< device allocations grow up to this */
	uint64_t progress_interval_ns; /**< between two progress callbacks */
	uint64_t wait_slice_ns;	       /**< longest wait without a look at cancellation */
	/** Slowest copy from pageable memory that still counts as alive: the stall that the
	 *  probe looks for makes 2 MiB take a second. Extends the device's copy timeout. */
	uint64_t pageable_bytes_per_s;
};

extern const struct h2d_tuning h2d_tuning_default;
/** In force; only tests point it elsewhere, before any other thread runs. */
extern const struct h2d_tuning *h2d_tuning;

#endif
