/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/experiment/law.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "repro/copier.h"

enum { SIZE_DEFAULT = 16 << 20, INVALIDATE_WINDOWS = 3 };

/** An experiment under way. */
struct law {
	struct h2d_law_opts opts;
	struct h2d_law_result *r;
	struct h2d_copier copiers[H2D_LAW_COPIES_MAX];
	struct h2d_known_file file;
	uint64_t largest_bytes;
};

/** What one thread copies. */
struct job {
	struct h2d_copier *copier;
	const unsigned char *src;
	uint64_t bytes;
	pthread_barrier_t *start;
	struct h2d_law_copy *copy;
	int rc;
};

const char *h2d_law_value_name(enum h2d_law_value v)
{
	static const char *const names[] = {"holds", "does_not_hold", "undecided"};

	return (unsigned)v < 3 ? names[v] : "undecided";
}

static void not_run(struct h2d_law_outcome *o, const char *why)
{
	if (!o->not_run[0])
		snprintf(o->not_run, sizeof(o->not_run), "%.191s", why);
}

static uint64_t size_of(const struct law *law, const struct h2d_law_row *row)
{
	return row->size_bytes ? row->size_bytes : law->opts.size_bytes;
}

/* ---- copies ---- */

static void *copy_thread(void *arg)
{
	struct job *job = arg;

	if (job->start)
		pthread_barrier_wait(job->start);
	job->rc = h2d_copier_copy(job->copier, job->src, job->bytes, &job->copy->elapsed_ns,
				  &job->copy->count);
	return NULL;
}

/* Both at once, or none. */
static int copy_two(struct law *law, struct job jobs[2])
{
	pthread_barrier_t start;
	pthread_t other;

	pthread_barrier_init(&start, NULL, 2);
	jobs[0].start = jobs[1].start = &start;
	if (h2d_mem->thread_create(&other, copy_thread, &jobs[1])) {
		pthread_barrier_destroy(&start);
		return h2d_fail(&law->opts.log, H2D_E_NOMEM, "a second thread");
	}
	copy_thread(&jobs[0]);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&start);
	return jobs[0].rc ? jobs[0].rc : jobs[1].rc;
}

/** The thread that drops a page. */
struct dropper {
	unsigned char *page;
	uint64_t bytes, until_ns, count;
	_Atomic bool running;
};

static void *drop_pages(void *arg)
{
	struct dropper *d = arg;

	while (h2d_now_ns() < d->until_ns) {
		if (madvise(d->page, (size_t)d->bytes, MADV_DONTNEED))
			break;
		h2d_cell_touch(d->page, 1, 1);
		d->count++;
		d->running = true;
	}
	d->running = true;
	return NULL;
}

/* Each time the page is dropped while the driver faults, the sequence moves on: a window that
 * no entry of the source explains. The last page is dropped, so that there is always one to
 * fault.
 */
static int copy_invalidated(struct law *law, struct job *job, struct h2d_law_outcome *o)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t window = h2d_window_ns(law->r->clock);
	struct dropper d = {
		.page = (unsigned char *)(uintptr_t)job->src + job->bytes - page,
		.bytes = page,
	};
	const uint64_t begin = h2d_now_ns();
	pthread_t thread;

	d.until_ns = begin + INVALIDATE_WINDOWS * window;
	if (h2d_mem->thread_create(&thread, drop_pages, &d))
		return h2d_fail(&law->opts.log, H2D_E_NOMEM, "a second thread");
	while (!d.running)
		usleep(100);
	copy_thread(job);
	pthread_join(thread, NULL);
	o->invalidation_count = d.count;
	o->invalidation_ns = d.until_ns - begin;
	return job->rc;
}

/* ---- one row ---- */

static void note_state(struct h2d_law_outcome *o, const struct h2d_cell_map *m)
{
	const bool asks_write = m->smaps.permissions[1] == 'w';

	memcpy(o->permissions, m->smaps.permissions, sizeof(o->permissions));
	o->size_bytes = m->bytes;
	o->present_bytes = m->pages.present_count * m->pages.page_bytes;
	o->span_count = m->pages.span_count;
	o->huge_bytes = m->smaps.huge_bytes;
	o->contiguous_count = m->pages.contiguous_count;
	o->by_bytes = asks_write ? (double)o->present_bytes / (double)H2D_SPAN_BYTES : 0;
	o->by_presence = asks_write ? m->pages.present_span_count : 0;
	o->by_law_min = o->by_law_max = m->expected_windows;
	switch (o->row->kind) {
	case H2D_LAW_TWO_THREADS:
		o->by_bytes *= 2;
		o->by_presence *= 2;
		o->by_law_min = o->by_law_max *= 2;
		break;
	case H2D_LAW_TWO_THREADS_SAME:
		/* A span is replaced once, but every page of it that one thread replaces
		 * interrupts the other one too, whatever that has still to do. */
		o->by_law_max = UINT64_MAX;
		break;
	case H2D_LAW_INVALIDATED:
		/* At least one; when the other thread stops, one may just have begun. */
		o->by_law_min = 1;
		o->by_law_max = INVALIDATE_WINDOWS + 1;
		break;
	default:
		break;
	}
}

static int measure(struct law *law, struct h2d_law_outcome *o, struct h2d_cell_map maps[2])
{
	struct job jobs[2];
	const bool two =
		o->row->kind == H2D_LAW_TWO_THREADS || o->row->kind == H2D_LAW_TWO_THREADS_SAME;
	int rc = 0;

	for (size_t i = 0; i < 2; i++)
		jobs[i] = (struct job){
			.copier = &law->copiers[i],
			.src = o->row->kind == H2D_LAW_TWO_THREADS ? maps[i].data
								   : maps[0].data,
			.bytes = o->size_bytes,
			.copy = &o->copies[i],
		};
	o->copy_count = two ? 2 : 1;
	for (size_t i = 0; i < o->copy_count && !rc; i++)
		rc = h2d_copier_poison(jobs[i].copier, o->size_bytes);
	if (rc)
		return rc;
	if (two)
		rc = copy_two(law, jobs);
	else if (o->row->kind == H2D_LAW_INVALIDATED)
		rc = copy_invalidated(law, &jobs[0], o);
	else
		copy_thread(&jobs[0]);
	rc = rc ? rc : jobs[0].rc;
	for (size_t i = 0; i < o->copy_count && !rc; i++) {
		rc = h2d_copier_verify(jobs[i].copier, o->size_bytes,
				       o->row->cell.flags & H2D_CELL_ZEROS);
		o->windows += o->copies[i].count.windows;
		o->restarts += o->copies[i].count.restarts;
	}
	return rc == H2D_E_UNSUPPORTED ? 0 : rc;
}

/*
 * Every restart is a window, or none is. Where the driver did not count its windows they are
 * told by the idle end of an attempt, which a busy host can hide: then the time that a copy
 * took must hold as many timeouts as it had restarts.
 */
static bool windows_fit(const struct h2d_law_outcome *o, uint32_t timeout_ms)
{
	if (!o->windows || o->windows == o->restarts)
		return true;
	if (o->windows > o->restarts)
		return false;
	for (size_t i = 0; i < o->copy_count; i++) {
		const struct h2d_law_copy *c = &o->copies[i];

		if (c->count.windows_counted || !timeout_ms ||
		    c->elapsed_ns / 1000000 < c->count.restarts * timeout_ms)
			return false;
	}
	return true;
}

static void judge_row(struct h2d_law_outcome *o, uint32_t timeout_ms)
{
	/* How often the other thread interrupts depends on the length of a pass: there is a
	 * bound of windows, and none of restarts. */
	if (o->row->kind == H2D_LAW_INVALIDATED) {
		o->agrees = o->restarts >= o->by_law_min && o->windows <= o->by_law_max;
		return;
	}
	o->agrees = o->restarts >= o->by_law_min && o->restarts <= o->by_law_max;
	/* A thread that is interrupted by another one may also find out only afterwards. */
	if (o->row->kind != H2D_LAW_TWO_THREADS_SAME && !windows_fit(o, timeout_ms))
		o->agrees = false;
}

static int copy_and_look(struct law *law, struct h2d_law_outcome *o,
			 struct h2d_cell_map maps[2], const struct h2d_cell_map *alias)
{
	const struct h2d_log *log = &law->opts.log;
	struct h2d_smaps after;
	int rc = measure(law, o, maps);

	if (rc == H2D_E_DEVICE || rc == H2D_E_INVALID) {
		char why[96];

		snprintf(why, sizeof(why), "the copy failed: %s", h2d_status_string(rc));
		not_run(o, why);
		return 0;
	}
	if (rc)
		return rc;
	rc = h2d_smaps_read(maps[0].data, maps[0].bytes, log, &after);
	if (rc)
		return rc;
	o->rss_anon_delta_bytes =
		(int64_t)after.anonymous_bytes - (int64_t)maps[0].smaps.anonymous_bytes;
	if (alias) {
		rc = h2d_smaps_read(alias->data, alias->bytes, log, &after);
		if (rc)
			return rc;
		o->alias_anon_bytes = (int64_t)after.anonymous_bytes;
	}
	judge_row(o, law->r->clock.timeout_ms);
	return 0;
}

static int map_row(struct law *law, struct h2d_law_outcome *o,
		   const struct h2d_known_file *file, struct h2d_cell_map maps[2],
		   struct h2d_cell_map *alias)
{
	static const struct h2d_cell writable = {"rw-present",
						 "",
						 "rw-p",
						 H2D_CELL_FILE,
						 H2D_PREPARE_READ,
						 H2D_PRESENCE_ALL,
						 H2D_PAGES_FILE,
						 H2D_CELL_WRITABLE,
						 true,
						 true};
	const struct h2d_log *log = &law->opts.log;
	const uint64_t bytes = size_of(law, o->row);
	int rc = 0;

	if (o->row->kind == H2D_LAW_ALIAS) {
		rc = h2d_cell_map(&writable, file, NULL, bytes, log, alias);
		if (!rc && alias->invalid[0])
			not_run(o, alias->invalid);
	}
	if (!rc)
		rc = h2d_cell_map(&o->row->cell, file, NULL, bytes, log, &maps[0]);
	if (!rc && o->row->kind == H2D_LAW_TWO_THREADS)
		rc = h2d_cell_map(&o->row->cell, file, NULL, bytes, log, &maps[1]);
	if (rc)
		return rc;
	note_state(o, &maps[0]);
	for (size_t i = 0; i < 2; i++)
		if (maps[i].invalid[0])
			not_run(o, maps[i].invalid);
	return 0;
}

static int run_row(struct law *law, struct h2d_law_outcome *o)
{
	const bool is_alias = o->row->kind == H2D_LAW_ALIAS;
	struct h2d_cell_map maps[2] = {0}, alias = {0};
	struct h2d_known_file huge = {.fd = -1}, *file = &law->file;
	char why[160];
	int rc = 0;

	o->alias_anon_bytes = -1;
	if (o->row->kind == H2D_LAW_HUGE_FILE) {
		rc = h2d_law_huge_file(size_of(law, o->row), &law->opts.log, &huge, why,
				       sizeof(why));
		if (rc == H2D_E_UNAVAILABLE) {
			not_run(o, why);
			return 0;
		}
		file = &huge;
	}
	if (!rc)
		rc = map_row(law, o, file, maps, &alias);
	if (!rc && !o->not_run[0])
		rc = copy_and_look(law, o, maps, is_alias ? &alias : NULL);
	for (size_t i = 0; i < 2; i++)
		h2d_cell_unmap(&maps[i]);
	h2d_cell_unmap(&alias);
	h2d_known_file_close(&huge);
	return rc;
}

/* ---- all rows ---- */

static bool selected(const struct h2d_law_opts *o, const struct h2d_law_row *row)
{
	for (size_t i = 0; i < o->row_count; i++)
		if (!strcmp(o->rows[i], row->name))
			return true;
	return !o->row_count;
}

static int make_room(struct law *law)
{
	const struct h2d_law_opts *o = &law->opts;
	struct h2d_law_result *r = law->r;
	size_t n = 0;

	for (size_t i = 0; i < o->row_count; i++) {
		const struct h2d_law_row *row = h2d_law_rows;

		while (row->name && strcmp(row->name, o->rows[i]))
			row++;
		if (!row->name)
			return h2d_fail(&o->log, H2D_E_NOT_FOUND, "there is no row %s",
					o->rows[i]);
	}
	for (const struct h2d_law_row *row = h2d_law_rows; row->name; row++)
		n += selected(o, row);
	r->rows = h2d_mem->calloc(n, sizeof(*r->rows));
	if (!r->rows)
		return h2d_fail(&o->log, H2D_E_NOMEM, "room for the rows");
	for (const struct h2d_law_row *row = h2d_law_rows; row->name; row++) {
		if (!selected(o, row))
			continue;
		r->rows[r->row_count++].row = row;
		if (size_of(law, row) > law->largest_bytes)
			law->largest_bytes = size_of(law, row);
	}
	return 0;
}

static int open_copiers(struct law *law)
{
	struct h2d_device *dev = law->opts.devs[0];
	struct h2d_law_result *r = law->r;
	struct h2d_hmm_count facts = {0};
	int rc;

	for (size_t i = 0; i < H2D_LAW_COPIES_MAX; i++) {
		if (!(law->opts.devs[i]->caps & H2D_DEV_HMM))
			return h2d_fail(&law->opts.log, H2D_E_UNSUPPORTED,
					"device %s shows no restarts",
					law->opts.devs[i]->facts.name);
		rc = h2d_copier_open(&law->copiers[i], law->opts.devs[i], law->largest_bytes,
				     &law->opts.log);
		if (rc)
			return rc;
	}
	dev->backend->hmm_count(dev, &facts);
	r->clock = (struct h2d_window_clock){facts.timeout_ms, facts.hz};
	snprintf(r->device_name, sizeof(r->device_name), "%s", dev->facts.name);
	snprintf(r->device_hardware, sizeof(r->device_hardware), "%s", dev->facts.hardware);
	return 0;
}

static int run_rows(struct law *law)
{
	const struct h2d_law_opts *o = &law->opts;
	struct h2d_law_result *r = law->r;
	bool restarts = false;

	for (size_t i = 0; i < r->row_count; i++) {
		int rc;

		if (o->progress &&
		    o->progress(o->progress_user, r->rows[i].row->name, i, r->row_count))
			return H2D_E_CANCELLED;
		rc = run_row(law, &r->rows[i]);
		if (rc)
			return rc;
		if (r->rows[i].not_run[0]) {
			r->not_run_count++;
			continue;
		}
		r->run_count++;
		r->disagree_count += !r->rows[i].agrees;
		restarts |= r->rows[i].restarts > 0;
	}
	/* A driver that neither waits nor restarts says nothing about when it would. */
	if (!restarts)
		r->value = H2D_LAW_UNDECIDED;
	else
		r->value = r->disagree_count ? H2D_LAW_FAILS : H2D_LAW_HOLDS;
	return 0;
}

int h2d_law_run(const struct h2d_law_opts *opts, struct h2d_law_result **out)
{
	struct law law = {.opts = *opts, .file = {.fd = -1}};
	int rc;

	*out = NULL;
	if (!law.opts.size_bytes)
		law.opts.size_bytes = SIZE_DEFAULT;
	if (law.opts.size_bytes % H2D_SPAN_BYTES)
		return h2d_fail(&opts->log, H2D_E_INVALID, "the size is no multiple of 2 MiB");
	law.r = h2d_mem->calloc(1, sizeof(*law.r));
	if (!law.r)
		return h2d_fail(&opts->log, H2D_E_NOMEM, "room for the result");
	rc = make_room(&law);
	if (!rc)
		rc = open_copiers(&law);
	if (!rc)
		rc = h2d_known_file_make(opts->file, law.largest_bytes, &opts->log, &law.file);
	if (!rc) {
		law.r->filesystem =
			h2d_filesystem_name(law.file.filesystem_type, law.r->filesystem_text,
					    sizeof(law.r->filesystem_text));
		rc = run_rows(&law);
	}
	for (size_t i = 0; i < H2D_LAW_COPIES_MAX; i++)
		h2d_copier_close(&law.copiers[i]);
	h2d_known_file_close(&law.file);
	if (rc)
		h2d_law_free(law.r);
	else
		*out = law.r;
	return rc;
}

void h2d_law_free(struct h2d_law_result *r)
{
	if (!r)
		return;
	free(r->rows);
	free(r);
}
