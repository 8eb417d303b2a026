/* SPDX-License-Identifier: Apache-2.0 */
/* What is said on stderr, and the same in JSON where it is an error. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "progress.h"
#include "text.h"

static void line_to_stderr(struct h2d_cli *cli, const char *kind, const char *line)
{
	h2d_progress_clear();
	flockfile(stderr);
	fprintf(stderr, "h2d: %s", kind);
	h2d_text_safe(stderr, line, strlen(line));
	fputc('\n', stderr);
	funlockfile(stderr);
	(void)cli;
}

void h2d_cli_log(void *user, enum h2d_log_level level, const char *line)
{
	struct h2d_cli *cli = user;

	pthread_mutex_lock(&cli->lock);
	switch (level) {
	case H2D_LOG_ERROR:
		/* The first one is the cause; it is told once, by h2d_cli_fail(). */
		if (!cli->have_message) {
			snprintf(cli->message, sizeof(cli->message), "%s", line);
			cli->have_message = true;
		} else if (cli->common.verbose) {
			line_to_stderr(cli, "also: ", line);
		}
		break;
	case H2D_LOG_WARNING:
		if (!cli->common.quiet)
			line_to_stderr(cli, "warning: ", line);
		break;
	case H2D_LOG_INFO:
		if (cli->common.verbose)
			line_to_stderr(cli, "", line);
		break;
	case H2D_LOG_DEBUG:
		if (cli->common.verbose > 1)
			line_to_stderr(cli, "debug: ", line);
		break;
	}
	pthread_mutex_unlock(&cli->lock);
}

const char *h2d_cli_path(const struct h2d_cli *cli, const char *path)
{
	return h2d_redacted_path(path, cli->common.redact);
}

/* Take the folders that the command line named out of a message. */
static void redact(const struct h2d_cli *cli, char *text)
{
	for (int i = 1; i < cli->argc; i++) {
		const char *arg = cli->argv[i], *slash = strrchr(arg, '/');
		size_t n;
		char *at;

		arg += arg[0] == '-' && strchr(arg, '=') ? strcspn(arg, "=") + 1 : 0;
		if (!slash || slash < arg)
			continue;
		n = (size_t)(slash + 1 - arg);
		while ((at = n > 1 ? memmem(text, strlen(text), arg, n) : NULL))
			memmove(at, at + n, strlen(at + n) + 1);
	}
}

static void error_document(struct h2d_cli *cli, int exit, const char *status_name,
			   const char *text)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.error", 1, 0);
	h2d_json_object_begin(&j, "error");
	h2d_json_i64(&j, "status", exit);
	h2d_json_string(&j, "message", text);
	if (status_name)
		h2d_json_string(&j, "library_status", status_name);
	else
		h2d_cli_null(&j, "library_status", "the error is not one of the library");
	h2d_json_object_end(&j);
	h2d_json_object_end(&j);
	/* A failure to write it is told by the check of stdout at the end. */
	h2d_json_finish(&j);
}

static void tell(struct h2d_cli *cli, int exit, const char *status_name, const char *text)
{
	char line[1200];

	if (cli->reported)
		return;
	cli->reported = true;
	snprintf(line, sizeof(line), "%s", text);
	if (cli->common.redact)
		redact(cli, line);
	line_to_stderr(cli, "", line);
	if (cli->common.json && !cli->document_begun)
		error_document(cli, exit, status_name, line);
}

int h2d_cli_failure(const struct h2d_cli *cli, int exit)
{
	return cli->command && cli->command->failure ? cli->command->failure : exit;
}

int h2d_cli_usage(struct h2d_cli *cli, const char *fmt, ...)
{
	int exit = h2d_cli_failure(cli, H2D_EXIT_USAGE);
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell(cli, exit, NULL, text);
	if (!cli->common.json) {
		const char *on = cli->help_on ? cli->help_on : cli->command_name;

		fprintf(stderr, "Try 'h2d help%s%s'.\n", on[0] ? " " : "", on);
	}
	return exit;
}

int h2d_cli_error(struct h2d_cli *cli, int exit, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell(cli, exit, NULL, text);
	return exit;
}

int h2d_cli_fail(struct h2d_cli *cli, enum h2d_stage stage, int status, const char *fmt, ...)
{
	int exit = h2d_cli_failure(cli, h2d_exit_status(status, stage));
	char text[1100], own[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(own, sizeof(own), fmt, ap);
	va_end(ap);
	if (status == H2D_E_CANCELLED)
		snprintf(text, sizeof(text), "cancelled%s",
			 h2d_signals_caught() ? " by a signal" : "");
	else if (cli->have_message)
		snprintf(text, sizeof(text), "%s", cli->message);
	else
		snprintf(text, sizeof(text), "%s: %s", own, h2d_status_string(status));
	tell(cli, exit, h2d_status_string(status), text);
	return exit;
}

/* Whether stdout and stderr end up in one place. */
static bool one_place(void)
{
	struct stat out, err;

	return !fstat(STDOUT_FILENO, &out) && !fstat(STDERR_FILENO, &err) &&
	       out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

void h2d_cli_reason(struct h2d_cli *cli, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!cli->common.json && !cli->common.quiet && one_place())
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line_to_stderr(cli, "", text);
}

void h2d_cli_warn(struct h2d_cli *cli, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (cli->common.quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	line_to_stderr(cli, "warning: ", text);
}
