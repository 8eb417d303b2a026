/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of one reader. */
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "file/cache.h"
#include "transfer/engine.h"
#include "transfer/trace.h"

static void push(struct h2d_slot_queue *q, struct h2d_slot *s)
{
	s->next = NULL;
	*q->tail = s;
	q->tail = &s->next;
}

static struct h2d_slot *pop(struct h2d_slot_queue *q)
{
	struct h2d_slot *s = q->head;

	q->head = s->next;
	if (!q->head)
		q->tail = &q->head;
	return s;
}

/* Memory of the chunk's size, for paths whose slots have none of their own. */
static int slot_memory_get(struct h2d_reader *r, struct h2d_slot *s)
{
	const struct h2d_chunk *c = s->chunk;
	uint64_t bytes = c->dst_bytes > c->bytes ? c->dst_bytes : c->bytes;

	if (!r->engine->config->slot_per_chunk || c->route != H2D_ROUTE_SLOT)
		return 0;
	s->buf = h2d_mem->map(bytes, PROT_READ | PROT_WRITE);
	s->buf_bytes = bytes;
	if (s->buf)
		return 0;
	return h2d_fail(&r->engine->log, H2D_E_NOMEM,
			"%llu bytes for a copy of a tensor cannot be had",
			(unsigned long long)bytes);
}

static void slot_memory_put(struct h2d_reader *r, struct h2d_slot *s)
{
	if (!r->engine->config->slot_per_chunk || !s->buf)
		return;
	if (s->stuck)
		atomic_fetch_add(&r->engine->dev->quarantined_bytes, s->buf_bytes);
	else
		munmap(s->buf, s->buf_bytes);
	s->buf = NULL;
}

/* What a mapping of a file that was cut short delivered are zeros. */
static int check_source(struct h2d_engine *e, const struct h2d_chunk *c)
{
	const struct h2d_source_file *in = &e->config->inputs[c->file];

	if (!h2d_guard_faulted(in->guard))
		return 0;
	return h2d_fail(&e->log, H2D_E_CHANGED,
			"%s: a page at or behind offset %llu could not be read (SIGBUS): the "
			"file was truncated while in use, or its storage failed",
			in->file->path, (unsigned long long)c->file_offset);
}

static void drop_pages(const struct h2d_engine *e, const struct h2d_chunk *c)
{
	struct h2d_source_file *in = &e->config->inputs[c->file];

	if (!e->config->drop || c->source == H2D_SOURCE_DIRECT ||
	    c->source == H2D_SOURCE_WHOLE ||
	    c->source == H2D_SOURCE_MAP_SHARED) /* its windows drop theirs */
		return;
	h2d_map_release(&in->map, c->file_offset, c->bytes);
	h2d_cache_drop(in->file, c->file_offset, c->bytes);
}

/* The slot is done with, well (rc 0) or not. */
static int release(struct h2d_reader *r, struct h2d_slot *s, int rc)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_chunk *c = s->chunk;

	if (!rc)
		rc = check_source(e, c);
	if (!rc && !h2d_engine_stopped(e))
		h2d_engine_arrived(e, c);
	if (rc)
		h2d_engine_fail(e, rc);
	if (!s->stuck && h2d_sources[c->source]->end)
		h2d_sources[c->source]->end(r, s);
	slot_memory_put(r, s);
	if (!s->stuck) {
		drop_pages(e, c);
		push(&r->free, s);
	}
	return rc;
}

static int copied(struct h2d_reader *r, struct h2d_slot *s, int rc)
{
	struct h2d_engine *e = r->engine;

	if (!s->stuck)
		atomic_fetch_sub(&e->in_flight, s->copies);
	if (rc && !s->stuck)
		h2d_fail(&e->log, rc, "device %s: a copy of %s, offset %llu, failed",
			 e->dev->facts.name, e->config->inputs[s->chunk->file].file->path,
			 (unsigned long long)s->chunk->file_offset);
	h2d_trace_copy(r, s);
	return release(r, s, rc);
}

/* The slot has its bytes: hand them on. */
static int filled(struct h2d_reader *r, struct h2d_slot *s, int rc)
{
	s->pending = false;
	h2d_trace_read(r, s);
	if (!rc && !s->stuck && !h2d_engine_stopped(r->engine)) {
		s->began_ns = r->lane ? h2d_now_ns() : 0;
		rc = h2d_copy_submit(r, s);
		if (s->copies && !s->stuck) {
			push(&r->copying, s);
			return rc ? h2d_engine_fail(r->engine, rc) : 0;
		}
	} else if (!rc) {
		rc = atomic_load(&r->engine->status);
	}
	return release(r, s, rc);
}

static int finish_oldest_fill(struct h2d_reader *r)
{
	struct h2d_slot *s = pop(&r->filling);
	const struct h2d_source_ops *source = h2d_sources[s->chunk->source];
	uint64_t start = r->lane ? h2d_now_ns() : 0;
	int rc = source->finish(r, s);

	h2d_trace_wait(r, "wait for read", start);
	return filled(r, s, rc);
}

static int wait_oldest_copy(struct h2d_reader *r)
{
	struct h2d_slot *s = pop(&r->copying);
	uint64_t start = r->lane ? h2d_now_ns() : 0;
	int rc = h2d_copy_wait(r, s);

	h2d_trace_wait(r, "wait for copy", start);
	return copied(r, s, rc);
}

/* Take what has arrived without waiting for more. */
static void reap(struct h2d_reader *r)
{
	while (r->copying.head) {
		int rc = r->engine->dev->backend->event_query(r->copying.head->event);

		if (!rc)
			break;
		if (rc == H2D_E_DEVICE_LOST)
			h2d_copy_lost(r, r->copying.head);
		copied(r, pop(&r->copying), rc < 0 ? rc : 0);
	}
}

int h2d_reader_drain(struct h2d_reader *r)
{
	while (r->filling.head)
		finish_oldest_fill(r);
	while (r->copying.head)
		wait_oldest_copy(r);
	return atomic_load(&r->engine->status);
}

static int begin(struct h2d_reader *r, const struct h2d_chunk *c)
{
	struct h2d_engine *e = r->engine;
	struct h2d_slot *s;
	int rc;

	if (e->config->measures && r->target != e->plan->pieces[c->first_piece].target) {
		rc = h2d_reader_drain(r);
		h2d_measure_end(r);
		if (rc)
			return rc;
		h2d_measure_begin(r, c);
	}
	s = pop(&r->free);
	s->chunk = c;
	s->pending = s->stuck = false;
	s->copies = 0;
	s->began_ns = r->lane ? h2d_now_ns() : 0;
	rc = slot_memory_get(r, s);
	if (!rc)
		rc = h2d_sources[c->source]->begin(r, s);
	if (s->pending) {
		push(&r->filling, s);
		return 0;
	}
	return filled(r, s, rc);
}

static const struct h2d_chunk *next_chunk(struct h2d_reader *r)
{
	struct h2d_engine *e = r->engine;
	uint64_t i;

	h2d_engine_progress(e, false);
	if (r->exhausted || h2d_engine_stopped(e))
		return NULL;
	i = atomic_fetch_add(&e->next_chunk, 1);
	if (i < e->plan->chunk_count)
		return &e->plan->chunks[i];
	r->exhausted = true;
	return NULL;
}

void h2d_reader_run(struct h2d_reader *r)
{
	for (;;) {
		const struct h2d_chunk *c;

		reap(r);
		c = r->free.head ? next_chunk(r) : NULL;
		if (c)
			begin(r, c);
		else if (r->filling.head)
			finish_oldest_fill(r);
		else if (r->copying.head)
			wait_oldest_copy(r);
		else
			break; /* nothing under way and nothing to begin */
	}
	h2d_measure_end(r);
}
