/* SPDX-License-Identifier: Apache-2.0 */
/* Running other programs: output, limits, and that nothing of them is left. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "lab/internal.h"
#include "lab/spawn.h"
#include "synthetic.h"
#include "unit/test.h"

static int calls;

static int at_third_call(void *user)
{
	(void)user;
	return ++calls >= 3;
}

static void run_shell(const char *script, struct lab_command *command,
		      struct lab_outcome *outcome)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	command->argv = argv;
	if (!command->timeout_ms)
		command->timeout_ms = 60000;
	if (!command->keep_bytes)
		command->keep_bytes = 1024;
	CHECK_EQ(lab_spawn(command, outcome), 0);
}

static void output_and_status(void)
{
	struct lab_command command = {
		.environment = (const char *const[]){"LAB_TEST=yes", "HOME=/nowhere", NULL},
		.cwd = "/",
	};
	struct lab_outcome outcome;
	char *out, *err;

	run_shell("echo $LAB_TEST $HOME; pwd; echo no >&2; exit 7", &command, &outcome);
	out = lab_text_string(&outcome.out);
	err = lab_text_string(&outcome.err);
	CHECK_STR(out, "yes /nowhere\n/\n");
	CHECK_STR(err, "no\n");
	CHECK_EQ(outcome.status, 7);
	CHECK(!outcome.timed_out && !outcome.cancelled && !outcome.flooded);
	free(out);
	free(err);
	lab_outcome_free(&outcome);
}

static void not_startable(void)
{
	const char *const argv[] = {"/nonexistent/program", NULL};
	struct lab_command command = {.argv = argv, .timeout_ms = 1000};
	struct lab_outcome outcome;

	CHECK_EQ(lab_spawn(&command, &outcome), -ENOENT);
	lab_outcome_free(&outcome);
}

static void ends_by_signal(void)
{
	struct lab_command command = {0};
	struct lab_outcome outcome;

	run_shell("kill -TERM $$", &command, &outcome);
	CHECK_EQ(outcome.status, -SIGTERM);
	lab_outcome_free(&outcome);
}

/* The group is killed: also the child that would have written the file. */
static void timeout_kills_all(void)
{
	struct lab_command command = {.timeout_ms = 200};
	struct lab_outcome outcome;
	char script[600], *out;
	long pid;

	snprintf(script, sizeof(script), "sleep 100 & echo $!; sleep 100; echo never");
	run_shell(script, &command, &outcome);
	CHECK(outcome.timed_out);
	CHECK_EQ(outcome.status, -SIGKILL);
	out = lab_text_string(&outcome.out);
	REQUIRE(out);
	CHECK(!strstr(out, "never"));
	pid = strtol(out, NULL, 10);
	REQUIRE(pid > 1);
	/* It may take the kernel a moment, and then its parent to reap it. */
	for (int i = 0; i < 100 && kill((pid_t)pid, 0) == 0; i++) {
		char stat[64], *text;
		size_t size;

		snprintf(stat, sizeof(stat), "/proc/%ld/stat", pid);
		if (lab_read_file(stat, 4096, &text, &size) == 0) {
			bool zombie = strstr(text, ") Z ") != NULL;

			free(text);
			if (zombie)
				break;
		}
		CHECK(i < 99);
		usleep(20000);
	}
	free(out);
	lab_outcome_free(&outcome);
}

static void cancelling(void)
{
	const struct lab_cancel cancel = {.asked = at_third_call};
	struct lab_command command = {.cancel = &cancel};
	struct lab_outcome outcome;

	calls = 0;
	run_shell("sleep 100", &command, &outcome);
	CHECK(outcome.cancelled && !outcome.timed_out);
	CHECK_EQ(outcome.status, -SIGKILL);
	CHECK_EQ(calls, 3);
	lab_outcome_free(&outcome);
}

static void flooding(void)
{
	struct lab_command command = {.flood_bytes = 100000, .keep_bytes = 100};
	struct lab_outcome outcome;
	char *out;

	run_shell("while :; do echo 0123456789; done", &command, &outcome);
	CHECK(outcome.flooded);
	CHECK(outcome.out.total_bytes > 100000);
	CHECK_EQ(outcome.out.head_bytes, 100);
	CHECK_EQ(outcome.out.tail_bytes, 100);
	out = lab_text_string(&outcome.out);
	REQUIRE(out);
	CHECK(strncmp(out, "0123456789\n", 11) == 0);
	CHECK(strstr(out, " bytes ...]"));
	CHECK(strlen(out) < 300);
	free(out);
	lab_outcome_free(&outcome);
}

/* A child that keeps the pipes open does not keep us. */
static void detached_child(void)
{
	struct lab_command command = {0};
	struct lab_outcome outcome;

	run_shell("sleep 100 & echo done", &command, &outcome);
	CHECK_EQ(outcome.status, 0);
	CHECK_EQ(outcome.out.total_bytes, 5);
	lab_outcome_free(&outcome);
}

static void text_is_exact(void)
{
	static const char data[] = "abcdefghijklmnopqrstuvwxyz";

	for (size_t chunk = 1; chunk <= 26; chunk++) {
		struct lab_text text = {.limit_bytes = 5};
		char *string;

		for (size_t at = 0; at < 26; at += chunk)
			lab_text_append(&text, data + at, 26 - at < chunk ? 26 - at : chunk);
		string = lab_text_string(&text);
		CHECK_STR(string, "abcde\n[... 16 bytes ...]\nvwxyz");
		CHECK_EQ(text.total_bytes, 26);
		free(string);
		lab_text_free(&text);
	}
	{
		struct lab_text text = {.limit_bytes = 5};
		char *string;

		lab_text_append(&text, "ab\0defgh", 8);
		string = lab_text_string(&text);
		CHECK_STR(string, "ab?defgh");
		free(string);
		lab_text_free(&text);
	}
}

static void programs(void)
{
	char path[256];

	CHECK_EQ(lab_find_program("sh", path, sizeof(path)), 0);
	CHECK(path[0] == '/');
	CHECK_EQ(lab_find_program("no-such-program-here", path, sizeof(path)), -ENOENT);
	/* Relative directories of $PATH are not looked into. */
	setenv("PATH", ".:", 1);
	REQUIRE(chdir("/bin") == 0);
	CHECK_EQ(lab_find_program("sh", path, sizeof(path)), -ENOENT);
}

int main(void)
{
	RUN(output_and_status);
	RUN(not_startable);
	RUN(ends_by_signal);
	RUN(timeout_kills_all);
	RUN(cancelling);
	RUN(flooding);
	RUN(detached_child);
	RUN(text_is_exact);
	RUN(programs);
	return TEST_DONE();
}
