/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sampler.h
 * Memory, faults and reads of another process while it loads, and the machine's stall times.
 * The caller calls it when a tick is due; there is no thread. Since 0.1.
 *
 * @source Documentation/filesystems/proc.rst, Documentation/accounting/psi.rst
 */
#ifndef H2D_BENCH_SAMPLER_H
#define H2D_BENCH_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { H2D_BENCH_INTERVAL_NS = 10000000, H2D_BENCH_SERIES_POINTS = 64 };

struct h2d_bench_point {
	int64_t time_ns; /**< from the start of the load; before it: negative */
	uint64_t rss_anon_bytes, rss_file_bytes, rss_shmem_bytes, swap_bytes;
	uint64_t memory_full_ns, io_full_ns; /**< stalled since the start of the load (PSI) */
};

/** Counters of a process; the flags say which could be read. */
struct h2d_bench_counters {
	bool faults_known, io_known;
	uint64_t major_faults, minor_faults;
	uint64_t read_bytes, read_call_bytes;
};

/** PSI totals in ns; UINT64_MAX where a line is not there. */
struct h2d_bench_pressure {
	uint64_t cpu_some, memory_some, memory_full, io_some, io_full;
};

struct h2d_bench_sampler {
	pid_t pid;
	int status_fd;
	int pressure_fd[2]; /**< memory and io; -1: not there */
	uint64_t begin_ns;  /**< CLOCK_MONOTONIC of the start of the load */
	uint64_t due_ns;
	struct h2d_bench_point *points; /**< all of them, in order */
	size_t count, room;
	uint64_t missed_count, busy_ns;
	bool failed; /**< memory ran out, or the process told nothing */
	struct h2d_bench_counters before, after;
	struct h2d_bench_pressure pressure_before, pressure_after;
	bool pressure_cgroup; /**< of the cell's control group, else of the machine */
	char pressure_dir[1040];
};

/** Attach. `cgroup_dir` may be NULL. Never fails: what cannot be read is unknown later. */
void h2d_bench_sampler_attach(struct h2d_bench_sampler *s, pid_t pid, const char *cgroup_dir);
/** Take the values before the load; it starts now. */
void h2d_bench_sampler_begin(struct h2d_bench_sampler *s);
/** Sample when a tick is due. @return milliseconds until the next one is */
int h2d_bench_sampler_tick(struct h2d_bench_sampler *s);
/** Take the values after the load. */
void h2d_bench_sampler_end(struct h2d_bench_sampler *s);
void h2d_bench_sampler_release(struct h2d_bench_sampler *s);

/**
 * Thin points out to at most `max` (at least 4), keeping of each stretch the lowest and the
 * highest sum of resident memory, and the first and last point of all. In place.
 * @return how many are left
 */
size_t h2d_bench_points_thin(struct h2d_bench_point *points, size_t count, size_t max);
/** Mean of a member weighted by time: each value holds until the next point. */
uint64_t h2d_bench_points_mean(const struct h2d_bench_point *points, size_t count,
			       size_t member_offset);
/** Read PSI below `dir` ("/proc/pressure" or a control group; the names differ). */
void h2d_bench_pressure_read(const char *dir, struct h2d_bench_pressure *out);

#endif
