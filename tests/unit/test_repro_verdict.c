/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <stdint.h>

#include "repro/verdict.h"
#include "test.h"

#define MIB(x) ((uint64_t)(x) << 20)

enum { CELLS = 12, SAMPLES = 4 };

/* A case that tests fill and bend. */
struct made {
	struct h2d_case c;
	struct h2d_case_cell cells[CELLS];
	struct h2d_repro_sample samples[CELLS][SAMPLES];
};

static struct made start(uint32_t hz)
{
	struct made m = {.c = {.can_reach = true, .clock = {1000, hz}}};

	return m;
}

static struct h2d_case_cell *add(struct made *m, const char *name, uint64_t mib, double ms,
				 int64_t restarts, int64_t windows)
{
	const size_t at = m->c.cell_count++;
	struct h2d_case_cell *cell = &m->cells[at];
	const bool writable = !strncmp(name, "rw-", 3) && strcmp(name, "rw-then-ro");
	const bool populated = !strcmp(name, "rw-populated");
	const bool trigger = !strcmp(name, "rw-present") || !strcmp(name, "rw-sparse") ||
			     !strcmp(name, "rw-shifted");

	*cell = (struct h2d_case_cell){
		.name = name,
		.size_bytes = MIB(mib),
		.measured = true,
		.asks_write = writable || !strncmp(name, "anon", 4),
		.expected_windows = trigger ? mib / 2 + !strcmp(name, "rw-shifted") : 0,
		.expected_anon_bytes = writable && !populated ? MIB(mib) : 0,
		.sample_count = 1,
	};
	m->samples[at][0] = (struct h2d_repro_sample){
		.elapsed_ns = (uint64_t)(ms * 1e6),
		.requests = restarts < 0 ? -1 : 1,
		.restarts = restarts,
		.windows = windows,
		.rss_anon_delta_bytes = writable && !populated ? (int64_t)MIB(mib) : 0,
		.expected_windows = cell->expected_windows,
	};
	return cell;
}

static void again(struct made *m, double ms, int64_t windows)
{
	const size_t at = m->c.cell_count - 1;
	struct h2d_case_cell *cell = &m->cells[at];
	struct h2d_repro_sample s = m->samples[at][0];

	s.elapsed_ns = (uint64_t)(ms * 1e6);
	s.windows = windows;
	m->samples[at][cell->sample_count++] = s;
}

static struct h2d_verdict judge(struct made *m)
{
	struct h2d_verdict v;

	m->c.cells = m->cells;
	for (size_t i = 0; i < m->c.cell_count; i++)
		m->cells[i].samples = m->samples[i];
	h2d_repro_judge(&m->c, &v);
	return v;
}

static bool says(const struct h2d_verdict *v, const char *what)
{
	for (size_t i = 0; i < v->evidence_count; i++)
		if (strstr(v->evidence[i], what))
			return true;
	return false;
}

/* The three states of one machine as published: 32 MiB, elapsed time only, 1000 Hz. */
static void published_states(void)
{
	static const struct {
		double ro, absent, present;
		enum h2d_verdict_value value;
		enum h2d_retry_policy policy;
		double ratio;
	} states[] = {
		{3.05, 14.55, 16019.3, H2D_VERDICT_AFFECTED, H2D_RETRY_STALE, 14.55 / 3.05},
		{3.05, 14.55, 17.0, H2D_VERDICT_COW_PENALTY, H2D_RETRY_UNKNOWN, 17 / 3.05},
		{3.2, 13.1, 15.3, H2D_VERDICT_COW_PENALTY, H2D_RETRY_UNKNOWN, 15.3 / 3.2},
	};

	for (size_t i = 0; i < 3; i++) {
		struct made m = start(1000);
		struct h2d_verdict v;

		add(&m, "ro-present", 32, states[i].ro, -1, -1);
		add(&m, "rw-absent", 32, states[i].absent, -1, -1);
		add(&m, "rw-present", 32, states[i].present, -1, -1);
		v = judge(&m);
		CHECK_EQ(v.value, states[i].value);
		CHECK_EQ(v.retry_policy, states[i].policy);
		CHECK_EQ(v.permission_rule, H2D_PERMISSION_VMA);
		CHECK(v.cow_penalty_ratio > states[i].ratio - 0.01 &&
		      v.cow_penalty_ratio < states[i].ratio + 0.01);
		CHECK(v.evidence_count > 0);
	}
}

/* The laboratory's table: restarts are visible, 250 Hz. */
static void laboratory_table(void)
{
	static const struct {
		double present;
		int64_t restarts, windows;
		enum h2d_verdict_value value;
		enum h2d_retry_policy policy;
	} rows[] = {
		{16067, 16, 16, H2D_VERDICT_AFFECTED, H2D_RETRY_STALE},
		{235, 0, 0, H2D_VERDICT_COW_PENALTY, H2D_RETRY_REFRESH},
		{236, 16, 0, H2D_VERDICT_COW_PENALTY, H2D_RETRY_NONE},
	};

	for (size_t i = 0; i < 3; i++) {
		struct made m = start(250);
		struct h2d_verdict v;

		add(&m, "ro-present", 32, 3, 0, 0);
		add(&m, "rw-absent", 32, 240, 0, 0);
		add(&m, "anon", 32, 3, 0, 0);
		add(&m, "rw-present", 32, rows[i].present, rows[i].restarts, rows[i].windows);
		v = judge(&m);
		CHECK_EQ(v.value, rows[i].value);
		CHECK_EQ(v.retry_policy, rows[i].policy);
		CHECK_EQ(v.permission_rule, H2D_PERMISSION_VMA);
		CHECK_EQ(v.confidence, H2D_CONFIDENCE_HIGH);
	}
}

static void permission_by_access_is_clean(void)
{
	struct made m = start(250);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 3, 0, 0);
	add(&m, "rw-absent", 32, 20, 0, 0);
	m.samples[1][0].rss_anon_delta_bytes = 0;
	add(&m, "rw-present", 32, 3, 0, 0);
	m.samples[2][0].rss_anon_delta_bytes = 0;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_CLEAN);
	CHECK_EQ(v.permission_rule, H2D_PERMISSION_ACCESS);
	CHECK_EQ(v.retry_policy, H2D_RETRY_UNKNOWN);
}

/* The same numbers without a request seen prove nothing. */
static void staged_copies_are_not_clean(void)
{
	struct made m = start(250);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 3, -1, -1);
	add(&m, "rw-absent", 32, 4, -1, -1);
	m.samples[1][0].rss_anon_delta_bytes = 0;
	add(&m, "rw-present", 32, 3, -1, -1);
	m.samples[2][0].rss_anon_delta_bytes = 0;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_NOT_APPLICABLE);
	CHECK_EQ(v.permission_rule, H2D_PERMISSION_UNKNOWN);

	/* Whole seconds without copy-on-write are no proof either. */
	m.samples[2][0].elapsed_ns = 16019600000;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);

	m.c.can_reach = false;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_NOT_APPLICABLE);
	CHECK_EQ(v.confidence, H2D_CONFIDENCE_HIGH);
}

static void disagreement_is_inconclusive(void)
{
	struct made m = start(250);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 3, 0, 0);
	add(&m, "rw-present", 32, 16064.2, 15, 15);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	CHECK_EQ(v.retry_policy, H2D_RETRY_UNKNOWN);
	CHECK(says(&v, "do not agree"));

	m.samples[1][0].windows = 0;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	m.samples[1][0].windows = 16;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_AFFECTED);
}

static void slow_controls_are_inconclusive(void)
{
	struct made m = start(1000);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 4100, -1, -1);
	add(&m, "rw-absent", 32, 15, -1, -1);
	add(&m, "rw-present", 32, 16019, -1, -1);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	CHECK(says(&v, "controls wait"));

	/* 700 ms: shorter than a window, but too long to divide by one. */
	m.samples[0][0].elapsed_ns = 700000000;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	CHECK(says(&v, "cannot be divided"));

	/* Restarts do not depend on the copy's own speed. */
	for (size_t i = 0; i < 3; i++) {
		m.samples[i][0].requests = 1;
		m.samples[i][0].restarts = m.samples[i][0].windows = i == 2 ? 16 : 0;
	}
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_AFFECTED);
}

static void missing_parts_are_inconclusive(void)
{
	struct made m = start(250);
	struct h2d_verdict v;

	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);

	add(&m, "rw-present", 32, 16064, 16, 16);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	CHECK(says(&v, "no control"));

	add(&m, "ro-present", 32, 3, 0, 0)->measured = false;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
	m.cells[1].measured = true;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_AFFECTED);

	m.cells[0].measured = false;
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
}

static void repeats_must_not_contradict(void)
{
	struct made m = start(1000);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 3, -1, -1);
	add(&m, "rw-absent", 32, 15, -1, -1);
	add(&m, "rw-present", 32, 16019, -1, -1);
	again(&m, 16019.7, -1);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_AFFECTED);
	CHECK_EQ(v.confidence, H2D_CONFIDENCE_HIGH);
	again(&m, 17, -1);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
}

static void confidence_follows_the_law(void)
{
	struct made m = start(1000);

	add(&m, "ro-present", 32, 3, -1, -1);
	add(&m, "rw-absent", 32, 15, -1, -1);
	add(&m, "rw-present", 32, 9 * 1001 + 3, -1, -1);
	CHECK_EQ(judge(&m).value, H2D_VERDICT_AFFECTED);
	CHECK_EQ(judge(&m).confidence, H2D_CONFIDENCE_LOW);
	/* A span that two chunks of the runtime cut waits twice. */
	m.samples[2][0].elapsed_ns = 17017000000;
	CHECK_EQ(judge(&m).confidence, H2D_CONFIDENCE_MEDIUM);
}

/* Small copies are staged, large ones are not. */
static void threshold_of_the_runtime(void)
{
	struct made m = start(1000);
	struct h2d_verdict v;

	add(&m, "ro-present", 8, 1, -1, -1);
	add(&m, "rw-present", 8, 1, -1, -1);
	m.samples[1][0].rss_anon_delta_bytes = 0;
	add(&m, "ro-present", 32, 3, -1, -1);
	add(&m, "rw-present", 32, 16019, -1, -1);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_AFFECTED);
	/* Where both reach HMM, both must wait. */
	m.samples[1][0].rss_anon_delta_bytes = (int64_t)MIB(8);
	v = judge(&m);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
}

static void mixed_permissions_are_unknown(void)
{
	struct made m = start(250);
	struct h2d_verdict v;

	add(&m, "ro-present", 32, 3, 0, 0);
	add(&m, "rw-absent", 32, 200, 0, 0);
	add(&m, "rw-present", 32, 230, 0, 0);
	m.samples[1][0].rss_anon_delta_bytes = 0;
	v = judge(&m);
	CHECK_EQ(v.permission_rule, H2D_PERMISSION_UNKNOWN);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);

	m.samples[1][0].rss_anon_delta_bytes = (int64_t)MIB(16);
	v = judge(&m);
	CHECK_EQ(v.permission_rule, H2D_PERMISSION_UNKNOWN);

	m.samples[1][0].rss_anon_delta_bytes = (int64_t)MIB(32);
	m.samples[0][0].rss_anon_delta_bytes = (int64_t)MIB(32);
	v = judge(&m);
	CHECK_EQ(v.permission_rule, H2D_PERMISSION_UNKNOWN);
	CHECK_EQ(v.value, H2D_VERDICT_INCONCLUSIVE);
}

static void windows_without_a_cause(void)
{
	struct made m = start(250);

	add(&m, "ro-present", 32, 3, 0, 0);
	add(&m, "rw-present", 32, 2010, 2, 2);
	m.samples[1][0].rss_anon_delta_bytes = 0;
	CHECK_EQ(judge(&m).value, H2D_VERDICT_INCONCLUSIVE);
}

/* A shortened timeout cannot be seen in the elapsed time of a copy that takes longer. */
static void short_timeout_is_counted_by_restarts(void)
{
	struct made m = start(250);

	m.c.clock.timeout_ms = 40;
	add(&m, "ro-present", 32, 5, 0, 0);
	add(&m, "rw-absent", 32, 240, 0, 0);
	add(&m, "rw-present", 32, 930, 16, 16);
	CHECK_EQ(judge(&m).value, H2D_VERDICT_AFFECTED);
	CHECK_EQ(judge(&m).confidence, H2D_CONFIDENCE_HIGH);
}

static void names(void)
{
	CHECK_STR(h2d_verdict_value_name(H2D_VERDICT_NOT_APPLICABLE), "not_applicable");
	CHECK_STR(h2d_verdict_value_name((enum h2d_verdict_value)99), "inconclusive");
	CHECK_STR(h2d_retry_policy_name(H2D_RETRY_NONE), "no_retry");
	CHECK_STR(h2d_permission_rule_name(H2D_PERMISSION_VMA), "vma");
	CHECK_STR(h2d_confidence_name(H2D_CONFIDENCE_HIGH), "high");
}

int main(void)
{
	RUN(published_states);
	RUN(laboratory_table);
	RUN(permission_by_access_is_clean);
	RUN(staged_copies_are_not_clean);
	RUN(disagreement_is_inconclusive);
	RUN(slow_controls_are_inconclusive);
	RUN(missing_parts_are_inconclusive);
	RUN(repeats_must_not_contradict);
	RUN(confidence_follows_the_law);
	RUN(threshold_of_the_runtime);
	RUN(mixed_permissions_are_unknown);
	RUN(windows_without_a_cause);
	RUN(short_timeout_is_counted_by_restarts);
	RUN(names);
	return TEST_DONE();
}
