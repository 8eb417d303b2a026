/* SPDX-License-Identifier: Apache-2.0 */
/* How many readers, slots and bytes, from the options and the machine. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "core/checked.h"
#include "file/uring.h"
#include "path/load.h"
#include "transfer/route.h"
#include "transfer/tuning.h"

enum {
	PAGE_BYTES = 4096,
	WINDOW_ALIGN_BYTES = 2 << 20,
	CHUNK_MIN_BYTES = 64 << 10, /* that we choose ourselves */
	THREADS_MAX = 1024,
	URING_DEPTH_MAX = 256, /* requests in flight per reader */
};

static uint32_t core_count(void)
{
	cpu_set_t set;
	int n;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return (uint32_t)CPU_COUNT(&set);
	n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	return n > 0 ? (uint32_t)n : 1;
}

static bool any_direct(const struct h2d_load *l)
{
	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++)
		if (l->inputs[i].has_direct)
			return true;
	return false;
}

/* Whether this process gets an io_uring. */
static int ask_uring(struct h2d_load *l)
{
	struct h2d_uring ring;
	const char *why;
	int rc = h2d_uring_open(&ring, 8, &why, &l->log);

	l->engine.uring = !rc;
	if (!rc)
		h2d_uring_close(&ring);
	if (rc != H2D_E_UNSUPPORTED)
		return rc;
	h2d_load_because(l, "%s: O_DIRECT by blocking reads", why);
	return 0;
}

static void choose_readers(struct h2d_load *l, bool direct)
{
	struct h2d_engine_config *e = &l->engine;
	uint32_t max = h2d_tuning->thread_max_count, cores = core_count();

	if ((l->path->flags & H2D_PATH_ONE_READER) || l->opts.per_tensor) {
		e->readers = 1;
		if (l->opts.threads > 1)
			h2d_load_because(l, "%s: one reader",
					 l->opts.per_tensor ? "tensor by tensor"
							    : l->path->name);
	} else if (l->opts.threads) {
		e->readers = l->opts.threads < THREADS_MAX ? l->opts.threads : THREADS_MAX;
	} else if ((direct && !e->uring) || l->path->source == H2D_SOURCE_DEVICE) {
		/* Blocking reads: the readers are the queue depth. */
		e->readers = h2d_tuning->direct_thread_count;
	} else if (direct && l->path->source == H2D_SOURCE_DIRECT) {
		/* The requests of one ring are the queue depth. */
		e->readers = h2d_tuning->direct_reader_count;
	} else {
		e->readers = cores < max ? cores : max;
		if (l->reader_max && l->reader_max < e->readers) {
			e->readers = l->reader_max;
			h2d_load_because(l, "%u readers keep the link busy", e->readers);
		}
	}
	if (l->path->staging == H2D_STAGING_BUFFER || l->path->staging == H2D_STAGING_TENSOR ||
	    l->path->source == H2D_SOURCE_DEVICE)
		e->slots = 1;
	else if (direct && e->uring && l->path->source == H2D_SOURCE_DIRECT)
		e->slots = h2d_tuning->direct_slot_count;
	else if (l->path->source == H2D_SOURCE_MAP_SHARED)
		e->slots = h2d_tuning->register_slots;
	else
		e->slots = h2d_tuning->slots_per_reader;
}

static uint64_t staging_bound(const struct h2d_load *l)
{
	return l->opts.staging_bytes ? l->opts.staging_bytes : h2d_tuning->staging_max_bytes;
}

/* The least that staging can be: one reader's one slot. */
static int too_small(const struct h2d_load *l, uint64_t bound, uint64_t chunk)
{
	char lead[64] = "";

	if (l->slack_bytes)
		snprintf(lead, sizeof(lead), " and %llu for the alignment of direct reads",
			 (unsigned long long)l->slack_bytes);
	return h2d_fail(&l->log, H2D_E_INVALID,
			"staging of %llu bytes does not hold one slot, which takes %llu: a "
			"chunk of %llu%s",
			(unsigned long long)bound, (unsigned long long)(chunk + l->slack_bytes),
			(unsigned long long)chunk, lead);
}

/* Fit `readers` × `slots` × (chunk + slack) into the bound: first the chunk shrinks (if nobody
 * named it), then the slots, then the readers. */
static int fit(struct h2d_load *l, uint64_t *chunk, bool shrinkable)
{
	struct h2d_engine_config *e = &l->engine;
	uint64_t bound =
		l->opts.staging_bytes ? l->opts.staging_bytes : h2d_tuning->staging_max_bytes;
	uint32_t slots_min = e->slots < 2 ? e->slots : 2;

	for (;;) {
		uint64_t per_slot = bound / ((uint64_t)e->readers * e->slots), room;

		room = per_slot > l->slack_bytes ? per_slot - l->slack_bytes : 0;
		room &= ~(uint64_t)(PAGE_BYTES - 1);
		if (*chunk <= room)
			return 0;
		if (shrinkable && room >= CHUNK_MIN_BYTES) {
			*chunk = room;
			return 0;
		}
		if (e->slots > slots_min) {
			e->slots--;
		} else if (e->readers > 1) {
			e->readers--;
		} else if (e->slots > 1) {
			e->slots--;
		} else if (shrinkable && room) {
			*chunk = room;
			return 0;
		} else if (!l->opts.staging_bytes) {
			return 0; /* a single chunk that the caller wants this large */
		} else {
			return too_small(l, bound, shrinkable ? PAGE_BYTES : *chunk);
		}
	}
}

/* Windows of registered mappings. Beside the slots, in which small pieces are put together, up
 * to two windows for each chunk under way and one more are registered at a time; all of it
 * shares the bound. A chunk is never longer than a window. */
static int size_windows(struct h2d_load *l, uint64_t *chunk, bool shrinkable)
{
	struct h2d_engine_config *e = &l->engine;

	for (;;) {
		uint64_t parts = 3 * (uint64_t)e->readers * e->slots + 1, window;

		window = staging_bound(l) / parts;
		window &= ~(uint64_t)((window >= WINDOW_ALIGN_BYTES ? WINDOW_ALIGN_BYTES
								    : PAGE_BYTES) -
				      1);
		if (shrinkable && window >= CHUNK_MIN_BYTES && *chunk > window)
			*chunk = window;
		if (window && *chunk <= window) {
			e->window_bytes = window;
			return 0;
		}
		if (e->slots > 1)
			e->slots--;
		else if (e->readers > 1)
			e->readers--;
		else if (shrinkable && window)
			*chunk = window;
		else
			return h2d_fail(
				&l->log, H2D_E_INVALID,
				"staging of %llu bytes does not hold the windows that a "
				"chunk of %llu is copied from",
				(unsigned long long)staging_bound(l),
				(unsigned long long)*chunk);
	}
}

/* For loads that have a ring. */
static void tell_origin(struct h2d_load *l, const struct h2d_calibrated *c)
{
	if (l->in_place || l->path->staging != H2D_STAGING_RING ||
	    l->path->source == H2D_SOURCE_DEVICE || l->sizes_from)
		return;
	l->sizes_from = l->opts.chunk_bytes || l->opts.staging_bytes ? "options"
			: !c->chunk_bytes			     ? "defaults"
			: c->cached				     ? "cache"
								     : "calibration";
}

int h2d_load_size(struct h2d_load *l, uint64_t *chunk_bytes)
{
	bool direct = any_direct(l);
	uint64_t chunk = l->opts.chunk_bytes, align = 1;
	struct h2d_calibrated calibrated;
	int rc;

	rc = direct ? ask_uring(l) : 0;
	if (rc)
		return rc;
	choose_readers(l, direct);
	rc = h2d_load_calibrate(l, direct, &calibrated);
	if (rc)
		return rc;
	tell_origin(l, &calibrated);
	if (calibrated.chunk_bytes) {
		chunk = calibrated.chunk_bytes;
		l->engine.slots = calibrated.slots;
	}
	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++) {
		const struct h2d_direct *d = &l->inputs[i].direct;

		if (!l->inputs[i].has_direct)
			continue;
		align = d->offset_align_bytes > align ? d->offset_align_bytes : align;
		align = d->memory_align_bytes > align ? d->memory_align_bytes : align;
	}
	/* In front of the chunk, behind it, and its buffer's own alignment. */
	l->slack_bytes = direct ? 3 * align : 0;
	if (!chunk)
		chunk = direct ? h2d_tuning->direct_chunk_bytes
			: l->in_place || l->path->source == H2D_SOURCE_DEVICE
				? h2d_tuning->fill_chunk_bytes
				: h2d_tuning->ring_chunk_bytes;
	if (!h2d_align_up_u64(chunk, PAGE_BYTES, &chunk) || chunk > (UINT64_MAX >> 2))
		return h2d_fail(&l->log, H2D_E_INVALID, "a chunk of %llu bytes",
				(unsigned long long)l->opts.chunk_bytes);
	if (l->opts.chunk_bytes && chunk != l->opts.chunk_bytes)
		h2d_load_because(l, "a chunk of %llu bytes was asked for: %llu, whole pages",
				 (unsigned long long)l->opts.chunk_bytes,
				 (unsigned long long)chunk);
	if (l->path->staging == H2D_STAGING_TENSOR) {
		/* A tensor is never cut, but neighbours share a buffer only within the bound.
		 */
		if (l->opts.staging_bytes && chunk > l->opts.staging_bytes)
			chunk = l->opts.staging_bytes;
	} else if (l->path->source == H2D_SOURCE_MAP_SHARED) {
		rc = size_windows(l, &chunk, !l->opts.chunk_bytes);
	} else if ((!l->in_place && l->path->source != H2D_SOURCE_DEVICE) || direct) {
		rc = fit(l, &chunk, !l->opts.chunk_bytes);
	}
	l->engine.block_bytes = h2d_tuning->direct_block_bytes;
	while (l->engine.block_bytes < align ||
	       (chunk + l->slack_bytes) / l->engine.block_bytes * l->engine.slots >=
		       URING_DEPTH_MAX)
		l->engine.block_bytes *= 2;
	*chunk_bytes = chunk;
	return rc;
}

int h2d_load_size_slots(struct h2d_load *l, uint64_t need_bytes)
{
	struct h2d_engine_config *e = &l->engine;
	uint64_t chunks = l->plan.chunk_count ? l->plan.chunk_count : 1;
	uint64_t bound = staging_bound(l);

	if (e->readers > chunks)
		e->readers = (uint32_t)chunks;
	if (e->slots > chunks)
		e->slots = (uint32_t)chunks;
	e->staging_max_bytes = bound;
	if (l->engine.window_bytes)
		e->staging_max_bytes = e->window_bytes * e->readers * e->slots;
	e->slot_per_chunk = l->path->staging == H2D_STAGING_TENSOR;
	e->pageable = l->path->staging == H2D_STAGING_BUFFER;
	e->slot_bytes = 0;
	if (!need_bytes || e->slot_per_chunk)
		return 0;
	if (!h2d_add_u64(need_bytes, l->slack_bytes, &need_bytes) ||
	    !h2d_align_up_u64(need_bytes, PAGE_BYTES, &e->slot_bytes))
		return h2d_fail(&l->log, H2D_E_INVALID, "slots of %llu bytes",
				(unsigned long long)need_bytes);
	/* Chunks made to be filled in place may be long; the few that cannot be go one by one.
	 */
	while (e->slots > 1 && e->slot_bytes > bound / ((uint64_t)e->readers * e->slots))
		e->slots--;
	while (e->readers > 1 && e->slot_bytes > bound / e->readers)
		e->readers--;
	return 0;
}
