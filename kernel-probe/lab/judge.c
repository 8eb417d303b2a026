/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the counters of one kernel's cells to its verdict. Time is used for one thing only: a
 * restart of the shipped driver that lasted the whole timeout is a window, since that is what a
 * window is. A zero counts only beside a control that is not zero.
 */
#include "internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The counters that decide. */
struct counters {
	uint64_t windows, restarts, callbacks, spans, present_spans, size, anonymous_delta;
	int64_t last_code;
	double median_ms, timeout_ms, jiffy_ms;
};

int lab_add_line(char **lines, const char *format, ...)
{
	char *line, *grown;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&line, format, args);
	va_end(args);
	if (n < 0)
		return H2D_E_NOMEM;
	grown = lab_format("%s%s\n", *lines ? *lines : "", line);
	free(line);
	if (!grown)
		return H2D_E_NOMEM;
	free(*lines);
	*lines = grown;
	return 0;
}

static bool get(const json_t *object, const char *key, uint64_t *value)
{
	const json_t *item = json_object_get(object, key);

	if (!json_is_integer(item) || json_integer_value(item) < 0)
		return false;
	*value = (uint64_t)json_integer_value(item);
	return true;
}

static double number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

static bool read_counters(const json_t *report, struct counters *c)
{
	const json_t *window = json_object_get(report, "window"), *last;
	uint64_t before, after, median = 0;

	memset(c, 0, sizeof(*c));
	last = json_object_get(report, "last_code");
	if (!json_is_integer(last) || !get(report, "restart_count", &c->restarts) ||
	    !get(report, "callback_count", &c->callbacks) ||
	    !get(report, "span_count", &c->spans) ||
	    !get(report, "present_span_count", &c->present_spans) ||
	    !get(report, "size_bytes", &c->size) ||
	    !get(report, "anonymous_before_bytes", &before) ||
	    !get(report, "anonymous_after_bytes", &after) || after < before ||
	    !get(report, "windows", &c->windows))
		return false;
	c->last_code = json_integer_value(last);
	c->anonymous_delta = after - before;
	c->timeout_ms = number(window, "timeout_ms");
	c->jiffy_ms = number(window, "jiffy_ms");
	if (get(window, "median_ns", &median))
		c->median_ms = (double)median / 1e6;
	return true;
}

struct judge {
	struct lab *lab;
	struct lab_kernel_result *result;
	size_t usable, controls;	   /* cells; those with copy-on-write as expected */
	size_t by_access;		   /* writable present cells under the rule access */
	uint64_t windows, restarts, spans; /* of writable present cells under the VMA's
					    * permission; spans that hold a present page */
	bool contradicted;
	bool odd_windows; /* of a cell that had another number of them than spans */
	bool broken;	  /* the guest did not get to its end */
	int err;
};

static void blame(struct judge *j, const struct lab_cell *cell, const char *what)
{
	bool own = strcmp(cell->policy, "none") == 0;

	j->contradicted = true;
	if (lab_add_line(&j->result->reasons, "%s, %s%s%s, %s under rule %s: %s",
			 cell->filesystem, cell->driver, own ? "" : " ",
			 own ? "" : cell->policy, cell->state, cell->permission, what))
		j->err = H2D_E_NOMEM;
}

/* Cells in which nothing may be invalidated and nothing copied. */
static bool is_zero_cell(const struct lab_cell *cell)
{
	return strcmp(cell->permission, "access") == 0 || strncmp(cell->state, "ro", 2) == 0;
}

static void check_zero(struct judge *j, const struct lab_cell *cell, const struct counters *c)
{
	if (c->callbacks)
		blame(j, cell,
		      "the range was invalidated, although only read access was asked");
	if (c->anonymous_delta)
		blame(j, cell, "pages were copied, although only read access was asked");
	if (c->windows || c->restarts)
		blame(j, cell, "it was restarted, although only read access was asked");
	if (strcmp(cell->permission, "access") == 0 && strcmp(cell->state, "rw-present") == 0)
		j->by_access++;
}

static void check_copying(struct judge *j, const struct lab_cell *cell,
			  const struct counters *c)
{
	bool present = strcmp(cell->state, "rw-present") == 0;

	if (c->anonymous_delta != c->size)
		blame(j, cell,
		      "not every page became anonymous: the driver's write fault did not "
		      "happen");
	else
		j->controls++;
	if (!present)
		return;
	if (!c->callbacks)
		blame(j, cell, "no notifier callback was seen");
	/*
	 * A stale sequence costs one window for every span that holds a present page. Fewer
	 * mean that a timeout which covers the whole range ran out, in a guest that is too
	 * slow.
	 */
	if (c->windows && c->windows != c->present_spans) {
		j->odd_windows = true;
		blame(j, cell,
		      "windows, but not one for each span: the guest is too slow for this "
		      "size, or its clock is off");
	} else {
		j->windows += c->windows;
	}
	j->restarts += c->restarts;
	j->spans += c->present_spans;
	if (c->windows && c->median_ms > 0) {
		j->result->window_fitted_ms = c->median_ms;
		j->result->window_timeout_ms = c->timeout_ms;
		j->result->window_jiffy_ms = c->jiffy_ms;
	}
	if (lab_add_line(
		    &j->result->evidence,
		    "%s, %s%s%s, %s under rule vma, %llu MiB: %llu windows, %llu restarts, "
		    "%llu callbacks, %llu spans, %llu KiB anonymous",
		    cell->filesystem, cell->driver, strcmp(cell->policy, "none") ? " " : "",
		    strcmp(cell->policy, "none") ? cell->policy : "", cell->state,
		    (unsigned long long)(c->size >> 20), (unsigned long long)c->windows,
		    (unsigned long long)c->restarts, (unsigned long long)c->callbacks,
		    (unsigned long long)c->spans,
		    (unsigned long long)(c->anonymous_delta >> 10)))
		j->err = H2D_E_NOMEM;
}

static void judge_cell(struct judge *j, struct lab_cell *cell)
{
	struct counters c;

	if (!cell->report) {
		/* In a guest that broke the reason is that, once and not for every cell. */
		if (!j->broken)
			blame(j, cell, cell->problem);
		return;
	}
	if (!read_counters(cell->report, &c)) {
		blame(j, cell, "its report lacks a counter");
		return;
	}
	j->usable++;
	if (c.last_code != 0)
		blame(j, cell, "the driver's last return code is an error");
	if (is_zero_cell(cell))
		check_zero(j, cell, &c);
	else
		check_copying(j, cell, &c);
}

static void check_log(struct judge *j)
{
	const struct lab_steps *steps = &j->result->steps;

	for (uint32_t i = 0; i < steps->count; i++) {
		if (!steps->steps[i].kmsg)
			continue;
		j->contradicted = true;
		if (lab_add_line(&j->result->reasons, "the guest kernel's log in step %u: %.*s",
				 i, (int)strcspn(steps->steps[i].kmsg, "\n"),
				 steps->steps[i].kmsg))
			j->err = H2D_E_NOMEM;
	}
}

static int check_guest(struct judge *j)
{
	const struct lab_kernel_result *r = j->result;
	char **reasons = &j->result->reasons;

	switch (r->guest.end) {
	case LAB_GUEST_OFF:
		break;
	case LAB_GUEST_PANIC:
		return lab_add_line(reasons, "the guest's kernel panicked");
	case LAB_GUEST_HUNG:
		return lab_add_line(reasons, "the guest did not end in time and was killed");
	case LAB_GUEST_FLOODED:
		return lab_add_line(reasons, "the guest's console did not stop: %llu bytes",
				    (unsigned long long)r->guest.console_bytes);
	case LAB_GUEST_DIED:
		return lab_add_line(reasons, "QEMU failed: %.*s",
				    (int)strcspn(r->guest.errors, "\n"), r->guest.errors);
	}
	if (r->steps.damaged)
		return lab_add_line(reasons, "the guest's results are damaged");
	if (!r->steps.done)
		return lab_add_line(reasons, "the guest did not finish its job%s%.*s",
				    r->steps.notes ? ": " : "",
				    r->steps.notes ? (int)strcspn(r->steps.notes, "\n") : 0,
				    r->steps.notes ? r->steps.notes : "");
	if (r->steps.boot_release && strcmp(r->steps.boot_release, r->release) != 0)
		return lab_add_line(reasons, "the guest ran kernel %s", r->steps.boot_release);
	return 0;
}

/* A step before the cells that failed: which one, and why. */
static void check_preparation(struct judge *j)
{
	const struct lab_steps *steps = &j->result->steps;

	for (uint32_t i = 0; i < j->result->dynamic_step && i < steps->count; i++) {
		const struct lab_step *step = &steps->steps[i];

		if (!step->ended || step->end.status == 0)
			continue;
		j->contradicted = true;
		if (lab_add_line(&j->result->reasons, "preparing the guest, step %u: %s", i,
				 strerror(-step->end.status)))
			j->err = H2D_E_NOMEM;
		return;
	}
}

/* A driver that never retries restarts for every span. One that refreshes its number has a
 * restart only where its whole timeout ran out or something else changed the range: on a busy
 * host, a few. */
static const char *policy_of(const struct judge *j)
{
	if (j->windows)
		return "stale";
	if (j->odd_windows)
		return "unknown";
	if (j->restarts <= j->spans / 4)
		return "refresh";
	return j->restarts >= j->spans ? "no_retry" : "unknown";
}

int lab_judge(struct lab *lab, struct lab_kernel_result *result)
{
	struct judge j = {.lab = lab, .result = result};
	bool shipped = strcmp(result->driver, "shipped") == 0, by_access;

	result->retry_policy = "unknown";
	result->verdict = H2D_LAB_NOT_VERIFIED;
	j.err = check_guest(&j);
	if (j.err)
		goto out;
	j.broken = result->reasons != NULL;
	check_preparation(&j);
	check_log(&j);
	for (size_t i = 0; !j.err && i < result->cell_count; i++)
		judge_cell(&j, &result->cells[i]);
	if (j.err)
		goto out;
	if (!j.usable && !j.broken) {
		j.err = lab_add_line(&result->reasons, "no cell was measured");
		goto out;
	}
	if (shipped && j.controls && !j.broken)
		result->retry_policy = policy_of(&j);
	by_access = result->permission_rule == H2D_PERMISSION_ACCESS;
	if (by_access && !j.broken && !j.by_access)
		j.err = lab_add_line(
			&result->reasons,
			"its module asks for write access by the rule access, under "
			"which no cell was run");
	/* Zeros alone may only mean that the driver's HMM code was never reached. */
	if (shipped && !j.controls && !j.broken && !j.err)
		j.err = lab_add_line(&result->reasons,
				     "no cell was run that must move memory, so that nothing "
				     "shows the driver was reached: add --state rw-present "
				     "--permission vma");
	if (j.err)
		goto out;
	/* Windows that were seen were seen, whatever else went wrong; but under a rule that
	 * this module does not have they are a control. */
	if (j.windows && !by_access)
		result->verdict = H2D_LAB_AFFECTED;
	else if (j.broken)
		result->verdict = H2D_LAB_NOT_VERIFIED;
	else if (j.contradicted || result->reasons)
		result->verdict = H2D_LAB_INCONCLUSIVE;
	else if (!j.controls || by_access)
		result->verdict = H2D_LAB_CLEAN;
	else
		result->verdict = H2D_LAB_COW_PENALTY;
out:
	return j.err ? h2d_fail(&lab->log, j.err, "out of memory") : 0;
}
