/* SPDX-License-Identifier: Apache-2.0 */
#include "core/hostfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/mem.h"

static int full_path(char *out, const char *root, const char *path)
{
	int n = snprintf(out, H2D_HOSTFS_PATH_BYTES, "%s%s", root ? root : "", path);

	return n < 0 || n >= H2D_HOSTFS_PATH_BYTES ? -ENAMETOOLONG : 0;
}

static _Thread_local struct {
	h2d_hostfs_observer fn;
	void *user;
} observer;

void h2d_hostfs_observe(h2d_hostfs_observer fn, void *user)
{
	observer.fn = fn;
	observer.user = user;
}

bool h2d_hostfs_observed(void)
{
	return observer.fn;
}

void h2d_hostfs_note(enum h2d_hostfs_kind kind, const char *path, const char *data,
		     size_t bytes, int err)
{
	if (observer.fn)
		observer.fn(observer.user, kind, path, data, bytes, err);
}

/* Below a root; glibc has no wrapper for openat2(2). */
static int open_in_root(const char *root, const char *path, int flags)
{
	struct open_how how = {.flags = (uint64_t)flags,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	char full[H2D_HOSTFS_PATH_BYTES];
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd, err;

	if (dir < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	err = -errno;
	close(dir);
	if (fd >= 0)
		return fd;
	/* Older than Linux 5.6, or a sandbox that does not know the call. */
	if (err == -ENOSYS || err == -EPERM) {
		err = full_path(full, root, path);
		if (err)
			return err;
		fd = open(full, flags | O_NOFOLLOW);
		return fd < 0 ? -errno : fd;
	}
	return err;
}

/* What a capture says of a file that could not be read there. */
static int recorded_error(const char *root, const char *path)
{
	char name[H2D_HOSTFS_PATH_BYTES], text[16] = "";
	int n = snprintf(name, sizeof(name), "%s.errno", path), fd, err = -ENOENT;

	if (n < 0 || (size_t)n >= sizeof(name))
		return -ENOENT;
	fd = open_in_root(root, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -ENOENT;
	if (read(fd, text, sizeof(text) - 1) > 0 && atoi(text) > 0 && atoi(text) < 4096)
		err = -atoi(text);
	close(fd);
	return err;
}

static int open_at(const char *root, const char *path, int flags)
{
	int fd, err;

	/* A capture may hold anything, also a FIFO. */
	flags |= O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	if (!root || !root[0]) {
		fd = open(path, flags);
		return fd < 0 ? -errno : fd;
	}
	err = open_in_root(root, path, flags);
	return err == -ENOENT ? recorded_error(root, path) : err;
}

/* @return bytes read, at most `cap`, or a negative errno */
static ssize_t read_up_to(int fd, char *buf, size_t cap)
{
	size_t len = 0;

	while (len < cap) {
		ssize_t n = read(fd, buf + len, cap - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

int h2d_hostfs_read(const char *root, const char *path, char *buf, size_t cap)
{
	int fd = open_at(root, path, O_RDONLY);
	ssize_t len = fd;

	buf[0] = 0;
	if (fd >= 0) {
		len = read_up_to(fd, buf, cap - 1);
		close(fd);
	}
	if (len < 0) {
		buf[0] = 0;
		h2d_hostfs_note(H2D_HOSTFS_TEXT, path, NULL, 0, (int)len);
		return (int)len;
	}
	h2d_hostfs_note(H2D_HOSTFS_TEXT, path, buf, (size_t)len, 0);
	while (len && isspace((unsigned char)buf[len - 1]))
		len--;
	buf[len] = 0;
	return (int)len;
}

int h2d_hostfs_read_all(const char *root, const char *path, size_t max, char **text,
			size_t *bytes)
{
	size_t cap = 1 << 14, len = 0;
	char *buf = NULL, *more;
	int fd = open_at(root, path, O_RDONLY), err = 0;
	ssize_t n = 0;

	if (fd < 0) {
		err = fd;
		goto out;
	}
	for (;;) {
		if (cap > max)
			cap = max;
		more = h2d_mem->realloc(buf, cap + 1);
		if (!more) {
			err = -ENOMEM;
			break;
		}
		buf = more;
		n = read_up_to(fd, buf + len, cap - len);
		if (n < 0) {
			err = (int)n;
			break;
		}
		len += (size_t)n;
		if (len < cap || cap == max)
			break;
		cap *= 2;
	}
	close(fd);
out:
	if (err) {
		free(buf);
		h2d_hostfs_note(H2D_HOSTFS_TEXT, path, NULL, 0, err);
		return err;
	}
	buf[len] = 0;
	h2d_hostfs_note(H2D_HOSTFS_TEXT, path, buf, len, 0);
	*text = buf;
	*bytes = len;
	return 0;
}

int h2d_hostfs_open(const char *root, const char *path, FILE **out)
{
	int fd = open_at(root, path, O_RDONLY), err;

	if (fd < 0)
		return fd;
	*out = fdopen(fd, "r");
	if (*out)
		return 0;
	err = -errno;
	close(fd);
	return err;
}

bool h2d_hostfs_exists(const char *root, const char *path)
{
	int fd = open_at(root, path, O_RDONLY);
	struct stat st;
	bool good = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode);

	if (fd >= 0)
		close(fd);
	return good;
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
	if (n < 0) {
		err = -errno;
		if (err == -ENOENT && root && root[0])
			err = recorded_error(root, path);
		h2d_hostfs_note(H2D_HOSTFS_LINK, path, NULL, 0, err);
		return err;
	}
	target[n] = 0;
	name = strrchr(target, '/');
	name = name ? name + 1 : target;
	h2d_hostfs_note(H2D_HOSTFS_LINK, path, name, strlen(name), 0);
	snprintf(buf, cap, "%s", name);
	return 0;
}

static int by_version(const void *a, const void *b)
{
	return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* @return count of names, or a negative errno */
static int read_names(DIR *dir, char ***names)
{
	size_t count = 0, cap = 0;
	char **list = NULL, **more;
	struct dirent *e;

	for (;;) {
		if (count + 1 >= cap) {
			cap = cap ? cap * 2 : 32;
			more = h2d_mem->realloc(list, cap * sizeof(*list));
			if (!more)
				goto nomem;
			list = more;
			list[count] = NULL;
		}
		errno = 0;
		e = readdir(dir);
		if (!e)
			break;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		list[count] = strdup(e->d_name);
		if (!list[count])
			goto nomem;
		list[++count] = NULL;
	}
	if (errno || count > INT_MAX) {
		int err = errno ? -errno : -EOVERFLOW;

		h2d_hostfs_list_free(list);
		return err;
	}
	qsort(list, count, sizeof(*list), by_version);
	*names = list;
	return (int)count;
nomem:
	h2d_hostfs_list_free(list);
	return -ENOMEM;
}

static void note_list(const char *path, char **names)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = observer.fn ? open_memstream(&text, &bytes) : NULL;

	if (!out)
		return;
	for (char **p = names; *p; p++)
		fprintf(out, "%s\n", *p);
	if (!fclose(out))
		h2d_hostfs_note(H2D_HOSTFS_LIST, path, text, bytes, 0);
	free(text);
}

int h2d_hostfs_list(const char *root, const char *path, char ***names)
{
	int fd = open_at(root, path, O_RDONLY | O_DIRECTORY), n;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		n = fd < 0 ? fd : -errno;
		if (fd >= 0)
			close(fd);
	} else {
		n = read_names(dir, names);
		closedir(dir);
	}
	if (n < 0)
		h2d_hostfs_note(H2D_HOSTFS_LIST, path, NULL, 0, n);
	else
		note_list(path, *names);
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

/* Whether a list "cpu,memory" has that word; the empty list has the empty word. */
static bool list_has(const char *list, size_t bytes, const char *word)
{
	const char *end = list + bytes;
	size_t want = strlen(word);

	for (;;) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		size_t n = (size_t)((comma ? comma : end) - list);

		if (n == want && !strncmp(list, word, n))
			return true;
		if (!comma)
			return false;
		list = comma + 1;
	}
}

bool h2d_text_cgroup(const char *text, const char *controller, char *out, size_t cap)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *list, *path, *end;

		line += strspn(line, "\n");
		end = line + strcspn(line, "\n");
		list = memchr(line, ':', (size_t)(end - line));
		path = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;
		if (!path || !list_has(list + 1, (size_t)(path - list - 1), controller))
			continue;
		snprintf(out, cap, "%.*s", (int)(end - path - 1), path + 1);
		return true;
	}
	return false;
}
