/* SPDX-License-Identifier: Apache-2.0 */
/* From a filled slot to the device. */
#include "core/clock.h"
#include "transfer/engine.h"
#include "transfer/tuning.h"

static int copy_run(struct h2d_reader *r, struct h2d_slot *s, unsigned char *dst,
		    const unsigned char *src, uint64_t bytes)
{
	int rc = r->engine->dev->backend->copy_to_device(r->stream, dst, src, bytes);

	if (!rc)
		s->copies++;
	return rc;
}

/* Whether [src, src+bytes) lies in two registrations. */
static bool is_split(const struct h2d_slot *s, const unsigned char *src, uint64_t bytes)
{
	return s->split && src < s->split && bytes > (uint64_t)(s->split - src);
}

static int copy(struct h2d_reader *r, struct h2d_slot *s, unsigned char *dst,
		const unsigned char *src, uint64_t bytes)
{
	uint64_t head = 0;
	int rc = 0;

	if (is_split(s, src, bytes)) {
		head = (uint64_t)(s->split - src);
		rc = copy_run(r, s, dst, src, head);
	}
	return rc ? rc : copy_run(r, s, dst + head, src + head, bytes - head);
}

static int copy_rows(struct h2d_reader *r, struct h2d_slot *s, const struct h2d_piece *piece)
{
	const struct h2d_plan *p = r->engine->plan;
	const struct h2d_slice *slice = &p->slices[p->targets[piece->target].slice - 1];
	uint64_t rows = h2d_piece_rows(p, piece);
	const unsigned char *src = s->src + (piece->file_offset - s->chunk->file_offset);
	struct h2d_device *dev = r->engine->dev;
	int rc = 0;

	if ((dev->caps & H2D_DEV_COPY_2D) && !is_split(s, src, piece->bytes)) {
		rc = dev->backend->copy_to_device_2d(r->stream, piece->dst, slice->dst_pitch,
						     src, slice->src_pitch, slice->row_bytes,
						     rows);
		s->copies += !rc;
		return rc;
	}
	for (uint64_t i = 0; !rc && i < rows; i++)
		rc = copy(r, s, piece->dst + i * slice->dst_pitch, src + i * slice->src_pitch,
			  slice->row_bytes);
	return rc;
}

static int copy_pieces(struct h2d_reader *r, struct h2d_slot *s)
{
	const struct h2d_plan *p = r->engine->plan;
	const struct h2d_chunk *c = s->chunk;
	int rc = 0;

	for (uint64_t i = c->first_piece; !rc && i < c->first_piece + c->piece_count; i++) {
		const struct h2d_piece *piece = &p->pieces[i];

		rc = h2d_piece_rows(p, piece) > 1
			     ? copy_rows(r, s, piece)
			     : copy(r, s, piece->dst,
				    s->src + (piece->file_offset - c->file_offset),
				    piece->bytes);
	}
	return rc;
}

static void count_in_flight(struct h2d_engine *e, uint32_t copies)
{
	uint64_t now = atomic_fetch_add(&e->in_flight, copies) + copies;
	uint64_t max = atomic_load(&e->max_in_flight);

	atomic_fetch_add(&e->copy_count, copies);
	while (now > max && !atomic_compare_exchange_weak(&e->max_in_flight, &max, now))
		;
}

void h2d_copy_abandon(struct h2d_reader *r, struct h2d_slot *s)
{
	s->stuck = true;
	atomic_store(&r->engine->quarantine, true);
	atomic_store(&r->engine->dev->lost, 1);
}

/* GPU runtimes report an earlier copy's failure with whatever call comes next: then the oldest
 * copy that failed is named, and not the one that was refused for it. */
static void tell_refusal(struct h2d_reader *r, const struct h2d_slot *s, int rc,
			 const char *what)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_chunk *c = s->chunk;

	for (const struct h2d_slot *old = r->copying.head; old; old = old->next)
		if (e->dev->backend->event_query(old->event) < 0) {
			c = old->chunk;
			what = "failed";
			break;
		}
	h2d_fail(&e->log, rc, "device %s: a copy of %s, offset %llu, %s", e->dev->facts.name,
		 e->config->inputs[c->file].file->path, (unsigned long long)c->file_offset,
		 what);
}

int h2d_copy_submit(struct h2d_reader *r, struct h2d_slot *s)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_chunk *c = s->chunk;
	int rc = 0, recorded;

	s->copies = 0;
	if (s->filled == H2D_FILLED_IMAGE)
		rc = copy(r, s, c->dst, s->src, c->dst_bytes);
	else if (s->filled == H2D_FILLED_SPAN)
		rc = copy_pieces(r, s);
	if (rc)
		tell_refusal(r, s, rc, "was refused");
	if (!s->copies)
		return rc;
	/* Also after a refusal: what was submitted before it is under way. */
	recorded = e->dev->backend->event_record(s->event, r->stream);
	if (recorded) {
		tell_refusal(r, s, recorded, "cannot be followed");
		h2d_copy_abandon(r, s);
		return rc ? rc : recorded;
	}
	count_in_flight(e, s->copies);
	return rc;
}

/* How long the slot's copies may take. From pageable memory they may crawl. */
static uint64_t patience_ns(const struct h2d_engine *e, const struct h2d_slot *s)
{
	uint64_t ns = e->dev->copy_timeout_ns;

	if (s->chunk->route == H2D_ROUTE_SOURCE || e->config->pageable ||
	    e->config->slot_per_chunk)
		ns += (uint64_t)((double)s->chunk->bytes * 1e9 /
				 (double)h2d_tuning->pageable_bytes_per_s);
	return ns;
}

/* `waited_ns` 0: the device was lost before the copy's time ran out. */
static void tell_loss(struct h2d_engine *e, const struct h2d_slot *s, uint64_t waited_ns)
{
	const char *path = e->config->inputs[s->chunk->file].file->path;
	unsigned long long offset = s->chunk->file_offset;

	if (!waited_ns)
		h2d_fail(&e->log, H2D_E_DEVICE_LOST,
			 "device %s: lost under a copy of %s, offset %llu", e->dev->facts.name,
			 path, offset);
	else
		h2d_fail(&e->log, H2D_E_DEVICE_LOST,
			 "device %s: a copy of %s, offset %llu, did not end within %.3f s: the "
			 "device counts as lost (copies under way: %llu; the kernel's log may "
			 "tell more)",
			 e->dev->facts.name, path, offset, (double)waited_ns / 1e9,
			 (unsigned long long)atomic_load(&e->in_flight));
}

void h2d_copy_lost(struct h2d_reader *r, struct h2d_slot *s)
{
	tell_loss(r->engine, s, 0);
	h2d_copy_abandon(r, s);
}

int h2d_copy_wait(struct h2d_reader *r, struct h2d_slot *s)
{
	struct h2d_engine *e = r->engine;
	uint64_t limit = patience_ns(e, s), start = h2d_now_ns(), waited = 0;
	int rc;

	for (;;) {
		uint64_t slice = limit - waited;

		if (slice > h2d_tuning->wait_slice_ns)
			slice = h2d_tuning->wait_slice_ns;
		rc = e->dev->backend->event_wait(s->event, slice);
		waited = h2d_now_ns() - start;
		if (rc != H2D_E_DEVICE_LOST || atomic_load(&e->dev->lost) || waited >= limit)
			break;
		h2d_engine_progress(e, false);
	}
	if (rc == H2D_E_DEVICE_LOST) {
		tell_loss(e, s, waited >= limit ? limit : 0);
		h2d_copy_abandon(r, s);
	}
	return rc;
}
