/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

/* A run of one file that a target wants: all of it or, where the gaps between the rows of a
 * slice are too wide to be read through, one row. */
struct range {
	uint64_t offset, end;
	uint64_t target;
	uint64_t row; /* of a slice: the row it begins with */
	uint32_t file;
};

struct builder {
	struct h2d_plan *p;
	const struct h2d_plan_opts *o;
	const struct h2d_log *log;
	struct range *ranges;
	uint64_t range_count, range_cap, piece_cap, chunk_cap;
	uint64_t *active; /* ranges that go on behind the open chunk */
	uint64_t active_count, active_cap;
	uint64_t cut_align;
	/* the open chunk */
	struct h2d_chunk c;
	uint64_t limit;		/* file offset that it must not pass */
	uint64_t end;		/* end of what it has */
	unsigned char *dst_end; /* end of its image */
	uint32_t arena;
};

static void *grown(void *array, uint64_t count, uint64_t *cap, size_t size)
{
	uint64_t want = *cap ? *cap * 2 : 64;
	size_t bytes;
	void *p;

	if (count < *cap)
		return array;
	if (want < *cap || !h2d_mul_size(want, size, &bytes))
		return NULL;
	p = h2d_mem->realloc(array, bytes);
	if (p)
		*cap = want;
	return p;
}

static int no_memory(const struct builder *b)
{
	return h2d_fail(b->log, H2D_E_NOMEM, "plan of %llu tensors: out of memory",
			(unsigned long long)b->p->target_count);
}

static const struct h2d_slice *slice_of(const struct h2d_plan *p,
					const struct h2d_plan_target *t)
{
	return t->slice ? &p->slices[t->slice - 1] : NULL;
}

bool h2d_target_span(const struct h2d_plan *p, const struct h2d_plan_target *t, uint64_t *span)
{
	const struct h2d_slice *s = slice_of(p, t);

	*span = t->bytes;
	if (!s || !t->bytes)
		return true;
	return h2d_mul_u64(s->row_count - 1, s->src_pitch, span) &&
	       h2d_add_u64(*span, s->row_bytes, span);
}

uint64_t h2d_piece_rows(const struct h2d_plan *p, const struct h2d_piece *piece)
{
	const struct h2d_slice *s = slice_of(p, &p->targets[piece->target]);

	return s && piece->bytes > s->row_bytes
		       ? 1 + (piece->bytes - s->row_bytes) / s->src_pitch
		       : 1;
}

uint64_t h2d_piece_delivered(const struct h2d_plan *p, const struct h2d_piece *piece)
{
	uint64_t rows = h2d_piece_rows(p, piece);

	if (rows == 1)
		return piece->bytes;
	return rows * p->slices[p->targets[piece->target].slice - 1].row_bytes;
}

/* ---------------------------------------------------------------- ranges */

static int add_range(struct builder *b, uint64_t target, uint64_t offset, uint64_t bytes,
		     uint64_t row)
{
	struct range *r = grown(b->ranges, b->range_count, &b->range_cap, sizeof(*r));
	uint64_t end;

	if (!r)
		return no_memory(b);
	b->ranges = r;
	if (!h2d_add_u64(offset, bytes, &end))
		return h2d_fail(b->log, H2D_E_INVALID, "target %llu: its extent overflows",
				(unsigned long long)target);
	r += b->range_count++;
	*r = (struct range){offset, end, target, row, b->p->targets[target].file};
	return 0;
}

static int add_ranges(struct builder *b, uint64_t target)
{
	const struct h2d_plan_target *t = &b->p->targets[target];
	const struct h2d_slice *s = slice_of(b->p, t);
	uint64_t span, at;
	int rc = 0;

	if (!h2d_target_span(b->p, t, &span))
		return h2d_fail(b->log, H2D_E_INVALID, "target %llu: its slice overflows",
				(unsigned long long)target);
	if (!s || s->src_pitch - s->row_bytes <= b->o->read_through_bytes)
		return add_range(b, target, t->file_offset, span, 0);
	if (!h2d_add_u64(t->file_offset, span, &at))
		return h2d_fail(b->log, H2D_E_INVALID, "target %llu: its extent overflows",
				(unsigned long long)target);
	for (uint64_t row = 0; !rc && row < s->row_count; row++)
		rc = add_range(b, target, t->file_offset + row * s->src_pitch, s->row_bytes,
			       row);
	return rc;
}

static int by_place(const void *va, const void *vb)
{
	const struct range *a = va, *b = vb;

	if (a->file != b->file)
		return a->file < b->file ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	if (a->target != b->target)
		return a->target < b->target ? -1 : 1;
	return 0;
}

static int collect(struct builder *b)
{
	bool sorted = true;
	int rc;

	for (uint64_t i = 0; i < b->p->target_count; i++) {
		struct h2d_plan_target *t = &b->p->targets[i];

		t->left = t->bytes;
		if (!h2d_add_u64(b->p->total_bytes, t->bytes, &b->p->total_bytes))
			return h2d_fail(b->log, H2D_E_INVALID,
					"target %llu: the sum of all targets overflows",
					(unsigned long long)i);
		rc = t->bytes ? add_ranges(b, i) : 0;
		if (rc)
			return rc;
	}
	for (uint64_t i = 1; sorted && i < b->range_count; i++)
		sorted = by_place(&b->ranges[i - 1], &b->ranges[i]) < 0;
	if (!sorted)
		qsort(b->ranges, b->range_count, sizeof(*b->ranges), by_place);
	return 0;
}

/* ---------------------------------------------------------------- chunks */

static void open_chunk(struct builder *b, const struct range *r, uint64_t offset)
{
	uint64_t limit;

	memset(&b->c, 0, sizeof(b->c));
	b->c.file = r->file;
	b->c.file_offset = offset;
	b->c.first_piece = b->p->piece_count;
	b->c.flags = H2D_CHUNK_PACKED | H2D_CHUNK_SAME;
	b->end = offset;
	b->dst_end = NULL;
	if (!h2d_add_u64(offset, b->o->chunk_bytes, &limit))
		limit = UINT64_MAX;
	/* Ends at round file offsets let direct reads of neighbours not overlap. */
	b->limit = limit & ~(b->cut_align - 1);
	if (b->limit <= offset)
		b->limit = limit;
	if (!b->o->cut && r->end > b->limit)
		b->limit = r->end;
}

static int close_chunk(struct builder *b)
{
	struct h2d_chunk *c = grown(b->p->chunks, b->p->chunk_count, &b->chunk_cap, sizeof(*c));
	uint64_t room;

	if (!c)
		return no_memory(b);
	b->p->chunks = c;
	b->c.bytes = b->end - b->c.file_offset;
	if (b->c.flags & H2D_CHUNK_PACKED) {
		b->c.dst_bytes = (uint64_t)(b->dst_end - b->c.dst);
	} else {
		b->c.dst = NULL;
		b->c.lead_bytes = 0;
		b->c.flags &= ~H2D_CHUNK_SAME;
	}
	room = b->c.lead_bytes + b->c.bytes;
	if (room > b->p->chunk_max_bytes)
		b->p->chunk_max_bytes = room;
	c[b->p->chunk_count++] = b->c;
	return 0;
}

/* Whether a piece for `dst` can follow in the open chunk's image, and the lead it then needs.
 */
static bool fits_image(const struct builder *b, uint64_t from, const unsigned char *dst,
		       uint32_t arena, uint64_t *lead)
{
	uint64_t in_image, in_file = from - b->c.file_offset;

	*lead = b->c.lead_bytes;
	if (!b->dst_end)
		return true;
	if (!(b->c.flags & H2D_CHUNK_PACKED) || from < b->end || arena != b->arena ||
	    dst < b->dst_end || (uint64_t)(dst - b->dst_end) > b->o->dst_gap_bytes)
		return false;
	in_image = (uint64_t)(dst - b->c.dst);
	if (in_image > in_file && in_image - in_file > *lead)
		*lead = in_image - in_file;
	return true;
}

static int add_piece(struct builder *b, const struct range *r, uint64_t from, uint64_t bytes,
		     unsigned char *dst)
{
	struct h2d_piece *piece =
		grown(b->p->pieces, b->p->piece_count, &b->piece_cap, sizeof(*piece));
	const struct h2d_plan_target *t = &b->p->targets[r->target];
	const struct h2d_slice *s = slice_of(b->p, t);
	uint64_t rows, lead, dst_bytes;

	if (!piece)
		return no_memory(b);
	b->p->pieces = piece;
	piece += b->p->piece_count++;
	*piece = (struct h2d_piece){from, bytes, r->target, dst};
	rows = h2d_piece_rows(b->p, piece);
	dst_bytes = rows == 1 ? bytes : (rows - 1) * s->dst_pitch + s->row_bytes;
	if (from < b->end)
		b->c.flags |= H2D_CHUNK_OVERLAP;
	if (rows > 1)
		b->c.flags |= H2D_CHUNK_ROWS;
	if (!fits_image(b, from, dst, t->arena, &lead) ||
	    (rows > 1 && s->dst_pitch != s->row_bytes)) {
		b->c.flags &= ~H2D_CHUNK_PACKED;
	} else {
		if (!b->dst_end) {
			b->c.dst = dst;
			b->arena = t->arena;
		}
		if ((uint64_t)(dst - b->c.dst) != from - b->c.file_offset ||
		    (rows > 1 && s->src_pitch != s->dst_pitch))
			b->c.flags &= ~H2D_CHUNK_SAME;
		b->c.lead_bytes = lead;
	}
	b->dst_end = dst + dst_bytes;
	b->c.piece_count++;
	if (from + bytes > b->end)
		b->end = from + bytes;
	return 0;
}

/* Cut the part [from, to) of a slice into at most three pieces: the rest of a row, whole rows,
 * the begin of a row. */
static int add_slice_pieces(struct builder *b, const struct range *r, uint64_t from,
			    uint64_t to)
{
	const struct h2d_plan_target *t = &b->p->targets[r->target];
	const struct h2d_slice *s = slice_of(b->p, t);
	int rc = 0;

	while (!rc && from < to) {
		uint64_t row = (from - r->offset) / s->src_pitch;
		uint64_t column = (from - r->offset) % s->src_pitch;
		unsigned char *dst = t->dst + (r->row + row) * s->dst_pitch + column;
		uint64_t bytes, left = to - from;

		if (column >= s->row_bytes) {
			from += s->src_pitch - column;
			continue;
		}
		if (column || left < s->row_bytes) {
			bytes = s->row_bytes - column < left ? s->row_bytes - column : left;
			rc = add_piece(b, r, from, bytes, dst);
			from += bytes;
			continue;
		}
		bytes = (left - s->row_bytes) / s->src_pitch * s->src_pitch + s->row_bytes;
		rc = add_piece(b, r, from, bytes, dst);
		from += bytes;
	}
	return rc;
}

/* Where on the device the byte of a range at file offset `at` goes (the next one that goes
 * anywhere, in the gap behind a row). */
static unsigned char *range_dst(const struct builder *b, const struct range *r, uint64_t at)
{
	const struct h2d_plan_target *t = &b->p->targets[r->target];
	const struct h2d_slice *s = slice_of(b->p, t);
	uint64_t row, column;

	if (!s)
		return t->dst + (at - t->file_offset);
	row = r->row + (at - r->offset) / s->src_pitch;
	column = (at - r->offset) % s->src_pitch;
	return column < s->row_bytes ? t->dst + row * s->dst_pitch + column
				     : t->dst + (row + 1) * s->dst_pitch;
}

/* Take into the open chunk what of the range lies between `from` and the chunk's limit. */
static int take(struct builder *b, uint64_t index, uint64_t from)
{
	const struct range *r = &b->ranges[index];
	uint64_t to = r->end, room, lead, *active;
	int rc;

	if (b->o->cut && to > b->limit)
		to = b->limit;
	if (b->o->cut &&
	    fits_image(b, from, range_dst(b, r, from), b->p->targets[r->target].arena, &lead)) {
		room = b->c.file_offset + b->o->chunk_bytes - lead;
		if (to > room) {
			to = room & ~(b->cut_align - 1);
			to = to > from ? to : room;
			b->limit = to;
		}
	}
	rc = b->p->targets[r->target].slice
		     ? add_slice_pieces(b, r, from, to)
		     : add_piece(b, r, from, to - from, range_dst(b, r, from));
	if (rc || to == r->end)
		return rc;
	active = grown(b->active, b->active_count, &b->active_cap, sizeof(*active));
	if (!active)
		return no_memory(b);
	b->active = active;
	active[b->active_count++] = index;
	return 0;
}

/* Whether a range that begins in or behind the open chunk may become part of it. */
static bool joins(const struct builder *b, const struct range *r)
{
	uint64_t lead, last;

	if (!b->o->coalesce || r->file != b->c.file || r->offset >= b->limit)
		return false;
	if (r->offset > b->end && r->offset - b->end > b->o->read_through_bytes)
		return false;
	if (!b->o->cut && r->end > b->limit)
		return false;
	if (!fits_image(b, r->offset, range_dst(b, r, r->offset),
			b->p->targets[r->target].arena, &lead))
		/* In memory of our own an image is worth a chunk of its own; what shares bytes
		 * of the file with its forerunner has to come along. */
		return !b->o->dst_gap_bytes || r->offset < b->end ||
		       !(b->c.flags & H2D_CHUNK_PACKED);
	last = b->o->cut ? r->offset : r->end - 1;
	return lead < b->o->chunk_bytes && last - b->c.file_offset < b->o->chunk_bytes - lead;
}

static int sweep(struct builder *b)
{
	uint64_t next = 0;
	int rc = 0;

	while (!rc && (next < b->range_count || b->active_count)) {
		uint64_t count = b->active_count, from;
		const struct range *r;

		r = count ? &b->ranges[b->active[0]] : &b->ranges[next];
		from = count ? b->limit : r->offset;
		open_chunk(b, r, from);
		/* take() puts what goes on again at the end of the list. */
		for (uint64_t i = 0; !rc && i < count; i++)
			rc = take(b, b->active[i], from);
		b->active_count -= count;
		if (b->active_count)
			memmove(b->active, b->active + count,
				b->active_count * sizeof(*b->active));
		if (!rc && !count)
			rc = take(b, next++, from);
		while (!rc && next < b->range_count && joins(b, &b->ranges[next])) {
			rc = take(b, next, b->ranges[next].offset);
			next++;
		}
		/* A range that was refused begins in the gap behind a row of a slice that goes
		 * on: nothing behind it was taken yet, and the next chunk begins with it. */
		if (b->o->coalesce && b->active_count && next < b->range_count &&
		    b->ranges[next].file == b->c.file && b->ranges[next].offset < b->limit)
			b->limit = b->ranges[next].offset;
		/* Nothing was added when all of it lies in the gap behind a row. */
		if (!rc && b->c.piece_count)
			rc = close_chunk(b);
	}
	return rc;
}

int h2d_plan_build(struct h2d_plan *p, const struct h2d_plan_opts *opts,
		   const struct h2d_log *log)
{
	struct builder b = {.p = p, .o = opts, .log = log, .cut_align = 1};
	int rc;

	p->pieces = NULL;
	p->chunks = NULL;
	p->piece_count = p->chunk_count = p->total_bytes = p->chunk_max_bytes = 0;
	while (b.cut_align * 4 <= opts->chunk_bytes && b.cut_align < (2u << 20))
		b.cut_align *= 2;
	rc = collect(&b);
	if (!rc)
		rc = sweep(&b);
	free(b.ranges);
	free(b.active);
	if (rc) {
		free(p->pieces);
		free(p->chunks);
		p->pieces = NULL;
		p->chunks = NULL;
		p->piece_count = p->chunk_count = 0;
	}
	return rc;
}

void h2d_plan_free(struct h2d_plan *p)
{
	free(p->targets);
	free(p->slices);
	free(p->pieces);
	free(p->chunks);
	memset(p, 0, sizeof(*p));
}
