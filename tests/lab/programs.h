/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_TEST_LAB_PROGRAMS_H
#define H2D_TEST_LAB_PROGRAMS_H

/* For tests that run programs of ours in a guest beside one small cell, and read what they
 * said. Everything checks, so it is included by the one file of a test. */

#include "document.h"
#include "unit/test.h"

/* The program's 32 MiB, and the window of the emulated driver. */
enum { SPANS = 16, TIMEOUT_MS = 40 };
#define TIMEOUT_TEXT "40"

static json_t *kernel;
static bool shipped;

/* Runs the commands with those files in the guest, on the driver that `driver` names. */
static inline json_t *run_programs(const char *driver, const char *const *files,
				   size_t file_count, const char *const *const *commands,
				   size_t command_count)
{
	const char *release = test_kernel();
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.filesystems = H2D_LAB_FS_EXT4,
		.policies = H2D_LAB_POLICY_STALE,
		.permissions = H2D_LAB_PERMISSION_ACCESS,
		.states = H2D_LAB_STATE_RW_PRESENT,
		.size_bytes = 1 << 20,
		.guest_files = files,
		.guest_file_count = file_count,
		.commands = commands,
		.command_count = command_count,
	};
	json_t *document;
	int status;

	shipped = strcmp(driver, "shipped") == 0;
	options.driver = shipped ? H2D_LAB_DRIVER_SHIPPED : H2D_LAB_DRIVER_EMULATED;
	options.timeout_ms = shipped ? 0 : TIMEOUT_MS;
	document = run_laboratory(&options, &status);
	CHECK_EQ(status, 0);
	kernel = first_kernel(document);
	return document;
}

/* A command that ran, ended with that status, and left the kernel's log alone. */
static inline json_t *command(size_t index, int status)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), index);

	CHECK(json_is_true(json_object_get(c, "ran")));
	CHECK_EQ(number_of(c, "status"), status);
	CHECK_EQ(json_array_size(json_object_get(c, "kernel_log")), 0);
	fprintf(stderr, "%s%s", text_of(c, "stdout"), text_of(c, "stderr"));
	return c;
}

/* The document that a text is, or begins with where lines for people may follow. */
static inline json_t *parsed(const char *text, bool lines_follow)
{
	json_t *j = json_loads(
		text, JSON_REJECT_DUPLICATES | (lines_follow ? JSON_DISABLE_EOF_CHECK : 0),
		NULL);

	CHECK(json_is_object(j));
	return j;
}

#endif
