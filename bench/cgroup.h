/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cgroup.h
 * A control group of one cell, with a limit on memory, page cache included. Both versions of
 * the interface. Since 0.1.
 *
 * @source Documentation/admin-guide/cgroup-v2.rst, …/cgroup-v1/memory.rst
 */
#ifndef H2D_BENCH_CGROUP_H
#define H2D_BENCH_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2d_bench_cgroup {
	char dir[1024];	  /**< "" when there is none */
	char procs[1060]; /**< the file that takes a PID */
	bool legacy;	  /**< version 1 */
};

/** Make a group below (or beside) our own with that limit.
 *  @param why  (out) when it is refused, with what would help
 *  @return 0, or H2D_E_UNSUPPORTED */
int h2d_bench_cgroup_make(struct h2d_bench_cgroup *g, uint64_t memory_max_bytes, char *why,
			  size_t why_bytes);
/** Kill what is left in it and remove it. Nothing is done where there is none. */
void h2d_bench_cgroup_remove(struct h2d_bench_cgroup *g);
/** Highest memory use so far. @return 0 or a negative errno */
int h2d_bench_cgroup_peak(const struct h2d_bench_cgroup *g, uint64_t *bytes);
/** Processes of it that the kernel killed for memory. @return 0 or a negative errno */
int h2d_bench_cgroup_oom_kills(const struct h2d_bench_cgroup *g, uint64_t *count);

#endif
