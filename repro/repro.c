/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/repro.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/mem.h"
#include "repro/copier.h"

static const uint64_t default_sizes[] = {UINT64_C(8) << 20, UINT64_C(32) << 20};

/** A run under way. */
struct run {
	struct h2d_device *dev;
	struct h2d_repro_opts opts;
	struct h2d_repro_result *r;
	struct h2d_known_file file;
	struct h2d_copier copier;
	struct h2d_cell_map *maps; /**< of all samples: kept until the end */
	size_t map_count;
	uint64_t largest_bytes;
};

/* Runtimes that hand pageable memory to the kernel's driver; the others copy it themselves. */
static bool can_reach_hmm(const struct h2d_device *dev)
{
	return dev->caps & H2D_DEV_HMM || !strcmp(dev->backend->name, "hip") ||
	       !strcmp(dev->backend->name, "cuda");
}

/* ---- options ---- */

static int check_options(struct run *run)
{
	struct h2d_repro_opts *o = &run->opts;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (!o->size_count) {
		o->sizes = default_sizes;
		o->size_count = 2;
	}
	if (!o->repeat)
		o->repeat = 1;
	if (o->size_count > H2D_REPRO_SIZE_MAX_COUNT || o->repeat > H2D_REPRO_REPEAT_MAX)
		return h2d_fail(&o->log, H2D_E_INVALID, "at most %d sizes and %d repeats",
				H2D_REPRO_SIZE_MAX_COUNT, H2D_REPRO_REPEAT_MAX);
	for (size_t i = 0; i < o->size_count; i++) {
		if (!o->sizes[i] || o->sizes[i] % page || o->sizes[i] > (UINT64_C(1) << 40))
			return h2d_fail(&o->log, H2D_E_INVALID,
					"size %" PRIu64
					" is no multiple of the page size (%" PRIu64
					") up to 1 TiB",
					o->sizes[i], page);
		for (size_t k = 0; k < i; k++)
			if (o->sizes[k] == o->sizes[i])
				return h2d_fail(&o->log, H2D_E_INVALID,
						"size %" PRIu64 " is given twice", o->sizes[i]);
		if (o->sizes[i] > run->largest_bytes)
			run->largest_bytes = o->sizes[i];
	}
	for (size_t i = 0; i < o->cell_count; i++)
		if (!h2d_cell_find(o->cells[i]))
			return h2d_fail(&o->log, H2D_E_NOT_FOUND, "there is no cell %s",
					o->cells[i]);
	return 0;
}

static bool selected(const struct h2d_repro_opts *o, const struct h2d_cell *cell)
{
	for (size_t i = 0; i < o->cell_count; i++)
		if (!strcmp(o->cells[i], cell->name))
			return true;
	return !o->cell_count;
}

static int make_room(struct run *run)
{
	const struct h2d_repro_opts *o = &run->opts;
	struct h2d_repro_result *r = run->r;
	size_t cells = 0;

	for (const struct h2d_cell *c = h2d_cells; c->name; c++)
		cells += selected(o, c);
	cells *= o->size_count;
	r->cells = h2d_mem->calloc(cells, sizeof(*r->cells));
	run->maps = h2d_mem->calloc(cells * o->repeat, sizeof(*run->maps));
	if (!r->cells || !run->maps)
		goto nomem;
	for (size_t s = 0; s < o->size_count; s++)
		for (const struct h2d_cell *c = h2d_cells; c->name; c++) {
			struct h2d_repro_cell *cell;

			if (!selected(o, c))
				continue;
			cell = &r->cells[r->cell_count++];
			cell->cell = c;
			cell->size_bytes = o->sizes[s];
			cell->samples = h2d_mem->calloc(o->repeat, sizeof(*cell->samples));
			cell->counts = h2d_mem->calloc(o->repeat, sizeof(*cell->counts));
			cell->windows = h2d_mem->calloc(o->repeat, sizeof(*cell->windows));
			if (!cell->samples || !cell->counts || !cell->windows)
				goto nomem;
		}
	return 0;
nomem:
	return h2d_fail(&o->log, H2D_E_NOMEM, "room for the samples");
}

/* ---- one sample ---- */

/* The first copy of a process pays for the runtime's own start (about 40 ms in HIP). */
static int warm_up(struct run *run)
{
	const struct h2d_cell *anon = h2d_cell_find("anon");
	struct h2d_hmm_count count;
	struct h2d_cell_map m;
	uint64_t elapsed;
	int rc = h2d_cell_map(anon, &run->file, NULL, run->opts.sizes[0], &run->opts.log, &m);

	if (!rc && m.data)
		rc = h2d_copier_copy(&run->copier, m.data, m.bytes, &elapsed, &count);
	h2d_cell_unmap(&m);
	return rc;
}

static void note_state(struct h2d_repro_cell *cell, const struct h2d_cell_map *m)
{
	memcpy(cell->permissions, m->smaps.permissions, sizeof(cell->permissions));
	cell->present_bytes = m->pages.present_count * m->pages.page_bytes;
	cell->file_bytes = m->pages.file_count * m->pages.page_bytes;
	cell->anonymous_bytes = m->smaps.anonymous_bytes;
	cell->huge_bytes = m->smaps.huge_bytes;
	cell->span_count = m->pages.span_count;
	cell->present_span_count = m->pages.present_span_count;
	cell->expected_windows = m->expected_windows;
	cell->expected_anon_bytes = m->expected_anon_bytes;
}

static void note_sample(struct run *run, struct h2d_repro_cell *cell,
			const struct h2d_cell_map *m, const struct h2d_smaps *after,
			uint64_t elapsed_ns, const struct h2d_hmm_count *count)
{
	const size_t at = cell->sample_count++;
	struct h2d_repro_sample *s = &cell->samples[at];
	const bool visible = run->r->restarts_visible;

	s->elapsed_ns = elapsed_ns;
	s->expected_windows = m->expected_windows;
	s->requests = visible ? (int64_t)count->requests : -1;
	s->restarts = visible ? (int64_t)count->restarts : -1;
	s->windows = visible ? (int64_t)count->windows : -1;
	s->rss_anon_delta_bytes =
		(int64_t)after->anonymous_bytes - (int64_t)m->smaps.anonymous_bytes;
	cell->counts[at] = *count;
	if (at)
		return;
	cell->rss_anon_delta_bytes = s->rss_anon_delta_bytes;
	cell->rss_delta_bytes = (int64_t)after->rss_bytes - (int64_t)m->smaps.rss_bytes;
}

/* Whether the run can go on after a copy that failed. */
static bool is_copy_failure(int rc)
{
	return rc == H2D_E_DEVICE || rc == H2D_E_INVALID || rc == H2D_E_UNSUPPORTED;
}

static int measure(struct run *run, struct h2d_repro_cell *cell, const struct h2d_cell_map *m)
{
	const struct h2d_log *log = &run->opts.log;
	const bool zeros = cell->cell->flags & H2D_CELL_ZEROS;
	struct h2d_smaps after = m->smaps;
	struct h2d_hmm_count count;
	uint64_t elapsed_ns;
	int rc = h2d_copier_poison(&run->copier, m->bytes);

	if (rc)
		return rc;
	rc = h2d_copier_copy(&run->copier, m->data, m->bytes, &elapsed_ns, &count);
	if (is_copy_failure(rc)) {
		snprintf(cell->invalid, sizeof(cell->invalid), "the copy failed: %s",
			 h2d_status_string(rc));
		return 0;
	}
	if (rc)
		return rc;
	if (cell->cell->source != H2D_CELL_PINNED) {
		rc = h2d_smaps_read(m->data, m->bytes, log, &after);
		if (rc)
			return rc;
	}
	note_sample(run, cell, m, &after, elapsed_ns, &count);
	rc = h2d_copier_verify(&run->copier, m->bytes, zeros);
	if (rc && rc != H2D_E_UNSUPPORTED)
		return rc;
	cell->verified = !rc;
	return 0;
}

static int take_sample(struct run *run, struct h2d_repro_cell *cell)
{
	struct h2d_cell_map *m = &run->maps[run->map_count++];
	int rc;

	if (cell->invalid[0])
		return 0;
	rc = h2d_cell_map(cell->cell, &run->file, run->dev, cell->size_bytes, &run->opts.log,
			  m);
	if (rc)
		return rc;
	if (!cell->sample_count)
		note_state(cell, m);
	if (m->invalid[0])
		snprintf(cell->invalid, sizeof(cell->invalid), "%s", m->invalid);
	else
		rc = measure(run, cell, m);
	h2d_cell_retire(m);
	return rc;
}

static int take_samples(struct run *run)
{
	const struct h2d_repro_opts *o = &run->opts;
	struct h2d_repro_result *r = run->r;
	const size_t total = r->cell_count * o->repeat;
	int rc = warm_up(run);

	/* Rounds over all cells, so that a drift of the machine meets them alike. */
	for (unsigned round = 0; !rc && round < o->repeat; round++)
		for (size_t i = 0; !rc && i < r->cell_count; i++) {
			struct h2d_repro_cell *cell = &r->cells[i];

			if (o->progress &&
			    o->progress(o->progress_user, cell->cell->name, cell->size_bytes,
					round * r->cell_count + i, total))
				return H2D_E_CANCELLED;
			rc = take_sample(run, cell);
		}
	return rc;
}

/* ---- afterwards ---- */

static void find_clock(struct run *run)
{
	struct h2d_repro_result *r = run->r;
	struct h2d_hmm_count facts = {0};

	if (run->dev->backend->hmm_count)
		run->dev->backend->hmm_count(run->dev, &facts);
	r->clock.timeout_ms = facts.timeout_ms ? facts.timeout_ms : H2D_WINDOW_TIMEOUT_MS;
	r->clock.hz = facts.hz;
	r->hz_source = H2D_HZ_DEVICE;
	if (!r->clock.hz)
		r->clock.hz = h2d_hz_read(&r->hz_source);
}

/* Over the samples that should have waited; a copy shorter than a window fits nothing. */
static int fit_clock(struct run *run)
{
	struct h2d_repro_result *r = run->r;
	uint64_t *elapsed = h2d_mem->calloc(r->cell_count * run->opts.repeat, sizeof(*elapsed));
	size_t n = 0;

	if (!elapsed)
		return h2d_fail(&run->opts.log, H2D_E_NOMEM, "room for the samples");
	for (size_t i = 0; i < r->cell_count; i++)
		for (size_t s = 0; s < r->cells[i].sample_count; s++)
			if (r->cells[i].samples[s].expected_windows &&
			    r->cells[i].samples[s].elapsed_ns / 1000000 >= r->clock.timeout_ms)
				elapsed[n++] = r->cells[i].samples[s].elapsed_ns;
	r->fitted_hz = h2d_window_fit_hz(elapsed, n, r->clock.timeout_ms, NULL);
	free(elapsed);
	if (!r->clock.hz && r->fitted_hz) {
		r->clock.hz = r->fitted_hz;
		r->hz_source = H2D_HZ_FITTED;
	}
	return 0;
}

static int judge(struct run *run)
{
	struct h2d_repro_result *r = run->r;
	struct h2d_case c = {
		.can_reach = can_reach_hmm(run->dev),
		.clock = r->clock,
		.cell_count = r->cell_count,
	};
	struct h2d_case_cell *cells = h2d_mem->calloc(r->cell_count, sizeof(*cells));

	if (!cells)
		return h2d_fail(&run->opts.log, H2D_E_NOMEM, "room for the verdict");
	c.cells = cells;
	for (size_t i = 0; i < r->cell_count; i++) {
		const struct h2d_repro_cell *cell = &r->cells[i];

		cells[i] = (struct h2d_case_cell){
			.name = cell->cell->name,
			.size_bytes = cell->size_bytes,
			.measured = !cell->invalid[0] && cell->sample_count,
			.asks_write = cell->permissions[1] == 'w' &&
				      cell->cell->source != H2D_CELL_PINNED,
			.expected_windows = cell->expected_windows,
			.expected_anon_bytes = cell->expected_anon_bytes,
			.samples = cell->samples,
			.sample_count = cell->sample_count,
		};
	}
	h2d_repro_judge(&c, &r->verdict);
	for (size_t i = 0; i < r->cell_count; i++)
		for (size_t s = 0; s < r->cells[i].sample_count; s++)
			r->cells[i].windows[s] =
				h2d_case_windows(&c, &cells[i], &cells[i].samples[s]);
	free(cells);
	return 0;
}

static void describe_device(struct run *run)
{
	struct h2d_repro_result *r = run->r;
	const struct h2d_device *dev = run->dev;

	snprintf(r->device_name, sizeof(r->device_name), "%s", dev->facts.name);
	snprintf(r->device_hardware, sizeof(r->device_hardware), "%s", dev->facts.hardware);
	r->backend = dev->backend->name;
	r->restarts_visible = (dev->caps & H2D_DEV_HMM) && dev->backend->hmm_count;
}

int h2d_repro_run(struct h2d_device *dev, const struct h2d_repro_opts *opts,
		  struct h2d_repro_result **out)
{
	struct run run = {.dev = dev, .file = {.fd = -1}};
	int rc;

	*out = NULL;
	if (opts)
		run.opts = *opts;
	rc = check_options(&run);
	if (rc)
		return rc;
	run.r = h2d_mem->calloc(1, sizeof(*run.r));
	if (!run.r)
		return h2d_fail(&run.opts.log, H2D_E_NOMEM, "room for the result");
	describe_device(&run);
	find_clock(&run);
	rc = make_room(&run);
	if (rc)
		goto out;
	rc = h2d_known_file_make(run.opts.file, run.largest_bytes, &run.opts.log, &run.file);
	if (rc)
		goto out;
	run.r->filesystem =
		h2d_filesystem_name(run.file.filesystem_type, run.r->filesystem_text,
				    sizeof(run.r->filesystem_text));
	rc = h2d_copier_open(&run.copier, dev, run.largest_bytes, &run.opts.log);
	if (rc)
		goto out;
	rc = take_samples(&run);
	if (!rc)
		rc = fit_clock(&run);
	if (!rc)
		rc = judge(&run);
out:
	/* The copier first: while it lives the device may read from the mappings. */
	h2d_copier_close(&run.copier);
	if (!dev->lost)
		for (size_t i = 0; i < run.map_count; i++)
			h2d_cell_unmap(&run.maps[i]);
	free(run.maps);
	h2d_known_file_close(&run.file);
	if (rc)
		h2d_repro_free(run.r);
	else
		*out = run.r;
	return rc;
}

void h2d_repro_free(struct h2d_repro_result *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->cell_count; i++) {
		free(r->cells[i].samples);
		free(r->cells[i].counts);
		free(r->cells[i].windows);
	}
	free(r->cells);
	free(r);
}
