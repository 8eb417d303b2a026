/* SPDX-License-Identifier: Apache-2.0 */
/** @file plan.h  What a campaign would move and how long that may take. Since 0.1. */
#ifndef H2D_BENCH_PLAN_H
#define H2D_BENCH_PLAN_H

#include "bench/matrix.h"

struct h2d_bench_plan {
	uint64_t cell_count; /**< that would be measured */
	uint64_t sample_count;
	uint64_t moved_bytes; /**< loads alone */
	uint64_t read_bytes;  /**< loads, warming and verification */
	uint64_t storage_bytes_per_s, memory_bytes_per_s; /**< what the estimate rests on */
	uint64_t estimated_ns;
};

/** Estimate from how fast up to 64 MiB of the first checkpoint are read, from storage (the
 *  range is dropped from the page cache before) and from memory. */
void h2d_bench_plan_make(const struct h2d_bench_matrix *m, struct h2d_bench_plan *out);
/** The members of an h2d.bench-plan. */
void h2d_bench_plan_write(struct h2d_json *j, const struct h2d_bench_matrix *m,
			  const struct h2d_bench_plan *p);

#endif
