/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file limits.h
 * The ceilings of a machine, measured by the plainest code that can reach them, so that a load
 * can be said to run at so much of its limit. Nothing of the loader is used. Since 0.1.
 */
#ifndef H2D_BENCH_LIMITS_H
#define H2D_BENCH_LIMITS_H

#include <stdbool.h>

#include "core/json.h"
#include "core/log.h"

enum { H2D_LIMIT_SAMPLES = 64, H2D_LIMIT_TRIES = 16, H2D_LIMIT_COUNT = 7 };

struct h2d_limit_try {
	uint64_t block_bytes, depth_count, bytes_per_s;
};

struct h2d_limit {
	const char *name, *what;	     /**< static */
	uint64_t samples[H2D_LIMIT_SAMPLES]; /**< bytes per second */
	size_t count;			     /**< 0: not measured, see `why` */
	char why[256];
	uint64_t block_bytes, depth_count, thread_count, size_bytes; /**< 0: does not apply */
	char device[64];
	struct h2d_limit_try tries[H2D_LIMIT_TRIES];
	size_t try_count;
};

struct h2d_limits_opts {
	const char *file;	/**< an existing file to read, or NULL: one is made … */
	const char *dir;	/**< … here, and removed again */
	uint64_t size_bytes;	/**< read and copied at once; of the file, at most its size */
	unsigned repeat;	/**< samples, at most H2D_LIMIT_SAMPLES */
	unsigned threads;	/**< of the threaded ones */
	struct h2d_device *dev; /**< whose link is measured; NULL: none */
	int (*progress)(void *user, size_t done, size_t total); /**< non-zero: cancel */
	void *user;
	struct h2d_log log;
};

struct h2d_limits {
	struct h2d_limit limit[H2D_LIMIT_COUNT];
	size_t count;
};

/** Measure all. What cannot be measured says why and is no error.
 *  @return 0, H2D_E_CANCELLED, H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO (the file cannot be
 *  opened or made), H2D_E_NOMEM */
int h2d_limits_measure(const struct h2d_limits_opts *opts, struct h2d_limits *out);
/** The `limits` array of an h2d.bench-limits. */
void h2d_limits_write(struct h2d_json *j, const struct h2d_limits *l);
/** The (lower) median of a limit, 0 when it was not measured. */
uint64_t h2d_limit_median(const struct h2d_limit *l);

/* The single measurements; each fills its samples or says why not. `fd` is of the file. */
void h2d_limit_direct(const struct h2d_limits_opts *o, const char *path, uint64_t bytes,
		      struct h2d_limit *l);
void h2d_limit_buffered(const struct h2d_limits_opts *o, int fd, uint64_t bytes, bool warm,
			struct h2d_limit *l);
void h2d_limit_memory(const struct h2d_limits_opts *o, unsigned threads, struct h2d_limit *l);
void h2d_limit_link(const struct h2d_limits_opts *o, bool pinned, struct h2d_limit *l);
/** One more sample. */
void h2d_limit_add(struct h2d_limit *l, uint64_t bytes, uint64_t ns);

#endif
