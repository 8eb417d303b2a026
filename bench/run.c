/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/conditions.h"
#include "bench/result.h"
#include "bench/resume.h"
#include "bench/sample.h"
#include "bench/stats.h"
#include "core/mem.h"

struct campaign {
	struct h2d_bench_matrix *m;
	const struct h2d_bench_run_opts *o;
	struct h2d_bench_outcome *out;
	struct h2d_bench_events events;
	const struct h2d_log *log;
};

void h2d_bench_order(const struct h2d_bench_matrix *m, uint64_t block, size_t *order)
{
	struct h2d_random r = {m->seed};

	/* Blocks have streams of their own, so that going on needs no history. */
	r.state = h2d_random_next(&r) + block * UINT64_C(0x9e3779b97f4a7c15);
	h2d_random_order(&r, order, m->cell_count);
}

static void write_environment(const struct campaign *c, struct h2d_json *j)
{
	const struct h2d_environment env = {.file = c->m->checkpoints[0].path,
					    .redact = c->o->tool->redact};

	h2d_environment_write(j, "environment", &env);
	h2d_bench_conditions_write(j, "conditions", NULL);
}

/* The matrix as it was run, without folders where they are not to be told. */
static void write_matrix(const struct campaign *c, struct h2d_json *j)
{
	json_t *copy = json_deep_copy(c->m->json), *list, *item, *word;
	size_t i, k;

	if (c->o->tool->redact) {
		json_array_foreach(json_object_get(copy, "checkpoints"), i, item)
			json_object_set_new(item, "file",
					    json_string(h2d_redacted_path(
						    h2d_get_text(item, "file"), true)));
		json_array_foreach(json_object_get(copy, "external"), i, item)
		{
			list = json_object_get(item, "command");
			json_array_foreach(list, k, word) json_array_set_new(
				list, k,
				json_string(h2d_redacted_path(json_string_value(word), true)));
		}
	}
	h2d_value_write(j, "matrix", copy, false);
	json_decref(copy);
}

static void write_cells(const struct campaign *c, struct h2d_json *j)
{
	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; i < c->m->cell_count; i++) {
		const struct h2d_bench_cell *cell = &c->m->cells[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "id", cell->id);
		h2d_value_write(j, "key", cell->key, false);
		if (cell->status) {
			h2d_json_string(j, "status", cell->status);
			h2d_json_string(j, "reason", cell->reason ? cell->reason : "");
		}
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static int log_start(struct campaign *c)
{
	const struct h2d_bench_matrix *m = c->m;
	struct h2d_tool tool = *c->o->tool;
	struct h2d_json j;
	char now[32];

	tool.file = m->checkpoints[0].path;
	h2d_bench_time_text(now);
	h2d_json_init_memory(&j, false);
	h2d_envelope_begin(&j, "h2d.bench-event", 1, 0, &tool);
	h2d_json_string(&j, "event", "run_started");
	h2d_json_string(&j, "time_utc", now);
	h2d_bench_conditions_write(&j, "conditions", NULL);
	h2d_bench_runner_write(&j, "runner", c->o->self);
	h2d_json_object_begin(&j, "campaign");
	h2d_json_string(&j, "name", m->name);
	h2d_json_u64(&j, "seed", m->seed);
	h2d_json_u64(&j, "block_count", m->block_count);
	h2d_json_string(&j, "config_hash", m->config_hash);
	h2d_json_bool(&j, "verify", m->verify);
	h2d_json_object_end(&j);
	h2d_bench_warnings_write(&j, "warnings", NULL, h2d_build_sanitizers(),
				 h2d_build_type());
	h2d_json_array_begin(&j, "checkpoints");
	for (size_t i = 0; i < m->checkpoint_count; i++)
		h2d_bench_checkpoint_write(&j, &m->checkpoints[i], tool.redact);
	h2d_json_array_end(&j);
	write_matrix(c, &j);
	if (c->o->limits)
		h2d_value_write(&j, "limits", json_object_get(c->o->limits, "limits"), false);
	write_cells(c, &j);
	return h2d_bench_event_end(&c->events, &j, c->log);
}

static int check_start(const struct campaign *c, const json_t *begun)
{
	const struct h2d_value v = {
		.log = c->log, .file = c->events.path, .json = (json_t *)(uintptr_t)begun};
	const char *hash = h2d_get_text(json_object_get(begun, "campaign"), "config_hash");
	int rc;

	if (strcmp(h2d_get_text(begun, "event"), "run_started"))
		return h2d_value_fail(&v, "does not begin with run_started");
	rc = h2d_value_schema(&v, "h2d.bench-event", 1);
	if (rc)
		return rc;
	if (!hash || strcmp(hash, c->m->config_hash))
		return h2d_fail(c->log, H2D_E_FORMAT,
				"%s: belongs to another matrix, other options of this command "
				"(--blocks, --seed and such) or changed checkpoints; take "
				"another --out",
				c->events.path);
	return h2d_bench_resume_check(begun, c->events.path, c->o->tool, c->o->self,
				      c->m->checkpoints[0].path, c->log);
}

static int decide(struct h2d_bench_cell *cell, const char *status, const char *reason)
{
	static const char *const statuses[] = {"ok",	      "skipped", "unsupported",
					       "did_not_fit", "timeout", "killed",
					       "failed",      "invalid"};

	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (!strcmp(status, statuses[i])) {
			cell->status = statuses[i];
			free(cell->reason);
			cell->reason = reason ? strdup(reason) : NULL;
			return 0;
		}
	return H2D_E_FORMAT;
}

/* What an earlier part of the campaign did. A sample that was only started is done again. */
static int replay(struct campaign *c)
{
	json_t *line;
	size_t i;
	int unknown = 0, rc = check_start(c, json_array_get(c->events.lines, 0));

	json_array_foreach(c->events.lines, i, line)
	{
		const char *event = h2d_get_text(line, "event"), *id = h2d_get_text(line, "id");
		const json_t *sample = json_object_get(line, "sample");
		struct h2d_bench_cell *cell = id ? h2d_bench_cell_find(c->m, id) : NULL;
		const uint64_t block = h2d_get_u64(sample, "block");
		const char *status = h2d_get_text(sample ? sample : line, "status");

		if (rc)
			break;
		if (id && !cell)
			rc = h2d_fail(c->log, H2D_E_FORMAT, "%s: line %zu: no cell %s",
				      c->events.path, i + 1, id);
		else if (cell && !strcmp(event, "sample")) {
			rc = h2d_bench_resume_sample(line, cell, c->m->block_count,
						     c->events.path, i + 1, c->log);
			if (!rc && !cell->done[block]) {
				cell->done[block] = 1;
				c->out->kept_count++;
			}
			if (!rc && strcmp(status, "ok"))
				unknown = decide(cell, status, h2d_get_text(sample, "reason"));
		} else if (cell && !strcmp(event, "cell_finished") && status)
			unknown = decide(cell, status, h2d_get_text(line, "reason"));
		if (!rc && unknown)
			rc = h2d_fail(c->log, unknown, "%s: line %zu: '%.32s' is no status",
				      c->events.path, i + 1, status);
	}
	return rc;
}

static int log_resume(struct campaign *c)
{
	struct h2d_json j;

	h2d_bench_event_begin(&j, "run_resumed");
	write_environment(c, &j);
	return h2d_bench_event_end(&c->events, &j, c->log);
}

static int finish_cell(struct campaign *c, struct h2d_bench_cell *cell, const char *status,
		       const char *reason)
{
	struct h2d_json j;
	int rc = decide(cell, status, reason);

	if (rc)
		return rc;
	h2d_bench_event_begin(&j, "cell_finished");
	h2d_json_string(&j, "id", cell->id);
	h2d_json_string(&j, "status", status);
	if (reason && reason[0])
		h2d_json_string(&j, "reason", reason);
	return h2d_bench_event_end(&c->events, &j, c->log);
}

static bool all_done(const struct campaign *c, const struct h2d_bench_cell *cell)
{
	for (uint64_t b = 0; b < c->m->block_count; b++)
		if (!cell->done[b])
			return false;
	return true;
}

static int run_sample(struct campaign *c, struct h2d_bench_cell *cell, uint64_t block,
		      uint64_t order)
{
	const struct h2d_bench_runner runner = {
		.matrix = c->m, .self = c->o->self, .stop = c->o->stop, .user = c->o->user};
	struct h2d_bench_sample sample;
	struct h2d_json j;
	int rc;

	h2d_bench_event_begin(&j, "sample_started");
	h2d_json_string(&j, "id", cell->id);
	h2d_json_u64(&j, "block", block);
	rc = h2d_bench_event_end(&c->events, &j, c->log);
	if (rc)
		return rc;
	rc = h2d_bench_sample_run(&runner, cell, block, order, &sample);
	if (!rc) {
		h2d_bench_event_begin(&j, "sample");
		h2d_json_string(&j, "id", cell->id);
		h2d_bench_sample_write(&j, "sample", &sample, cell);
		rc = h2d_bench_event_end(&c->events, &j, c->log);
	}
	if (!rc) {
		cell->done[block] = 1;
		c->out->sample_count++;
		if (strcmp(sample.status, "ok"))
			rc = finish_cell(c, cell, sample.status, sample.reason);
		else if (all_done(c, cell))
			rc = finish_cell(c, cell, "ok", NULL);
	}
	h2d_bench_sample_release(&sample);
	return rc;
}

/* Samples in the log whose cell_finished was lost with the machine. */
static int close_cells(struct campaign *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->m->cell_count && !rc; i++)
		if (!c->m->cells[i].status && all_done(c, &c->m->cells[i]))
			rc = finish_cell(c, &c->m->cells[i], "ok", NULL);
	return rc;
}

static bool anything_left(const struct campaign *c)
{
	for (size_t i = 0; i < c->m->cell_count; i++)
		if (!c->m->cells[i].status)
			return true;
	return false;
}

static int run_blocks(struct campaign *c)
{
	const uint64_t pause = c->o->pause_after;
	const uint64_t end = pause && pause < c->m->block_count ? pause : c->m->block_count;
	size_t *order = h2d_mem->calloc(c->m->cell_count + 1, sizeof(*order));
	int rc = order ? close_cells(c) : h2d_fail(c->log, H2D_E_NOMEM, "out of memory");

	for (uint64_t b = 0; b < end && !rc; b++) {
		h2d_bench_order(c->m, b, order);
		for (size_t i = 0; i < c->m->cell_count && !rc; i++) {
			struct h2d_bench_cell *cell = &c->m->cells[order[i]];

			if (c->o->stop && c->o->stop(c->o->user))
				rc = H2D_E_CANCELLED;
			else if (!cell->status && !cell->done[b])
				rc = run_sample(c, cell, b, b * c->m->cell_count + i);
		}
	}
	free(order);
	c->out->paused = end < c->m->block_count && anything_left(c);
	return rc;
}

/* Before anything is measured, so that reading all bytes changes no state in between. */
static int take_digests(struct campaign *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->m->checkpoint_count && c->m->verify && !rc; i++)
		rc = h2d_bench_checkpoint_digest(&c->m->checkpoints[i], c->o->stop, c->o->user,
						 c->log);
	return rc;
}

static int measure(struct campaign *c)
{
	struct h2d_json j;
	int rc;

	if (!json_array_size(c->events.lines)) {
		rc = log_start(c);
	} else {
		rc = replay(c);
		if (!rc && !anything_left(c))
			return 0; /* only the result is wanted */
		if (!rc)
			rc = log_resume(c);
	}
	if (!rc)
		rc = take_digests(c);
	if (!rc)
		rc = run_blocks(c);
	if (rc == H2D_E_CANCELLED) {
		h2d_bench_event_begin(&j, "run_interrupted");
		h2d_json_u64(&j, "signal", (uint64_t)(c->o->stop ? c->o->stop(c->o->user) : 0));
		h2d_bench_event_end(&c->events, &j, c->log);
		return rc;
	}
	if (rc)
		return rc;
	if (c->out->paused) {
		h2d_bench_event_begin(&j, "run_paused");
		return h2d_bench_event_end(&c->events, &j, c->log);
	}
	h2d_bench_event_begin(&j, "run_finished");
	write_environment(c, &j);
	return h2d_bench_event_end(&c->events, &j, c->log);
}

static int make_folder(const char *dir, const struct h2d_log *log)
{
	if (mkdir(dir, 0755) && errno != EEXIST)
		return h2d_fail_errno(log, errno, "%s", dir);
	return 0;
}

int h2d_bench_run(struct h2d_bench_matrix *m, const struct h2d_bench_run_opts *opts,
		  struct h2d_bench_outcome *out)
{
	struct campaign c = {.m = m, .o = opts, .out = out, .log = &opts->log};
	int owner, rc, lock = h2d_bench_lock(opts->lock, &owner);
	char path[4096];

	memset(out, 0, sizeof(*out));
	c.events.fd = -1;
	if (lock < 0 && !owner)
		return h2d_fail(&opts->log, H2D_E_UNAVAILABLE,
				"another campaign is running on this machine");
	if (lock < 0)
		return h2d_fail(&opts->log, H2D_E_UNAVAILABLE,
				"another campaign is running on this machine (process %d)",
				owner);
	rc = make_folder(opts->dir, &opts->log);
	if (!rc) {
		snprintf(path, sizeof(path), "%s/events.jsonl", opts->dir);
		c.events.show = opts->show;
		c.events.user = opts->user;
		rc = h2d_bench_events_open(&c.events, path, &opts->log);
	}
	if (!rc)
		rc = measure(&c);
	if (!rc && !out->paused) {
		snprintf(out->result, sizeof(out->result), "%s/result.json", opts->dir);
		rc = h2d_bench_result_write(out->result, c.events.lines, &opts->log);
	}
	out->events = json_incref(c.events.lines);
	h2d_bench_events_close(&c.events);
	close(lock);
	return rc;
}

void h2d_bench_outcome_release(struct h2d_bench_outcome *o)
{
	json_decref(o->events);
	memset(o, 0, sizeof(*o));
}
