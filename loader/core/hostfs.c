/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hostfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"

static int full_path(char *out, const char *root, const char *path)
{
	int n = snprintf(out, H2D_HOSTFS_PATH_BYTES, "%s%s", root ? root : "", path);

	return n < 0 || n >= H2D_HOSTFS_PATH_BYTES ? -ENAMETOOLONG : 0;
}

int h2d_hostfs_read(const char *root, const char *path, char *buf, size_t cap)
{
	char full[H2D_HOSTFS_PATH_BYTES];
	size_t len = 0;
	int fd, err = full_path(full, root, path);

	buf[0] = 0;
	if (err)
		return err;
	/* A capture may hold anything, also a FIFO. */
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	while (len < cap - 1) {
		ssize_t n = read(fd, buf + len, cap - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			err = -errno;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	close(fd);
	while (!err && len && isspace((unsigned char)buf[len - 1]))
		len--;
	buf[err ? 0 : len] = 0;
	return err ? err : (int)len;
}

int h2d_hostfs_u64(const char *root, const char *path, uint64_t *out)
{
	char text[64], *end;
	int n = h2d_hostfs_read(root, path, text, sizeof(text));

	if (n < 0)
		return n;
	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, text[1] == 'x' ? 16 : 10);
	return errno || *end ? -EINVAL : 0;
}

int h2d_hostfs_link_name(const char *root, const char *path, char *buf, size_t cap)
{
	char full[H2D_HOSTFS_PATH_BYTES], target[H2D_HOSTFS_PATH_BYTES];
	const char *name;
	ssize_t n;
	int err = full_path(full, root, path);

	if (err)
		return err;
	n = readlink(full, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = 0;
	name = strrchr(target, '/');
	snprintf(buf, cap, "%s", name ? name + 1 : target);
	return 0;
}

static int by_version(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *e)
{
	return strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
}

int h2d_hostfs_list(const char *root, const char *path, char ***names)
{
	char full[H2D_HOSTFS_PATH_BYTES], **list = NULL;
	struct dirent **entries = NULL;
	int n, err = full_path(full, root, path);

	if (err)
		return err;
	n = scandir(full, &entries, not_dots, by_version);
	if (n < 0)
		return -errno;
	list = h2d_mem->calloc((size_t)n + 1, sizeof(*list));
	for (int i = 0; i < n; i++) {
		if (list)
			list[i] = strdup(entries[i]->d_name);
		if (!list || !list[i])
			err = -ENOMEM;
		free(entries[i]);
	}
	free(entries);
	if (err) {
		for (int i = 0; list && i < n; i++)
			free(list[i]);
		free(list);
		return err;
	}
	*names = list;
	return n;
}

void h2d_hostfs_list_free(char **names)
{
	for (char **p = names; p && *p; p++)
		free(*p);
	free(names);
}

int h2d_text_field(const char *text, const char *key, char *buf, size_t cap)
{
	size_t want = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		const char *end;

		line += strspn(line, "\n");
		if (strncmp(line, key, want))
			continue;
		end = line + want + strspn(line + want, " \t");
		if (*end != ':' && *end != '=')
			continue;
		end++;
		end += strspn(end, " \t\"'");
		want = strcspn(end, "\n");
		while (want && strchr(" \t\"'\r", end[want - 1]))
			want--;
		return snprintf(buf, cap, "%.*s", (int)want, end);
	}
	return -ENOENT;
}
