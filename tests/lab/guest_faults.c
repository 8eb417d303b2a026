/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guests that panic, hang, flood their console or their output, or whose kernel complains: each
 * is told for what it is, with its console, and is never passed. One small cell runs before.
 */
#include "document.h"
#include "unit/test.h"

static const char *misbehave_path, *release;

static json_t *boot(const char *what, uint32_t timeout_s)
{
	const char *const argv[] = {"/bin/lab-misbehave", what, NULL};
	const char *const *const commands[] = {argv};
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.driver = H2D_LAB_DRIVER_EMULATED,
		.policies = H2D_LAB_POLICY_REFRESH,
		.filesystems = H2D_LAB_FS_TMPFS,
		.permissions = H2D_LAB_PERMISSION_ACCESS,
		.states = H2D_LAB_STATE_RW_PRESENT,
		.size_bytes = 1 << 20,
		.guest_files = &misbehave_path,
		.guest_file_count = 1,
		.commands = commands,
		.command_count = 1,
		.guest_timeout_s = timeout_s,
	};
	int status;
	json_t *document = run_laboratory(&options, &status);

	CHECK_EQ(status, 0);
	return document;
}

static json_t *command_of(json_t *document)
{
	return json_array_get(json_object_get(first_kernel(document), "commands"), 0);
}

static void expect(json_t *document, const char *verdict, const char *end, const char *console)
{
	json_t *kernel = first_kernel(document), *guest = json_object_get(kernel, "guest");
	json_t *cell = find_cell(kernel, "tmpfs", "refresh", "access", "rw-present");

	REQUIRE(cell);
	CHECK_STR(verdict_of(kernel, "value"), verdict);
	CHECK_STR(text_of(guest, "end"), end);
	if (console)
		CHECK(strstr(text_of(guest, "console"), console));
	/* What had been measured before is there. */
	CHECK_STR(text_of(cell, "status"), "ok");
	json_decref(document);
}

static void panics(void)
{
	expect(boot("panic", 0), "not_verified", "panic", "Kernel panic");
}

/* The command's own timeout is longer than the guest's. */
static void hangs(void)
{
	json_t *document = boot("hang", 60);

	CHECK(json_is_false(json_object_get(command_of(document), "ran")));
	expect(document, "not_verified", "hung", NULL);
}

static void floods_console(void)
{
	expect(boot("flood", 0), "not_verified", "console_flooded", "####");
}

static void floods_output(void)
{
	json_t *document = boot("print", 0), *command = command_of(document);

	CHECK_EQ(number_of(command, "status"), 0);
	CHECK_EQ(strlen(text_of(command, "stdout")) +
			 (size_t)number_of(command, "dropped_bytes"),
		 65536000);
	CHECK(number_of(command, "dropped_bytes") > 0);
	expect(document, "clean", "switched_off", NULL);
}

static void kernel_complains(void)
{
	json_t *document = boot("warn", 0), *log;

	log = json_object_get(command_of(document), "kernel_log");
	REQUIRE(json_array_size(log) == 1);
	CHECK_STR(json_string_value(json_array_get(log, 0)),
		  "WARNING: CPU: 0 PID: 1 at nothing");
	expect(document, "inconclusive", "switched_off", NULL);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	misbehave_path = argv[1];
	release = test_kernel();
	RUN(floods_output);
	RUN(kernel_complains);
	RUN(panics);
	RUN(hangs);
	RUN(floods_console);
	return TEST_DONE();
}
