/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module's own programs in a guest: hmm-selftest, then hmm-fuzz, which unloads the module
 * in the end. Both judge for themselves; here their status and the kernel's log are asked for.
 *
 * usage: guest_module HMM-SELFTEST HMM-FUZZ emulated|shipped SECONDS
 */
#include "document.h"
#include "unit/test.h"

static void check_command(json_t *kernel, size_t index, const char *must_print)
{
	json_t *command = json_array_get(json_object_get(kernel, "commands"), index);
	const char *out = text_of(command, "stdout");

	REQUIRE(command);
	fprintf(stderr, "%s", out);
	CHECK(json_is_true(json_object_get(command, "ran")));
	CHECK_EQ(number_of(command, "status"), 0);
	CHECK_EQ(json_array_size(json_object_get(command, "kernel_log")), 0);
	CHECK(strstr(out, must_print) != NULL);
	CHECK(strstr(out, "not ok") == NULL);
}

int main(int argc, char **argv)
{
	static const char *release;
	const char *files[2];
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.filesystems = H2D_LAB_FS_EXT4 | H2D_LAB_FS_TMPFS,
		.policies = H2D_LAB_POLICY_REFRESH,
		.permissions = H2D_LAB_PERMISSION_ACCESS,
		.states = H2D_LAB_STATE_RW_PRESENT,
		.size_bytes = 1 << 20,
		.guest_files = files,
		.guest_file_count = 2,
		.command_count = 2,
	};
	json_t *document, *kernel;
	bool shipped;
	int status;

	if (argc < 5)
		return 2;
	release = test_kernel();
	files[0] = argv[1];
	files[1] = argv[2];
	shipped = strcmp(argv[3], "shipped") == 0;
	options.driver = shipped ? H2D_LAB_DRIVER_SHIPPED : H2D_LAB_DRIVER_EMULATED;

	/* 8 MiB: a window of the shipped driver takes a second, whatever is wished for. */
	const char *const emulated_test[] = {"/bin/hmm-selftest", "-t",		"40", "-m", "8",
					     "/mnt/ext4",	  "/mnt/tmpfs", NULL};
	const char *const shipped_test[] = {
		"/bin/hmm-selftest", "-d", "shipped", "-e", "stale", "-m", "8",
		"/mnt/tmpfs",	     NULL};
	const char *const fuzz[] = {"/bin/hmm-fuzz", "-t", argv[4], "-u", "/mnt/ext4", NULL};
	const char *const *const commands[] = {shipped ? shipped_test : emulated_test, fuzz};

	options.commands = commands;
	document = run_laboratory(&options, &status);
	CHECK_EQ(status, 0);
	kernel = first_kernel(document);
	check_command(kernel, 0, "rw-present");
	check_command(kernel, 1, "- unloaded");
	json_decref(document);
	return TEST_DONE();
}
