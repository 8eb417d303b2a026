/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sample.h
 * One sample: a fresh process is started, spoken to (docs/bench-protocol.md), watched, and its
 * end judged. Since 0.1.
 */
#ifndef H2D_BENCH_SAMPLE_H
#define H2D_BENCH_SAMPLE_H

#include "bench/cgroup.h"
#include "bench/child.h"
#include "bench/kmsg.h"
#include "bench/sampler.h"
#include "bench/schedule.h"
#include "bench/state.h"

/** What all samples of a campaign share. */
struct h2d_bench_runner {
	const struct h2d_bench_matrix *matrix;
	const char *self;	 /**< the program h2d: it is started as `SELF bench cell` */
	int (*stop)(void *user); /**< non-zero: cancel; asked often; may be NULL */
	void *user;
};

struct h2d_bench_sample {
	uint64_t block, order;
	char time_utc[32];
	const char *status; /**< "ok" …, static */
	char reason[1024];  /**< when it is not ok */
	/* From the loader; valid when have_time. */
	bool have_time;
	uint64_t load_ns, wall_ns, loaded_bytes, size_bytes;
	uint64_t begin_ns;	/**< of the load, CLOCK_MONOTONIC */
	json_t *ready, *loaded; /**< its answers, owned */
	/* Page cache and mapping presence. */
	bool state_set; /**< the load was begun */
	struct h2d_bench_state before, after;
	unsigned tries;
	double present_pct; /**< negative: not proven */
	/* Verification. */
	bool verified, verify_ok, by_digest;
	char digest[33];
	/* What the runner saw. */
	bool sampled;
	struct h2d_bench_sampler sampler;
	struct h2d_bench_schedule_seen schedule;
	struct h2d_bench_kmsg kmsg;
	bool in_group, peak_known, oom_known;
	uint64_t group_peak_bytes, oom_kills;
	bool ended;
	int wait_status;
	char tail[H2D_BENCH_STDERR_BYTES + 1];
};

/**
 * Run one sample of a cell.
 * @param out  (out) released by h2d_bench_sample_release() in every case
 * @return 0 (whatever the sample's status), or H2D_E_CANCELLED: it was begun and thrown away
 */
int h2d_bench_sample_run(const struct h2d_bench_runner *r, const struct h2d_bench_cell *cell,
			 uint64_t block, uint64_t order, struct h2d_bench_sample *out);
void h2d_bench_sample_release(struct h2d_bench_sample *s);
/** The `sample` object of an h2d.bench. */
void h2d_bench_sample_write(struct h2d_json *j, const char *key,
			    const struct h2d_bench_sample *s,
			    const struct h2d_bench_cell *cell);

#endif
