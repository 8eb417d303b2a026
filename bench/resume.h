/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file resume.h
 * Going on with a campaign: what measures must be what measured before, and what the log holds
 * must be what a campaign can have written. Since 0.1.
 */
#ifndef H2D_BENCH_RESUME_H
#define H2D_BENCH_RESUME_H

#include "bench/matrix.h"
#include "core/envelope.h"

/** The measuring program and how it is scheduled, which its children inherit: a hash of the
 * file `self` and what the kernel says. */
void h2d_bench_runner_write(struct h2d_json *j, const char *key, const char *self);

/**
 * Hold the first event of a log against this machine, this build and this scheduling. What
 * either does not tell is not held against it.
 * @param file  a checkpoint, whose filesystem counts
 * @return 0, H2D_E_FORMAT (what differs is named) or H2D_E_NOMEM
 */
int h2d_bench_resume_check(const json_t *begun, const char *events, const struct h2d_tool *tool,
			   const char *self, const char *file, const struct h2d_log *log);

/** A sample of the log, by the rules that new ones are held to. `line` counts from 1.
 *  @return 0 or H2D_E_FORMAT (named by line and pointer) */
int h2d_bench_resume_sample(json_t *event, const struct h2d_bench_cell *cell,
			    uint64_t block_count, const char *events, size_t line,
			    const struct h2d_log *log);

#endif
