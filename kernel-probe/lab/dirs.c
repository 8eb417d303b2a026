/* SPDX-License-Identifier: Apache-2.0 */
/* Directories, names and small files. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE_DEPTH_MAX 200

char *lab_format(const char *format, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	return n < 0 ? NULL : text;
}

int lab_make_dirs(const char *path)
{
	char *copy = strdup(path), *p;
	int err = 0;

	if (!copy)
		return -ENOMEM;
	for (p = copy + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = 0;
		if (mkdir(copy, 0755) != 0 && errno != EEXIST)
			err = -errno;
		*p = '/';
	}
	if (mkdir(copy, 0755) != 0 && errno != EEXIST)
		err = -errno;
	else
		err = 0;
	free(copy);
	return err;
}

static int remove_in(int parent, const char *name, unsigned depth)
{
	struct dirent *entry;
	int fd, err = 0;
	DIR *dir;

	if (unlinkat(parent, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth > TREE_DEPTH_MAX)
		return -ELOOP;
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		err = -errno;
		close(fd);
		return err;
	}
	while ((entry = readdir(dir))) {
		int one;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		one = remove_in(fd, entry->d_name, depth + 1);
		if (one)
			err = one;
	}
	closedir(dir);
	if (unlinkat(parent, name, AT_REMOVEDIR) != 0 && !err)
		err = -errno;
	return err;
}

int lab_remove_tree(const char *path)
{
	int err = remove_in(AT_FDCWD, path, 0);

	return err == -ENOENT ? 0 : err;
}

int lab_read_file(const char *path, size_t limit, char **data, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0, capacity = 4096;
	struct stat st;
	int err = 0;

	*data = NULL;
	*size = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (st.st_size > 0 && (uint64_t)st.st_size <= limit)
		capacity = (size_t)st.st_size + 1;
	/* To the end, not to st_size: files of /proc say 0. */
	while (!err) {
		char *grown = realloc(*data, capacity + 1);
		ssize_t n;

		if (!grown) {
			err = -ENOMEM;
			break;
		}
		*data = grown;
		n = read(fd, *data + done, capacity - done);
		if (n < 0 && errno != EINTR)
			err = -errno;
		if (n == 0)
			break;
		done += n > 0 ? (size_t)n : 0;
		if (done > limit)
			err = -EFBIG;
		else if (done == capacity)
			capacity *= 2;
	}
	close(fd);
	if (err) {
		free(*data);
		*data = NULL;
		return err;
	}
	(*data)[done] = 0;
	*size = done;
	return 0;
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t n = write(fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int lab_write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int err;

	if (fd < 0)
		return -errno;
	err = write_all(fd, data, size);
	if (close(fd) != 0 && !err)
		err = -errno;
	return err;
}

int lab_copy_file(const char *from, const char *to)
{
	char *partial = lab_format("%s.XXXXXX", to), *chunk = malloc(1 << 20);
	int in = -1, out = -1, err = 0;
	ssize_t n = 0;

	if (!partial || !chunk) {
		err = -ENOMEM;
		goto out;
	}
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0) {
		err = -errno;
		goto out;
	}
	out = mkostemp(partial, O_CLOEXEC);
	if (out < 0) {
		err = -errno;
		goto out;
	}
	while (!err && (n = read(in, chunk, 1 << 20)) != 0) {
		if (n < 0)
			err = errno == EINTR ? 0 : -errno;
		else
			err = write_all(out, chunk, (size_t)n);
	}
	if (fchmod(out, 0644) != 0 && !err)
		err = -errno;
	if (close(out) != 0 && !err)
		err = -errno;
	if (!err && rename(partial, to) != 0)
		err = -errno;
	if (err)
		unlink(partial);
out:
	if (in >= 0)
		close(in);
	free(partial);
	free(chunk);
	return err;
}

bool lab_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool lab_is_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}
