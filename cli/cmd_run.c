/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "run.h"

struct run_values {
	struct h2d_texts patterns;
	const char *report;
};

static const struct h2d_option options[] = {
	{"pattern", 0, H2D_OPTION_TEXTS, "GLOB",
	 "Treat files of that name as checkpoints too, whatever they hold. A pattern without a "
	 "slash is compared with the last part of the path; * matches slashes as well.",
	 NULL, 0, offsetof(struct run_values, patterns), 0, 0},
	{"report", 0, H2D_OPTION_TEXT, "FILE",
	 "Write the report to FILE instead of stderr. The file is replaced.", NULL,
	 H2D_WORD_FILE, offsetof(struct run_values, report), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Run options", options};

/* Where the report goes: a file that is there before the command starts, or stderr. */
static FILE *open_report(struct h2d_cli *cli, const char *path)
{
	/* A descriptor of our own, so that closing it leaves stderr open. */
	int fd = path ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	FILE *out = path ? fopen(path, "we") : fd >= 0 ? fdopen(fd, "w") : NULL;

	/* Closed, it is something that cannot be written to: then the report is for nobody. */
	if (!out && fd >= 0) {
		close(fd);
		out = fopen("/dev/null", "we");
	}
	if (!out)
		h2d_cli_error(cli, H2D_RUN_FAILED, "%s: %s", path ? path : "stderr",
			      strerror(errno));
	return out;
}

/* Whether everything arrived. A report that is lost is no success, but the command's failure
 * is told first. */
static int close_report(struct h2d_cli *cli, FILE *out, const char *path, int exit)
{
	int err = ferror(out) || fflush(out) ? (errno ? errno : EIO) : 0;

	if (fclose(out) && !err)
		err = errno;
	if (!err || !path)
		return exit;
	cli->reported = false;
	h2d_cli_error(cli, H2D_RUN_FAILED, "%s: %s", path, strerror(err));
	return exit ? exit : H2D_RUN_FAILED;
}

static int cannot_start(struct h2d_cli *cli, const char *command, int err)
{
	int exit = err == ENOENT ? H2D_RUN_NOT_FOUND : H2D_RUN_NOT_EXECUTABLE;

	return h2d_cli_error(cli, exit, "cannot run %s: %s", command,
			     err == ENOENT && !strchr(command, '/') ? "no such command"
								    : strerror(err));
}

/* Tell what will not work. @return 0 to go on, or a status */
static int judge(struct h2d_cli *cli, const struct h2d_run_program *p)
{
	const char *why = h2d_run_fit_text(p->fit);

	if (!why)
		return 0;
	if (p->fit == H2D_RUN_PRIVILEGED || p->fit == H2D_RUN_OTHER_LIBC)
		return h2d_cli_error(cli, H2D_RUN_FAILED, "%s %s", p->file, why);
	h2d_cli_warn(cli, "%s %s", p->file, why);
	return 0;
}

static int report(struct h2d_cli *cli, const struct run_values *v,
		  const struct h2d_run_facts *facts)
{
	if (cli->common.json)
		return h2d_run_report_json(cli, facts);
	if (v->report || !cli->common.quiet)
		h2d_run_report_text(cli, cli->out, v->report ? "" : "h2d: ", facts);
	return 0;
}

static int run_command(struct h2d_cli *cli, const struct run_values *v, char **argv)
{
	struct h2d_run_program program;
	struct h2d_run_outcome outcome;
	struct h2d_run_setup setup = {.memory_fd = -1, .file_fd = -1};
	struct h2d_run_facts facts = {&program, &setup, &outcome, &v->patterns, argv};
	int exit, rc;

	if (!argv[0][0])
		return h2d_cli_usage(cli, "the command's name is empty");
	h2d_run_program_inspect(argv[0], &program);
	exit = judge(cli, &program);
	if (!exit)
		exit = h2d_run_setup(cli, &v->patterns, &setup);
	if (exit)
		goto out;
	rc = h2d_run_child(argv, &outcome);
	h2d_run_state_collect(&setup);
	if (rc)
		exit = h2d_cli_error(cli, H2D_RUN_FAILED, "cannot run %s: %s", argv[0],
				     strerror(-rc));
	else if (outcome.exec_errno)
		exit = cannot_start(cli, argv[0], outcome.exec_errno);
	else if (report(cli, v, &facts))
		exit = outcome.status ? outcome.status : H2D_RUN_FAILED;
	else
		exit = outcome.status;
out:
	h2d_run_setup_release(&setup);
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct run_values *v = values;
	FILE *standard = cli->out, *out = open_report(cli, v->report);
	int exit;

	(void)count;
	if (!out)
		return H2D_RUN_FAILED;
	/* stdout is the command's: every document of ours, of an error too, goes elsewhere. */
	cli->out = out;
	exit = run_command(cli, v, words);
	cli->out = standard;
	return close_report(cli, out, v->report, exit);
}

const struct h2d_command h2d_command_run = {
	.name = "run",
	.summary = "run a program with its checkpoint mappings kept read-only",
	.arguments = "-- COMMAND",
	.word = H2D_WORD_ANY,
	.description =
		(const char *const[]){
			"Runs an unmodified program. Checkpoints that it maps private and "
			"writable, as PyTorch does, are mapped read-only until the program "
			"really "
			"writes to them. So a GPU's driver copies the weights from the page "
			"cache "
			"as they are: no page is copied for a write that never comes, and a "
			"kernel whose driver stalls on such copies does not stall.",
			"The first write to a part of a mapping makes that part writable and "
			"goes "
			"on; results are the same as without h2d. A checkpoint is told by its "
			"content (safetensors, GGUF, .cact, PyTorch archives of at least 1 "
			"MiB), or "
			"by "
			"--pattern. Everything else the program maps is left alone.",
			"A preloaded library does it, in every dynamically linked program that "
			"the command starts. What is statically linked is not covered, and "
			"setuid "
			"programs are refused.",
			"When the command has ended, a report tells which mappings were kept "
			"read-only, how much stayed shared and how many pages were written. It "
			"goes to stderr or to a file, with --json as a document; stdout is the "
			"command's alone. With -q there is only the document or the file; -v "
			"lists every file, -vv tells of each mapping as it is made.",
			"Signals sent to h2d reach the command. Everything behind the first "
			"word that is no option belongs to the command.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct run_values),
	.examples =
		(const struct h2d_example[]){
			{"Serve a model without the copies and the stall",
			 "h2d run -- python serve.py"},
			{"Keep files of a format of one's own read-only too",
			 "h2d run --pattern '*.weights' -- ./serve"},
			{"Count in a script what stayed shared",
			 "h2d run --json --report run.json -- python load.py"},
			{0},
		},
	.exits =
		(const struct h2d_exit_note[]){
			{"125", "h2d itself failed; the reason is on stderr."},
			{"126", "The command was found and cannot be executed."},
			{"127", "The command was not found."},
			{"128+N", "Signal N ended the command."},
			{"other", "The exit status of the command."},
			{0},
		},
	.min_words = 1,
	.max_words = -1,
	.takes_command = true,
	.json_help =
		"Write the report as one JSON document, to stderr or to the file of --report: "
		"stdout is the command's alone. An error of h2d's own is a document too.",
	.failure = H2D_RUN_FAILED,
	.run = run,
};
