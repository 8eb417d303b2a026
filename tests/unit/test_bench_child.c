/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_bench */
/* The process of a sample: lines, torrents, ends, and nobody left behind. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "bench/child.h"
#include "bench/events.h"
#include "bench/run.h"
#include "core/clock.h"
#include "scratch.h"
#include "test.h"

static int start(struct h2d_bench_child *c, const char *script)
{
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)(uintptr_t)script, NULL};

	return h2d_bench_child_start(c, argv, NULL, NULL);
}

/* Wait for something to happen, at most 10 s. */
static int next(struct h2d_bench_child *c)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const uint64_t deadline = h2d_now_ns() + 10000000000u;
	int rc;

	while (!(rc = h2d_bench_child_read(c)) && h2d_now_ns() < deadline)
		nanosleep(&pause, NULL);
	return rc;
}

static void lines_come_one_by_one(void)
{
	struct h2d_bench_child c;

	CHECK_EQ(start(&c, "printf 'one\\ntwo\\nthr'; sleep 0.05; printf 'ee\\nrest'"), 0);
	CHECK_EQ(next(&c), 1);
	CHECK_STR(c.line, "one");
	CHECK_EQ(next(&c), 1); /* not taken yet: the same one */
	CHECK_STR(c.line, "one");
	h2d_bench_child_next(&c);
	CHECK_EQ(next(&c), 1);
	CHECK_STR(c.line, "two");
	h2d_bench_child_next(&c);
	CHECK_EQ(next(&c), 1);
	CHECK_STR(c.line, "three");
	h2d_bench_child_next(&c);
	CHECK_EQ(next(&c), -EPIPE); /* a line without its end is none */
	h2d_bench_child_finish(&c);
}

static void it_is_spoken_to(void)
{
	struct h2d_bench_child c;

	CHECK_EQ(start(&c, "read x; echo \"got $x\"; cat >/dev/null"), 0);
	CHECK_EQ(h2d_bench_child_send(&c, "hello\n", 6), 0);
	CHECK_EQ(next(&c), 1);
	CHECK_STR(c.line, "got hello");
	CHECK(!h2d_bench_child_ended(&c));
	h2d_bench_child_close_in(&c);
	h2d_bench_child_next(&c);
	CHECK_EQ(next(&c), -EPIPE);
	while (!h2d_bench_child_ended(&c))
		usleep(1000);
	CHECK(WIFEXITED(c.wait_status) && WEXITSTATUS(c.wait_status) == 0);
	CHECK_EQ(h2d_bench_child_send(&c, "x", 1), -EPIPE);
	h2d_bench_child_finish(&c);
}

static void long_lines_and_stderr(void)
{
	struct h2d_bench_child c;

	CHECK_EQ(
		start(&c,
		      "i=0; while [ $i -lt 3000 ]; do echo \"noise $i\" >&2; i=$((i+1)); done; "
		      "head -c 70000 /dev/zero | tr '\\0' x; sleep 10"),
		0);
	CHECK_EQ(next(&c), -EMSGSIZE);
	CHECK(c.tail_bytes <= H2D_BENCH_STDERR_BYTES);
	CHECK(strstr(c.tail, "noise 2999\n"));
	h2d_bench_child_finish(&c);
	CHECK(WIFSIGNALED(c.wait_status) && WTERMSIG(c.wait_status) == SIGKILL);
}

static void what_cannot_start(void)
{
	char *none[] = {(char *)"/nonexistent/x", NULL}, *dir[] = {(char *)"/", NULL};
	char *ok[] = {(char *)"/bin/true", NULL};
	struct h2d_bench_child c;

	CHECK_EQ(h2d_bench_child_start(&c, none, NULL, NULL), -ENOENT);
	CHECK_EQ(h2d_bench_child_start(&c, dir, NULL, NULL), -EACCES);
	CHECK_EQ(h2d_bench_child_start(&c, ok, "/nonexistent", NULL), -ENOENT);
	CHECK_EQ(h2d_bench_child_start(&c, ok, NULL, "/nonexistent/cgroup.procs"), -ENOENT);
}

static void ends_with_it(const char *script)
{
	struct h2d_bench_child c;
	pid_t grandchild;

	CHECK_EQ(start(&c, script), 0);
	CHECK_EQ(next(&c), 1);
	grandchild = atoi(c.line);
	CHECK(grandchild > 1 && !kill(grandchild, 0));
	h2d_bench_child_finish(&c);
	CHECK(kill(grandchild, 0) && errno == ESRCH);
	h2d_bench_child_finish(&c); /* twice is once */
}

/* Its group goes with it: also a grandchild that holds the pipes, and one of another session.
 */
static void nobody_is_left(void)
{
	ends_with_it("sleep 100 & echo $!; wait");
	ends_with_it("setsid sh -c 'echo $$; exec sleep 100' & wait");
	ends_with_it(
		"setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 100\" & wait' & wait");
	/* Of one that has ended itself. */
	ends_with_it("setsid sh -c 'echo $$; exec sleep 100' & sleep 0.2");
}

/* What was started before is nobody's business. */
static void others_stay(void)
{
	struct h2d_bench_child c;
	const pid_t other = fork();
	int status;

	if (!other) {
		pause();
		_exit(0);
	}
	CHECK_EQ(start(&c, "echo 1; sleep 100"), 0);
	CHECK_EQ(next(&c), 1);
	h2d_bench_child_finish(&c);
	CHECK(!kill(other, 0) && waitpid(other, &status, WNOHANG) == 0);
	kill(other, SIGKILL);
	CHECK_EQ(waitpid(other, &status, 0), other);
}

/* ---- the log ---- */

static int put(struct h2d_bench_events *e, const char *name)
{
	struct h2d_json j;

	h2d_bench_event_begin(&j, name);
	return h2d_bench_event_end(e, &j, &scratch_log);
}

static void the_log(void)
{
	struct h2d_bench_events e = {.fd = -1}, again = {.fd = -1};
	const char *path = scratch_path("events.jsonl");
	FILE *f;

	CHECK_EQ(h2d_bench_events_open(&e, path, &scratch_log), 0);
	CHECK_EQ(put(&e, "a"), 0);
	CHECK_EQ(put(&e, "b"), 0);
	CHECK_EQ(json_array_size(e.lines), 2);
	CHECK_EQ(h2d_bench_events_open(&again, path, &scratch_log), H2D_E_UNAVAILABLE);
	h2d_bench_events_close(&again);
	h2d_bench_events_close(&e);
	f = fopen(path, "a");
	fputs("{\"event\":\"torn", f);
	fclose(f);
	CHECK_EQ(h2d_bench_events_open(&e, path, &scratch_log), 0);
	CHECK_EQ(json_array_size(e.lines), 2);
	CHECK_EQ(put(&e, "c"), 0);
	h2d_bench_events_close(&e);
	CHECK_EQ(h2d_bench_events_open(&e, path, &scratch_log), 0);
	CHECK_EQ(json_array_size(e.lines), 3);
	h2d_bench_events_close(&e);
	f = fopen(path, "a");
	fputs("{\"no\":\"event\"}\n", f);
	fclose(f);
	CHECK_EQ(h2d_bench_events_open(&e, path, &scratch_log), H2D_E_FORMAT);
	CHECK(scratch_logged("line 4 is no event"));
	h2d_bench_events_close(&e);
}

static void one_campaign_at_a_time(void)
{
	char name[64];
	int owner, first, second;

	snprintf(name, sizeof(name), "h2d-test-%d", (int)getpid());
	first = h2d_bench_lock(name, &owner);
	CHECK(first >= 0);
	second = h2d_bench_lock(name, &owner);
	CHECK_EQ(second, -1);
	CHECK_EQ(owner, getpid());
	close(first);
	second = h2d_bench_lock(name, &owner);
	CHECK(second >= 0);
	close(second);
}

/* Every cell once, another order in each block, the same for the same seed. */
static void orders(void)
{
	const struct h2d_bench_matrix m = {.seed = 5, .cell_count = 20},
				      n = {.seed = 6, .cell_count = 20};
	size_t a[20], b[20], c[20], d[20];
	int seen[20] = {0};

	h2d_bench_order(&m, 0, a);
	h2d_bench_order(&m, 0, b);
	h2d_bench_order(&m, 1, c);
	h2d_bench_order(&n, 0, d);
	for (int i = 0; i < 20; i++)
		seen[a[i]]++;
	for (int i = 0; i < 20; i++)
		CHECK_EQ(seen[i], 1);
	CHECK(!memcmp(a, b, sizeof(a)));
	CHECK(memcmp(a, c, sizeof(a)));
	CHECK(memcmp(a, d, sizeof(a)));
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	RUN(lines_come_one_by_one);
	RUN(it_is_spoken_to);
	RUN(long_lines_and_stderr);
	RUN(what_cannot_start);
	RUN(nobody_is_left);
	RUN(others_stay);
	RUN(the_log);
	RUN(one_campaign_at_a_time);
	RUN(orders);
	return TEST_DONE();
}
