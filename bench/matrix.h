/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file matrix.h
 * What a campaign measures: the matrix as its author wrote it, and its cells. The format is
 * results/schema/h2d.bench-matrix.schema.json. Not thread-safe. Since 0.1.
 */
#ifndef H2D_BENCH_MATRIX_H
#define H2D_BENCH_MATRIX_H

#include "bench/checkpoint.h"
#include "bench/schedule.h"
#include "bench/value.h"

enum { H2D_BENCH_CELL_MAX_COUNT = 10000, H2D_BENCH_REPEAT_MAX_COUNT = 1000 };

/** Page cache before a load. */
enum h2d_bench_cache { H2D_BENCH_COLD, H2D_BENCH_WARM, H2D_BENCH_PARTIAL, H2D_BENCH_ASIS };

struct h2d_bench_cell {
	char id[17]; /**< hash of the key */
	json_t *key; /**< owned; members as in h2d.bench */
	const struct h2d_bench_checkpoint *checkpoint;
	const char *loader, *path, *device, *cache_name,
		*present; /**< of key; present or NULL */
	enum h2d_bench_cache cache;
	unsigned cache_pct;	   /**< of H2D_BENCH_PARTIAL */
	uint64_t memory_max_bytes; /**< 0: no limit */
	uint64_t repeat_count;	   /**< loads in one process, of options; 1: the usual */
	const json_t *options;	   /**< of key */
	const json_t *command; /**< of an external loader, else NULL; lives with the matrix */
	/* Decided so far; status NULL: still running. */
	const char *status;
	char *reason;
	unsigned char *done; /**< one byte per block: its sample is in the log */
};

struct h2d_bench_matrix {
	json_t *json; /**< as given, overrides included; owned */
	char *folder; /**< of the file, for what it names */
	const char *name;
	uint64_t seed, block_count, timeout_s;
	bool verify, drop_caches, settle;
	bool paths_given, devices_given, checkpoints_given; /**< instead of the matrix's own */
	struct h2d_bench_schedule schedule;
	double cold_max_pct, warm_min_pct, partial_tolerance_pct;
	struct h2d_bench_checkpoint *checkpoints;
	size_t checkpoint_count;
	struct h2d_bench_cell *cells;
	size_t cell_count;
	char config_hash[17]; /**< of the matrix and its cells: a log belongs to it or not */
};

/** What the command line changes. */
struct h2d_bench_overrides {
	const char *const *checkpoints; /**< "[NAME=]FILE": instead of the matrix's own */
	size_t checkpoint_count;
	uint64_t block_count;	  /**< 0: the matrix's */
	const char *const *paths; /**< instead of the matrix's own; count 0: unchanged */
	size_t path_count;
	const char *const *devices;
	size_t device_count;
};

/**
 * Read a matrix, open its checkpoints (headers only) and make its cells. A member that is wrong
 * is named by its JSON pointer.
 * @return 0, H2D_E_FORMAT, H2D_E_NOT_FOUND, H2D_E_IO, H2D_E_PERMISSION or H2D_E_NOMEM
 */
int h2d_bench_matrix_read(const char *path, const struct h2d_bench_overrides *overrides,
			  const struct h2d_log *log, struct h2d_bench_matrix *out);
void h2d_bench_matrix_free(struct h2d_bench_matrix *m);

/** Cells from a matrix that was checked. Part of h2d_bench_matrix_read(). */
int h2d_bench_cells_make(struct h2d_bench_matrix *m, const struct h2d_value *root);
/** The cell of that id, or NULL. */
struct h2d_bench_cell *h2d_bench_cell_find(struct h2d_bench_matrix *m, const char *id);
/** "pinned, few, host, warm" for people. */
void h2d_bench_cell_name(const struct h2d_bench_cell *c, char *out, size_t cap);
/** "cold", "partial:50" … @return 0 or H2D_E_INVALID */
int h2d_bench_cache_parse(const char *text, enum h2d_bench_cache *cache, unsigned *pct);
/** "8GiB" or "50%" of `size_bytes`; "none" is 0. @return NULL, or what is wrong (static text)
 */
const char *h2d_bench_memory_parse(const char *text, uint64_t size_bytes, uint64_t *out);

#endif
