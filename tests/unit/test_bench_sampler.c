/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_bench */
/* What is seen of another process, and what is made of it. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "bench/kmsg.h"
#include "bench/sampler.h"
#include "core/clock.h"
#include "scratch.h"
#include "test.h"

static void thinning_keeps_extremes(void)
{
	enum { COUNT = 10000, MAX = 64 };
	struct h2d_bench_point *p = calloc(COUNT, sizeof(*p));
	uint64_t low = UINT64_MAX, high = 0;
	size_t n;

	REQUIRE(p);
	for (int i = 0; i < COUNT; i++) {
		p[i].time_ns = i;
		p[i].rss_anon_bytes = 1000 + (uint64_t)(i * 7919) % 100;
	}
	p[7777].rss_anon_bytes = 99999;
	p[1234].rss_anon_bytes = 1;
	n = h2d_bench_points_thin(p, COUNT, MAX);
	CHECK(n <= MAX && n > MAX / 2);
	CHECK_EQ(p[0].time_ns, 0);
	CHECK_EQ(p[n - 1].time_ns, COUNT - 1);
	for (size_t i = 0; i < n; i++) {
		CHECK(!i || p[i].time_ns > p[i - 1].time_ns);
		low = p[i].rss_anon_bytes < low ? p[i].rss_anon_bytes : low;
		high = p[i].rss_anon_bytes > high ? p[i].rss_anon_bytes : high;
	}
	CHECK_EQ(low, 1);
	CHECK_EQ(high, 99999);
	for (size_t count = 0; count <= 70; count++) {
		const size_t left = h2d_bench_points_thin(p, count, 8);

		CHECK(count <= 8 ? left == count : left <= 8);
	}
	free(p);
}

static void means_weigh_by_time(void)
{
	const struct h2d_bench_point p[] = {
		{.time_ns = 0, .rss_anon_bytes = 100},
		{.time_ns = 10, .rss_anon_bytes = 400},
		{.time_ns = 40, .rss_anon_bytes = 7},
	};

	/* 100 for 10 and 400 for 30 */
	CHECK_EQ(h2d_bench_points_mean(p, 3, offsetof(struct h2d_bench_point, rss_anon_bytes)),
		 325);
	CHECK_EQ(h2d_bench_points_mean(p, 1, offsetof(struct h2d_bench_point, rss_anon_bytes)),
		 0);
	CHECK_EQ(h2d_bench_points_mean(p, 0, 0), 0);
}

static void pressure_is_parsed(void)
{
	struct h2d_bench_pressure p;
	FILE *f;

	REQUIRE(!mkdir(scratch_path("psi"), 0755));
	f = fopen(scratch_path("psi/memory.pressure"), "w");
	fputs("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
	      "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
	      f);
	fclose(f);
	f = fopen(scratch_path("psi/io.pressure"), "w");
	fputs("nonsense\n", f);
	fclose(f);
	h2d_bench_pressure_read(scratch_path("psi"), &p);
	CHECK_EQ(p.memory_some, 12000);
	CHECK_EQ(p.memory_full, 7000);
	CHECK(p.io_some == UINT64_MAX && p.io_full == UINT64_MAX);
	CHECK(p.cpu_some == UINT64_MAX);
}

static void kernel_records(void)
{
	char good[] = "6,339,5140900,-;NET: Registered\n SUBSYSTEM=pci\n", bad[] = "nothing",
	     empty[] = "6,1,1,-;\n";

	CHECK_STR(h2d_bench_kmsg_message(good), "NET: Registered");
	CHECK(!h2d_bench_kmsg_message(bad));
	CHECK_STR(h2d_bench_kmsg_message(empty), "");
}

/* A child takes 32 MiB when told to. */
static void a_process_is_watched(void)
{
	enum { BYTES = 32 << 20 };
	struct h2d_bench_sampler s;
	uint64_t peak = 0, deadline;
	int to[2], from[2];
	pid_t pid;
	char c = 0;

	REQUIRE(!pipe(to) && !pipe(from));
	pid = fork();
	REQUIRE(pid >= 0);
	if (!pid) {
		unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		close(to[1]);
		if (read(to[0], &c, 1) != 1 || p == MAP_FAILED)
			_exit(1);
		memset(p, 1, BYTES);
		if (write(from[1], &c, 1) != 1)
			_exit(1);
		_exit(read(to[0], &c, 1) != 0);
	}
	close(to[0]);
	h2d_bench_sampler_attach(&s, pid, NULL);
	h2d_bench_sampler_begin(&s);
	CHECK_EQ(write(to[1], &c, 1), 1);
	CHECK_EQ(read(from[0], &c, 1), 1);
	deadline = h2d_now_ns() + 5000000000u;
	while (s.count < 3 && h2d_now_ns() < deadline)
		usleep((useconds_t)h2d_bench_sampler_tick(&s) * 1000);
	h2d_bench_sampler_end(&s);
	CHECK(s.count >= 3);
	CHECK_EQ(s.points[0].time_ns, 0);
	for (size_t i = 0; i < s.count; i++) {
		CHECK(!i || s.points[i].time_ns >= s.points[i - 1].time_ns);
		peak = s.points[i].rss_anon_bytes > peak ? s.points[i].rss_anon_bytes : peak;
	}
	CHECK(peak >= s.points[0].rss_anon_bytes + BYTES / 10 * 9);
	CHECK(s.before.faults_known && s.after.faults_known);
	CHECK(s.after.minor_faults > s.before.minor_faults);
	close(to[1]);
	waitpid(pid, NULL, 0);
	/* It is gone: a tick and an end more hurt nobody. */
	h2d_bench_sampler_end(&s);
	h2d_bench_sampler_release(&s);
	h2d_bench_sampler_release(&s);
	close(from[0]);
	close(from[1]);
}

int main(void)
{
	scratch_path("x");
	signal(SIGPIPE, SIG_IGN);
	RUN(thinning_keeps_extremes);
	RUN(means_weigh_by_time);
	RUN(pressure_is_parsed);
	RUN(kernel_records);
	RUN(a_process_is_watched);
	return TEST_DONE();
}
