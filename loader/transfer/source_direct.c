/* SPDX-License-Identifier: Apache-2.0 */
/*
 * O_DIRECT reads into slots, through io_uring where it can be had and by blocking reads else.
 *
 * A chunk is read from the aligned offset at or before its begin to the one at or behind its
 * end, in blocks, each a request of its own. The kernel may answer with less at any time: the
 * rest is asked for again from where it ended; what cannot be read directly (an unaligned end,
 * a refusal) is read through the page cache. Reading past the end of the file is allowed and
 * gives what there is (fs/iomap/direct-io.c, fs/direct-io.c).
 *
 * The raw bytes lie as far back in the slot as the chunk's lead asks, so that small pieces can
 * be moved forward into the image in place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "file/io.h"
#include "file/uring.h"
#include "transfer/engine.h"
#include "transfer/route.h"

enum { RETRY_MAX = 64 }; /* refusals of one block in a row */

struct h2d_direct_read {
	unsigned char *raw;  /* where the byte at `begin` goes, aligned */
	uint64_t begin;	     /* aligned file offset */
	uint64_t ask_bytes;  /* to the aligned end */
	uint64_t need_bytes; /* to the chunk's end */
	uint64_t align;
	uint32_t block_count, pending, retries;
	int error;
	uint64_t *got; /* bytes by block */
};

struct direct {
	struct h2d_uring uring;
	bool has_uring;
	struct h2d_direct_read *reads; /* by slot */
	uint64_t *got;
};

/* How much of `total` bytes falls to a block. */
static uint64_t block_bytes(const struct h2d_engine *e, uint32_t block, uint64_t total)
{
	uint64_t at = (uint64_t)block * e->config->block_bytes;

	if (at >= total)
		return 0;
	return total - at < e->config->block_bytes ? total - at : e->config->block_bytes;
}

static int direct_setup(struct h2d_reader *r)
{
	const struct h2d_engine_config *cfg = r->engine->config;
	uint64_t blocks = cfg->slot_bytes / cfg->block_bytes + 1;
	struct direct *d = h2d_mem->calloc(1, sizeof(*d));
	const char *why;
	int rc;

	r->source_state[H2D_SOURCE_DIRECT] = d;
	if (d) {
		d->reads = h2d_mem->calloc(cfg->slots, sizeof(*d->reads));
		d->got = h2d_mem->calloc(cfg->slots * blocks, sizeof(*d->got));
	}
	if (!d || !d->reads || !d->got)
		return h2d_fail(&r->engine->log, H2D_E_NOMEM, "reader: out of memory");
	for (uint32_t i = 0; i < cfg->slots; i++) {
		d->reads[i].got = d->got + i * blocks;
		r->slots[i].direct = &d->reads[i];
	}
	if (!cfg->uring)
		return 0;
	rc = h2d_uring_open(&d->uring, (unsigned)(cfg->slots * blocks), &why, &r->engine->log);
	if (rc == H2D_E_UNSUPPORTED) {
		h2d_log_line(&r->engine->log, H2D_LOG_INFO,
			     "reader %u: %s: direct reads block instead", r->index, why);
		return 0;
	}
	d->has_uring = !rc;
	return rc;
}

static bool direct_teardown(struct h2d_reader *r)
{
	struct direct *d = r->source_state[H2D_SOURCE_DIRECT];
	bool stuck = false;

	if (!d)
		return false;
	if (d->has_uring)
		stuck = h2d_uring_close(&d->uring) != 0;
	free(d->reads);
	free(d->got);
	free(d);
	return stuck;
}

/* Read what is left of a block through the page cache. */
static int by_cache(struct h2d_engine *e, struct h2d_slot *s, uint32_t block, uint64_t want)
{
	struct h2d_direct_read *d = s->direct;
	uint64_t at = (uint64_t)block * e->config->block_bytes + d->got[block];
	int rc;

	rc = h2d_file_read(e->config->inputs[s->chunk->file].file, d->raw + at,
			   want - d->got[block], d->begin + at, &e->log);
	if (!rc)
		atomic_fetch_add(&e->read_bytes, want - d->got[block]);
	return rc;
}

/* What a block still needs: 1 another request, 0 nothing, or a status. */
static int took(struct h2d_engine *e, struct h2d_slot *s, uint32_t block, int result)
{
	struct h2d_direct_read *d = s->direct;
	uint64_t want = block_bytes(e, block, d->need_bytes);

	if (result > 0) {
		d->got[block] += (uint64_t)result;
		atomic_fetch_add(&e->read_bytes, (uint64_t)result);
		if (d->got[block] >= want)
			return 0;
		if (!(d->got[block] & (d->align - 1)))
			return 1;
		return by_cache(e, s, block, want);
	}
	switch (-result) {
	case EINTR:
	case EAGAIN:
		if (++d->retries <= RETRY_MAX)
			return 1;
		return by_cache(e, s, block, want);
	case 0: /* the file ends here: the buffered read says so, if it still does */
	case EINVAL:
	case EOPNOTSUPP:
		return by_cache(e, s, block, want);
	default:
		return h2d_fail_errno(&e->log, -result, "%s: direct read at offset %llu",
				      e->config->inputs[s->chunk->file].file->path,
				      (unsigned long long)(d->begin +
							   block * e->config->block_bytes +
							   d->got[block]));
	}
}

static void prepare(struct h2d_engine *e, struct h2d_slot *s)
{
	const struct h2d_chunk *c = s->chunk;
	const struct h2d_direct *file = &e->config->inputs[c->file].direct;
	uint64_t align = file->offset_align_bytes, mem = file->memory_align_bytes;
	struct h2d_direct_read *d = s->direct;
	uint64_t head, lead;

	d->align = align;
	d->begin = c->file_offset & ~(align - 1);
	head = c->file_offset - d->begin;
	d->need_bytes = head + c->bytes;
	d->ask_bytes = (d->need_bytes + align - 1) & ~(align - 1);
	lead = c->lead_bytes > head ? c->lead_bytes - head : 0;
	d->raw = s->buf + ((lead + mem - 1) & ~(mem - 1));
	d->block_count = (uint32_t)((d->need_bytes + e->config->block_bytes - 1) /
				    e->config->block_bytes);
	memset(d->got, 0, d->block_count * sizeof(*d->got));
	d->pending = d->retries = 0;
	d->error = 0;
}

static int ask(struct h2d_reader *r, struct h2d_slot *s, uint32_t block)
{
	struct direct *state = r->source_state[H2D_SOURCE_DIRECT];
	struct h2d_engine *e = r->engine;
	struct h2d_direct_read *d = s->direct;
	uint64_t at = (uint64_t)block * e->config->block_bytes + d->got[block];
	uint64_t bytes = block_bytes(e, block, d->ask_bytes) - d->got[block];
	int rc;

	rc = h2d_uring_read(&state->uring, e->config->inputs[s->chunk->file].direct.fd,
			    d->raw + at, bytes, d->begin + at,
			    (uint64_t)s->index << 32 | block);
	if (!rc)
		d->pending++;
	return rc;
}

/* The bytes are in the slot: small pieces are moved together into the image. */
static void settle(struct h2d_engine *e, struct h2d_slot *s)
{
	const struct h2d_chunk *c = s->chunk;
	unsigned char *span = s->direct->raw + (c->file_offset - s->direct->begin);
	struct h2d_segments it;
	struct h2d_segment seg;

	s->src = span;
	s->filled = c->flags & H2D_CHUNK_SAME ? H2D_FILLED_IMAGE : H2D_FILLED_SPAN;
	if (!h2d_route_gathers(c, e->dev->caps))
		return;
	h2d_segments_begin(&it, e->plan, c);
	while (h2d_segments_next(&it, &seg))
		memmove(s->buf + (seg.dst - c->dst), span + (seg.file_offset - c->file_offset),
			seg.bytes);
	s->src = s->buf;
	s->filled = H2D_FILLED_IMAGE;
}

static int read_blocking(struct h2d_engine *e, struct h2d_slot *s)
{
	struct h2d_direct_read *d = s->direct;
	int fd = e->config->inputs[s->chunk->file].direct.fd;

	for (uint32_t i = 0; i < d->block_count; i++) {
		uint64_t at = (uint64_t)i * e->config->block_bytes;
		int rc = 1;

		while (rc == 1) {
			ssize_t n = h2d_io->pread(fd, d->raw + at + d->got[i],
						  block_bytes(e, i, d->ask_bytes) - d->got[i],
						  (off_t)(d->begin + at + d->got[i]));

			rc = took(e, s, i, n < 0 ? -errno : (int)n);
		}
		if (rc)
			return rc;
	}
	settle(e, s);
	return 0;
}

/* Take one completion of this reader, whichever slot it belongs to. */
static int take_one(struct h2d_reader *r)
{
	struct direct *state = r->source_state[H2D_SOURCE_DIRECT];
	struct h2d_uring_done done;
	struct h2d_slot *s;
	int rc;

	rc = h2d_uring_wait(&state->uring, &done, &r->engine->log);
	if (rc)
		return rc;
	s = &r->slots[done.user >> 32];
	s->direct->pending--;
	if (s->direct->error)
		return 0;
	rc = took(r->engine, s, (uint32_t)done.user, done.result);
	if (rc == 1)
		rc = ask(r, s, (uint32_t)done.user);
	if (rc)
		s->direct->error = rc;
	return 0;
}

static int direct_finish(struct h2d_reader *r, struct h2d_slot *s)
{
	while (s->direct->pending) {
		int rc = take_one(r);

		if (rc) {
			/* The ring itself failed: nobody can tell when its reads end. */
			s->stuck = true;
			return rc;
		}
	}
	if (!s->direct->error)
		settle(r->engine, s);
	return s->direct->error;
}

static int direct_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	struct direct *state = r->source_state[H2D_SOURCE_DIRECT];
	struct h2d_engine *e = r->engine;
	int rc = 0;

	prepare(e, s);
	if (!state->has_uring)
		return read_blocking(e, s);
	for (uint32_t i = 0; !rc && i < s->direct->block_count; i++)
		rc = ask(r, s, i);
	if (!rc)
		rc = h2d_uring_submit(&state->uring, &e->log);
	if (!rc) {
		s->pending = true;
		return 0;
	}
	s->direct->error = rc;
	return direct_finish(r, s);
}

const struct h2d_source_ops h2d_source_direct = {
	.name = "direct",
	.setup = direct_setup,
	.teardown = direct_teardown,
	.begin = direct_begin,
	.finish = direct_finish,
};
