/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file state.h
 * The page cache before a load: brought about, then proven. What cannot be proven is not
 * measured. Since 0.1.
 */
#ifndef H2D_BENCH_STATE_H
#define H2D_BENCH_STATE_H

#include "bench/matrix.h"
#include "file/cache.h"

enum { H2D_BENCH_STATE_TRIES = 5 };

struct h2d_bench_state {
	const char *method; /**< "cachestat" or "mincore"; NULL: unknown */
	const char *why;    /**< when unknown; static text */
	double pct;
};

/** How much of a checkpoint's files is cached now. */
void h2d_bench_state_query(const struct h2d_bench_checkpoint *c, struct h2d_bench_state *out);

/** What setting a state needs to know. */
struct h2d_bench_state_opts {
	double cold_max_pct, warm_min_pct, partial_tolerance_pct;
	bool drop_caches;
	/** Write its PID there before reading, so that the pages belong to that control group;
	 *  NULL: no group. */
	const char *cgroup_procs;
};

/**
 * Bring the files of a cell's checkpoint into its state and prove it, at most
 * H2D_BENCH_STATE_TRIES times. `asis` is only looked at. A partial state caches the first N
 * per cent of every file.
 * @param before  (out) the state that was proven, or the last one seen
 * @param tries   (out) attempts
 * @param why     (out) when it fails
 * @return 0, or H2D_E_UNSUPPORTED: it could not be brought about or not be proven
 */
int h2d_bench_state_set(const struct h2d_bench_cell *cell,
			const struct h2d_bench_state_opts *opts, struct h2d_bench_state *before,
			unsigned *tries, char *why, size_t why_bytes);

#endif
