/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/hostfs.h"
#include "session.h"

static void write_null(struct h2d_json *j, const char *key, const char *why_key,
		       const char *why)
{
	h2d_json_null(j, key);
	h2d_json_string(j, why_key, why);
}

void h2d_trace_write_setup(struct h2d_json *j, const struct h2d_trace_session *s)
{
	h2d_json_array_begin(j, "functions");
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
		const struct h2d_trace_target *t = &s->targets[f];

		/* The laboratory's own is no news elsewhere. */
		if (f == H2D_TRACE_EMULATED && !t->symbol[0])
			continue;
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", t->name);
		if (t->symbol[0])
			h2d_json_string(j, "symbol", t->symbol);
		else
			write_null(j, "symbol", "symbol_why",
				   t->why[0] ? t->why : "it was not looked for");
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "missing");
	for (size_t i = 0; i < s->reason_count; i++)
		h2d_json_string(j, NULL, s->reasons[i]);
	h2d_json_array_end(j);
}

static void write_stat(struct h2d_json *j, const struct h2d_trace_session *s, int f,
		       const struct h2d_trace_stat *st)
{
	bool timed = f != H2D_TRACE_FAULT || !s->times_why[0];

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", s->targets[f].name);
	h2d_json_u64(j, "call_count", st->call_count);
	h2d_json_u64(j, "ok_count", st->ok_count);
	h2d_json_u64(j, "ebusy_count", st->ebusy_count);
	h2d_json_u64(j, "eagain_count", st->eagain_count);
	h2d_json_u64(j, "error_count", st->error_count);
	if (!timed) {
		write_null(j, "timed_count", "timed_count_why", s->times_why);
		h2d_json_object_end(j);
		return;
	}
	h2d_json_u64(j, "timed_count", st->return_count);
	h2d_json_u64(j, "total_ns", st->total_ns);
	if (f == H2D_TRACE_FAULT && st->return_count && !st->max_ns)
		write_null(j, "max_ns", "max_ns_why", "its calls are counted by powers of two");
	else
		h2d_json_u64(j, "max_ns", st->max_ns);
	h2d_json_array_begin(j, "durations");
	for (int k = 0; k < H2D_TRACE_LOG2; k++) {
		if (!st->log2_count[k])
			continue;
		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "to_ns", (uint64_t)1 << k);
		h2d_json_u64(j, "count", st->log2_count[k]);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_object_end(j);
}

static void write_process(struct h2d_json *j, const struct h2d_trace_session *s,
			  const struct h2d_trace_process *p)
{
	h2d_json_array_begin(j, "functions");
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
		if (s->targets[f].symbol[0])
			write_stat(j, s, f, &p->stats[f]);
	h2d_json_array_end(j);
	h2d_json_u64(j, "outer_call_count", p->outer_count);
	if (s->inside_why[0]) {
		write_null(j, "outer_ebusy_call_count", "outer_ebusy_call_count_why",
			   s->inside_why);
		write_null(j, "ebusy_per_call_max_count", "ebusy_per_call_max_count_why",
			   s->inside_why);
		write_null(j, "windows", "windows_why", s->inside_why);
		write_null(j, "window_ns", "window_ns_why", s->inside_why);
		return;
	}
	h2d_json_u64(j, "outer_ebusy_call_count", p->outer_ebusy_count);
	h2d_json_u64(j, "ebusy_per_call_max_count", p->ebusy_max_count);
	h2d_json_u64(j, "windows", p->window_count);
	h2d_json_u64(j, "window_ns", p->window_ns);
}

static void write_rank(struct h2d_json *j, const char *key, const char *why_key, int rank,
		       const struct h2d_trace_process *p)
{
	if (p->asked && rank >= 0)
		h2d_json_i64(j, key, rank);
	else
		write_null(j, key, why_key,
			   p->environment_read ? "its environment names none"
					       : "its environment could not be read");
}

static void write_who(struct h2d_json *j, const struct h2d_trace_process *p)
{
	h2d_json_i64(j, "pid", p->pid);
	if (p->name[0])
		h2d_json_string(j, "name", p->name);
	else
		write_null(j, "name", "name_why", "it ended before it was asked for");
	write_rank(j, "rank", "rank_why", p->rank, p);
	write_rank(j, "local_rank", "local_rank_why", p->local_rank, p);
}

void h2d_trace_write_counts(struct h2d_json *j, const struct h2d_trace_session *s,
			    const struct h2d_trace_counts *c)
{
	struct h2d_trace_process total;
	uint64_t hits = 0;

	h2d_trace_total(c, &total);
	/* One at the begin and one at the end of each call. */
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
		hits += 2 * total.stats[f].call_count;
	h2d_json_object_begin(j, "total");
	write_process(j, s, &total);
	h2d_json_object_end(j);
	h2d_json_array_begin(j, "processes");
	for (size_t i = 0; i < c->process_count; i++) {
		h2d_json_object_begin(j, NULL);
		write_who(j, &c->processes[i]);
		write_process(j, s, &c->processes[i]);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_object_begin(j, "overhead");
	h2d_json_u64(j, "event_count", c->event_count);
	h2d_json_u64(j, "probe_hit_count", hits);
	h2d_json_u64(j, "lost_event_count",
		     c->lost_count > s->overrun_count ? c->lost_count : s->overrun_count);
	h2d_json_u64(j, "missed_probe_count", s->missed_count);
	h2d_json_u64(j, "dropped_count", c->dropped_count);
	h2d_json_u64(j, "malformed_line_count", c->malformed_count);
	h2d_json_u64(j, "unmatched_return_count", c->unmatched_count);
	h2d_json_u64(j, "unfinished_call_count", c->unfinished_count);
	h2d_json_u64(j, "unplaced_ebusy_count", c->unplaced_count);
	h2d_json_u64(j, "unkept_call_count", c->unkept_count);
	h2d_json_object_end(j);
}
