/* SPDX-License-Identifier: Apache-2.0 */
/* A load from its first byte to its report. */
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "path/load.h"
#include "transfer/trace.h"

/* The trace, unless it would destroy the checkpoint. */
static int open_trace(struct h2d_load *l)
{
	const struct h2d_catalogue *cat = &l->ckpt->cat;
	int rc = h2d_trace_open(&l->trace, l->opts.trace_path, &l->log);
	bool over;

	if (rc)
		goto fail;
	over = cat->has_index && h2d_trace_over(l->trace, &cat->index_id);
	for (uint32_t i = 0; i < cat->file_count; i++)
		over |= cat->files[i].fd >= 0 && h2d_trace_over(l->trace, &cat->files[i].id);
	if (!over)
		return 0;
	rc = h2d_fail(&l->log, H2D_E_INVALID,
		      "%s: a trace cannot be written over the checkpoint", l->opts.trace_path);
fail:
	h2d_trace_close(l->trace, true, &l->log);
	l->trace = NULL;
	return rc;
}

static void explain_staging(struct h2d_load *l)
{
	if (l->result.bound)
		h2d_load_because(l, "readers on NUMA node %d, where the device is",
				 l->dev->facts.numa_node);
	if (l->result.direct_refused)
		h2d_load_because(l, "the device's pinned memory takes no direct reads: through "
				    "the page cache");
}

static void explain_windows(struct h2d_load *l)
{
	const struct h2d_windows_facts *w = &l->result.windows;

	if (w->registered_count)
		h2d_load_because(l,
				 "%llu windows of up to %llu KiB were registered, at most %llu "
				 "KiB at a time",
				 (unsigned long long)w->registered_count,
				 (unsigned long long)(w->window_bytes >> 10),
				 (unsigned long long)(w->registered_max_bytes >> 10));
	if (w->refused_count)
		h2d_load_because(l, "%llu windows were copied unregistered: %s",
				 (unsigned long long)w->refused_count, w->why);
}

int h2d_load_transfer(struct h2d_load *l)
{
	struct h2d_engine_config *e = &l->engine;
	uint64_t start;
	int rc = 0, closed;

	if (l->opts.trace_path)
		rc = open_trace(l);
	if (rc)
		return rc;
	e->dev = l->dev;
	e->plan = &l->plan;
	e->inputs = l->inputs;
	e->drop = l->opts.cache == H2D_CACHE_DROP;
	e->present = l->opts.present;
	e->native_stream = l->opts.stream;
	e->progress = l->opts.progress;
	e->progress_user = l->opts.progress_user;
	e->target_done = l->opts.tensor_done;
	e->target_done_user = l->opts.tensor_done_user;
	e->done_by_tensor = l->own_memory;
	e->trace = l->trace;
	e->log = l->log;
	start = h2d_now_ns();
	rc = h2d_engine_run(e, &l->result);
	explain_staging(l);
	explain_windows(l);
	if (!rc)
		rc = h2d_load_check_files(l);
	l->transfer_ns = h2d_now_ns() - start;
	closed = h2d_trace_close(l->trace, rc != 0, &l->log);
	l->trace = NULL;
	return rc ? rc : closed;
}

static const struct h2d_path *path_of(const struct h2d_load *l, enum h2d_source source)
{
	switch (source) {
	case H2D_SOURCE_PREAD:
		return l->path->staging == H2D_STAGING_RING ? &h2d_path_pinned : l->path;
	case H2D_SOURCE_DIRECT:
		return &h2d_path_direct;
	default:
		return l->path;
	}
}

/* How many bytes each path delivered. */
static void count_extents(const struct h2d_load *l, struct h2d_report *r)
{
	uint64_t bytes[H2D_SOURCE_COUNT] = {0};
	const struct h2d_plan *p = &l->plan;

	for (uint64_t i = 0; i < p->chunk_count; i++) {
		const struct h2d_chunk *c = &p->chunks[i];

		for (uint64_t k = c->first_piece; k < c->first_piece + c->piece_count; k++)
			bytes[c->source] += h2d_piece_delivered(p, &p->pieces[k]);
	}
	for (int i = 0; i < H2D_SOURCE_COUNT; i++) {
		if (!bytes[i])
			continue;
		r->extent_path[r->extent_count] = path_of(l, i)->name;
		r->extent_bytes[r->extent_count++] = bytes[i];
	}
}

int h2d_load_report(struct h2d_load *l, struct h2d_report *r)
{
	size_t bytes = strlen(l->reason) + 1;
	char *reason = h2d_mem->malloc(bytes);

	memset(r, 0, sizeof(*r));
	r->size = sizeof(*r);
	if (!reason)
		return h2d_fail(&l->log, H2D_E_NOMEM, "report: out of memory");
	memcpy(reason, l->reason, bytes);
	r->reason = reason;
	r->path_requested = l->opts.path ? l->path->name : "auto";
	r->sizes_from = l->sizes_from;
	r->plan_ns = l->plan_ns;
	r->allocate_ns = l->allocate_ns;
	r->transfer_ns = l->transfer_ns;
	r->total_ns = h2d_now_ns() - l->began_ns;
	r->loaded_bytes = l->plan.total_bytes;
	r->read_bytes = l->result.read_bytes;
	r->tensor_count = l->plan.target_count;
	r->chunk_count = l->plan.chunk_count;
	r->copy_count = l->result.copy_count;
	r->chunk_bytes = l->plan.chunk_max_bytes;
	r->staging_bytes = l->result.staging_bytes;
	r->threads = l->engine.readers;
	r->max_in_flight_count = l->result.max_in_flight_count;
	r->quarantined_bytes = atomic_load(&l->dev->quarantined_bytes);
	count_extents(l, r);
	r->path_used = r->extent_count == 1 ? r->extent_path[0] : l->path->name;
	return 0;
}

void h2d_load_end(struct h2d_load *l)
{
	bool keep = l->result.quarantine, mapped = false;

	for (uint32_t i = 0; l->inputs && i < l->ckpt->cat.file_count; i++) {
		mapped |= keep && l->inputs[i].guard;
		if (!mapped)
			h2d_source_file_close(&l->inputs[i], keep);
	}
	/* The guards of mappings that a lost device may still read point into the array. */
	if (!mapped)
		free(l->inputs);
	free(l->engine.measures);
	h2d_plan_free(&l->plan);
}
