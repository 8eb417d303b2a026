/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending a run, and what its readers share. */
#include "transfer/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "file/cache.h"
#include "file/io.h"
#include "transfer/trace.h"
#include "transfer/tuning.h"

/* Readers that fail together would each tell why; one line is enough. */
static void log_once(void *user, enum h2d_log_level level, const char *line)
{
	struct h2d_engine *e = user;

	if (level == H2D_LOG_ERROR && atomic_exchange(&e->error_logged, true))
		level = H2D_LOG_DEBUG;
	if (e->config->log.fn)
		e->config->log.fn(e->config->log.user, level, line);
}

int h2d_engine_fail(struct h2d_engine *e, int status)
{
	int none = 0;

	atomic_compare_exchange_strong(&e->status, &none, status);
	return status;
}

bool h2d_engine_stopped(struct h2d_engine *e)
{
	return atomic_load(&e->status) != 0;
}

void h2d_engine_progress(struct h2d_engine *e, bool always)
{
	const struct h2d_engine_config *cfg = e->config;
	uint64_t now;

	if (!cfg->progress)
		return;
	now = h2d_now_ns();
	if (!always && now - atomic_load(&e->progress_ns) < h2d_tuning->progress_interval_ns)
		return;
	if (always)
		pthread_mutex_lock(&e->callback_lock);
	else if (pthread_mutex_trylock(&e->callback_lock))
		return;
	atomic_store(&e->progress_ns, now);
	if (cfg->progress(cfg->progress_user, atomic_load(&e->done_bytes),
			  e->plan->total_bytes) &&
	    !h2d_engine_stopped(e)) {
		h2d_log_line(&e->log, H2D_LOG_INFO, "cancelled by the caller");
		h2d_engine_fail(e, H2D_E_CANCELLED);
	}
	pthread_mutex_unlock(&e->callback_lock);
}

static void target_done(struct h2d_engine *e, uint64_t target)
{
	const struct h2d_engine_config *cfg = e->config;

	if (!cfg->target_done)
		return;
	pthread_mutex_lock(&e->callback_lock);
	cfg->target_done(cfg->target_done_user,
			 cfg->done_by_tensor ? e->plan->targets[target].tensor : target);
	pthread_mutex_unlock(&e->callback_lock);
}

void h2d_engine_arrived(struct h2d_engine *e, const struct h2d_chunk *c)
{
	uint64_t sum = 0;

	for (uint64_t i = c->first_piece; i < c->first_piece + c->piece_count; i++) {
		const struct h2d_piece *piece = &e->plan->pieces[i];
		uint64_t bytes = h2d_piece_delivered(e->plan, piece);

		sum += bytes;
		if (atomic_fetch_sub(&e->plan->targets[piece->target].left, bytes) == bytes)
			target_done(e, piece->target);
	}
	atomic_fetch_add(&e->done_bytes, sum);
}

/* ---------------------------------------------------------------- start and end */

static bool copies_any(const struct h2d_plan *p)
{
	for (uint64_t i = 0; i < p->chunk_count; i++)
		if (p->chunks[i].route != H2D_ROUTE_FILL)
			return true;
	return false;
}

static void queue_init(struct h2d_slot_queue *q)
{
	q->head = NULL;
	q->tail = &q->head;
}

static int setup_slots(struct h2d_engine *e, struct h2d_reader *r)
{
	const struct h2d_engine_config *cfg = e->config;

	r->slots = h2d_mem->calloc(cfg->slots, sizeof(*r->slots));
	if (!r->slots)
		return h2d_fail(&e->log, H2D_E_NOMEM, "reader: out of memory");
	for (uint32_t i = 0; i < cfg->slots; i++) {
		struct h2d_slot *s = &r->slots[i];

		s->index = i;
		if (e->ring.base) {
			s->buf = e->ring.base +
				 ((uint64_t)r->index * cfg->slots + i) * e->ring.slot_bytes;
			s->buf_bytes = e->ring.slot_bytes;
		}
		*r->free.tail = s;
		r->free.tail = &s->next;
	}
	return 0;
}

static int setup_reader(struct h2d_engine *e, struct h2d_reader *r, const bool *used)
{
	const struct h2d_backend *b = e->dev->backend;
	int rc = setup_slots(e, r);

	if (!rc && (copies_any(e->plan) || used[H2D_SOURCE_DEVICE])) {
		if (e->caller_stream)
			r->stream = e->caller_stream;
		else
			rc = b->stream_create(e->dev, &r->stream);
		for (uint32_t i = 0; !rc && i < e->config->slots; i++)
			rc = b->event_create(e->dev, &r->slots[i].event);
		if (rc)
			return h2d_fail(&e->log, rc, "device %s: no stream or event",
					e->dev->facts.name);
	}
	for (int i = 0; !rc && i < H2D_SOURCE_COUNT; i++)
		if (used[i] && h2d_sources[i]->setup)
			rc = h2d_sources[i]->setup(r);
	return rc;
}

/* Memory that a driver allocated may be of a kind that the kernel cannot read into directly
 * (EFAULT). One read tells, before any chunk relies on it. */
static void probe_direct(struct h2d_engine *e, struct h2d_engine_result *result)
{
	struct h2d_chunk *c = e->plan->chunks;
	const struct h2d_direct *d = NULL;

	for (uint64_t i = 0; !d && i < e->plan->chunk_count; i++)
		if (c[i].source == H2D_SOURCE_DIRECT)
			d = &e->config->inputs[c[i].file].direct;
	if (!d || !e->ring.base || e->ring.pageable || !(e->dev->caps & H2D_DEV_PINNED))
		return;
	if (h2d_io->pread(d->fd, e->ring.base, d->offset_align_bytes, 0) >= 0 ||
	    errno != EFAULT)
		return;
	result->direct_refused = true;
	for (uint64_t i = 0; i < e->plan->chunk_count; i++)
		if (c[i].source == H2D_SOURCE_DIRECT)
			c[i].source = H2D_SOURCE_PREAD;
}

static int sources_used(const struct h2d_engine *e, bool *used)
{
	for (uint64_t i = 0; i < e->plan->chunk_count; i++) {
		unsigned source = e->plan->chunks[i].source;

		if (source >= H2D_SOURCE_COUNT || !h2d_sources[source])
			return h2d_fail(&e->log, H2D_E_INTERNAL, "no source for a chunk");
		used[source] = true;
	}
	return 0;
}

static int setup(struct h2d_engine *e, struct h2d_engine_result *result)
{
	const struct h2d_engine_config *cfg = e->config;
	bool used[H2D_SOURCE_COUNT] = {false};
	int rc = 0;

	e->readers = h2d_mem->calloc(cfg->readers, sizeof(*e->readers));
	if (!e->readers)
		return h2d_fail(&e->log, H2D_E_NOMEM, "readers: out of memory");
	for (uint32_t i = 0; i < cfg->readers; i++) {
		struct h2d_reader *r = &e->readers[i];

		r->engine = e;
		r->index = i;
		r->target = UINT64_MAX;
		queue_init(&r->free);
		queue_init(&r->filling);
		queue_init(&r->copying);
	}
	if (h2d_trace_attach(cfg->trace, e->readers, cfg->readers))
		return h2d_fail(&e->log, H2D_E_NOMEM, "trace: out of memory");
	if (cfg->slot_bytes)
		rc = h2d_ring_alloc(&e->ring, e->dev, (uint64_t)cfg->readers * cfg->slots,
				    cfg->slot_bytes, cfg->staging_max_bytes, cfg->pageable,
				    &e->log);
	if (!rc)
		probe_direct(e, result);
	if (!rc)
		rc = sources_used(e, used);
	if (!rc && cfg->window_bytes)
		rc = h2d_windows_new(
			&e->windows, e->dev, e->plan, cfg->inputs, cfg->window_bytes,
			2 * (uint64_t)cfg->readers * cfg->slots + 1, cfg->drop, &e->log);
	if (!rc && cfg->native_stream)
		rc = e->dev->backend->stream_wrap(e->dev, cfg->native_stream,
						  &e->caller_stream);
	e->bind = !rc && e->dev->facts.numa_node >= 0 && copies_any(e->plan) &&
		  h2d_near_matters() && h2d_near_cpus(e->dev->facts.numa_node, &e->near);
	result->bound = e->bind;
	for (uint32_t i = 0; !rc && i < cfg->readers; i++)
		rc = setup_reader(e, &e->readers[i], used);
	return rc;
}

static bool teardown_reader(struct h2d_engine *e, struct h2d_reader *r)
{
	const struct h2d_backend *b = e->dev->backend;
	bool stuck = false;

	for (int i = 0; i < H2D_SOURCE_COUNT; i++)
		if (h2d_sources[i] && h2d_sources[i]->teardown)
			stuck |= h2d_sources[i]->teardown(r);
	for (uint32_t i = 0; r->slots && i < e->config->slots; i++)
		if (r->slots[i].event)
			b->event_destroy(e->dev, r->slots[i].event);
	if (r->stream && r->stream != e->caller_stream)
		b->stream_destroy(e->dev, r->stream);
	free(r->slots);
	return stuck;
}

static void teardown(struct h2d_engine *e, struct h2d_engine_result *result)
{
	const struct h2d_engine_config *cfg = e->config;
	bool stuck = false;

	for (uint32_t i = 0; e->readers && i < cfg->readers; i++)
		stuck |= teardown_reader(e, &e->readers[i]);
	if (e->caller_stream)
		e->dev->backend->stream_destroy(e->dev, e->caller_stream);
	result->staging_bytes = cfg->slot_per_chunk ? e->plan->chunk_max_bytes : e->ring.bytes;
	result->quarantine = atomic_load(&e->quarantine);
	h2d_windows_free(e->windows, result->quarantine, &result->windows);
	result->staging_bytes += result->windows.registered_max_bytes;
	h2d_ring_free(&e->ring, e->dev, stuck || result->quarantine);
	free(e->readers);
	result->read_bytes = atomic_load(&e->read_bytes);
	result->copy_count = atomic_load(&e->copy_count);
	result->max_in_flight_count = atomic_load(&e->max_in_flight);
	pthread_mutex_destroy(&e->callback_lock);
}

static void *reader_thread(void *arg)
{
	struct h2d_reader *r = arg;

	if (r->engine->bind)
		sched_setaffinity(0, sizeof(r->engine->near), &r->engine->near);
	h2d_reader_run(r);
	return NULL;
}

/* The caller's thread is reader 0, and gets its processors back. */
static void run_here(struct h2d_engine *e)
{
	bool bus_blocked = h2d_guard_thread_begin(), bound = false;
	cpu_set_t before;

	if (e->bind && !sched_getaffinity(0, sizeof(before), &before))
		bound = !sched_setaffinity(0, sizeof(e->near), &e->near);
	h2d_reader_run(&e->readers[0]);
	if (bound)
		sched_setaffinity(0, sizeof(before), &before);
	h2d_guard_thread_end(bus_blocked);
}

/* What readers leave of the cache behind chunk by chunk, since folios reach over their ends. */
static void drop_rest(struct h2d_engine *e)
{
	const struct h2d_chunk *c = e->plan->chunks;
	uint64_t done = UINT64_MAX;

	for (uint64_t i = 0; i < e->plan->chunk_count; i++) {
		struct h2d_source_file *in = &e->config->inputs[c[i].file];

		if (c[i].source == H2D_SOURCE_DIRECT || c[i].file == done)
			continue;
		done = c[i].file;
		h2d_map_release(&in->map, 0, in->map.bytes);
		h2d_cache_drop(in->file, in->begin, in->end - in->begin);
	}
}

int h2d_engine_run(const struct h2d_engine_config *config, struct h2d_engine_result *result)
{
	struct h2d_engine e = {.config = config, .dev = config->dev, .plan = config->plan};
	int rc;

	memset(result, 0, sizeof(*result));
	e.log = (struct h2d_log){log_once, &e};
	pthread_mutex_init(&e.callback_lock, NULL);
	atomic_store(&e.progress_ns, h2d_now_ns());
	rc = setup(&e, result);
	if (rc)
		goto out;
	for (uint64_t i = 0; config->target_done && i < e.plan->target_count; i++)
		if (!e.plan->targets[i].bytes)
			target_done(&e, i);
	for (uint32_t i = 1; i < config->readers; i++) {
		int err = h2d_mem->thread_create(&e.readers[i].thread, reader_thread,
						 &e.readers[i]);

		e.readers[i].started = !err;
		if (err) {
			h2d_fail_errno(&e.log, err, "reader %u cannot be started", i);
			h2d_engine_fail(&e, H2D_E_NOMEM);
			break;
		}
	}
	run_here(&e);
	for (uint32_t i = 1; i < config->readers; i++)
		if (e.readers[i].started)
			pthread_join(e.readers[i].thread, NULL);
	h2d_engine_progress(&e, true);
	rc = atomic_load(&e.status);
	if (!rc && atomic_load(&e.done_bytes) != e.plan->total_bytes)
		rc = h2d_fail(&e.log, H2D_E_INTERNAL, "%llu of %llu bytes were delivered",
			      (unsigned long long)atomic_load(&e.done_bytes),
			      (unsigned long long)e.plan->total_bytes);
	if (config->drop && !atomic_load(&e.quarantine))
		drop_rest(&e);
out:
	teardown(&e, result);
	return rc;
}
