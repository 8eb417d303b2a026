/* SPDX-License-Identifier: Apache-2.0 */
/** @file route.h  How each chunk of a plan travels, once its source is known. */
#ifndef H2D_TRANSFER_ROUTE_H
#define H2D_TRANSFER_ROUTE_H

#include "transfer/path.h"
#include "transfer/plan.h"

/** Whether it pays to move the chunk's pieces together in memory and copy them as one. */
bool h2d_route_gathers(const struct h2d_chunk *c, unsigned device_caps);

/**
 * Set `route` of every chunk.
 * @param in_place  readers may write the destination (host memory, and nobody asked for
 * staging)
 * @return the most bytes that a chunk with H2D_ROUTE_SLOT needs in its slot, without the
 *         alignment of direct reads; 0 when none goes that way
 */
uint64_t h2d_route_chunks(struct h2d_plan *p, enum h2d_staging staging, unsigned device_caps,
			  bool in_place);

#endif
