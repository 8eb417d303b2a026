/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cli.h
 * The one command `h2d`: its sub-commands, the options they share, and how any of them speaks.
 */
#ifndef H2D_CLI_CLI_H
#define H2D_CLI_CLI_H

#include <pthread.h>
#include <stdio.h>

#include "core/envelope.h"
#include "h2d/h2d.h"
#include "options.h"

/** Exit statuses of h2d. */
enum h2d_exit {
	H2D_EXIT_OK = 0,
	H2D_EXIT_NEGATIVE = 1, /**< affected, mismatch, regression, missing cell */
	H2D_EXIT_USAGE = 2,
	H2D_EXIT_INPUT = 3,  /**< bad or missing input file */
	H2D_EXIT_DEVICE = 4, /**< device or runtime not available, or device error */
	H2D_EXIT_SYSTEM = 5, /**< input/output, memory, permission */
	H2D_EXIT_CANCELLED = 6,
	H2D_EXIT_UNKNOWN = 77, /**< cannot tell or cannot run here */
};

/** What was being done when a status came back: the same status of the library means another
 *  thing to a user when a file, a device or an option was at fault. */
enum h2d_stage {
	H2D_STAGE_USAGE,
	H2D_STAGE_INPUT,
	H2D_STAGE_DEVICE,
	H2D_STAGE_LOAD,
};

/** The one mapping from a status of the library to an exit status. */
enum h2d_exit h2d_exit_status(int status, enum h2d_stage stage);

/** Text of an exit status for help and manual; NULL for numbers that are not used. */
const char *h2d_exit_meaning(int exit);

/** Values of the options that every command has. */
struct h2d_common {
	bool json, quiet, redact, help, version;
	unsigned verbose;
	const char *progress;
};
extern const struct h2d_option_table h2d_common_options;

/** A line of the manual's EXAMPLES. */
struct h2d_example {
	const char *text, *command;
};

/** A line of the manual's EXIT STATUS. */
struct h2d_exit_note {
	const char *status, *meaning;
};

/** A sub-command. */
struct h2d_command {
	const char *name;
	const char *summary;	 /**< one line, no full stop */
	const char *arguments;	 /**< "CHECKPOINT", "" when there are none */
	enum h2d_word_kind word; /**< what its words are, for the completion */
	/** Paragraphs of the manual, ended by NULL. */
	const char *const *description;
	const struct h2d_option_table *const *options; /**< ended by NULL; may be NULL */
	size_t values_bytes;			       /**< of the struct the options fill */
	const struct h2d_example *examples; /**< ended by an empty one; may be NULL */
	int min_words, max_words;	    /**< max_words < 0: no bound */
	/** Its words are another program's command line: options end at the first of them. */
	bool takes_command;
	/** What --json does where stdout is not its own; else NULL. */
	const char *json_help;
	/** The status of its own failures, where those of the table below are another's; else
	 *  0. */
	int failure;
	/** Its exit statuses where they are not the common ones, ended by an empty one. */
	const struct h2d_exit_note *exits;
	/** Sub-commands (then there is no run), ended by NULL. */
	const struct h2d_command *const *commands;
	/** @return exit status */
	int (*run)(struct h2d_cli *cli, void *values, int count, char **words);
};

/** What an option does for a command, which may be NULL: the common ones may differ. */
const char *h2d_option_help(const struct h2d_command *command, const struct h2d_option *option);

/** All commands, ended by NULL. */
extern const struct h2d_command *const h2d_commands[];

/** One run of the program. */
struct h2d_cli {
	struct h2d_common common;
	const struct h2d_command *command; /**< NULL before it is known */
	char command_name[64];		   /**< "cache show" */
	const char *help_on; /**< what help a usage error points to; NULL: command_name */
	const char *file;    /**< whose filesystem the documents describe */
	const char *root; /**< of the capture that the documents describe; NULL: this machine */
	int argc;
	char **argv;
	char **words; /**< a copy of argv that parsing may reorder */
	int word_count;
	FILE *out; /**< stdout; a failure of it is noted in out_errno */
	int out_errno;
	pthread_mutex_t lock; /**< of what follows and of stderr */
	char message[1024];   /**< first error line of the library */
	bool have_message;
	bool reported;	     /**< the error was already told */
	bool document_begun; /**< stdout already holds (part of) a document */
};

/* ------------------------------------------------------------------ messages */

/** The log callback of everything the command opens; `user` is the struct h2d_cli. */
void h2d_cli_log(void *user, enum h2d_log_level level, const char *line);
/** Tell a usage error. @return H2D_EXIT_USAGE, or the command's own status for failures */
int h2d_cli_usage(struct h2d_cli *cli, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** Tell an error of the library: its own line where there is one, else `fmt`.
 *  @return the exit status */
int h2d_cli_fail(struct h2d_cli *cli, enum h2d_stage stage, int status, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/** Tell an error that has no status of the library. @return `exit` */
int h2d_cli_error(struct h2d_cli *cli, int exit, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** `exit`, or the status that this command has for all its failures. */
int h2d_cli_failure(const struct h2d_cli *cli, int exit);
/** Tell why the status is 77, which is owed on stderr whatever was printed; not where the
 * report, which says it, goes to the same terminal or file. */
void h2d_cli_reason(struct h2d_cli *cli, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** A line on stderr, unless -q. */
void h2d_cli_warn(struct h2d_cli *cli, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** What stands in a message or report for a path. */
const char *h2d_cli_path(const struct h2d_cli *cli, const char *path);

/* ------------------------------------------------------------------ documents */

/** Begin the JSON document of this command on stdout. */
void h2d_cli_document(struct h2d_cli *cli, struct h2d_json *j, const char *schema,
		      unsigned major, unsigned minor);
/** End it. @return H2D_EXIT_OK, or an error was told */
int h2d_cli_document_end(struct h2d_cli *cli, struct h2d_json *j);
/** A null and its reason. */
void h2d_cli_null(struct h2d_json *j, const char *key, const char *why);

/** Make cli->out; @return 0 or -1 */
int h2d_cli_open_out(struct h2d_cli *cli);
/** Whether stdout took everything: a full disk or a closed pipe is an error like any other.
 *  @return `exit`, or the status of that error */
int h2d_cli_close_out(struct h2d_cli *cli, int exit);

/* ------------------------------------------------------------------ signals */

/** From now on SIGINT and SIGTERM only note themselves (the second one kills) and writing to a
 *  closed pipe is an error like any other. */
void h2d_signals_install(void);
/** Everything as it was before h2d_signals_install(), for a program about to be started. */
void h2d_signals_restore(void);
/** The signal that came, or 0. */
int h2d_signals_caught(void);

/* ------------------------------------------------------------------ tables as text */

void h2d_usage_print(FILE *out, const struct h2d_command *command, const char *name);
void h2d_usage_overview(FILE *out);
/** The page of a command, or of h2d without one; `name` as for h2d_usage_print(). */
void h2d_manual_print(FILE *out, const struct h2d_command *command, const char *name);
void h2d_completion_print(FILE *out);
/** A command or "cache show" by words. @return NULL after a usage error was told */
const struct h2d_command *h2d_command_find(struct h2d_cli *cli, int count, char **words);

#endif
