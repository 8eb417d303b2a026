/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/plan.h"

void h2d_segments_begin(struct h2d_segments *it, const struct h2d_plan *p,
			const struct h2d_chunk *c)
{
	*it = (struct h2d_segments){
		.plan = p, .piece = c->first_piece, .end = c->first_piece + c->piece_count};
}

static bool next_row(struct h2d_segments *it, struct h2d_segment *out)
{
	const struct h2d_plan *p = it->plan;
	const struct h2d_piece *piece;
	const struct h2d_slice *s;
	uint64_t rows;

	if (it->piece == it->end)
		return false;
	piece = &p->pieces[it->piece];
	rows = h2d_piece_rows(p, piece);
	if (rows == 1) {
		*out = (struct h2d_segment){piece->file_offset, piece->bytes, piece->dst};
	} else {
		s = &p->slices[p->targets[piece->target].slice - 1];
		*out = (struct h2d_segment){piece->file_offset + it->row * s->src_pitch,
					    s->row_bytes, piece->dst + it->row * s->dst_pitch};
	}
	if (++it->row == rows) {
		it->row = 0;
		it->piece++;
	}
	return true;
}

bool h2d_segments_next(struct h2d_segments *it, struct h2d_segment *out)
{
	if (!it->has_ahead && !next_row(it, &it->ahead))
		return false;
	*out = it->ahead;
	while ((it->has_ahead = next_row(it, &it->ahead)) &&
	       it->ahead.file_offset == out->file_offset + out->bytes &&
	       it->ahead.dst == out->dst + out->bytes)
		out->bytes += it->ahead.bytes;
	return true;
}
