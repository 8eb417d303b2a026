/* SPDX-License-Identifier: Apache-2.0 */
/** @file placement.h  Packing the tensors of a load into few device allocations. */
#ifndef H2D_TRANSFER_PLACEMENT_H
#define H2D_TRANSFER_PLACEMENT_H

#include "device/device.h"
#include "transfer/plan.h"

struct h2d_placement {
	struct h2d_devmem *arenas;
	uint32_t arena_count;
	uint64_t total_bytes; /**< of all arenas, padding included */
};

/**
 * Place targets, in the order in which they are given, each at a multiple of `align_bytes` (a
 * power of two), into allocations of at most `arena_bytes` (a longer tensor gets one of its
 * own; none is ever split), and set their `dst` and `arena`. Empty targets get NULL.
 * @return 0; H2D_E_DEVICE_MEMORY or what the device answered; H2D_E_NOMEM; H2D_E_INVALID when
 *         the sizes overflow. On failure nothing stays allocated.
 */
int h2d_placement_make(struct h2d_placement *pl, struct h2d_device *dev,
		       struct h2d_plan_target *targets, uint64_t count, uint64_t align_bytes,
		       uint64_t arena_bytes, const struct h2d_log *log);
/** Give the memory back; on a lost device it is quarantined and counted instead, since copies
 *  may still write to it. */
void h2d_placement_free(struct h2d_placement *pl, struct h2d_device *dev);

#endif
