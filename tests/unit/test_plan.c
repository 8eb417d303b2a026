/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of random targets, checked against what they must deliver, byte by byte. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "test.h"
#include "transfer/plan.h"
#include "h2d/h2d.h"

enum { FILE_BYTES = 1 << 16, FILES = 3, DST_BYTES = 1 << 18 };

static uint64_t rng_state;

static uint64_t rng(uint64_t below)
{
	rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return below ? (rng_state >> 33) % below : 0;
}

static unsigned char files[FILES][FILE_BYTES], dst[DST_BYTES], want[DST_BYTES];
static uint32_t writes[DST_BYTES]; /* how often each byte of `dst` was delivered */

/* What the target asks for, straight from its definition. */
static void deliver_reference(const struct h2d_plan *p, const struct h2d_plan_target *t)
{
	const struct h2d_slice *s = t->slice ? &p->slices[t->slice - 1] : NULL;

	for (uint64_t i = 0; i < t->bytes; i++) {
		uint64_t row = s ? i / s->row_bytes : 0, col = s ? i % s->row_bytes : i;

		want[t->dst - dst + (s ? row * s->dst_pitch : 0) + col] =
			files[t->file][t->file_offset + (s ? row * s->src_pitch : 0) + col];
	}
}

/* Deliver a chunk as a source that moves pieces inside a slot would: raw bytes behind the lead,
 * moved forward one after the other, and one copy of the image. */
static void deliver_image(const struct h2d_plan *p, const struct h2d_chunk *c)
{
	unsigned char *slot = malloc(c->lead_bytes + c->bytes);
	unsigned char *raw = slot + c->lead_bytes;
	struct h2d_segments it;
	struct h2d_segment seg;

	memcpy(raw, files[c->file] + c->file_offset, c->bytes);
	h2d_segments_begin(&it, p, c);
	while (h2d_segments_next(&it, &seg)) {
		uint64_t to = (uint64_t)(seg.dst - c->dst);

		CHECK(to + seg.bytes <= c->lead_bytes + c->bytes);
		memmove(slot + to, raw + (seg.file_offset - c->file_offset), seg.bytes);
	}
	h2d_segments_begin(&it, p, c);
	while (h2d_segments_next(&it, &seg)) {
		memcpy(seg.dst, slot + (seg.dst - c->dst), seg.bytes);
		for (uint64_t i = 0; i < seg.bytes; i++)
			writes[seg.dst - dst + i]++;
	}
	free(slot);
}

static void deliver_segments(const struct h2d_plan *p, const struct h2d_chunk *c)
{
	struct h2d_segments it;
	struct h2d_segment seg;

	h2d_segments_begin(&it, p, c);
	while (h2d_segments_next(&it, &seg)) {
		CHECK(seg.file_offset >= c->file_offset);
		CHECK(seg.file_offset + seg.bytes <= c->file_offset + c->bytes);
		memcpy(seg.dst, files[c->file] + seg.file_offset, seg.bytes);
		for (uint64_t i = 0; i < seg.bytes; i++)
			writes[seg.dst - dst + i]++;
	}
}

static void check_chunk(const struct h2d_plan *p, const struct h2d_plan_opts *o, uint64_t i)
{
	const struct h2d_chunk *c = &p->chunks[i], *before = i ? c - 1 : NULL;
	uint64_t end = c->file_offset, delivered = 0;
	bool overlap = false, overlap_flag = c->flags & H2D_CHUNK_OVERLAP;

	CHECK(c->piece_count > 0);
	CHECK(c->bytes > 0);
	CHECK(!before || before->file < c->file || !o->coalesce || !o->cut ||
	      (before->file == c->file && before->file_offset <= c->file_offset));
	CHECK_EQ(c->first_piece, before ? before->first_piece + before->piece_count : 0);
	/* A target that may not be cut gets as long a chunk as it needs; what shares bytes with
	 * it comes along. */
	if (o->cut || (!overlap_flag && c->piece_count > 1))
		CHECK(c->lead_bytes + c->bytes <= o->chunk_bytes);
	for (uint64_t k = c->first_piece; k < c->first_piece + c->piece_count; k++) {
		const struct h2d_piece *piece = &p->pieces[k];

		CHECK_EQ(p->targets[piece->target].file, c->file);
		CHECK(piece->file_offset >= c->file_offset);
		overlap |= piece->file_offset < end;
		if (piece->file_offset > end)
			CHECK(piece->file_offset - end <= o->read_through_bytes);
		if (piece->file_offset + piece->bytes > end)
			end = piece->file_offset + piece->bytes;
		if (!o->coalesce)
			CHECK_EQ(piece->target, p->pieces[c->first_piece].target);
		delivered += h2d_piece_delivered(p, piece);
	}
	CHECK_EQ(end, c->file_offset + c->bytes);
	CHECK_EQ(overlap, overlap_flag);
	if (c->flags & H2D_CHUNK_PACKED) {
		CHECK(!overlap);
		CHECK(c->dst_bytes >= delivered);
		if (!o->dst_gap_bytes)
			CHECK_EQ(c->dst_bytes, delivered);
	}
	if (c->flags & H2D_CHUNK_SAME) {
		CHECK(c->flags & H2D_CHUNK_PACKED);
		CHECK_EQ(c->dst_bytes, c->bytes);
	}
	if (c->flags & H2D_CHUNK_PACKED)
		deliver_image(p, c);
	else
		deliver_segments(p, c);
}

static void check_plan(struct h2d_plan *p, const struct h2d_plan_opts *o)
{
	uint64_t sum = 0;

	memset(dst, 0, sizeof(dst));
	memset(want, 0, sizeof(want));
	memset(writes, 0, sizeof(writes));
	REQUIRE(!h2d_plan_build(p, o, NULL));
	for (uint64_t i = 0; i < p->target_count; i++) {
		deliver_reference(p, &p->targets[i]);
		CHECK_EQ(p->targets[i].left, p->targets[i].bytes);
		sum += p->targets[i].bytes;
	}
	CHECK_EQ(p->total_bytes, sum);
	for (uint64_t i = 0; i < p->chunk_count; i++)
		check_chunk(p, o, i);
	for (uint64_t i = 0; i < p->piece_count; i++)
		sum -= h2d_piece_delivered(p, &p->pieces[i]);
	CHECK_EQ(sum, 0);
	CHECK(!memcmp(dst, want, sizeof(dst)));
	for (uint64_t i = 0, once = 0; i < DST_BYTES; i++) {
		once |= writes[i] > 1;
		if (i == DST_BYTES - 1)
			CHECK_EQ(once, 0);
	}
}

static struct h2d_plan_opts random_opts(bool own)
{
	struct h2d_plan_opts o = {
		.chunk_bytes = 64 + rng(1 << (6 + rng(10))),
		.read_through_bytes = rng(2) ? rng(3000) : 0,
		.dst_gap_bytes = own ? 1u << rng(9) : 0,
		.coalesce = rng(5) != 0,
		.cut = rng(4) != 0,
	};

	return o;
}

/* Tensors as a checkpoint has them: in file order, now and then sharing bytes, placed one after
 * the other with alignment, in one or more arenas. */
static void random_own(void)
{
	for (int round = 0; round < 400; round++) {
		struct h2d_plan_opts o;
		struct h2d_plan p = {0};
		uint64_t n = 1 + rng(60), at = 0, offset = rng(100);
		uint32_t file = 0, arena = 0;

		rng_state = (uint64_t)round + 1;
		o = random_opts(true);
		p.targets = calloc(n, sizeof(*p.targets));
		for (uint64_t i = 0; i < n; i++) {
			struct h2d_plan_target *t = &p.targets[p.target_count];
			uint64_t bytes = rng(8) ? rng(1 << rng(13)) : rng(20000);

			if (file + 1 < FILES && !rng(20)) {
				file++;
				offset = rng(10);
			}
			if (!rng(6))
				offset += rng(4000);
			if (!rng(10)) {
				arena++;
				at += 64; /* arenas never touch */
			}
			if (offset + bytes > FILE_BYTES)
				break;
			at = (at + o.dst_gap_bytes - 1) / o.dst_gap_bytes * o.dst_gap_bytes;
			*t = (struct h2d_plan_target){.tensor = i,
						      .file_offset = offset,
						      .bytes = bytes,
						      .dst = dst + at,
						      .file = file,
						      .arena = arena};
			p.target_count++;
			at += bytes;
			if (rng(8)) /* else the next one shares bytes with it */
				offset += bytes;
		}
		check_plan(&p, &o);
		h2d_plan_free(&p);
	}
}

/* Targets of a caller: any order, byte ranges and slices, several of one tensor. */
static void random_into(void)
{
	for (int round = 0; round < 400; round++) {
		struct h2d_plan_opts o;
		struct h2d_plan p = {0};
		uint64_t n = 1 + rng(30), at = 0;

		rng_state = (uint64_t)round + 7777;
		o = random_opts(false);
		p.targets = calloc(n, sizeof(*p.targets));
		p.slices = calloc(n, sizeof(*p.slices));
		p.target_count = n;
		for (uint64_t i = 0; i < n; i++) {
			struct h2d_plan_target *t = &p.targets[i];
			uint64_t bytes = rng(5000), offset = rng(FILE_BYTES - 5000);

			*t = (struct h2d_plan_target){.tensor = i,
						      .file_offset = offset,
						      .bytes = bytes,
						      .dst = dst + at,
						      .file = (uint32_t)rng(FILES),
						      .arena = (uint32_t)i};
			if (bytes && rng(2)) {
				struct h2d_slice *s = &p.slices[p.slice_count++];

				s->row_bytes = 1 + rng(200);
				s->src_pitch = s->row_bytes + rng(rng(2) ? 4 : 300);
				s->dst_pitch = s->row_bytes + (rng(3) ? 0 : rng(20));
				s->row_count = 1 + rng(25);
				while ((s->row_count - 1) * s->src_pitch + s->row_bytes > 5000)
					s->row_count--;
				t->bytes = s->row_count * s->row_bytes;
				t->slice = (uint32_t)p.slice_count;
				at += (s->row_count - 1) * s->dst_pitch + s->row_bytes;
			} else {
				at += bytes;
			}
			at += rng(2) ? 0 : rng(40);
		}
		check_plan(&p, &o);
		h2d_plan_free(&p);
	}
}

/* Several devices in one load: each tensor whole in one arena, or by columns or rows in all of
 * them, in memory of our own, where an image may overwrite gaps. */
static void random_split(void)
{
	for (int round = 0; round < 2000; round++) {
		struct h2d_plan_opts o;
		struct h2d_plan p = {0};
		uint64_t parts, n, offset, ends[7] = {0};

		rng_state = (uint64_t)round + 424242;
		o = random_opts(true);
		parts = 1 + rng(7);
		n = 1 + rng(8);
		offset = rng(100);
		p.targets = calloc(n * parts, sizeof(*p.targets));
		p.slices = calloc(n * parts, sizeof(*p.slices));
		for (uint64_t i = 0; i < n; i++) {
			uint64_t rows = 1 + rng(30),
				 width = parts * (1 + rng(rng(2) ? 20 : 300));
			bool columns = rng(3), whole = !rng(4);

			if (offset + rows * width > FILE_BYTES)
				break;
			for (uint64_t k = 0; k < parts; k++) {
				struct h2d_plan_target *t = &p.targets[p.target_count];
				uint64_t first = width / parts * k,
					 bytes = width / parts * rows;

				if (whole && k)
					break;
				ends[k] = (ends[k] + o.dst_gap_bytes - 1) / o.dst_gap_bytes *
					  o.dst_gap_bytes;
				bytes = whole ? rows * width : bytes;
				if (ends[k] + bytes > DST_BYTES / 7)
					break;
				*t = (struct h2d_plan_target){.tensor = i,
							      .bytes = bytes,
							      .dst = dst + k * (DST_BYTES / 7) +
								     ends[k],
							      .arena = (uint32_t)k};
				t->file_offset =
					offset + (columns && !whole ? first : bytes * k);
				if (columns && !whole) {
					p.slices[p.slice_count++] = (struct h2d_slice){
						rows, width / parts, width, width / parts};
					t->slice = (uint32_t)p.slice_count;
				}
				ends[k] += bytes;
				p.target_count++;
			}
			offset += rows * width + (rng(4) ? 0 : rng(4000));
		}
		check_plan(&p, &o);
		h2d_plan_free(&p);
	}
}

/* The shape the engine is built for: small neighbours become few copies. */
static void small_tensors_share_chunks(void)
{
	enum { N = 2000, BYTES = 20 };
	struct h2d_plan_opts o = {.chunk_bytes = 1 << 14,
				  .read_through_bytes = 4096,
				  .dst_gap_bytes = 64,
				  .coalesce = true,
				  .cut = true};
	struct h2d_plan p = {0};

	p.targets = calloc(N, sizeof(*p.targets));
	p.target_count = N;
	for (uint64_t i = 0; i < N; i++)
		p.targets[i] = (struct h2d_plan_target){.tensor = i,
							.file_offset = 100 + i * BYTES,
							.bytes = BYTES,
							.dst = dst + i * 64};
	check_plan(&p, &o);
	/* 128 000 bytes of image in slots of 16 KiB */
	CHECK(p.chunk_count <= 128000 / (1 << 14) + 2);
	for (uint64_t i = 0; i < p.chunk_count; i++)
		CHECK(p.chunks[i].flags & H2D_CHUNK_PACKED);
	h2d_plan_free(&p);
}

/* One large tensor: chunks of full length that end at round file offsets. */
static void large_tensor_is_cut_at_round_offsets(void)
{
	struct h2d_plan_opts o = {.chunk_bytes = 1 << 13, .coalesce = true, .cut = true};
	struct h2d_plan p = {0};

	p.targets = calloc(1, sizeof(*p.targets));
	p.target_count = 1;
	p.targets[0] = (struct h2d_plan_target){
		.file_offset = 333, .bytes = FILE_BYTES - 1000, .dst = dst};
	check_plan(&p, &o);
	for (uint64_t i = 0; i + 1 < p.chunk_count; i++)
		CHECK_EQ((p.chunks[i].file_offset + p.chunks[i].bytes) % 2048, 0);
	CHECK(p.chunk_count <= FILE_BYTES / (1 << 13) + 1);
	for (uint64_t i = 0; i < p.chunk_count; i++)
		CHECK(p.chunks[i].flags & H2D_CHUNK_SAME);
	h2d_plan_free(&p);
}

/* Tied tensors are read once: every chunk serves both. */
static void tied_tensors_are_read_once(void)
{
	struct h2d_plan_opts o = {
		.chunk_bytes = 4096, .dst_gap_bytes = 256, .coalesce = true, .cut = true};
	struct h2d_plan p = {0};
	uint64_t sum = 0;

	p.targets = calloc(2, sizeof(*p.targets));
	p.target_count = 2;
	p.targets[0] = (struct h2d_plan_target){.file_offset = 10, .bytes = 30000, .dst = dst};
	p.targets[1] = (struct h2d_plan_target){
		.tensor = 1, .file_offset = 10, .bytes = 30000, .dst = dst + 32768};
	check_plan(&p, &o);
	for (uint64_t i = 0; i < p.chunk_count; i++)
		sum += p.chunks[i].bytes;
	CHECK_EQ(sum, 30000);
	h2d_plan_free(&p);
}

static void wide_gaps_between_rows_are_not_read(void)
{
	struct h2d_plan_opts o = {
		.chunk_bytes = 4096, .read_through_bytes = 100, .coalesce = true, .cut = true};
	struct h2d_plan p = {0};
	uint64_t sum = 0;

	p.targets = calloc(1, sizeof(*p.targets));
	p.slices = calloc(1, sizeof(*p.slices));
	p.target_count = p.slice_count = 1;
	p.slices[0] = (struct h2d_slice){10, 50, 1000, 50};
	p.targets[0] = (struct h2d_plan_target){
		.file_offset = 5, .bytes = 500, .dst = dst, .slice = 1};
	check_plan(&p, &o);
	for (uint64_t i = 0; i < p.chunk_count; i++)
		sum += p.chunks[i].bytes;
	CHECK_EQ(sum, 500);
	h2d_plan_free(&p);
}

static void overflow_is_refused(void)
{
	struct h2d_plan_opts o = {.chunk_bytes = 4096, .coalesce = true, .cut = true};
	struct h2d_plan p = {0};

	p.targets = calloc(2, sizeof(*p.targets));
	p.slices = calloc(1, sizeof(*p.slices));
	p.target_count = 1;
	p.targets[0] = (struct h2d_plan_target){
		.file_offset = UINT64_MAX - 5, .bytes = 10, .dst = dst};
	CHECK_EQ(h2d_plan_build(&p, &o, NULL), H2D_E_INVALID);
	CHECK(!p.chunks && !p.pieces);
	p.slice_count = 1;
	p.slices[0] = (struct h2d_slice){UINT64_MAX / 2, 1, 8, 1};
	p.targets[0] = (struct h2d_plan_target){.bytes = 10, .dst = dst, .slice = 1};
	CHECK_EQ(h2d_plan_build(&p, &o, NULL), H2D_E_INVALID);
	p.target_count = 2;
	p.targets[0] = (struct h2d_plan_target){.bytes = UINT64_MAX, .dst = dst};
	p.targets[1] = (struct h2d_plan_target){.bytes = 1, .dst = dst};
	CHECK_EQ(h2d_plan_build(&p, &o, NULL), H2D_E_INVALID);
	h2d_plan_free(&p);
}

int main(void)
{
	rng_state = 99;
	for (int f = 0; f < FILES; f++)
		for (int i = 0; i < FILE_BYTES; i++)
			files[f][i] = (unsigned char)rng(256);
	RUN(random_own);
	RUN(random_into);
	RUN(random_split);
	RUN(small_tensors_share_chunks);
	RUN(large_tensor_is_cut_at_round_offsets);
	RUN(tied_tensors_are_read_once);
	RUN(wide_gaps_between_rows_are_not_read);
	RUN(overflow_is_refused);
	return TEST_DONE();
}
