/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/route.h"

#include "device/device.h"
#include "transfer/tuning.h"

bool h2d_route_gathers(const struct h2d_chunk *c, unsigned device_caps)
{
	if (!(c->flags & H2D_CHUNK_PACKED) || (c->flags & H2D_CHUNK_SAME))
		return false;
	if ((c->flags & H2D_CHUNK_ROWS) && !(device_caps & H2D_DEV_COPY_2D))
		return true;
	return c->dst_bytes / c->piece_count < h2d_tuning->gather_below_bytes;
}

static enum h2d_route route(const struct h2d_chunk *c, enum h2d_staging staging,
			    unsigned device_caps, bool in_place)
{
	switch (c->source) {
	case H2D_SOURCE_PREAD:
		/* preadv() cannot put one byte of the file in two places. */
		return in_place && !(c->flags & H2D_CHUNK_OVERLAP) ? H2D_ROUTE_FILL
								   : H2D_ROUTE_SLOT;
	case H2D_SOURCE_DIRECT:
		return H2D_ROUTE_SLOT;
	case H2D_SOURCE_DEVICE:
		return H2D_ROUTE_FILL;
	default:
		if (staging == H2D_STAGING_TENSOR)
			return H2D_ROUTE_SLOT;
		if (in_place)
			return H2D_ROUTE_FILL;
		return h2d_route_gathers(c, device_caps) ? H2D_ROUTE_SLOT : H2D_ROUTE_SOURCE;
	}
}

uint64_t h2d_route_chunks(struct h2d_plan *p, enum h2d_staging staging, unsigned device_caps,
			  bool in_place)
{
	uint64_t need = 0;

	for (uint64_t i = 0; i < p->chunk_count; i++) {
		struct h2d_chunk *c = &p->chunks[i];

		c->route = route(c, staging, device_caps, in_place);
		if (c->route == H2D_ROUTE_SLOT && c->lead_bytes + c->bytes > need)
			need = c->lead_bytes + c->bytes;
	}
	return need;
}
