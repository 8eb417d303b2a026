/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <limits.h>
#include <string.h>

enum { NAME_WIDTH = 16 }; /* of a task's name, always filled up by the kernel */

struct cursor {
	const char *at, *end;
};

static void blanks(struct cursor *c)
{
	while (c->at < c->end && *c->at == ' ')
		c->at++;
}

static bool word(struct cursor *c, const char *w)
{
	size_t n = strlen(w);

	if ((size_t)(c->end - c->at) < n || memcmp(c->at, w, n) != 0)
		return false;
	c->at += n;
	return true;
}

static bool number(struct cursor *c, unsigned base, uint64_t *out)
{
	const char *begin = c->at;
	uint64_t v = 0;

	for (; c->at < c->end; c->at++) {
		unsigned char ch = (unsigned char)*c->at;
		unsigned d = 99;

		if (ch >= '0' && ch <= '9')
			d = ch - '0';
		else if (ch >= 'a' && ch <= 'f')
			d = ch - 'a' + 10u;

		if (d >= base)
			break;
		if (v > (UINT64_MAX - d) / base)
			return false;
		v = v * base + d;
	}
	*out = v;
	return c->at > begin;
}

static bool task_number(struct cursor *c, int *out)
{
	uint64_t v;

	if (!number(c, 10, &v) || v > INT_MAX)
		return false;
	*out = (int)v;
	return true;
}

/* Negative ones come with a sign from events and as 64 bits without one from histograms. */
static bool code(struct cursor *c, int64_t *out)
{
	bool minus = word(c, "-");
	uint64_t v;

	if (!number(c, 10, &v))
		return false;
	if (minus ? v > INT32_MAX : v > INT32_MAX && v < (uint64_t)(int64_t)INT32_MIN)
		return false;
	*out = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

/* The last place of `w`, behind it: what stands before may be anybody's words. */
static bool last(struct cursor *c, const char *w)
{
	size_t n = strlen(w);

	for (const char *at = c->end - n; at >= c->at; at--)
		if (memcmp(at, w, n) == 0) {
			c->at = at + n;
			return true;
		}
	return false;
}

static enum h2d_trace_line_kind lost(struct cursor *c, struct h2d_trace_event *e)
{
	uint64_t cpu;

	if (!number(c, 10, &cpu) || !word(c, " [LOST "))
		return H2D_TRACE_LINE_BAD;
	/* Where the count did not fit, the kernel leaves it out. */
	e->lost = 1;
	if (word(c, "EVENTS]"))
		return c->at == c->end ? H2D_TRACE_LINE_LOST : H2D_TRACE_LINE_BAD;
	if (!number(c, 10, &e->lost) || !word(c, " EVENTS]") || c->at != c->end)
		return H2D_TRACE_LINE_BAD;
	return H2D_TRACE_LINE_LOST;
}

static enum h2d_trace_line_kind task(struct cursor *c, struct h2d_trace_event *e)
{
	if (!word(c, "pid=") || !task_number(c, &e->child) || !word(c, " comm="))
		return H2D_TRACE_LINE_BAD;
	if (!last(c, " clone_flags=") || !number(c, 16, &e->flags) ||
	    !word(c, " oom_score_adj="))
		return H2D_TRACE_LINE_BAD;
	return e->child > 0 ? H2D_TRACE_LINE_TASK : H2D_TRACE_LINE_BAD;
}

static enum h2d_trace_line_kind probe(struct cursor *c, struct h2d_trace_event *e)
{
	int f = 0;

	while (f < H2D_TRACE_FUNCTIONS && !word(c, h2d_trace_event_names[f]))
		f++;
	if (f == H2D_TRACE_FUNCTIONS)
		return H2D_TRACE_LINE_BAD;
	e->function = (enum h2d_trace_function)f;
	if (word(c, "_in: ("))
		return c->end[-1] == ')' ? H2D_TRACE_LINE_ENTRY : H2D_TRACE_LINE_BAD;
	if (!word(c, "_out: (") || !last(c, ") ret=") || !code(c, &e->ret) || c->at != c->end)
		return H2D_TRACE_LINE_BAD;
	e->is_return = true;
	return H2D_TRACE_LINE_RETURN;
}

enum h2d_trace_line_kind h2d_trace_parse_line(const char *line, size_t bytes,
					      struct h2d_trace_event *e)
{
	struct cursor c = {line, line + bytes};
	uint64_t cpu, seconds, micros;
	const char *digits;

	memset(e, 0, sizeof(*e));
	if (word(&c, "CPU:"))
		return lost(&c, e);
	if (bytes <= NAME_WIDTH)
		return H2D_TRACE_LINE_BAD;
	c.at += NAME_WIDTH;
	if (!word(&c, "-") || !task_number(&c, &e->tid))
		return H2D_TRACE_LINE_BAD;
	blanks(&c);
	if (!word(&c, "[") || !number(&c, 10, &cpu) || !word(&c, "] "))
		return H2D_TRACE_LINE_BAD;
	while (c.at < c.end && *c.at != ' ')
		c.at++;
	blanks(&c);
	if (!number(&c, 10, &seconds) || !word(&c, ".") || seconds > UINT64_MAX / 1000000000000)
		return H2D_TRACE_LINE_BAD;
	digits = c.at;
	if (!number(&c, 10, &micros) || c.at - digits != 6 || !word(&c, ": "))
		return H2D_TRACE_LINE_BAD;
	e->at_us = seconds * 1000000 + micros;
	if (word(&c, "task_newtask: "))
		return task(&c, e);
	return probe(&c, e);
}

/* ---- histograms ---- */

static bool key(struct cursor *c, const char *name)
{
	blanks(c);
	if (!word(c, name) || !word(c, ":"))
		return false;
	blanks(c);
	return true;
}

static bool keys(struct cursor *c, enum h2d_trace_histogram which, struct h2d_trace_row *r)
{
	uint64_t k;

	switch (which) {
	case H2D_TRACE_HIST_CALLS:
		return key(c, "ret") && code(c, &r->ret);
	case H2D_TRACE_HIST_TIMES:
		if (!key(c, "lat") || !word(c, "~ 2^") || !number(c, 10, &k))
			return false;
		r->log2 = (unsigned)(k < H2D_TRACE_LOG2 ? k : H2D_TRACE_LOG2 - 1);
		return true;
	case H2D_TRACE_HIST_INSIDE:
		if (!key(c, "outer") || !number(c, 10, &r->outer_ns))
			return false;
		blanks(c);
		return word(c, ",") && key(c, "ret") && code(c, &r->ret);
	}
	return false;
}

bool h2d_trace_parse_row(const char *line, size_t bytes, enum h2d_trace_histogram which,
			 struct h2d_trace_row *r)
{
	struct cursor c = {line, line + bytes};

	memset(r, 0, sizeof(*r));
	if (!word(&c, "{") || !key(&c, "common_pid") || !task_number(&c, &r->tid))
		return false;
	blanks(&c);
	if (!word(&c, ",") || !keys(&c, which, r))
		return false;
	blanks(&c);
	if (!word(&c, "}") || !key(&c, "hitcount") || !number(&c, 10, &r->hit_count))
		return false;
	if (which == H2D_TRACE_HIST_TIMES && (!key(&c, "lat") || !number(&c, 10, &r->sum_ns)))
		return false;
	blanks(&c);
	return c.at == c.end;
}

bool h2d_trace_parse_dropped(const char *line, size_t bytes, uint64_t *count)
{
	struct cursor c = {line, line + bytes};

	return key(&c, "Dropped") && number(&c, 10, count) && c.at == c.end;
}
