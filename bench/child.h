/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file child.h
 * The process of one sample: started in a process group of its own, spoken to in lines, and
 * always ended. The runner is single-threaded; so is this. Since 0.1.
 */
#ifndef H2D_BENCH_CHILD_H
#define H2D_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	H2D_BENCH_LINE_BYTES = 64 << 10,
	H2D_BENCH_STDERR_BYTES = 2048, /**< what is kept of stderr: its end */
};

struct h2d_bench_child {
	pid_t pid;	  /**< 0: none */
	int in, out, err; /**< its stdin, stdout, stderr; -1: closed */
	char *line;	  /**< received so far, H2D_BENCH_LINE_BYTES + 1 */
	size_t line_bytes;
	bool have_line; /**< its first line is complete and was not taken yet */
	char tail[H2D_BENCH_STDERR_BYTES + 1];
	size_t tail_bytes;
	bool reaped;
	bool adopts;	 /**< its orphans become children of this process */
	int wait_status; /**< when reaped */
};

/**
 * Start a program.
 * @param argv          ended by NULL; argv[0] is looked up in PATH
 * @param folder        working directory, or NULL
 * @param cgroup_procs  file of the control group to enter first, or NULL
 * @return 0, or a negative errno of what failed (of exec too)
 */
int h2d_bench_child_start(struct h2d_bench_child *c, char *const *argv, const char *folder,
			  const char *cgroup_procs);
/** Send bytes. @return 0, or a negative errno (EPIPE: it listens no more) */
int h2d_bench_child_send(struct h2d_bench_child *c, const char *text, size_t bytes);
/** Take what stdout and stderr hold now, up to the next line. @return 1: a line is in c->line
 *  (NUL-terminated; taken by h2d_bench_child_next()); 0: none yet; -EPIPE: stdout has ended;
 *  -EMSGSIZE: the line is too long; another negative errno */
int h2d_bench_child_read(struct h2d_bench_child *c);
/** Forget the line in c->line. */
void h2d_bench_child_next(struct h2d_bench_child *c);
/** Close its stdin. */
void h2d_bench_child_close_in(struct h2d_bench_child *c);
/** Reap it if it has ended. @return true when it has */
bool h2d_bench_child_ended(struct h2d_bench_child *c);
/** Kill its process group and what left that (setsid(2)), reap them, close everything. Nothing
 * is done without one. Where this process had children before, what left the group stays. */
void h2d_bench_child_finish(struct h2d_bench_child *c);

#endif
