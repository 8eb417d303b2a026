/* SPDX-License-Identifier: Apache-2.0 */
/** @file progress.h  How far a long operation is, on stderr: a bar, lines of JSON, or nothing.
 */
#ifndef H2D_CLI_PROGRESS_H
#define H2D_CLI_PROGRESS_H

#include "cli.h"

struct h2d_progress {
	const struct h2d_cli *cli;
	const char *phase; /**< "load", "verify", "warm" */
	enum { H2D_PROGRESS_NONE, H2D_PROGRESS_BAR, H2D_PROGRESS_JSONL } style;
	uint64_t begin_ns;
	uint64_t done_bytes, total_bytes;
	pthread_mutex_t lock;
};

/** Begin a phase; the style follows from --progress, -q and the terminal. */
void h2d_progress_begin(struct h2d_progress *p, const struct h2d_cli *cli, const char *phase);
/** A h2d_progress_fn: shows, and cancels once a signal was caught. */
int h2d_progress_update(void *user, uint64_t done_bytes, uint64_t total_bytes);
/** End a phase that succeeded or not. */
void h2d_progress_end(struct h2d_progress *p, bool ok);
/** Take a bar off the terminal, so that a line can be printed there. */
void h2d_progress_clear(void);

#endif
