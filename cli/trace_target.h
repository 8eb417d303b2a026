/* SPDX-License-Identifier: Apache-2.0 */
/** @file trace_target.h  What `h2d probe trace` follows: a command held back until tracing is
 * on, or the processes below one. */
#ifndef H2D_CLI_TRACE_TARGET_H
#define H2D_CLI_TRACE_TARGET_H

#include <stdbool.h>

#include "trace/count.h"

struct h2d_trace_child {
	int pid;	  /**< 0: there is none */
	int gate, answer; /**< pipes: it starts when told; errno of exec comes back */
	bool ended, cancelled;
	int status; /**< exit status, or 128 + the signal */
};

/** Fork the command; it waits. @return 0 or a negative errno */
int h2d_trace_child_prepare(struct h2d_trace_child *c, char **argv);
/** Let it go. @return 0, or the negative errno with which it could not be executed */
int h2d_trace_child_go(struct h2d_trace_child *c);
/** It is not to run at all. */
void h2d_trace_child_cancel(struct h2d_trace_child *c);
/** Whether it has ended; with `wait`, after it has. */
bool h2d_trace_child_ended(struct h2d_trace_child *c, bool wait);

/** Whether a process has ended, also where nobody has taken note of it yet (a zombie). */
bool h2d_trace_process_ended(int pid);
/** Process of a thread, or -1. */
int h2d_trace_process_of(int tid);
/** Follow all threads of a process and of the processes below it. */
void h2d_trace_follow_tree(struct h2d_trace_counts *c, int pid);

#endif
