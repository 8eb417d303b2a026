/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/tuning.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

const struct h2d_tuning h2d_tuning_default = {
	.thread_max_count = 8,
	.direct_thread_count = 8,
	.slots_per_reader = 4,
	.register_slots = 2,
	.fill_chunk_bytes = 16 * MIB,
	.ring_chunk_bytes = 8 * MIB,
	.direct_chunk_bytes = 1 * MIB,
	.direct_slot_count = 8,
	.direct_reader_count = 1,
	.staging_max_bytes = 256 * MIB,
	.direct_block_bytes = 512 * KIB,
	.read_through_bytes = 512 * KIB,
	.sink_bytes = 16 * KIB,
	.gather_below_bytes = 128 * KIB,
	.arena_bytes = 1024 * MIB,
	.progress_interval_ns = 100000000,
	.wait_slice_ns = 100000000,
	.pageable_bytes_per_s = 512 * KIB,
};

const struct h2d_tuning *h2d_tuning = &h2d_tuning_default;
