/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/result.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/matrix.h"
#include "bench/stats.h"
#include "core/mem.h"

enum { OUTLIER_LEAST_COUNT = 5 }; /* of fewer, any but the middle one looks far off */

long h2d_bench_times(const json_t *samples, double **times, uint64_t **blocks)
{
	const size_t count = json_array_size(samples);
	long used = 0;

	*times = h2d_mem->calloc(count + 1, sizeof(**times));
	if (blocks)
		*blocks = h2d_mem->calloc(count + 1, sizeof(**blocks));
	if (!*times || (blocks && !*blocks)) {
		free(*times);
		if (blocks)
			free(*blocks);
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		const json_t *s = json_array_get(samples, i);
		const char *status = h2d_get_text(s, "status");

		if (!status || strcmp(status, "ok") ||
		    !json_is_integer(json_object_get(s, "load_ns")))
			continue;
		if (blocks)
			(*blocks)[used] = h2d_get_u64(s, "block");
		(*times)[used++] = (double)h2d_get_u64(s, "load_ns");
	}
	return used;
}

/* The first event of that kind, or the last. */
static const json_t *event_of(const json_t *events, const char *name, bool last)
{
	const json_t *found = NULL;

	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *e = json_array_get(events, i);

		if (!strcmp(h2d_get_text(e, "event"), name) && (last || !found))
			found = e;
	}
	return found;
}

static size_t count_of(const json_t *events, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < json_array_size(events); i++)
		count += !strcmp(h2d_get_text(json_array_get(events, i), "event"), name);
	return count;
}

static uint64_t whole(double x)
{
	return x > 0 ? (uint64_t)(x + 0.5) : 0;
}

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static int write_statistics(struct h2d_json *j, const json_t *samples, uint64_t seed,
			    uint64_t size_bytes)
{
	struct h2d_spread s;
	uint64_t *blocks;
	double *times;
	const long count = h2d_bench_times(samples, &times, &blocks);
	bool slow_first = false;
	int rc;

	if (count < 0)
		return H2D_E_NOMEM;
	rc = count ? h2d_spread_of(times, (size_t)count, seed, &s) : 0;
	if (rc || !count)
		goto out;
	h2d_json_object_begin(j, "statistics");
	h2d_json_u64(j, "n_count", s.count);
	h2d_json_u64(j, "median_ns", whole(s.median));
	h2d_json_u64(j, "min_ns", whole(s.min));
	h2d_json_u64(j, "max_ns", whole(s.max));
	h2d_json_u64(j, "mad_ns", whole(s.mad));
	h2d_json_u64(j, "ci_low_ns", whole(s.low));
	h2d_json_u64(j, "ci_high_ns", whole(s.high));
	h2d_json_double(j, "variation_pct", round(s.variation_pct * 1000) / 1000);
	h2d_json_array_begin(j, "outlier_blocks");
	for (long i = 0; i < count; i++)
		if (count >= OUTLIER_LEAST_COUNT &&
		    fabs(h2d_modified_z(times[i], &s)) > H2D_OUTLIER_Z) {
			h2d_json_u64(j, NULL, blocks[i]);
			slow_first |= !i && times[i] >= s.max;
		}
	h2d_json_array_end(j);
	h2d_json_bool(j, "first_is_slow", slow_first);
	if (s.median > 0 && size_bytes &&
	    (double)size_bytes * 1e9 / s.median < (double)INT64_MAX)
		h2d_json_u64(j, "throughput_bytes_per_s",
			     whole((double)size_bytes * 1e9 / s.median));
	else
		write_null(j, "throughput_bytes_per_s",
			   size_bytes ? "the median is too short a time for a rate"
				      : "there was nothing to load");
	h2d_json_object_end(j);
out:
	free(times);
	free(blocks);
	return rc;
}

/* The samples of a cell by block, each once: a later one of the same block replaces nothing. */
static json_t *samples_of(const json_t *events, const char *id)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(events); i++) {
		const json_t *e = json_array_get(events, i);
		json_t *sample = json_object_get(e, "sample");
		const char *of = h2d_get_text(e, "id");
		size_t at = 0;

		if (!sample || !of || strcmp(of, id))
			continue;
		while (at < json_array_size(list) &&
		       h2d_get_u64(json_array_get(list, at), "block") <
			       h2d_get_u64(sample, "block"))
			at++;
		if (at < json_array_size(list) &&
		    h2d_get_u64(json_array_get(list, at), "block") ==
			    h2d_get_u64(sample, "block"))
			continue;
		json_array_insert(list, at, sample);
	}
	return list;
}

/* All cells with status, samples and place among the checkpoints. */
static json_t *collect(const json_t *events)
{
	const json_t *start = json_array_get(events, 0),
		     *list = json_object_get(start, "cells");
	json_t *cells = json_array();

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *cell = json_copy(json_array_get(list, i));
		const char *id = h2d_get_text(cell, "id");

		for (size_t k = 0; k < json_array_size(events); k++) {
			const json_t *e = json_array_get(events, k);
			const char *of = h2d_get_text(e, "id");

			if (strcmp(h2d_get_text(e, "event"), "cell_finished") || !of ||
			    strcmp(of, id))
				continue;
			json_object_set(cell, "status", json_object_get(e, "status"));
			if (h2d_get_text(e, "reason"))
				json_object_set(cell, "reason", json_object_get(e, "reason"));
		}
		json_object_set_new(cell, "samples", samples_of(events, id));
		json_array_append_new(cells, cell);
	}
	return cells;
}

static uint64_t size_of(const json_t *start, const json_t *key)
{
	const json_t *list = json_object_get(start, "checkpoints");
	const char *name = h2d_get_text(key, "checkpoint");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *c = json_array_get(list, i);

		if (name && h2d_get_text(c, "name") && !strcmp(h2d_get_text(c, "name"), name))
			return h2d_get_u64(c, "size_bytes");
	}
	return 0;
}

static int write_cells(struct h2d_json *j, const json_t *start, const json_t *cells)
{
	const uint64_t seed = h2d_get_u64(json_object_get(start, "campaign"), "seed");
	int rc = 0;

	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; i < json_array_size(cells) && !rc; i++) {
		const json_t *c = json_array_get(cells, i), *key = json_object_get(c, "key");
		const char *status = h2d_get_text(c, "status");
		const char *reason = h2d_get_text(c, "reason");

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "id", h2d_get_text(c, "id"));
		h2d_value_write(j, "key", key, false);
		h2d_json_string(j, "status", status ? status : "failed");
		if (!status)
			h2d_json_string(j, "reason", "the campaign did not finish");
		else if (reason)
			h2d_json_string(j, "reason", reason);
		rc = write_statistics(j, json_object_get(c, "samples"), seed + i,
				      size_of(start, key));
		h2d_value_write(j, "samples", json_object_get(c, "samples"), false);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	return rc;
}

/* The key has the limit in bytes, the baseline as the matrix says it. */
static void limit_memory(json_t *key, const char *text, const json_t *start)
{
	uint64_t bytes;

	if (!text || h2d_bench_memory_parse(text, size_of(start, key), &bytes))
		return;
	if (bytes)
		json_object_set_new(key, "memory_max_bytes", json_integer((json_int_t)bytes));
	else
		json_object_del(key, "memory_max_bytes");
}

/* The cell whose key is that of `cell` but for the members of the baseline. */
static const json_t *baseline_of(const json_t *start, const json_t *cells, const json_t *cell,
				 const json_t *baseline)
{
	json_t *wanted = json_deep_copy(json_object_get(cell, "key")), *value;
	const json_t *found = NULL;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)baseline, name, value)
	{
		if (!strcmp(name, "memory_max"))
			limit_memory(wanted, json_string_value(value), start);
		else
			json_object_set(wanted, name, value);
	}
	/* A baseline that is another loader has no options of this one. */
	for (size_t i = 0; i < json_array_size(cells) && !found; i++)
		if (json_equal(json_object_get(json_array_get(cells, i), "key"), wanted))
			found = json_array_get(cells, i);
	json_object_set_new(wanted, "options", json_object());
	json_object_del(wanted, "present");
	for (size_t i = 0; i < json_array_size(cells) && !found; i++)
		if (json_equal(json_object_get(json_array_get(cells, i), "key"), wanted))
			found = json_array_get(cells, i);
	json_decref(wanted);
	return found;
}

static int write_ratio(struct h2d_json *j, const json_t *cell, const json_t *baseline,
		       uint64_t seed)
{
	uint64_t *a_blocks = NULL, *b_blocks = NULL;
	double *a = NULL, *b = NULL, *ratios = NULL;
	const long n = h2d_bench_times(json_object_get(baseline, "samples"), &a, &a_blocks);
	const long m =
		n < 0 ? -1 : h2d_bench_times(json_object_get(cell, "samples"), &b, &b_blocks);
	struct h2d_spread s;
	size_t count = 0;
	int rc = 0;

	if (m < 0) {
		if (n >= 0) {
			free(a);
			free(a_blocks);
		}
		return H2D_E_NOMEM;
	}
	ratios = h2d_mem->calloc((size_t)n + 1, sizeof(*ratios));
	for (long i = 0; ratios && i < n; i++)
		for (long k = 0; k < m; k++)
			if (a_blocks[i] == b_blocks[k] && b[k] > 0)
				ratios[count++] = a[i] / b[k];
	rc = ratios ? h2d_spread_of(ratios, count, seed, &s) : H2D_E_NOMEM;
	if (!rc && count) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "id", h2d_get_text(cell, "id"));
		h2d_json_string(j, "baseline_id", h2d_get_text(baseline, "id"));
		h2d_json_object_begin(j, "speedup");
		h2d_json_u64(j, "n_count", count);
		h2d_json_double(j, "median", s.median);
		h2d_json_double(j, "min", s.min);
		h2d_json_double(j, "max", s.max);
		h2d_json_double(j, "ci_low", s.low);
		h2d_json_double(j, "ci_high", s.high);
		h2d_json_array_begin(j, "samples");
		for (size_t i = 0; i < count; i++)
			h2d_json_double(j, NULL, ratios[i]);
		h2d_json_array_end(j);
		h2d_json_object_end(j);
		h2d_json_object_end(j);
	}
	free(ratios);
	free(a);
	free(b);
	free(a_blocks);
	free(b_blocks);
	return rc;
}

static int write_ratios(struct h2d_json *j, const json_t *start, const json_t *cells)
{
	const json_t *baseline = json_object_get(json_object_get(start, "matrix"), "baseline");
	const uint64_t seed = h2d_get_u64(json_object_get(start, "campaign"), "seed");
	int rc = 0;

	h2d_json_array_begin(j, "ratios");
	for (size_t i = 0; baseline && i < json_array_size(cells) && !rc; i++) {
		const json_t *cell = json_array_get(cells, i);
		const json_t *base = baseline_of(start, cells, cell, baseline);

		if (base && base != cell)
			rc = write_ratio(j, cell, base, seed + i);
	}
	h2d_json_array_end(j);
	return rc;
}

static void write_campaign(struct h2d_json *j, const json_t *events)
{
	const json_t *start = json_array_get(events, 0),
		     *c = json_object_get(start, "campaign");
	const json_t *finish = event_of(events, "run_finished", false);

	h2d_json_object_begin(j, "campaign");
	h2d_json_string(j, "name", h2d_get_text(c, "name"));
	h2d_json_u64(j, "seed", h2d_get_u64(c, "seed"));
	h2d_json_u64(j, "block_count", h2d_get_u64(c, "block_count"));
	h2d_json_string(j, "config_hash", h2d_get_text(c, "config_hash"));
	h2d_json_string(j, "started_utc", h2d_get_text(start, "time_utc"));
	if (finish)
		h2d_json_string(j, "finished_utc", h2d_get_text(finish, "time_utc"));
	else
		write_null(j, "finished_utc", "it was not finished");
	h2d_json_u64(j, "resumed_count", count_of(events, "run_resumed"));
	h2d_json_bool(j, "verify", json_is_true(json_object_get(c, "verify")));
	h2d_json_object_end(j);
}

static void write_surroundings(struct h2d_json *j, const json_t *events)
{
	const json_t *start = json_array_get(events, 0);
	const json_t *finish = event_of(events, "run_finished", false);

	if (finish && json_object_get(finish, "environment"))
		h2d_value_write(j, "environment_after", json_object_get(finish, "environment"),
				false);
	else
		write_null(j, "environment_after", "the campaign was not finished");
	h2d_json_object_begin(j, "conditions");
	h2d_value_write(j, "before", json_object_get(start, "conditions"), false);
	if (finish && json_object_get(finish, "conditions"))
		h2d_value_write(j, "after", json_object_get(finish, "conditions"), false);
	else
		write_null(j, "after", "the campaign was not finished");
	h2d_json_object_end(j);
	h2d_value_write(j, "warnings", json_object_get(start, "warnings"), false);
	h2d_value_write(j, "checkpoints", json_object_get(start, "checkpoints"), false);
	h2d_value_write(j, "matrix", json_object_get(start, "matrix"), false);
	if (json_object_get(start, "limits"))
		h2d_value_write(j, "limits", json_object_get(start, "limits"), false);
}

static void write_notes(struct h2d_json *j, const json_t *events)
{
	const size_t resumed = count_of(events, "run_resumed");

	h2d_json_array_begin(j, "notes");
	if (resumed)
		h2d_json_stringf(j, NULL,
				 "the campaign was interrupted and gone on with %zu time%s",
				 resumed, resumed == 1 ? "" : "s");
	h2d_json_array_end(j);
}

static int check_start(const json_t *start, const struct h2d_log *log)
{
	static const char *const needed[] = {"tool",	 "environment", "conditions",
					     "campaign", "warnings",	"checkpoints",
					     "matrix",	 "cells",	NULL};
	const char *event = h2d_get_text(start, "event");

	if (!event || strcmp(event, "run_started"))
		return h2d_fail(log, H2D_E_FORMAT, "the log does not begin with run_started");
	for (size_t i = 0; needed[i]; i++)
		if (!json_object_get(start, needed[i]))
			return h2d_fail(log, H2D_E_FORMAT, "run_started has no '%s'",
					needed[i]);
	return 0;
}

int h2d_bench_result_print(FILE *out, bool pretty, const json_t *events,
			   const struct h2d_log *log)
{
	const json_t *start = json_array_get(events, 0);
	json_t *cells;
	struct h2d_json j;
	int rc = check_start(start, log), end;

	if (rc)
		return rc;
	cells = collect(events);
	h2d_json_init_file(&j, out, pretty);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "schema", "h2d.bench");
	h2d_json_object_begin(&j, "schema_version");
	h2d_json_u64(&j, "major", 1);
	h2d_json_u64(&j, "minor", 0);
	h2d_json_object_end(&j);
	h2d_value_write(&j, "tool", json_object_get(start, "tool"), false);
	h2d_value_write(&j, "environment", json_object_get(start, "environment"), false);
	write_campaign(&j, events);
	write_surroundings(&j, events);
	rc = write_cells(&j, start, cells);
	if (!rc)
		rc = write_ratios(&j, start, cells);
	write_notes(&j, events);
	h2d_json_object_end(&j);
	end = h2d_json_finish(&j);
	json_decref(cells);
	return rc ? rc : end;
}

int h2d_bench_result_write(const char *path, const json_t *events, const struct h2d_log *log)
{
	char part[4096];
	FILE *out;
	int rc, err = 0;

	snprintf(part, sizeof(part), "%s.part", path);
	out = fopen(part, "we");
	if (!out)
		return h2d_fail_errno(log, errno, "%s", part);
	rc = h2d_bench_result_print(out, true, events, log);
	if (fflush(out) || ferror(out) || (fsync(fileno(out)) && errno != EINVAL))
		err = errno ? errno : EIO;
	if (fclose(out) && !err)
		err = errno;
	if (!err && !rc && rename(part, path))
		err = errno;
	if (err || rc)
		unlink(part);
	if (err)
		return h2d_fail_errno(log, err, "%s", path);
	return rc;
}
