/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file result.h
 * The document of a campaign, made from its log alone: whoever has the log can make it again.
 * Since 0.1.
 */
#ifndef H2D_BENCH_RESULT_H
#define H2D_BENCH_RESULT_H

#include "bench/value.h"

/** Write the h2d.bench of these events to a file, by rename: it is there whole or not at all.
 *  @return 0, H2D_E_FORMAT (the events are not those of a campaign), H2D_E_IO, H2D_E_NOMEM … */
int h2d_bench_result_write(const char *path, const json_t *events, const struct h2d_log *log);
/** The document as text on a stream. @return 0 or a status */
int h2d_bench_result_print(FILE *out, bool pretty, const json_t *events,
			   const struct h2d_log *log);
/** Times of the ok samples of an h2d.bench cell, in order of their blocks.
 *  @param blocks  (out, may be NULL) their blocks; both malloc'd
 *  @return their count; -1 when memory ran out */
long h2d_bench_times(const json_t *samples, double **times, uint64_t **blocks);

#endif
