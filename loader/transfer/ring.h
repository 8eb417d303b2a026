/* SPDX-License-Identifier: Apache-2.0 */
/** @file ring.h  The staging memory of a load: equal slots in one allocation. */
#ifndef H2D_TRANSFER_RING_H
#define H2D_TRANSFER_RING_H

#include "device/device.h"

struct h2d_ring {
	unsigned char *base; /**< page-aligned; NULL: no slot has memory */
	uint64_t bytes, slot_bytes;
	bool pageable; /**< plain memory instead of the device's host_alloc() */
};

/** Allocate `slot_count` slots of `slot_bytes`, a multiple of the page size; the device's
 * memory is taken from what an earlier load gave back, when that has at most `most_bytes`.
 *  @return 0; H2D_E_NOMEM; H2D_E_INVALID when the product overflows; or the device's answer */
int h2d_ring_alloc(struct h2d_ring *ring, struct h2d_device *dev, uint64_t slot_count,
		   uint64_t slot_bytes, uint64_t most_bytes, bool pageable,
		   const struct h2d_log *log);
/** Give it back, the device's to be kept for the next load; with `quarantine` it stays
 * allocated for ever and is counted, since somebody may still write to it or read from it. */
void h2d_ring_free(struct h2d_ring *ring, struct h2d_device *dev, bool quarantine);

#endif
