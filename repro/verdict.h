/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file verdict.h
 * From the numbers of the cells to a statement: a pure function, no I/O, thread-safe. Since
 * 0.1.
 *
 * What it needs: copies that asked for write access on pages that a write must replace, beside
 * copies that could not wait (the controls), and a proof that the copies reached the kernel's
 * HMM code at all: anonymous memory that moved, or requests that were counted. Whatever is
 * missing or contradicts itself ends in `inconclusive`; a copy that never reaches HMM in
 * `not_applicable`.
 */
#ifndef H2D_REPRO_VERDICT_H
#define H2D_REPRO_VERDICT_H

#include "core/policy.h"
#include "window.h"

enum h2d_verdict_value {
	H2D_VERDICT_AFFECTED,	    /**< windows were seen */
	H2D_VERDICT_COW_PENALTY,    /**< write access is asked for where the device reads */
	H2D_VERDICT_CLEAN,	    /**< neither, and HMM was reached */
	H2D_VERDICT_INCONCLUSIVE,   /**< the numbers do not decide */
	H2D_VERDICT_NOT_APPLICABLE, /**< these copies never ask HMM */
};

/** One copy. -1 where the device cannot tell. */
struct h2d_repro_sample {
	uint64_t elapsed_ns;
	int64_t requests; /**< ranges that were taken through HMM */
	int64_t restarts;
	int64_t windows; /**< counted by restarts that lasted a whole timeout */
	int64_t rss_anon_delta_bytes;
	uint64_t expected_windows; /**< spans with an entry that a write replaces */
};

/** One cell at one size. */
struct h2d_case_cell {
	const char *name;
	uint64_t size_bytes;
	bool measured;	 /**< false: not brought into its state, `samples` is not looked at */
	bool asks_write; /**< a driver that goes by the mapping asks for write access */
	uint64_t expected_windows;    /**< of the first sample: 0 makes the cell a control */
	uint64_t expected_anon_bytes; /**< what a write would make anonymous */
	const struct h2d_repro_sample *samples;
	size_t sample_count;
};

struct h2d_case {
	bool can_reach; /**< false: copies of this back-end never ask HMM */
	struct h2d_window_clock clock;
	const struct h2d_case_cell *cells;
	size_t cell_count;
};

enum { H2D_EVIDENCE_MAX = 24, H2D_EVIDENCE_BYTES = 192 };

struct h2d_verdict {
	enum h2d_verdict_value value;
	enum h2d_retry_policy retry_policy;
	enum h2d_permission_rule permission_rule;
	enum h2d_confidence confidence;
	/** Elapsed time of a copy that breaks copy-on-write over that of the same bytes mapped
	 *  read-only, without windows: rw-present / ro-present, or rw-absent / ro-present when
	 *  rw-present waited in windows. 0: not measured. */
	double cow_penalty_ratio;
	char evidence[H2D_EVIDENCE_MAX][H2D_EVIDENCE_BYTES];
	size_t evidence_count;
};

/**
 * Windows of one sample: by restarts where those are visible, else by elapsed time where that
 * can be divided (see h2d_windows_agree()); -1 when neither can tell.
 */
int64_t h2d_case_windows(const struct h2d_case *c, const struct h2d_case_cell *cell,
			 const struct h2d_repro_sample *sample);

/** Judge a case. Always fills `out`. */
void h2d_repro_judge(const struct h2d_case *c, struct h2d_verdict *out);

const char *h2d_verdict_value_name(enum h2d_verdict_value v);

#endif
