/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *h2d_verdict_value_name(enum h2d_verdict_value v)
{
	static const char *const names[] = {"affected", "cow_penalty", "clean", "inconclusive",
					    "not_applicable"};

	return (unsigned)v < 5 ? names[v] : "inconclusive";
}

static void say(struct h2d_verdict *v, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void say(struct h2d_verdict *v, const char *format, ...)
{
	va_list args;

	if (v->evidence_count == H2D_EVIDENCE_MAX)
		return;
	va_start(args, format);
	vsnprintf(v->evidence[v->evidence_count++], H2D_EVIDENCE_BYTES, format, args);
	va_end(args);
}

static uint64_t mib(uint64_t bytes)
{
	return bytes >> 20;
}

static bool usable(const struct h2d_case_cell *cell)
{
	return cell->measured && cell->sample_count;
}

/* A cell in which a driver that goes by the mapping has something to wait for. */
static bool is_trigger(const struct h2d_case_cell *cell)
{
	return usable(cell) && cell->asks_write && cell->expected_windows;
}

static uint64_t median_elapsed(const struct h2d_case_cell *cell)
{
	uint64_t *values = calloc(cell->sample_count, sizeof(*values)), median;

	if (!values)
		return cell->sample_count ? cell->samples[0].elapsed_ns : 0;
	for (size_t i = 0; i < cell->sample_count; i++)
		values[i] = cell->samples[i].elapsed_ns;
	median = h2d_median_u64(values, cell->sample_count);
	free(values);
	return median;
}

/* What a copy of this size takes without windows: the slowest cell that cannot wait. */
static uint64_t plain_ns(const struct h2d_case *c, uint64_t size_bytes)
{
	uint64_t plain = 0;

	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_case_cell *cell = &c->cells[i];

		if (usable(cell) && cell->size_bytes == size_bytes && !cell->expected_windows) {
			uint64_t median = median_elapsed(cell);

			plain = median > plain ? median : plain;
		}
	}
	return plain;
}

int64_t h2d_case_windows(const struct h2d_case *c, const struct h2d_case_cell *cell,
			 const struct h2d_repro_sample *sample)
{
	uint64_t plain;

	if (sample->windows >= 0)
		return sample->windows;
	/* A cell that cannot wait is its own measure only by being short. */
	plain = cell->expected_windows ? plain_ns(c, cell->size_bytes) : 0;
	if (h2d_windows_agree(-1, sample->elapsed_ns, plain, c->clock) == H2D_NO_COUNTING)
		return -1;
	return (int64_t)h2d_windows_from_elapsed(sample->elapsed_ns, c->clock).count;
}

/* ---- was HMM reached? ---- */

static int64_t least_anon_moved(const struct h2d_case_cell *cell)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < cell->sample_count; i++)
		if (cell->samples[i].rss_anon_delta_bytes < least)
			least = cell->samples[i].rss_anon_delta_bytes;
	return least;
}

enum moved { MOVED_NOTHING, MOVED_SOME, MOVED_ALL };

static enum moved anon_moved(const struct h2d_case_cell *cell)
{
	const int64_t moved = least_anon_moved(cell);
	const int64_t whole = (int64_t)cell->expected_anon_bytes;

	if (moved <= whole / 16)
		return MOVED_NOTHING;
	return moved >= whole - whole / 8 ? MOVED_ALL : MOVED_SOME;
}

static bool requests_seen(const struct h2d_case_cell *cell)
{
	for (size_t i = 0; i < cell->sample_count; i++)
		if (cell->samples[i].requests > 0)
			return true;
	return false;
}

/* Copies of one size may be staged by the runtime while larger ones are not. */
static bool size_reached(const struct h2d_case *c, uint64_t size_bytes)
{
	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_case_cell *cell = &c->cells[i];

		if (!usable(cell) || cell->size_bytes != size_bytes || !cell->asks_write)
			continue;
		if (requests_seen(cell))
			return true;
		if (cell->expected_anon_bytes && anon_moved(cell) != MOVED_NOTHING)
			return true;
	}
	return false;
}

static const struct h2d_case_cell *find(const struct h2d_case *c, const char *name,
					uint64_t size_bytes)
{
	for (size_t i = 0; i < c->cell_count; i++)
		if (usable(&c->cells[i]) && c->cells[i].size_bytes == size_bytes &&
		    !strcmp(c->cells[i].name, name))
			return &c->cells[i];
	return NULL;
}

/* ---- the judgement, in steps that stop at the first thing that does not hold ---- */

/** What the cells of the reached sizes said together. */
struct tally {
	size_t triggers, controls;	/* cells */
	size_t with_windows, without;	/* samples of triggers */
	size_t waiting_controls;	/* samples of controls with windows */
	size_t disagreements, unknown;	/* samples */
	size_t by_restart, by_elapsed;	/* samples of triggers, by what counted them */
	size_t as_expected, as_chunked; /* samples of triggers */
	uint64_t restarts;		/* in triggers */
	size_t moved_all, moved_some, moved_nothing; /* cells that could move */
	size_t read_only_moved;
	uint64_t largest_bytes;
	bool requests;
};

static void tally_trigger(const struct h2d_case *c, const struct h2d_case_cell *cell,
			  struct tally *t, struct h2d_verdict *v)
{
	const uint64_t plain = plain_ns(c, cell->size_bytes);
	/* ROCr pins in chunks of at most 32 MiB; a span cut by two of them can wait twice. */
	const uint64_t chunks = cell->size_bytes / (UINT64_C(32) << 20) + 1;
	int64_t first = h2d_case_windows(c, cell, &cell->samples[0]);

	for (size_t i = 0; i < cell->sample_count; i++) {
		const struct h2d_repro_sample *s = &cell->samples[i];
		const int64_t windows = h2d_case_windows(c, cell, s);

		if (windows < 0) {
			t->unknown++;
			continue;
		}
		if (s->windows >= 0)
			t->by_restart++;
		else
			t->by_elapsed++;
		if (h2d_windows_agree(s->windows, s->elapsed_ns, plain, c->clock) ==
		    H2D_DISAGREE) {
			t->disagreements++;
			say(v,
			    "%s %" PRIu64 " MiB: %" PRId64 " windows by restarts, %" PRIu64
			    " by elapsed time (%.1f ms)",
			    cell->name, mib(cell->size_bytes), s->windows,
			    h2d_windows_from_elapsed(s->elapsed_ns, c->clock).count,
			    (double)s->elapsed_ns / 1e6);
		}
		if (windows)
			t->with_windows++;
		else
			t->without++;
		if ((uint64_t)windows == s->expected_windows)
			t->as_expected++;
		else if ((uint64_t)windows > s->expected_windows &&
			 (uint64_t)windows <= s->expected_windows + chunks)
			t->as_chunked++;
		if (s->restarts > 0)
			t->restarts += (uint64_t)s->restarts;
	}
	if (first >= 0)
		say(v, "%s %" PRIu64 " MiB: %" PRId64 " windows, %" PRIu64 " spans to wait for",
		    cell->name, mib(cell->size_bytes), first, cell->expected_windows);
}

static void tally_control(const struct h2d_case *c, const struct h2d_case_cell *cell,
			  struct tally *t, struct h2d_verdict *v)
{
	t->controls++;
	for (size_t i = 0; i < cell->sample_count; i++) {
		const int64_t windows = h2d_case_windows(c, cell, &cell->samples[i]);

		if (windows <= 0)
			continue;
		t->waiting_controls++;
		say(v, "%s %" PRIu64 " MiB has nothing to wait for and took %.1f ms",
		    cell->name, mib(cell->size_bytes),
		    (double)cell->samples[i].elapsed_ns / 1e6);
	}
}

static void tally_permission(const struct h2d_case_cell *cell, struct tally *t,
			     struct h2d_verdict *v)
{
	if (cell->asks_write && cell->expected_anon_bytes) {
		switch (anon_moved(cell)) {
		case MOVED_ALL:
			t->moved_all++;
			break;
		case MOVED_SOME:
			t->moved_some++;
			say(v, "%s %" PRIu64 " MiB moved only %" PRId64 " KiB to RssAnon",
			    cell->name, mib(cell->size_bytes), least_anon_moved(cell) >> 10);
			break;
		default:
			t->moved_nothing++;
		}
	} else if (!cell->asks_write &&
		   least_anon_moved(cell) > (int64_t)(cell->size_bytes / 16)) {
		t->read_only_moved++;
		say(v, "%s %" PRIu64 " MiB moved RssAnon although nothing may be written",
		    cell->name, mib(cell->size_bytes));
	}
}

static void take_tally(const struct h2d_case *c, struct tally *t, struct h2d_verdict *v)
{
	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_case_cell *cell = &c->cells[i];

		if (!usable(cell) || !size_reached(c, cell->size_bytes))
			continue;
		if (cell->size_bytes > t->largest_bytes)
			t->largest_bytes = cell->size_bytes;
		t->requests |= requests_seen(cell);
		if (is_trigger(cell)) {
			t->triggers++;
			tally_trigger(c, cell, t, v);
		} else {
			tally_control(c, cell, t, v);
		}
		tally_permission(cell, t, v);
	}
}

static void judge_permission(const struct tally *t, struct h2d_verdict *v)
{
	if (t->read_only_moved || t->moved_some)
		return;
	if (t->moved_all && !t->moved_nothing) {
		v->permission_rule = H2D_PERMISSION_VMA;
		say(v, "every writable private source became anonymous (%zu cells)",
		    t->moved_all);
	} else if (t->moved_nothing && !t->moved_all && t->requests) {
		v->permission_rule = H2D_PERMISSION_ACCESS;
		say(v, "HMM was asked and no writable source became anonymous (%zu cells)",
		    t->moved_nothing);
	} else if (t->moved_all) {
		say(v, "%zu writable sources became anonymous, %zu did not", t->moved_all,
		    t->moved_nothing);
	}
}

static void judge_ratio(const struct h2d_case *c, const struct tally *t, struct h2d_verdict *v)
{
	const struct h2d_case_cell *base = find(c, "ro-present", t->largest_bytes);
	const struct h2d_case_cell *cow =
		find(c, t->with_windows ? "rw-absent" : "rw-present", t->largest_bytes);
	uint64_t base_ns;

	if (!base || !cow)
		return;
	base_ns = median_elapsed(base);
	if (base_ns)
		v->cow_penalty_ratio = (double)median_elapsed(cow) / (double)base_ns;
}

static void judge_windows(const struct tally *t, struct h2d_verdict *v)
{
	const size_t samples = t->with_windows + t->without;

	v->value = H2D_VERDICT_AFFECTED;
	v->retry_policy = H2D_RETRY_STALE;
	/* The law predicts from the page tables what time or restarts then show. */
	if (t->as_expected == samples)
		v->confidence = H2D_CONFIDENCE_HIGH;
	else if (t->as_expected + t->as_chunked == samples || t->by_restart == samples)
		v->confidence = H2D_CONFIDENCE_MEDIUM;
	else
		v->confidence = H2D_CONFIDENCE_LOW;
}

static void judge_no_windows(const struct tally *t, struct h2d_verdict *v)
{
	const size_t samples = t->with_windows + t->without;

	if (v->permission_rule == H2D_PERMISSION_UNKNOWN) {
		v->value = H2D_VERDICT_INCONCLUSIVE;
		return;
	}
	if (v->permission_rule == H2D_PERMISSION_ACCESS) {
		/* Nothing was invalidated, so the retry policy was never asked. */
		v->value = H2D_VERDICT_CLEAN;
		v->confidence = H2D_CONFIDENCE_HIGH;
		return;
	}
	v->value = H2D_VERDICT_COW_PENALTY;
	v->confidence = H2D_CONFIDENCE_HIGH;
	if (t->by_restart != samples)
		return;
	v->retry_policy = t->restarts ? H2D_RETRY_NONE : H2D_RETRY_REFRESH;
	say(v, "%" PRIu64 " restarts without a window", t->restarts);
}

static void not_reached(const struct h2d_case *c, struct h2d_verdict *v)
{
	size_t triggers = 0, waited = 0;

	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_case_cell *cell = &c->cells[i];

		if (!is_trigger(cell))
			continue;
		triggers++;
		for (size_t s = 0; s < cell->sample_count; s++)
			if (h2d_case_windows(c, cell, &cell->samples[s]) > 0)
				waited++;
	}
	if (!triggers) {
		say(v, "no cell was measured in which a write-wanting copy could wait");
		return;
	}
	if (waited) {
		say(v, "%zu copies took whole windows, yet no source became anonymous", waited);
		return;
	}
	v->value = H2D_VERDICT_NOT_APPLICABLE;
	v->confidence = H2D_CONFIDENCE_MEDIUM;
	say(v, "no writable source became anonymous and no request was seen: the copies were "
	       "staged, or write access is not asked for");
}

void h2d_repro_judge(const struct h2d_case *c, struct h2d_verdict *out)
{
	struct tally t = {0};
	bool reached = false;

	memset(out, 0, sizeof(*out));
	out->value = H2D_VERDICT_INCONCLUSIVE;
	if (!c->can_reach) {
		out->value = H2D_VERDICT_NOT_APPLICABLE;
		out->confidence = H2D_CONFIDENCE_HIGH;
		say(out, "copies of this device never ask the kernel's HMM code");
		return;
	}
	for (size_t i = 0; i < c->cell_count; i++)
		reached |= size_reached(c, c->cells[i].size_bytes);
	if (!reached) {
		not_reached(c, out);
		return;
	}
	take_tally(c, &t, out);
	judge_permission(&t, out);
	judge_ratio(c, &t, out);
	if (!t.triggers) {
		say(out, "no cell was measured in which a write-wanting copy could wait");
	} else if (!t.controls) {
		say(out, "no control was measured: a zero needs a non-zero beside it");
	} else if (t.waiting_controls) {
		say(out, "the controls wait as well: the device is slow for another reason");
	} else if (t.disagreements) {
		say(out, "restarts and elapsed time do not agree");
	} else if (t.unknown) {
		say(out, "%zu copies cannot be divided into windows", t.unknown);
	} else if (t.with_windows && t.without) {
		say(out, "%zu copies waited, %zu did not", t.with_windows, t.without);
	} else if (t.with_windows && out->permission_rule == H2D_PERMISSION_ACCESS) {
		say(out, "copies waited although no source had to be replaced");
	} else if (t.with_windows) {
		judge_windows(&t, out);
	} else {
		judge_no_windows(&t, out);
	}
}
