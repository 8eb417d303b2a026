/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the guest's disks: sparse files, with a filesystem by its own tool. */
#include "internal.h"
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MKFS_TIMEOUT_MS 120000u

static int make_sparse(struct lab *lab, const char *path, uint64_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		err = h2d_fail_errno(&lab->log, errno, "%s", path);
	if (fd >= 0)
		close(fd);
	return err;
}

static int run_mkfs(struct lab *lab, const char *tool, const char *package, const char **argv)
{
	char program[256];
	struct lab_command command = {
		.argv = argv,
		.timeout_ms = MKFS_TIMEOUT_MS,
		.keep_bytes = 4096,
		.cancel = &lab->cancel,
	};
	struct lab_outcome outcome;
	char *errors;
	int err;

	if (lab_find_program(tool, program, sizeof(program)) != 0)
		return h2d_fail(&lab->log, H2D_E_UNAVAILABLE,
				"%s is not installed (package %s)", tool, package);
	argv[0] = program;
	err = lab_spawn(&command, &outcome);
	errors = lab_text_string(&outcome.err);
	if (errors)
		errors[strcspn(errors, "\n")] = 0;
	if (err)
		err = h2d_fail_errno(&lab->log, -err, "%s", program);
	else if (outcome.cancelled)
		err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
	else if (outcome.timed_out || outcome.status != 0)
		err = h2d_fail(&lab->log, H2D_E_IO, "%s: %s", program,
			       outcome.timed_out   ? "does not end"
			       : errors && *errors ? errors
						   : "failed");
	free(errors);
	lab_outcome_free(&outcome);
	return err;
}

int lab_image_make(struct lab *lab, const char *path, int kind, uint64_t bytes)
{
	int err = make_sparse(lab, path, bytes);

	if (err)
		return err;
	switch (kind) {
	case LAB_DISK_EXT4: {
		/* Tables are left to the guest's own kernel: quick here, and sparse. */
		const char *argv[] = {"",     "-q",   "-F",
				      "-t",   "ext4", "-b",
				      "4096", "-E",   "lazy_itable_init=1,nodiscard",
				      path,   NULL};

		return run_mkfs(lab, "mke2fs", "e2fsprogs", argv);
	}
	case LAB_DISK_XFS: {
		const char *argv[] = {"", "-q", "-f", "-K", path, NULL};

		return run_mkfs(lab, "mkfs.xfs", "xfsprogs", argv);
	}
	}
	return 0;
}
