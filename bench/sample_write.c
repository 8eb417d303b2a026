/* SPDX-License-Identifier: Apache-2.0 */
/* A sample as JSON; keys in results/schema/h2d.bench.schema.json. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "bench/sample.h"

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void known(struct h2d_json *j, const char *key, bool is_known, uint64_t value,
		  const char *why)
{
	if (is_known)
		h2d_json_u64(j, key, value);
	else
		write_null(j, key, why);
}

static void write_times(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	static const char why[] = "a sample that is not ok has no time";
	const double rate = s->load_ns ? (double)s->size_bytes * 1e9 / (double)s->load_ns : 0;

	known(j, "load_ns", s->have_time, s->load_ns, why);
	known(j, "wall_ns", s->have_time, s->wall_ns, why);
	known(j, "loaded_bytes", s->have_time, s->loaded_bytes, why);
	/* No JSON reader of ours takes a larger whole number than INT64_MAX. */
	if (s->have_time && s->load_ns && s->loaded_bytes && rate < (double)INT64_MAX)
		h2d_json_u64(j, "throughput_bytes_per_s", (uint64_t)rate);
	else
		write_null(j, "throughput_bytes_per_s",
			   !s->have_time      ? why
			   : !s->loaded_bytes ? "there was nothing to load"
					      : "the load took too little time for a rate");
}

/* They were judged with the times. */
static void write_phases(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const json_t *list = s->have_time ? json_object_get(s->loaded, "phases") : NULL;
	const uint64_t sent = s->sampler.begin_ns;

	h2d_json_array_begin(j, "phases");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i);

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", h2d_get_text(p, "name"));
		h2d_json_u64(j, "begin_ns", h2d_get_u64(p, "begin_ns") - sent);
		h2d_json_u64(j, "end_ns", h2d_get_u64(p, "end_ns") - sent);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

/* Raw: every repetition within the process, in order. */
static void write_repeats(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const json_t *list = s->have_time ? json_object_get(s->loaded, "repeats_ns") : NULL;

	if (!json_array_size(list))
		return;
	h2d_json_array_begin(j, "repeats_ns");
	for (size_t i = 0; i < json_array_size(list); i++)
		h2d_json_u64(j, NULL, (uint64_t)json_integer_value(json_array_get(list, i)));
	h2d_json_array_end(j);
}

static double two_digits(double pct)
{
	return (double)(uint64_t)(pct * 100 + 0.5) / 100;
}

static void write_cache(struct h2d_json *j, const struct h2d_bench_sample *s,
			const struct h2d_bench_cell *cell)
{
	const char *never = "the load was not begun";
	const char *why = s->before.why ? s->before.why : never;

	h2d_json_object_begin(j, "page_cache");
	h2d_json_string(j, "target", cell->cache_name);
	if (s->before.method)
		h2d_json_double(j, "before_pct", two_digits(s->before.pct));
	else
		write_null(j, "before_pct", why);
	if (s->after.method)
		h2d_json_double(j, "after_pct", two_digits(s->after.pct));
	else
		write_null(j, "after_pct", s->after.why ? s->after.why : never);
	if (s->before.method)
		h2d_json_string(j, "method", s->before.method);
	else
		write_null(j, "method", why);
	h2d_json_u64(j, "attempt_count", s->tries);
	h2d_json_object_end(j);
	if (!cell->present)
		return;
	h2d_json_object_begin(j, "present");
	h2d_json_string(j, "target", cell->present);
	if (s->present_pct >= 0)
		h2d_json_double(j, "proven_pct", two_digits(s->present_pct));
	else
		write_null(j, "proven_pct", "the loader did not tell");
	h2d_json_object_end(j);
}

static uint64_t value_at(const struct h2d_bench_point *p, size_t offset)
{
	uint64_t value;

	memcpy(&value, (const char *)p + offset, sizeof(value));
	return value;
}

static uint64_t peak(const struct h2d_bench_sampler *s, size_t offset)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->count; i++)
		if (value_at(&s->points[i], offset) > most)
			most = value_at(&s->points[i], offset);
	return most;
}

#define AT(member) offsetof(struct h2d_bench_point, member)

static void write_series(struct h2d_json *j, const struct h2d_bench_sampler *s)
{
	static const struct {
		const char *key;
		size_t offset;
	} members[] = {
		{"rss_anon_bytes", AT(rss_anon_bytes)},
		{"rss_file_bytes", AT(rss_file_bytes)},
		{"rss_shmem_bytes", AT(rss_shmem_bytes)},
		{"swap_bytes", AT(swap_bytes)},
		{"memory_full_ns", AT(memory_full_ns)},
		{"io_full_ns", AT(io_full_ns)},
	};
	const size_t count =
		h2d_bench_points_thin(s->points, s->count, H2D_BENCH_SERIES_POINTS);

	h2d_json_object_begin(j, "series");
	h2d_json_array_begin(j, "time_ns");
	for (size_t i = 0; i < count; i++)
		h2d_json_i64(j, NULL, s->points[i].time_ns);
	h2d_json_array_end(j);
	for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++) {
		h2d_json_array_begin(j, members[m].key);
		for (size_t i = 0; i < count; i++)
			h2d_json_u64(j, NULL, value_at(&s->points[i], members[m].offset));
		h2d_json_array_end(j);
	}
	h2d_json_object_end(j);
}

static void write_memory(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const struct h2d_bench_sampler *x = &s->sampler;

	if (!s->sampled || !x->count) {
		write_null(j, "memory",
			   s->sampled ? "the process told nothing" : "the load was not begun");
		return;
	}
	h2d_json_object_begin(j, "memory");
	h2d_json_u64(j, "before_rss_anon_bytes", x->points[0].rss_anon_bytes);
	h2d_json_u64(j, "before_rss_file_bytes", x->points[0].rss_file_bytes);
	h2d_json_u64(j, "peak_rss_anon_bytes", peak(x, AT(rss_anon_bytes)));
	h2d_json_u64(j, "peak_rss_file_bytes", peak(x, AT(rss_file_bytes)));
	h2d_json_u64(j, "peak_rss_shmem_bytes", peak(x, AT(rss_shmem_bytes)));
	h2d_json_u64(j, "peak_swap_bytes", peak(x, AT(swap_bytes)));
	h2d_json_u64(j, "mean_rss_anon_bytes",
		     h2d_bench_points_mean(x->points, x->count, AT(rss_anon_bytes)));
	h2d_json_u64(j, "mean_rss_file_bytes",
		     h2d_bench_points_mean(x->points, x->count, AT(rss_file_bytes)));
	write_series(j, x); /* thins the points: last */
	h2d_json_object_end(j);
}

static void write_counters(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const struct h2d_bench_counters *b = &s->sampler.before, *a = &s->sampler.after;
	static const char never[] = "the load was not begun", gone[] = "the process had ended";

	if (s->sampled && b->faults_known && a->faults_known) {
		h2d_json_object_begin(j, "faults");
		h2d_json_u64(j, "major_count", a->major_faults - b->major_faults);
		h2d_json_u64(j, "minor_count", a->minor_faults - b->minor_faults);
		h2d_json_object_end(j);
	} else {
		write_null(j, "faults", s->sampled ? gone : never);
	}
	if (s->sampled && b->io_known && a->io_known) {
		h2d_json_object_begin(j, "io");
		h2d_json_u64(j, "read_bytes", a->read_bytes - b->read_bytes);
		h2d_json_u64(j, "read_call_bytes", a->read_call_bytes - b->read_call_bytes);
		h2d_json_object_end(j);
	} else {
		write_null(j, "io",
			   s->sampled ? "/proc/PID/io cannot be read, or the process had ended"
				      : never);
	}
}

static void write_pressure(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const struct h2d_bench_pressure *b = &s->sampler.pressure_before,
					*a = &s->sampler.pressure_after;
	const struct {
		const char *key;
		uint64_t before, after;
	} members[] = {
		{"cpu_some_ns", b->cpu_some, a->cpu_some},
		{"memory_some_ns", b->memory_some, a->memory_some},
		{"memory_full_ns", b->memory_full, a->memory_full},
		{"io_some_ns", b->io_some, a->io_some},
		{"io_full_ns", b->io_full, a->io_full},
	};

	if (!s->sampled) {
		write_null(j, "pressure", "the load was not begun");
		return;
	}
	h2d_json_object_begin(j, "pressure");
	h2d_json_string(j, "scope", s->sampler.pressure_cgroup ? "cgroup" : "system");
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		known(j, members[i].key,
		      members[i].before != UINT64_MAX && members[i].after >= members[i].before,
		      members[i].after - members[i].before, "the kernel does not tell (PSI)");
	h2d_json_object_end(j);
}

static void write_sampler(struct h2d_json *j, const struct h2d_bench_sample *s, size_t count)
{
	h2d_json_object_begin(j, "sampler");
	h2d_json_u64(j, "interval_ns", H2D_BENCH_INTERVAL_NS);
	h2d_json_u64(j, "sample_count", count);
	h2d_json_u64(j, "missed_count", s->sampler.missed_count);
	h2d_json_u64(j, "busy_ns", s->sampler.busy_ns);
	h2d_json_object_end(j);
}

static void write_kernel_log(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	if (s->kmsg.error) {
		char why[128];

		snprintf(why, sizeof(why), "/dev/kmsg: %s", strerrordesc_np(s->kmsg.error));
		write_null(j, "kernel_log", why);
		return;
	}
	h2d_json_object_begin(j, "kernel_log");
	h2d_json_array_begin(j, "lines");
	for (size_t i = 0; i < s->kmsg.count; i++)
		h2d_json_string(j, NULL, s->kmsg.lines[i]);
	h2d_json_array_end(j);
	h2d_json_u64(j, "dropped_count", s->kmsg.dropped_count);
	h2d_json_object_end(j);
}

static bool is_digest(const char *text)
{
	return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static void write_outcome(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	if (s->verified) {
		h2d_json_object_begin(j, "verify");
		h2d_json_bool(j, "ok", s->verify_ok);
		h2d_json_string(j, "method", s->by_digest ? "digest" : "adapter");
		if (is_digest(s->digest))
			h2d_json_string(j, "xxh3_128", s->digest);
		h2d_json_object_end(j);
	}
	if (s->ended) {
		h2d_json_object_begin(j, "exit");
		if (WIFSIGNALED(s->wait_status))
			h2d_json_u64(j, "signal", (uint64_t)WTERMSIG(s->wait_status));
		else
			h2d_json_u64(j, "status", (uint64_t)WEXITSTATUS(s->wait_status));
		h2d_json_object_end(j);
	}
	if (s->in_group) {
		h2d_json_object_begin(j, "cgroup");
		known(j, "peak_bytes", s->peak_known, s->group_peak_bytes,
		      "this kernel does not tell");
		known(j, "oom_kill_count", s->oom_known, s->oom_kills,
		      "this kernel does not tell");
		h2d_json_object_end(j);
	}
}

enum { DETAILS_DEPTH = 8 };

/* A loader's own members: what nests deeper than any use would not fit into a document. */
static bool too_deep(const json_t *value, int left)
{
	json_t *member;
	const char *key;
	size_t i;

	if (!left)
		return json_is_object(value) || json_is_array(value);
	json_object_foreach((json_t *)(uintptr_t)value, key,
			    member) if (too_deep(member, left - 1)) return true;
	json_array_foreach(value, i, member) if (too_deep(member, left - 1)) return true;
	return false;
}

/* Members of both answers, those of the load last. */
static void write_adapter(struct h2d_json *j, const struct h2d_bench_sample *s)
{
	const char *name = h2d_get_text(s->ready, "name");
	const char *version = h2d_get_text(s->ready, "version");
	json_t *early = json_object_get(s->ready, "details");
	json_t *late = json_object_get(s->loaded, "details");

	if (!s->ready)
		return;
	h2d_json_object_begin(j, "adapter");
	h2d_json_string(j, "name", name ? name : "unknown");
	h2d_json_string(j, "version", version ? version : "unknown");
	if (json_is_object(early) || json_is_object(late)) {
		json_t *all = json_is_object(early) ? json_copy(early) : json_object();

		if (json_is_object(late))
			json_object_update(all, late);
		if (too_deep(all, DETAILS_DEPTH)) {
			json_object_clear(all);
			json_object_set_new(all, "dropped", json_string("nested too deeply"));
		}
		h2d_value_write(j, "details", all, true);
		json_decref(all);
	}
	h2d_json_object_end(j);
}

void h2d_bench_sample_write(struct h2d_json *j, const char *key,
			    const struct h2d_bench_sample *s, const struct h2d_bench_cell *cell)
{
	const size_t count = s->sampler.count;

	h2d_json_object_begin(j, key);
	h2d_json_u64(j, "block", s->block);
	h2d_json_u64(j, "order", s->order);
	h2d_json_string(j, "status", s->status);
	if (s->reason[0])
		h2d_json_string(j, "reason", s->reason);
	h2d_json_string(j, "time_utc", s->time_utc);
	write_times(j, s);
	write_repeats(j, s);
	write_phases(j, s);
	h2d_bench_schedule_write(j, "scheduling", &s->schedule);
	write_cache(j, s, cell);
	write_memory(j, s);
	write_counters(j, s);
	write_pressure(j, s);
	write_sampler(j, s, count);
	write_kernel_log(j, s);
	write_outcome(j, s);
	write_adapter(j, s);
	if (s->tail[0] && strcmp(s->status, "ok"))
		h2d_json_string(j, "stderr_tail", s->tail);
	h2d_json_object_end(j);
}
