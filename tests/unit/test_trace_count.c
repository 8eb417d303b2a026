/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_trace */
/* What is made of the kernel's text. The lines are written by hand after Linux 6.12's format,
 * not recorded; the hostile ones are what programs could put there by their names. */
#include <errno.h>

#include "test.h"
#include "trace/count.h"

#define HEAD(tid, at)  "  map-checkpoint-" tid "     [001] ..... " at ": "
#define IN(tid, at, f) HEAD(tid, at) f "_in: (amdgpu_hmm_range_get_pages+0x4/0x3b0 [amdgpu])"
#define OUT(tid, at, f, ret)                                                                   \
	HEAD(tid, at)                                                                          \
	f "_out: (svm_range_validate_and_map+0x1f4/0x700 [amdgpu] <- "                         \
	  "amdgpu_hmm_range_get_pages) ret=" ret

static struct h2d_trace_counts c;

static void give(const char *line)
{
	/* A copy of exactly that length: reading beyond it is an error that sanitizers see. */
	size_t n = strlen(line);
	char *copy = malloc(n ? n : 1);

	memcpy(copy, line, n);
	h2d_trace_line(&c, copy, n);
	free(copy);
}

static void begin(void)
{
	h2d_trace_counts_init(&c);
	h2d_trace_follow(&c, 71, 70);
}

static const struct h2d_trace_process *only(void)
{
	static const struct h2d_trace_process none;

	CHECK_EQ(c.process_count, 1);
	return c.process_count ? &c.processes[0] : &none;
}

static void calls_and_durations(void)
{
	const struct h2d_trace_stat *s;

	begin();
	give(IN("71", "12.000010", "ioctl"));
	give(IN("71", "12.000020", "svm"));
	give(IN("71", "12.000100", "pages"));
	give(OUT("71", "13.004100", "pages", "-11"));
	give(OUT("71", "13.004200", "svm", "-11"));
	give(OUT("71", "13.004300", "ioctl", "-11"));
	give(IN("71", "13.004310", "pages"));
	give(OUT("71", "13.004310", "pages", "0"));
	/* Not followed. */
	give(IN("99", "13.005000", "pages"));
	give(OUT("99", "13.006000", "pages", "0"));
	CHECK_EQ(only()->pid, 70);
	s = &only()->stats[H2D_TRACE_PAGES];
	CHECK_EQ(s->call_count, 2);
	CHECK_EQ(s->return_count, 2);
	CHECK_EQ(s->eagain_count, 1);
	CHECK_EQ(s->ok_count, 1);
	CHECK_EQ(s->max_ns, 1004000000);
	CHECK_EQ(s->total_ns, 1004000000);
	CHECK_EQ(s->log2_count[30], 1);
	CHECK_EQ(s->log2_count[0], 1);
	CHECK_EQ(only()->stats[H2D_TRACE_IOCTL].total_ns, 1004290000);
	CHECK_EQ(c.event_count, 10);
	CHECK_EQ(c.malformed_count + c.unmatched_count + c.unfinished_count, 0);
	h2d_trace_counts_free(&c);
}

static void windows(void)
{
	static const char calls[] =
		"# event histogram\n#\n# trigger info: hist:keys=common_pid,ret [active]\n#\n\n"
		"{ common_pid:         71, ret:                    0 } hitcount:          1\n"
		"{ common_pid:         71, ret: 18446744073709551600 } hitcount:     433000\n"
		"{ common_pid:         71 } hitcount:     433001\n"
		"{ common_pid:         99, ret:                  -16 } hitcount:          7\n"
		"\nTotals:\n    Hits: 433001\n    Entries: 2\n    Dropped: 0\n";
	static const char times[] = "{ common_pid:         71, lat: ~ 2^10 } hitcount:     "
				    "433000  lat:  400000000\n"
				    "{ common_pid:         71, lat: ~ 2^22 } hitcount:         "
				    " 1  lat:    3000000\n"
				    "    Dropped: 0\n";
	/* 12.000099600 s is told as 12.000100, the other begins exactly. */
	static const char inside[] =
		"{ common_pid:         71, outer: 12000099600, ret: 18446744073709551600 } "
		"hitcount:     430000\n"
		"{ common_pid:         71, outer: 14000000000, ret:                  -16 } "
		"hitcount:       3000\n"
		"{ common_pid:         71, outer: 14000000000, ret:                    0 } "
		"hitcount:          1\n";
	struct h2d_trace_process total;

	begin();
	give(IN("71", "14.000000", "pages"));
	give(OUT("71", "14.400000", "pages", "-16"));
	give(IN("71", "12.000100", "pages"));
	give(OUT("71", "13.004100", "pages", "-11"));
	for (int i = 0; i < 2; i++) { /* the same again gives the same */
		h2d_trace_histograms_begin(&c);
		h2d_trace_histogram(&c, H2D_TRACE_HIST_CALLS, calls);
		h2d_trace_histogram(&c, H2D_TRACE_HIST_TIMES, times);
		h2d_trace_histogram(&c, H2D_TRACE_HIST_INSIDE, inside);
		h2d_trace_windows(&c, 1000);
		h2d_trace_total(&c, &total);
		CHECK_EQ(total.stats[H2D_TRACE_FAULT].call_count, 433001);
		CHECK_EQ(total.stats[H2D_TRACE_FAULT].ebusy_count, 433000);
		CHECK_EQ(total.stats[H2D_TRACE_FAULT].return_count, 433001);
		CHECK_EQ(total.stats[H2D_TRACE_FAULT].total_ns, 403000000);
		CHECK_EQ(total.stats[H2D_TRACE_FAULT].log2_count[22], 1);
		CHECK_EQ(total.outer_count, 2);
		CHECK_EQ(total.outer_ebusy_count, 2);
		CHECK_EQ(total.ebusy_max_count, 430000);
		CHECK_EQ(total.window_count, 1);
		CHECK_EQ(total.window_ns, 1004000000);
		CHECK_EQ(c.unplaced_count + c.dropped_count + c.malformed_count, 0);
	}
	/* Half of the timeout is enough; without -EBUSY inside nothing is. */
	h2d_trace_windows(&c, 800);
	h2d_trace_total(&c, &total);
	CHECK_EQ(total.window_count, 2);
	h2d_trace_histograms_begin(&c);
	h2d_trace_windows(&c, 500);
	h2d_trace_total(&c, &total);
	CHECK_EQ(total.window_count, 0);
	/* -EBUSY in a call that was not seen. */
	h2d_trace_histogram(&c, H2D_TRACE_HIST_INSIDE,
			    "{ common_pid: 71, outer: 5, ret: -16 } hitcount: 3\n"
			    "{ common_pid: 71, outer: 18446744073709551615, ret: -16 } "
			    "hitcount: 1\n    Dropped: 4\n");
	CHECK_EQ(c.unplaced_count, 4);
	CHECK_EQ(c.dropped_count, 4);
	h2d_trace_counts_free(&c);
}

/* Figures that a BPF program counted come in whole, and again. */
static void counted_elsewhere(void)
{
	struct h2d_trace_stat s = {.call_count = 3, .ebusy_count = 2, .ok_count = 1};
	struct h2d_trace_process total;

	h2d_trace_counts_init(&c);
	h2d_trace_put(&c, 70, H2D_TRACE_FAULT, &s);
	s.call_count = 5;
	h2d_trace_put(&c, 70, H2D_TRACE_FAULT, &s);
	h2d_trace_put(&c, 80, H2D_TRACE_FAULT, &s);
	h2d_trace_put_call(&c, 70, 100, 999900, 2, -EAGAIN);
	h2d_trace_put_call(&c, 70, 2000000, 1004000, 0, -EAGAIN);
	/* It retried for long, and got on: a refreshing driver with a large range. */
	h2d_trace_put_call(&c, 70, 4000000, 9004000, 9, 0);
	h2d_trace_put_call(&c, 80, 100, 499999, 7, -EAGAIN);
	h2d_trace_windows(&c, 1000);
	h2d_trace_windows(&c, 1000);
	h2d_trace_total(&c, &total);
	CHECK_EQ(total.stats[H2D_TRACE_FAULT].call_count, 10);
	CHECK_EQ(total.window_count, 1);
	CHECK_EQ(c.processes[0].window_count, 1);
	CHECK_EQ(total.outer_ebusy_count, 3);
	CHECK_EQ(total.ebusy_max_count, 9);
	h2d_trace_counts_free(&c);
}

static void families(void)
{
	begin();
	/* A thread of 70, a process, a thread of that; all by clone flags. */
	give(HEAD("71", "1.000000") "task_newtask: pid=72 comm=a clone_flags=3d0f00 "
				    "oom_score_adj=0");
	give(HEAD("72", "1.000001") "task_newtask: pid=80 comm=a clone_flags=1200000 "
				    "oom_score_adj=0");
	give(HEAD("80", "1.000002") "task_newtask: pid=81 comm=x clone_flags=0 "
				    "clone_flags=3d0f00 oom_score_adj=-5");
	/* Somebody else's. */
	give(HEAD("99", "1.000003") "task_newtask: pid=100 comm=a clone_flags=3d0f00 "
				    "oom_score_adj=0");
	give(IN("72", "2.000000", "pages"));
	give(IN("81", "2.000000", "pages"));
	give(IN("100", "2.000000", "pages"));
	give(OUT("81", "2.000007", "pages", "0"));
	CHECK_EQ(c.process_count, 2);
	CHECK_EQ(c.processes[0].pid, 70);
	CHECK_EQ(c.processes[1].pid, 80);
	CHECK_EQ(c.unfinished_count, 1);
	/* The number 72 comes again, as somebody else's. */
	give(HEAD("99", "3.000000") "task_newtask: pid=72 comm=a clone_flags=1200000 "
				    "oom_score_adj=0");
	give(OUT("72", "3.000001", "pages", "0"));
	CHECK_EQ(c.processes[0].stats[H2D_TRACE_PAGES].return_count, 0);
	CHECK_EQ(c.unfinished_count, 0);
	CHECK_EQ(c.malformed_count, 0);
	h2d_trace_counts_free(&c);
}

static int half(void *user, int tid)
{
	(void)user;
	return tid == 31 ? -1 : tid / 2;
}

static void everybody(void)
{
	h2d_trace_counts_init(&c);
	c.everybody = true;
	c.process_of = half;
	give(IN("30", "2.000000", "userptr"));
	give(IN("31", "2.000000", "userptr"));
	CHECK_EQ(c.process_count, 2);
	CHECK_EQ(c.processes[0].pid, 15);
	CHECK_EQ(c.processes[1].pid, 31);
	h2d_trace_counts_free(&c);
}

static void hostile(void)
{
	static const char *const bad[] = {
		"",
		"x",
		"                ",
		"                -",
		"                -71",
		"  map-checkpoint-71     [001] ..... 12.000010",
		"  map-checkpoint-71     [001] ..... 12.000010: ",
		"  map-checkpoint-71     [001] ..... 12.10: pages_in: (a)",
		"  map-checkpoint-71     [001] ..... 12.0000100: pages_in: (a)",
		"  map-checkpoint-71     [001] ..... 99999999999999999999.000010: pages_in: "
		"(a)",
		"  map-checkpoint-71     [001] ..... 9999999999999.000010: pages_in: (a)",
		"  map-checkpoint-99999999999     [001] ..... 12.000010: pages_in: (a)",
		"  map-checkpoint--71     [001] ..... 12.000010: pages_in: (a)",
		"  map-checkpoint-71     [-1] ..... 12.000010: pages_in: (a)",
		"map-checkpoint-71     [001] ..... 12.000010: pages_in: (a)",
		HEAD("71", "12.000010") "pages_in: (",
		HEAD("71", "12.000010") "pages_in: (a) x",
		HEAD("71", "12.000010") "pages: (a)",
		HEAD("71", "12.000010") "pages_out: (a)",
		HEAD("71", "12.000010") "pages_out: (a) ret=",
		HEAD("71", "12.000010") "pages_out: (a) ret=-",
		HEAD("71", "12.000010") "pages_out: (a) ret=-11 ",
		HEAD("71", "12.000010") "pages_out: (a) ret=99999999999",
		HEAD("71", "12.000010") "pages_out: (a) ret=-99999999999999999999",
		HEAD("71", "12.000010") "other_in: (a)",
		HEAD("71",
		     "12.000010") "task_newtask: pid=-1 comm=a clone_flags=0 oom_score_adj=0",
		HEAD("71",
		     "12.000010") "task_newtask: pid=0 comm=a clone_flags=0 oom_score_adj=0",
		HEAD("71", "12.000010") "task_newtask: pid=5 comm=a",
		HEAD("71", "12.000010") "task_newtask: pid=5 comm=a clone_flags=",
		"CPU:1",
		"CPU:x [LOST 5 EVENTS]",
		"CPU:1 [LOST 5 EVENTS] x",
		"CPU:1 [LOST EVENTS",
	};
	size_t n = sizeof(bad) / sizeof(bad[0]);

	begin();
	for (size_t i = 0; i < n; i++) {
		give(bad[i]);
		CHECK_EQ(c.malformed_count, i + 1);
	}
	CHECK_EQ(c.event_count, 0);
	CHECK_EQ(c.process_count, 0);
	give("CPU:1 [LOST 5 EVENTS]");
	give("CPU:1 [LOST EVENTS]");
	CHECK_EQ(c.lost_count, 6);
	/* A name that looks like the rest of a line; the kernel's own part counts. */
	give(" -9 [0] . 1.0: x-71     [001] ..... 12.000010: pages_in: (a+0x0/0x1)");
	CHECK_EQ(only()->stats[H2D_TRACE_PAGES].call_count, 1);
	/* Returns without a begin, a clock that goes back, deeper than is kept. */
	give(OUT("71", "12.000005", "pages", "0"));
	give(OUT("71", "12.000012", "svm", "0"));
	CHECK_EQ(c.unmatched_count, 2);
	for (int i = 0; i < 9; i++)
		give(IN("71", "12.000020", "pages"));
	for (int i = 0; i < 9; i++)
		give(OUT("71", "12.000030", "pages", "0"));
	CHECK_EQ(only()->stats[H2D_TRACE_PAGES].return_count, H2D_TRACE_NEST);
	CHECK_EQ(c.unfinished_count, 0);
	/* Histograms. */
	n = c.malformed_count;
	h2d_trace_histogram(&c, H2D_TRACE_HIST_TIMES,
			    "{ common_pid: 71, lat: 2^10 } hitcount: 1  lat: 1\n"
			    "{ common_pid: 71, lat: ~ 2^10 } hitcount: 1\n"
			    "{ common_pid: 71, lat: ~ 2^99 } hitcount: 1  lat: 1\n"
			    "{ common_pid: 99999999999, lat: ~ 2^1 } hitcount: 1  lat: 1\n"
			    "{ common_pid: 71\n{\nnothing\n");
	CHECK_EQ(c.malformed_count, n + 5);
	CHECK_EQ(only()->stats[H2D_TRACE_FAULT].log2_count[H2D_TRACE_LOG2 - 1], 1);
	h2d_trace_counts_free(&c);
}

/* Any cut of a good line is understood or counted, and never read beyond. */
static void cuts(void)
{
	const char *line = OUT("71", "13.004100", "pages", "-11");
	char copy[256];

	begin();
	for (size_t n = 0; n <= strlen(line); n++) {
		snprintf(copy, sizeof(copy), "%.*s", (int)n, line);
		give(copy);
	}
	/* "ret=-1" and "ret=-11" are whole. */
	CHECK_EQ(c.event_count, 2);
	CHECK_EQ(c.malformed_count, strlen(line) - 1);
	h2d_trace_counts_free(&c);
}

static void many(void)
{
	char line[160];

	begin();
	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line),
			 HEAD("71", "1.000000") "task_newtask: pid=%d comm=a clone_flags=%x "
						"oom_score_adj=0",
			 1000 + i, i % 2 ? 0x10000 : 0);
		give(line);
		snprintf(line, sizeof(line),
			 "  map-checkpoint-%d     [001] ..... 2.%06d: pages_in: (a+0x0/0x1)",
			 1000 + i, i);
		give(line);
	}
	CHECK_EQ(c.process_count, 2501);
	CHECK_EQ(c.processes[1].pid, 70);
	CHECK_EQ(c.processes[1].stats[H2D_TRACE_PAGES].call_count, 2500);
	CHECK_EQ(c.failed, false);
	h2d_trace_counts_free(&c);
}

int main(void)
{
	RUN(calls_and_durations);
	RUN(windows);
	RUN(counted_elsewhere);
	RUN(families);
	RUN(everybody);
	RUN(hostile);
	RUN(cuts);
	RUN(many);
	return TEST_DONE();
}
