/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "repro/experiment/law.h"

/* include/uapi/linux/mount.h, Linux 5.2 */
enum { CONFIG_SET_STRING = 1, CONFIG_CREATE = 6, OPEN_CLOEXEC = 1 };

static int detached_tmpfs(void)
{
	int context = (int)syscall(SYS_fsopen, "tmpfs", OPEN_CLOEXEC), mount = -1, err;

	if (context < 0)
		return -1;
	if (!syscall(SYS_fsconfig, context, CONFIG_SET_STRING, "huge", "always", 0) &&
	    !syscall(SYS_fsconfig, context, CONFIG_CREATE, NULL, NULL, 0))
		mount = (int)syscall(SYS_fsmount, context, OPEN_CLOEXEC, 0);
	err = errno;
	close(context);
	errno = err;
	return mount;
}

int h2d_law_huge_file(uint64_t bytes, const struct h2d_log *log, struct h2d_known_file *out,
		      char *why, size_t why_bytes)
{
	int mount = detached_tmpfs(), fd, err;

	memset(out, 0, sizeof(*out));
	out->fd = -1;
	if (mount < 0) {
		snprintf(why, why_bytes, "a tmpfs with huge pages cannot be made: %s",
			 strerror(errno));
		return H2D_E_UNAVAILABLE;
	}
	/* The open file keeps the filesystem. */
	fd = openat(mount, "known", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	err = errno;
	close(mount);
	if (fd < 0)
		return h2d_fail_errno(log, err, "a file on a tmpfs with huge pages");
	return h2d_known_file_adopt(fd, "a file on a tmpfs with huge pages", bytes, log, out);
}
