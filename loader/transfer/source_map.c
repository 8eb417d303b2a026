/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of files that are in memory already: mapped, or lent by the caller. */
#include <string.h>

#include "transfer/engine.h"

enum { TOUCH_PAGE_BYTES = 4096, TOUCH_SPAN_BYTES = 2 << 20 };

void h2d_make_present(const unsigned char *p, uint64_t bytes, enum h2d_present_mode mode)
{
	uint64_t step = mode == H2D_PRESENT_READ ? TOUCH_PAGE_BYTES : TOUCH_SPAN_BYTES;
	uintptr_t end = (uintptr_t)p + bytes;

	if (mode == H2D_PRESENT_NONE)
		return;
	for (uintptr_t at = (uintptr_t)p; at < end; at = (at | (step - 1)) + 1)
		(void)*(const volatile unsigned char *)at;
}

/* Put the chunk's pieces where they belong, `shift` bytes from their device addresses. */
static void gather(const struct h2d_plan *plan, const struct h2d_chunk *c,
		   const unsigned char *base, ptrdiff_t shift)
{
	struct h2d_segments it;
	struct h2d_segment seg;

	h2d_segments_begin(&it, plan, c);
	while (h2d_segments_next(&it, &seg))
		memcpy(seg.dst + shift, base + seg.file_offset, seg.bytes);
}

static int map_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	const struct h2d_engine *e = r->engine;
	const struct h2d_chunk *c = s->chunk;
	const struct h2d_source_file *in = &e->config->inputs[c->file];
	const unsigned char *span = in->base + c->file_offset;

	h2d_make_present(span, c->bytes, e->config->present);
	s->src = s->buf;
	if (c->route == H2D_ROUTE_SOURCE) {
		s->filled = c->flags & H2D_CHUNK_SAME ? H2D_FILLED_IMAGE : H2D_FILLED_SPAN;
		s->src = span;
	} else if (c->route == H2D_ROUTE_FILL) {
		s->filled = H2D_FILLED_DST;
		gather(e->plan, c, in->base, 0);
	} else if (c->flags & H2D_CHUNK_PACKED) {
		s->filled = H2D_FILLED_IMAGE;
		gather(e->plan, c, in->base, s->buf - c->dst);
	} else {
		s->filled = H2D_FILLED_SPAN;
		memcpy(s->buf, span, c->bytes);
	}
	atomic_fetch_add(&r->engine->read_bytes, c->bytes);
	return 0;
}

const struct h2d_source_ops h2d_source_map = {
	.name = "map",
	.begin = map_begin,
};
