/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file run.h
 * A campaign: every cell once in each block, in an order that the seed gives, every step in the
 * log. Since 0.1.
 */
#ifndef H2D_BENCH_RUN_H
#define H2D_BENCH_RUN_H

#include "bench/events.h"
#include "bench/matrix.h"
#include "core/envelope.h"

struct h2d_bench_run_opts {
	const char *dir;  /**< where events.jsonl and result.json lie; made when missing */
	const char *self; /**< the program h2d */
	const struct h2d_tool *tool;
	const json_t *limits; /**< an h2d.bench-limits to keep with the result; may be NULL */
	uint64_t pause_after; /**< stop when that many blocks are measured; 0: none */
	const char *lock;     /**< name of the machine-wide lock; NULL: "h2d-bench" */
	int (*stop)(void *user); /**< non-zero: interrupt; asked often */
	/** Every event, as it is written. */
	void (*show)(void *user, const char *line, const json_t *event);
	/** Given to both. */
	void *user;
	struct h2d_log log;
};

/** What a campaign came to. */
struct h2d_bench_outcome {
	json_t *events;	       /**< all of them, owned */
	uint64_t sample_count; /**< measured now */
	uint64_t kept_count;   /**< found in the log */
	bool paused;	       /**< blocks are left, and no result was written */
	char result[4096];     /**< path of the result */
};

/**
 * Run (or go on with) a campaign and write its result.
 * @return 0; H2D_E_CANCELLED (the log can be gone on from); H2D_E_UNAVAILABLE (another campaign
 *         is running); H2D_E_FORMAT (the log belongs to another matrix, machine, build or
 *         scheduling, or is damaged); H2D_E_IO (for example a full disk), H2D_E_PERMISSION,
 * H2D_E_NOMEM
 */
int h2d_bench_run(struct h2d_bench_matrix *m, const struct h2d_bench_run_opts *opts,
		  struct h2d_bench_outcome *out);
void h2d_bench_outcome_release(struct h2d_bench_outcome *o);

/** Order of the cells in a block: order[place] = cell. */
void h2d_bench_order(const struct h2d_bench_matrix *m, uint64_t block, size_t *order);

enum { H2D_BENCH_LOCK_TRIES = 100 }; /**< of 20 ms */

/** Take the machine-wide lock, held until the descriptor is closed.
 *  @param owner  (out) PID of the holder when it is taken, 0 when unknown
 *  @return a descriptor, or -1 */
int h2d_bench_lock(const char *name, int *owner);

#endif
