/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "whole_file.h"

static int read_all(int fd, const char *path, const struct h2d_log *log, char *data,
		    size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = read(fd, data + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return h2d_fail_errno(log, errno, "read %s", path);
		if (!n)
			return h2d_fail(log, H2D_E_IO, "%s: ends after %zu of %zu bytes", path,
					done, bytes);
		done += (size_t)n;
	}
	return 0;
}

int h2d_whole_file_read(const char *path, size_t max, const struct h2d_log *log, void **data,
			size_t *bytes)
{
	/* O_NONBLOCK: a FIFO must not hold us up before it is refused. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	char *buffer = NULL;
	struct stat st;

	*data = NULL;
	*bytes = 0;
	if (fd < 0 || fstat(fd, &st)) {
		err = h2d_fail_errno(log, errno, "%s", path);
		goto out;
	}
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > max) {
		err = h2d_fail(log, H2D_E_FORMAT, "%s: not a regular file of 1 to %zu bytes",
			       path, max);
		goto out;
	}
	buffer = h2d_mem->malloc((size_t)st.st_size);
	if (!buffer) {
		err = h2d_fail(log, H2D_E_NOMEM, "%s: %lld bytes", path, (long long)st.st_size);
		goto out;
	}
	err = read_all(fd, path, log, buffer, (size_t)st.st_size);
	if (err)
		goto out;
	*data = buffer;
	*bytes = (size_t)st.st_size;
	buffer = NULL;
out:
	free(buffer);
	if (fd >= 0)
		close(fd);
	return err;
}
