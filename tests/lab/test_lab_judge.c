/* SPDX-License-Identifier: Apache-2.0 */
/* From counters to verdicts, also where the counters contradict each other. */
#include "lab/internal.h"
#include "unit/test.h"

/* One kernel's result of hand-made cells. */
struct fixture {
	struct lab lab;
	struct lab_kernel_result result;
	struct lab_cell cells[8];
	struct lab_step steps[8];
};

struct numbers {
	const char *permission, *state;
	long long windows, restarts, callbacks, spans, copied_pages;
	int last_code;
};

enum { PAGES = 8192, SIZE = PAGES * 4096 };

static json_t *report_of(const struct numbers *n)
{
	return json_pack(
		"{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:i,s:{s:I,s:f,s:f}}", "restart_count",
		(json_int_t)n->restarts, "callback_count", (json_int_t)n->callbacks,
		"span_count", (json_int_t)n->spans, "present_span_count", (json_int_t)n->spans,
		"size_bytes", (json_int_t)SIZE, "anonymous_before_bytes", (json_int_t)0,
		"anonymous_after_bytes", (json_int_t)n->copied_pages * 4096, "windows",
		(json_int_t)n->windows, "last_code", n->last_code, "window", "median_ns",
		(json_int_t)1004000000, "timeout_ms", 1000.0, "jiffy_ms", 4.0);
}

static struct lab_kernel_result *judge(struct fixture *f, const struct numbers *numbers,
				       size_t count)
{
	f->result.driver = "shipped";
	f->result.release = strdup("9.9");
	f->result.cells = f->cells;
	f->result.cell_count = count;
	f->result.steps.steps = f->steps;
	f->result.steps.count = (uint32_t)count;
	f->result.steps.done = true;
	f->result.guest.end = LAB_GUEST_OFF;
	for (size_t i = 0; i < count; i++)
		f->cells[i] = (struct lab_cell){
			.filesystem = "ext4",
			.driver = "shipped",
			.policy = "none",
			.permission = numbers[i].permission,
			.state = numbers[i].state,
			.step = (uint32_t)i,
			.report = report_of(&numbers[i]),
		};
	return &f->result;
}

static void expect(struct fixture *f, enum h2d_lab_verdict verdict, const char *policy,
		   const char *reason)
{
	CHECK_EQ(lab_judge(&f->lab, &f->result), 0);
	CHECK_EQ(f->result.verdict, verdict);
	CHECK_STR(f->result.retry_policy, policy);
	if (reason)
		CHECK(f->result.reasons && strstr(f->result.reasons, reason));
	else
		CHECK(!f->result.reasons);
	for (size_t i = 0; i < f->result.cell_count; i++)
		json_decref(f->cells[i].report);
	free(f->result.release);
	free(f->result.reasons);
	free(f->result.evidence);
	memset(f, 0, sizeof(*f));
}

#define ZEROS                                                                                  \
	{"vma", "ro-present", 0, 0, 0, 16, 0, 0},                                              \
	{                                                                                      \
		"access", "rw-present", 0, 0, 0, 16, 0, 0                                      \
	}
#define ABSENT                                                                                 \
	{                                                                                      \
		"vma", "rw-absent", 0, 0, 0, 16, PAGES, 0                                      \
	}

static void policies(void)
{
	static const struct numbers stale[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 16, 16, PAGES, 16, PAGES, 0}};
	static const struct numbers no_retry[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 0, 16, PAGES, 16, PAGES, 0}};
	static const struct numbers refresh[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 0, 0, PAGES, 16, PAGES, 0}};
	static const struct numbers busy[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 0, 1, PAGES, 16, PAGES, 0}};
	static const struct numbers between[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 0, 9, PAGES, 16, PAGES, 0}};
	static struct fixture f;

	judge(&f, stale, 4);
	expect(&f, H2D_LAB_AFFECTED, "stale", NULL);
	judge(&f, no_retry, 4);
	expect(&f, H2D_LAB_COW_PENALTY, "no_retry", NULL);
	judge(&f, refresh, 4);
	expect(&f, H2D_LAB_COW_PENALTY, "refresh", NULL);
	/* One restart beside 16 spans is a busy host's, not the driver's habit. */
	judge(&f, busy, 4);
	expect(&f, H2D_LAB_COW_PENALTY, "refresh", NULL);
	judge(&f, between, 4);
	expect(&f, H2D_LAB_COW_PENALTY, "unknown", NULL);
	/* Only zeros: nothing says that the driver was reached, and it is not cleared. */
	judge(&f, refresh, 2);
	expect(&f, H2D_LAB_INCONCLUSIVE, "unknown", "no cell was run that must move memory");
}

/* The rule that the inspector read in the module decides which cells count. */
static void rules(void)
{
	static const struct numbers stale[] = {
		ZEROS, ABSENT, {"vma", "rw-present", 16, 16, PAGES, 16, PAGES, 0}};
	static struct fixture f;

	judge(&f, stale, 4)->permission_rule = H2D_PERMISSION_VMA;
	expect(&f, H2D_LAB_AFFECTED, "stale", NULL);
	/* The driver would stall, but nobody asks it for write access. */
	judge(&f, stale, 4)->permission_rule = H2D_PERMISSION_ACCESS;
	expect(&f, H2D_LAB_CLEAN, "stale", NULL);
	judge(&f, stale + 2, 2)->permission_rule = H2D_PERMISSION_ACCESS;
	expect(&f, H2D_LAB_INCONCLUSIVE, "stale", "no cell was run");
}

static void contradictions(void)
{
	static const struct numbers not_copied[] = {
		{"vma", "rw-present", 0, 0, PAGES, 16, PAGES / 2, 0}};
	static const struct numbers no_callbacks[] = {
		{"vma", "rw-present", 0, 0, 0, 16, PAGES, 0}};
	static const struct numbers few_windows[] = {
		{"vma", "rw-present", 2, 2, PAGES, 16, PAGES, 0}};
	static const struct numbers zero_invalidated[] = {
		{"access", "rw-present", 0, 0, 3, 16, 0, 0}};
	static const struct numbers zero_copied[] = {{"vma", "ro-present", 0, 0, 0, 16, 1, 0}};
	static const struct numbers driver_error[] = {
		{"vma", "rw-present", 0, 0, PAGES, 16, PAGES, -14}};
	static struct fixture f;

	judge(&f, not_copied, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "unknown", "not every page became anonymous");
	judge(&f, no_callbacks, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "refresh", "no notifier callback");
	judge(&f, few_windows, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "unknown", "not one for each span");
	judge(&f, zero_invalidated, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "unknown", "invalidated");
	judge(&f, zero_copied, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "unknown", "copied");
	judge(&f, driver_error, 1);
	expect(&f, H2D_LAB_INCONCLUSIVE, "refresh", "return code");
}

static void guests_that_fail(void)
{
	static const struct numbers good[] = {{"vma", "rw-present", 0, 0, PAGES, 16, PAGES, 0}};
	static char warning[] = "WARNING: CPU: 0 PID: 1\nmore\n";
	static char qemu_error[] = "no such machine\n";
	static struct fixture f;

	judge(&f, good, 1)->guest.end = LAB_GUEST_PANIC;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "panicked");
	judge(&f, good, 1)->guest.end = LAB_GUEST_HUNG;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "did not end in time");
	judge(&f, good, 1)->guest.end = LAB_GUEST_FLOODED;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "console");
	judge(&f, good, 1)->guest.end = LAB_GUEST_DIED;
	f.result.guest.errors = qemu_error;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "no such machine");
	judge(&f, good, 1)->steps.done = false;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "did not finish");
	judge(&f, good, 1)->steps.damaged = true;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "damaged");
	judge(&f, good, 1)->steps.boot_release = strdup("8.8");
	{
		char *other = f.result.steps.boot_release;

		expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "ran kernel 8.8");
		free(other);
	}
	judge(&f, good, 1);
	f.steps[0].kmsg = warning;
	expect(&f, H2D_LAB_INCONCLUSIVE, "refresh", "WARNING: CPU: 0 PID: 1");
}

static void missing_cells(void)
{
	static const struct numbers good[] = {
		{"vma", "rw-present", 0, 0, PAGES, 16, PAGES, 0},
		{"vma", "rw-present", 16, 16, PAGES, 16, PAGES, 0}};
	static char problem[] = "killed at its timeout";
	static struct fixture f;

	judge(&f, good, 1);
	json_decref(f.cells[0].report);
	f.cells[0].report = NULL;
	f.cells[0].problem = problem;
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "no cell was measured");
	judge(&f, good, 1);
	json_object_del(f.cells[0].report, "callback_count");
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "lacks a counter");
	judge(&f, good, 1);
	json_object_set_new(f.cells[0].report, "callback_count", json_integer(-1));
	expect(&f, H2D_LAB_NOT_VERIFIED, "unknown", "lacks a counter");
	/* Windows that were seen were seen. */
	judge(&f, good, 2);
	json_object_del(f.cells[0].report, "callback_count");
	expect(&f, H2D_LAB_AFFECTED, "stale", "lacks a counter");
}

int main(void)
{
	RUN(policies);
	RUN(rules);
	RUN(contradictions);
	RUN(guests_that_fail);
	RUN(missing_cells);
	return TEST_DONE();
}
