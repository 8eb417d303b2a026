/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/sampler.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/hostfs.h"
#include "core/mem.h"

static const char system_pressure[] = "/proc/pressure";

static uint64_t kib(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static uint64_t total_us(const char *text, const char *kind)
{
	const char *line = strstr(text, kind), *total = line ? strstr(line, "total=") : NULL;

	return total ? strtoull(total + 6, NULL, 10) * 1000 : UINT64_MAX;
}

void h2d_bench_pressure_read(const char *dir, struct h2d_bench_pressure *out)
{
	const char *suffix = strcmp(dir, system_pressure) ? ".pressure" : "";
	const struct {
		const char *name;
		uint64_t *some, *full;
	} files[] = {
		{"cpu", &out->cpu_some, NULL},
		{"memory", &out->memory_some, &out->memory_full},
		{"io", &out->io_some, &out->io_full},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[1200], text[512];

		snprintf(path, sizeof(path), "%s/%s%s", dir, files[i].name, suffix);
		if (h2d_hostfs_read(NULL, path, text, sizeof(text)) < 0)
			text[0] = 0;
		*files[i].some = total_us(text, "some ");
		if (files[i].full)
			*files[i].full = total_us(text, "full ");
	}
}

static void read_counters(pid_t pid, struct h2d_bench_counters *c)
{
	char path[64], text[4096];
	const char *at;

	memset(c, 0, sizeof(*c));
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	/* Fields 10 and 12; the name in brackets before them may hold anything. */
	if (h2d_hostfs_read(NULL, path, text, sizeof(text)) > 0) {
		unsigned long long minor, major;

		at = strrchr(text, ')');
		c->faults_known =
			at && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu",
				     &minor, &major) == 2;
		if (c->faults_known) {
			c->minor_faults = minor;
			c->major_faults = major;
		}
	}
	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	if (h2d_hostfs_read(NULL, path, text, sizeof(text)) > 0) {
		at = strstr(text, "\nread_bytes: ");
		c->io_known = at && !strncmp(text, "rchar: ", 7);
		if (c->io_known) {
			c->read_call_bytes = strtoull(text + 7, NULL, 10);
			c->read_bytes = strtoull(at + 13, NULL, 10);
		}
	}
}

/* Since the load began; 0 where the kernel does not tell. */
static uint64_t stalled(int fd, uint64_t before)
{
	char text[512];
	const ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	uint64_t now;

	text[n > 0 ? n : 0] = 0;
	now = total_us(text, "full ");
	return now == UINT64_MAX || before == UINT64_MAX || now < before ? 0 : now - before;
}

static void add_point(struct h2d_bench_sampler *s, uint64_t now)
{
	struct h2d_bench_point *p;
	char text[4096];
	ssize_t n = s->status_fd < 0 ? -1 : pread(s->status_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	if (!strstr(text, "\nRssAnon:")) { /* it has ended */
		s->failed |= !s->count;
		return;
	}
	if (s->count == s->room) {
		const size_t room = s->room ? s->room * 2 : 256;

		p = h2d_mem->realloc(s->points, room * sizeof(*p));
		if (!p) {
			s->failed = true;
			return;
		}
		s->points = p;
		s->room = room;
	}
	p = &s->points[s->count++];
	p->time_ns = (int64_t)(now - s->begin_ns);
	p->rss_anon_bytes = kib(text, "\nRssAnon:");
	p->rss_file_bytes = kib(text, "\nRssFile:");
	p->rss_shmem_bytes = kib(text, "\nRssShmem:");
	p->swap_bytes = kib(text, "\nVmSwap:");
	p->memory_full_ns = stalled(s->pressure_fd[0], s->pressure_before.memory_full);
	p->io_full_ns = stalled(s->pressure_fd[1], s->pressure_before.io_full);
}

void h2d_bench_sampler_attach(struct h2d_bench_sampler *s, pid_t pid, const char *cgroup_dir)
{
	char path[64];

	memset(s, 0, sizeof(*s));
	s->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	s->status_fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(s->pressure_dir, sizeof(s->pressure_dir), "%s/memory.pressure",
		 cgroup_dir ? cgroup_dir : "");
	s->pressure_cgroup = cgroup_dir && !access(s->pressure_dir, R_OK);
	snprintf(s->pressure_dir, sizeof(s->pressure_dir), "%s",
		 s->pressure_cgroup ? cgroup_dir : system_pressure);
	for (int i = 0; i < 2; i++) {
		char file[1100];

		snprintf(file, sizeof(file), "%s/%s%s", s->pressure_dir, i ? "io" : "memory",
			 s->pressure_cgroup ? ".pressure" : "");
		s->pressure_fd[i] = open(file, O_RDONLY | O_CLOEXEC);
	}
}

void h2d_bench_sampler_begin(struct h2d_bench_sampler *s)
{
	uint64_t now;

	h2d_bench_pressure_read(s->pressure_dir, &s->pressure_before);
	read_counters(s->pid, &s->before);
	now = s->begin_ns = h2d_now_ns();
	add_point(s, now);
	if (s->count)
		s->points[0].time_ns = 0;
	s->begin_ns = h2d_now_ns();
	s->due_ns = s->begin_ns + H2D_BENCH_INTERVAL_NS;
}

int h2d_bench_sampler_tick(struct h2d_bench_sampler *s)
{
	uint64_t now = h2d_now_ns(), late;

	if (now >= s->due_ns) {
		add_point(s, now);
		late = (now - s->due_ns) / H2D_BENCH_INTERVAL_NS;
		s->missed_count += late;
		s->due_ns += (late + 1) * H2D_BENCH_INTERVAL_NS;
		s->busy_ns += h2d_now_ns() - now;
		now = h2d_now_ns();
	}
	return now >= s->due_ns ? 0 : (int)((s->due_ns - now) / 1000000 + 1);
}

void h2d_bench_sampler_end(struct h2d_bench_sampler *s)
{
	add_point(s, h2d_now_ns());
	read_counters(s->pid, &s->after);
	h2d_bench_pressure_read(s->pressure_dir, &s->pressure_after);
}

void h2d_bench_sampler_release(struct h2d_bench_sampler *s)
{
	const int fds[] = {s->status_fd, s->pressure_fd[0], s->pressure_fd[1]};

	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(s->points);
	memset(s, 0, sizeof(*s));
	s->status_fd = s->pressure_fd[0] = s->pressure_fd[1] = -1;
}

static uint64_t sum_of(const struct h2d_bench_point *p)
{
	return p->rss_anon_bytes + p->rss_file_bytes + p->rss_shmem_bytes;
}

size_t h2d_bench_points_thin(struct h2d_bench_point *points, size_t count, size_t max)
{
	const size_t stretches = (max - 2) / 2;
	size_t kept = 1, inner;

	if (count <= max)
		return count;
	inner = count - 2;
	for (size_t s = 0; s < stretches; s++) {
		const size_t begin = 1 + inner * s / stretches;
		const size_t end = 1 + inner * (s + 1) / stretches;
		size_t low = begin, high = begin;
		struct h2d_bench_point first, second;

		for (size_t i = begin; i < end; i++) {
			if (sum_of(&points[i]) < sum_of(&points[low]))
				low = i;
			if (sum_of(&points[i]) > sum_of(&points[high]))
				high = i;
		}
		/* Never ahead of what is still to be read: two are kept of two or more. */
		first = points[low < high ? low : high];
		second = points[low < high ? high : low];
		points[kept++] = first;
		if (low != high)
			points[kept++] = second;
	}
	points[kept++] = points[count - 1];
	return kept;
}

uint64_t h2d_bench_points_mean(const struct h2d_bench_point *points, size_t count,
			       size_t member_offset)
{
	double sum = 0, all = 0;

	for (size_t i = 0; i + 1 < count; i++) {
		const double length = (double)(points[i + 1].time_ns - points[i].time_ns);
		uint64_t value;

		memcpy(&value, (const char *)&points[i] + member_offset, sizeof(value));
		sum += length * (double)value;
		all += length;
	}
	return all > 0 ? (uint64_t)(sum / all) : 0;
}
