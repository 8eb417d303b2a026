/* SPDX-License-Identifier: Apache-2.0 */
/** @file run.h  The parts of `h2d run`: what is started, how it is started, what is told of it.
 */
#ifndef H2D_CLI_RUN_H
#define H2D_CLI_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"
#include "run/state.h"

/** Exit statuses of `h2d run` itself; all others are the command's. */
enum {
	H2D_RUN_FAILED = 125,
	H2D_RUN_NOT_EXECUTABLE = 126,
	H2D_RUN_NOT_FOUND = 127,
	H2D_RUN_SIGNAL = 128, /**< and the signal's number */
};

/* ------------------------------------------------------------------ run_program.c */

/** Whether a library can be preloaded into a program. */
enum h2d_run_fit {
	H2D_RUN_FITS,
	H2D_RUN_STATIC,	    /**< no dynamic loader; what it starts may be covered */
	H2D_RUN_FOREIGN,    /**< another architecture; the same */
	H2D_RUN_OTHER_LIBC, /**< another dynamic loader, which our library would break */
	H2D_RUN_PRIVILEGED, /**< gains privileges: the loader drops the library, for all it
			     *   starts too */
};

struct h2d_run_program {
	char path[PATH_MAX]; /**< as the search path gave it; "" when it was not found */
	char file[PATH_MAX]; /**< what the kernel runs: of a script, the interpreter */
	char loader[256];    /**< its dynamic loader, or "" */
	enum h2d_run_fit fit;
};

/** Look at what execvp() would run. What cannot be read is taken to fit. */
void h2d_run_program_inspect(const char *command, struct h2d_run_program *program);

/** What `fit` means for a user, without the program's name; NULL when it fits. */
const char *h2d_run_fit_text(enum h2d_run_fit fit);

/* ------------------------------------------------------------------ run_child.c */

/** How a command ended. */
struct h2d_run_outcome {
	int pid;
	int exec_errno;	   /**< it could not be started, or 0 */
	int status;	   /**< exit status, or 128 + signal_number */
	int signal_number; /**< that ended it, or 0 */
	uint64_t elapsed_ns;
};

/**
 * Run a command to its end. Signals sent to this process are passed on (those of the terminal
 * reach the command by themselves), a stop and a continuation too; if this process is killed,
 * so is the command. @return 0 or a negative errno; exec_errno is no error here
 */
int h2d_run_child(char **argv, struct h2d_run_outcome *outcome);

/* ------------------------------------------------------------------ run_setup.c */

/** What the environment of the command needs. */
struct h2d_run_setup {
	char library[PATH_MAX];
	char folder[PATH_MAX]; /**< holds the state file; "" when there is none */
	char file[PATH_MAX + 64];
	int memory_fd, file_fd;	     /**< of the state and of the file, or -1 */
	struct h2d_run_state *state; /**< what is reported */
	struct h2d_run_state *outer; /**< of the `h2d run` around this one, or NULL */
};

/** Find the library, make the state, set the variables in this process's environment.
 *  @return 0, or an exit status after the error was told; release in both cases */
int h2d_run_setup(struct h2d_cli *cli, const struct h2d_texts *patterns,
		  struct h2d_run_setup *setup);
void h2d_run_setup_release(struct h2d_run_setup *setup);

/* ------------------------------------------------------------------ run_state.c */

/** Make the state and name it in the environment. What a killed h2d left behind is removed.
 *  @return 0, or an exit status after the error was told; release in both cases */
int h2d_run_state_make(struct h2d_cli *cli, struct h2d_run_setup *setup);

/** The command has ended: gather what was reported, also for the `h2d run` around this one. */
void h2d_run_state_collect(struct h2d_run_setup *setup);

/* ------------------------------------------------------------------ run_report.c */

/** Everything there is to tell. */
struct h2d_run_facts {
	const struct h2d_run_program *program;
	const struct h2d_run_setup *setup;
	const struct h2d_run_outcome *outcome;
	const struct h2d_texts *patterns;
	char **argv;
};

/** For people; `prefix` begins every line. */
void h2d_run_report_text(struct h2d_cli *cli, FILE *out, const char *prefix,
			 const struct h2d_run_facts *facts);
/** The document h2d.run, on cli->out. @return H2D_EXIT_OK or a status */
int h2d_run_report_json(struct h2d_cli *cli, const struct h2d_run_facts *facts);

#endif
