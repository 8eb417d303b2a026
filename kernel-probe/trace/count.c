/* SPDX-License-Identifier: Apache-2.0 */
#include "count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

enum {
	THREADS_MAX = 1 << 20,
	PROCESSES_MAX = 1 << 16,
	CALLS_MAX = 1 << 20,
	CLONE_THREAD_FLAG = 0x10000, /* CLONE_THREAD of linux/sched.h */
};

const char *const h2d_trace_event_names[H2D_TRACE_FUNCTIONS] = {
	[H2D_TRACE_FAULT] = "fault",	   [H2D_TRACE_PAGES] = "pages",
	[H2D_TRACE_EMULATED] = "emulated", [H2D_TRACE_SVM] = "svm",
	[H2D_TRACE_USERPTR] = "userptr",   [H2D_TRACE_IOCTL] = "ioctl",
};

struct h2d_trace_thread {
	int tid; /* 0: free */
	int pid;
	bool followed;
	uint8_t depth[H2D_TRACE_FUNCTIONS];
	uint64_t begin_us[H2D_TRACE_FUNCTIONS][H2D_TRACE_NEST];
};

struct h2d_trace_call {
	int tid, pid;
	uint64_t begin_us, duration_us, ebusy_count;
	bool again; /* it ended with -EAGAIN or -EBUSY */
};

void h2d_trace_counts_init(struct h2d_trace_counts *c)
{
	memset(c, 0, sizeof(*c));
}

void h2d_trace_counts_free(struct h2d_trace_counts *c)
{
	free(c->threads);
	free(c->processes);
	free(c->calls);
	memset(c, 0, sizeof(*c));
}

/* ---- threads and processes ---- */

static struct h2d_trace_thread *slot(struct h2d_trace_thread *table, size_t cap, int tid)
{
	size_t i = ((uint32_t)tid * 2654435761u) & (cap - 1);

	while (table[i].tid && table[i].tid != tid)
		i = (i + 1) & (cap - 1);
	return &table[i];
}

static bool widen(struct h2d_trace_counts *c)
{
	size_t cap = c->thread_cap ? c->thread_cap * 2 : 1024;
	struct h2d_trace_thread *more;

	if (cap > THREADS_MAX || !(more = calloc(cap, sizeof(*more)))) {
		c->failed = true;
		return false;
	}
	for (size_t i = 0; i < c->thread_cap; i++)
		if (c->threads[i].tid)
			*slot(more, cap, c->threads[i].tid) = c->threads[i];
	free(c->threads);
	c->threads = more;
	c->thread_cap = cap;
	return true;
}

static struct h2d_trace_thread *find(struct h2d_trace_counts *c, int tid)
{
	struct h2d_trace_thread *t;

	if (tid <= 0 || !c->thread_cap)
		return NULL;
	t = slot(c->threads, c->thread_cap, tid);
	return t->tid ? t : NULL;
}

/* The thread, as new: numbers are used again. */
static struct h2d_trace_thread *set(struct h2d_trace_counts *c, int tid, int pid, bool followed)
{
	struct h2d_trace_thread *t;

	if (tid <= 0 || (c->thread_count * 2 >= c->thread_cap && !widen(c)))
		return NULL;
	t = slot(c->threads, c->thread_cap, tid);
	c->thread_count += !t->tid;
	for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++)
		c->unfinished_count -= t->followed ? t->depth[f] : 0;
	memset(t, 0, sizeof(*t));
	t->tid = tid;
	t->pid = pid;
	t->followed = followed;
	return t;
}

void h2d_trace_follow(struct h2d_trace_counts *c, int tid, int pid)
{
	set(c, tid, pid, true);
	if (c->follow)
		c->follow(c->follow_user, pid);
}

/* A thread whose calls count, or NULL. */
static struct h2d_trace_thread *followed(struct h2d_trace_counts *c, int tid)
{
	struct h2d_trace_thread *t = find(c, tid);
	int pid;

	if (!t && c->everybody) {
		pid = c->process_of ? c->process_of(c->user, tid) : 0;
		t = set(c, tid, pid > 0 ? pid : tid, true);
	}
	return t && t->followed ? t : NULL;
}

static struct h2d_trace_process *process(struct h2d_trace_counts *c, int pid)
{
	for (size_t i = c->process_count; i--;)
		if (c->processes[i].pid == pid)
			return &c->processes[i];
	if (c->process_count == c->process_cap) {
		size_t cap = c->process_cap ? c->process_cap * 2 : 16;
		struct h2d_trace_process *more;

		if (cap > PROCESSES_MAX ||
		    !(more = realloc(c->processes, cap * sizeof(*more)))) {
			c->failed = true;
			return NULL;
		}
		c->processes = more;
		c->process_cap = cap;
	}
	memset(&c->processes[c->process_count], 0, sizeof(*c->processes));
	c->processes[c->process_count].pid = pid;
	return &c->processes[c->process_count++];
}

/* ---- calls ---- */

static unsigned log2_up(uint64_t ns)
{
	unsigned k = 0;

	while (k < H2D_TRACE_LOG2 - 1 && ns > (uint64_t)1 << k)
		k++;
	return k;
}

static void code(struct h2d_trace_stat *s, int64_t ret, uint64_t times)
{
	if (ret >= 0)
		s->ok_count += times;
	else if (ret == -EBUSY)
		s->ebusy_count += times;
	else if (ret == -EAGAIN)
		s->eagain_count += times;
	else
		s->error_count += times;
}

static bool again(int64_t ret)
{
	return ret == -EAGAIN || ret == -EBUSY;
}

static void keep(struct h2d_trace_counts *c, const struct h2d_trace_call *call)
{
	if (c->call_count == c->call_cap) {
		size_t cap = c->call_cap ? c->call_cap * 2 : 256;
		struct h2d_trace_call *more =
			cap > CALLS_MAX ? NULL : realloc(c->calls, cap * sizeof(*more));

		if (!more) {
			c->unkept_count++;
			return;
		}
		c->calls = more;
		c->call_cap = cap;
	}
	c->calls[c->call_count++] = *call;
}

void h2d_trace_put(struct h2d_trace_counts *c, int pid, enum h2d_trace_function function,
		   const struct h2d_trace_stat *stat)
{
	struct h2d_trace_process *p = process(c, pid);

	if (p)
		p->stats[function] = *stat;
}

void h2d_trace_put_call(struct h2d_trace_counts *c, int pid, uint64_t begin_us,
			uint64_t duration_us, uint64_t ebusy_count, int64_t ret)
{
	c->event_count++;
	keep(c,
	     &(struct h2d_trace_call){0, pid, begin_us, duration_us, ebusy_count, again(ret)});
}

static void entered(struct h2d_trace_counts *c, struct h2d_trace_thread *t, unsigned f,
		    uint64_t at_us)
{
	struct h2d_trace_process *p = process(c, t->pid);

	if (!p)
		return;
	p->stats[f].call_count++;
	if (t->depth[f] == H2D_TRACE_NEST)
		/* Returns were lost; the oldest begins are theirs. */
		memmove(&t->begin_us[f][0], &t->begin_us[f][1],
			sizeof(t->begin_us[f]) - sizeof(t->begin_us[f][0]));
	else {
		t->depth[f]++;
		c->unfinished_count++;
	}
	t->begin_us[f][t->depth[f] - 1] = at_us;
}

static void left(struct h2d_trace_counts *c, struct h2d_trace_thread *t, unsigned f,
		 uint64_t at_us, int64_t ret)
{
	struct h2d_trace_process *p = process(c, t->pid);
	struct h2d_trace_stat *s;
	uint64_t begin, ns;

	if (!p)
		return;
	s = &p->stats[f];
	if (!t->depth[f] || t->begin_us[f][t->depth[f] - 1] > at_us) {
		c->unmatched_count++;
		return;
	}
	begin = t->begin_us[f][--t->depth[f]];
	c->unfinished_count--;
	ns = (at_us - begin) * 1000;
	code(s, ret, 1);
	s->return_count++;
	s->total_ns += ns;
	if (ns > s->max_ns)
		s->max_ns = ns;
	s->log2_count[log2_up(ns)]++;
	if (h2d_trace_is_outer((enum h2d_trace_function)f))
		keep(c, &(struct h2d_trace_call){t->tid, t->pid, begin, at_us - begin, 0,
						 again(ret)});
}

static void born(struct h2d_trace_counts *c, const struct h2d_trace_event *e)
{
	struct h2d_trace_thread *parent = find(c, e->tid);
	bool follow = c->everybody || (parent && parent->followed);
	int pid = e->child;

	if (e->flags & CLONE_THREAD_FLAG) {
		pid = parent ? parent->pid : 0;
		if (!pid && c->everybody && c->process_of)
			pid = c->process_of(c->user, e->tid);
		if (pid <= 0)
			pid = e->tid;
	}
	/* Those of others are remembered only where a number is used again. */
	if (follow || find(c, e->child))
		set(c, e->child, pid, follow);
}

void h2d_trace_line(struct h2d_trace_counts *c, const char *line, size_t bytes)
{
	struct h2d_trace_thread *t;
	struct h2d_trace_event e;

	switch (h2d_trace_parse_line(line, bytes, &e)) {
	case H2D_TRACE_LINE_BAD:
		c->malformed_count++;
		return;
	case H2D_TRACE_LINE_LOST:
		c->lost_count += e.lost;
		return;
	case H2D_TRACE_LINE_TASK:
		c->event_count++;
		born(c, &e);
		return;
	case H2D_TRACE_LINE_ENTRY:
	case H2D_TRACE_LINE_RETURN:
		break;
	}
	c->event_count++;
	t = followed(c, e.tid);
	if (!t)
		return;
	if (e.is_return)
		left(c, t, e.function, e.at_us, e.ret);
	else
		entered(c, t, e.function, e.at_us);
}

/* ---- histograms ---- */

void h2d_trace_histograms_begin(struct h2d_trace_counts *c)
{
	for (size_t i = 0; i < c->process_count; i++)
		memset(&c->processes[i].stats[H2D_TRACE_FAULT], 0,
		       sizeof(c->processes[i].stats[0]));
	for (size_t i = 0; i < c->call_count; i++)
		c->calls[i].ebusy_count = 0;
	c->unplaced_count = c->dropped_count = 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct h2d_trace_call *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->begin_us < y->begin_us ? -1 : x->begin_us > y->begin_us;
}

/* The call that began at `ns`, which trace_pipe tells rounded to microseconds. */
static struct h2d_trace_call *call_at(struct h2d_trace_counts *c, int tid, uint64_t ns)
{
	struct h2d_trace_call *best = NULL;
	uint64_t best_off = 1001;
	size_t lo = 0, hi = c->call_count;

	if (ns > UINT64_MAX - 2000)
		return NULL;
	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;
		const struct h2d_trace_call *k = &c->calls[mid];

		if (k->tid < tid || (k->tid == tid && k->begin_us + 2 < ns / 1000))
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < c->call_count && c->calls[lo].tid == tid; lo++) {
		uint64_t at = c->calls[lo].begin_us * 1000;
		uint64_t off = at > ns ? at - ns : ns - at;

		if (at > ns + 1000)
			break;
		if (off < best_off) {
			best_off = off;
			best = &c->calls[lo];
		}
	}
	return best;
}

static void row(struct h2d_trace_counts *c, enum h2d_trace_histogram which,
		const struct h2d_trace_row *r)
{
	struct h2d_trace_thread *t = followed(c, r->tid);
	struct h2d_trace_process *p = t ? process(c, t->pid) : NULL;
	struct h2d_trace_stat *s;
	struct h2d_trace_call *call;

	if (!p)
		return;
	s = &p->stats[H2D_TRACE_FAULT];
	switch (which) {
	case H2D_TRACE_HIST_CALLS:
		s->call_count += r->hit_count;
		code(s, r->ret, r->hit_count);
		break;
	case H2D_TRACE_HIST_TIMES:
		s->return_count += r->hit_count;
		s->total_ns += r->sum_ns;
		s->log2_count[r->log2] += r->hit_count;
		break;
	case H2D_TRACE_HIST_INSIDE:
		if (r->ret != -EBUSY)
			break;
		call = call_at(c, r->tid, r->outer_ns);
		if (call)
			call->ebusy_count += r->hit_count;
		else
			c->unplaced_count += r->hit_count;
		break;
	}
}

void h2d_trace_histogram(struct h2d_trace_counts *c, enum h2d_trace_histogram which,
			 const char *text)
{
	struct h2d_trace_row r;
	uint64_t dropped;
	size_t n;

	if (which == H2D_TRACE_HIST_INSIDE && c->call_count)
		qsort(c->calls, c->call_count, sizeof(*c->calls), by_begin);
	for (; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (h2d_trace_parse_row(text, n, which, &r))
			row(c, which, &r);
		else if (h2d_trace_parse_dropped(text, n, &dropped))
			c->dropped_count += dropped;
		else if (*text == '{' && which != H2D_TRACE_HIST_CALLS)
			c->malformed_count++;
	}
}

void h2d_trace_windows(struct h2d_trace_counts *c, uint32_t timeout_ms)
{
	for (size_t i = 0; i < c->process_count; i++) {
		struct h2d_trace_process *p = &c->processes[i];

		p->outer_count = p->stats[H2D_TRACE_PAGES].call_count +
				 p->stats[H2D_TRACE_EMULATED].call_count;
		p->outer_ebusy_count = p->ebusy_max_count = 0;
		p->window_count = p->window_ns = 0;
	}
	for (size_t i = 0; i < c->call_count; i++) {
		const struct h2d_trace_call *k = &c->calls[i];
		struct h2d_trace_process *p = process(c, k->pid);

		if (!p || !k->ebusy_count)
			continue;
		p->outer_ebusy_count++;
		if (k->ebusy_count > p->ebusy_max_count)
			p->ebusy_max_count = k->ebusy_count;
		if (!k->again || k->duration_us < (uint64_t)timeout_ms * 500)
			continue;
		p->window_count++;
		p->window_ns += k->duration_us * 1000;
	}
}

void h2d_trace_total(const struct h2d_trace_counts *c, struct h2d_trace_process *total)
{
	memset(total, 0, sizeof(*total));
	for (size_t i = 0; i < c->process_count; i++) {
		const struct h2d_trace_process *p = &c->processes[i];

		for (int f = 0; f < H2D_TRACE_FUNCTIONS; f++) {
			const struct h2d_trace_stat *s = &p->stats[f];
			struct h2d_trace_stat *to = &total->stats[f];

			to->call_count += s->call_count;
			to->return_count += s->return_count;
			to->ok_count += s->ok_count;
			to->ebusy_count += s->ebusy_count;
			to->eagain_count += s->eagain_count;
			to->error_count += s->error_count;
			to->total_ns += s->total_ns;
			if (s->max_ns > to->max_ns)
				to->max_ns = s->max_ns;
			for (int k = 0; k < H2D_TRACE_LOG2; k++)
				to->log2_count[k] += s->log2_count[k];
		}
		total->outer_count += p->outer_count;
		total->outer_ebusy_count += p->outer_ebusy_count;
		if (p->ebusy_max_count > total->ebusy_max_count)
			total->ebusy_max_count = p->ebusy_max_count;
		total->window_count += p->window_count;
		total->window_ns += p->window_ns;
	}
}
