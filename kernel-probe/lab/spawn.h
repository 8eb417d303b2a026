/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_SPAWN_H
#define H2D_LAB_SPAWN_H

/*
 * Runs other programs: never through a shell, always under a timeout, in a process group of
 * their own that is killed as a whole, and killed with this process if that dies first. Since
 * 0.1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "package/cancel.h"

enum { LAB_SPAWN_PATIENCE = 15 };

/* Output kept of a program: the first and the last bytes, the middle is counted and dropped. */
struct lab_text {
	char *head, *tail; /* owned; NULL until something came */
	size_t head_bytes, tail_bytes;
	size_t tail_start;  /* `tail` is a ring */
	size_t limit_bytes; /* of each half */
	uint64_t total_bytes;
};

struct lab_command {
	const char *const *argv;	/* argv[0] an absolute path; NULL-terminated */
	const char *const *environment; /* NAME=VALUE added to ours, or NULL */
	const char *cwd;		/* or NULL */
	uint64_t timeout_ms;		/* must not be 0 */
	/* The timeout is processor time of the program itself: a busy machine does not end it.
	 * By the clock it may then take LAB_SPAWN_PATIENCE times as long. */
	bool timeout_is_cpu;
	uint64_t flood_bytes;		 /* killed when it prints more; 0 = no limit */
	size_t keep_bytes;		 /* kept of the head and of the tail, per stream */
	const struct lab_cancel *cancel; /* may be NULL */
};

struct lab_outcome {
	int status; /* exit status, or -signal */
	bool timed_out, cancelled, flooded;
	uint64_t elapsed_ns;
	struct lab_text out, err;
};

/*
 * Runs the command and waits for it. Returns 0 when it was run, however it ended; -errno when
 * it could not be started. The outcome is to be freed in both cases. Safe from several threads
 * on different outcomes. Standard input is /dev/null.
 */
int lab_spawn(const struct lab_command *command, struct lab_outcome *outcome);
void lab_outcome_free(struct lab_outcome *outcome);

/* The text in one piece, "[... N bytes ...]" in place of what was dropped; malloc'ed or NULL.
 */
char *lab_text_string(const struct lab_text *text);
void lab_text_append(struct lab_text *text, const char *data, size_t size);
void lab_text_free(struct lab_text *text);

/*
 * Finds a program in $PATH, then in the system directories that a plain user's $PATH often
 * lacks. Returns 0 and a path, or -ENOENT.
 */
int lab_find_program(const char *name, char *path, size_t size);

uint64_t lab_now_ns(void);

#endif
