/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file conditions.h
 * What of a machine changes from minute to minute, and what about it may spoil a measurement.
 * Since 0.1.
 */
#ifndef H2D_BENCH_CONDITIONS_H
#define H2D_BENCH_CONDITIONS_H

#include "core/json.h"

/** The `conditions` object; unknown values are null with their reason. `root` as for
 *  h2d_hostfs_read(). */
void h2d_bench_conditions_write(struct h2d_json *j, const char *key, const char *root);
/** The `warnings` array. `sanitizers` and `build_type` of this build. */
void h2d_bench_warnings_write(struct h2d_json *j, const char *key, const char *root,
			      const char *sanitizers, const char *build_type);
/** Now, as "2026-01-31T12:00:00Z". */
void h2d_bench_time_text(char out[32]);

#endif
