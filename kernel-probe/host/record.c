/* SPDX-License-Identifier: Apache-2.0 */
#include "host/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"

struct h2d_recorded *h2d_record_find(struct h2d_record *r, enum h2d_hostfs_kind kind,
				     const char *path)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->items[i].kind == kind && !strcmp(r->items[i].path, path))
			return &r->items[i];
	return NULL;
}

void h2d_record_set(struct h2d_record *r, struct h2d_recorded *item, char *data, size_t bytes)
{
	r->bytes += bytes;
	r->bytes -= item->data ? item->bytes : 0;
	free(item->data);
	item->data = data;
	item->bytes = bytes;
	item->err = 0;
}

static struct h2d_recorded *add(struct h2d_record *r, enum h2d_hostfs_kind kind,
				const char *path)
{
	struct h2d_recorded *item;

	if (r->count == r->cap) {
		size_t cap = r->cap ? r->cap * 2 : 256;

		item = h2d_mem->realloc(r->items, cap * sizeof(*item));
		if (!item)
			return NULL;
		r->items = item;
		r->cap = cap;
	}
	item = &r->items[r->count];
	memset(item, 0, sizeof(*item));
	item->kind = kind;
	item->path = strdup(path);
	if (!item->path)
		return NULL;
	r->count++;
	return item;
}

static void observe(void *user, enum h2d_hostfs_kind kind, const char *path, const char *data,
		    size_t bytes, int err)
{
	struct h2d_record *r = user;
	char name[H2D_HOSTFS_PATH_BYTES];
	struct h2d_recorded *item;
	char *copy;

	if (r->failed || path[0] != '/' ||
	    snprintf(name, sizeof(name), "%s%s", r->prefix, path) >= (int)sizeof(name))
		return;
	item = h2d_record_find(r, kind, name);
	/* Of a file that was read in parts of different length the longest is kept. */
	if (item && (err || (item->data && item->bytes >= bytes)))
		return;
	if (!item)
		item = add(r, kind, name);
	if (!item) {
		r->failed = true;
		return;
	}
	item->err = err;
	if (err)
		return;
	copy = bytes < H2D_RECORD_BYTES_MAX - r->bytes ? h2d_mem->malloc(bytes + 1) : NULL;
	if (!copy) {
		r->failed = true;
		return;
	}
	memcpy(copy, data, bytes);
	copy[bytes] = 0;
	h2d_record_set(r, item, copy, bytes);
}

void h2d_record_start(struct h2d_record *r)
{
	h2d_hostfs_observe(observe, r);
}

void h2d_record_stop(void)
{
	h2d_hostfs_observe(NULL, NULL);
}

void h2d_record_free(struct h2d_record *r)
{
	for (size_t i = 0; i < r->count; i++) {
		free(r->items[i].path);
		free(r->items[i].data);
	}
	free(r->items);
	memset(r, 0, sizeof(*r));
}

/* ---- the tree ---- */

static int make_parents(const char *to, char *path, const struct h2d_log *log)
{
	for (char *p = path + strlen(to) + 1; (p = strchr(p, '/')); p++) {
		int err;

		*p = 0;
		err = mkdir(path, 0755) && errno != EEXIST ? errno : 0;
		*p = '/';
		if (err)
			return h2d_fail_errno(log, err, "%s", path);
	}
	return 0;
}

static int write_text(const char *path, const char *data, size_t bytes,
		      const struct h2d_log *log)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	int rc = 0;

	if (fd < 0)
		return h2d_fail_errno(log, errno, "%s", path);
	while (bytes && !rc) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			rc = h2d_fail_errno(log, n ? errno : ENOSPC, "%s", path);
		else
			data += n, bytes -= (size_t)n;
	}
	close(fd);
	return rc;
}

static int write_item(const struct h2d_recorded *item, const char *to,
		      const struct h2d_log *log)
{
	char path[H2D_HOSTFS_PATH_BYTES], number[16];
	int rc;

	/* What is absent there is absent here. */
	if (item->err == -ENOENT || item->kind == H2D_HOSTFS_LIST)
		return 0;
	if (snprintf(path, sizeof(path), "%s%s%s", to, item->path, item->err ? ".errno" : "") >=
	    (int)sizeof(path))
		return h2d_fail(log, H2D_E_IO, "%s: the name is too long", item->path);
	rc = make_parents(to, path, log);
	if (rc)
		return rc;
	if (item->err) {
		snprintf(number, sizeof(number), "%d\n", -item->err);
		return write_text(path, number, strlen(number), log);
	}
	if (item->kind == H2D_HOSTFS_TEXT)
		return write_text(path, item->data, item->bytes, log);
	if (symlink(item->data, path) && errno != EEXIST)
		return h2d_fail_errno(log, errno, "%s", path);
	return 0;
}

/* Names in a directory count even where nothing below them was read. */
static int write_list(const struct h2d_recorded *item, const char *to,
		      const struct h2d_log *log)
{
	char path[H2D_HOSTFS_PATH_BYTES], *names, *save = NULL;
	struct stat st;
	int rc = 0;

	if (item->err && item->err != -ENOENT) {
		char number[16];

		if (snprintf(path, sizeof(path), "%s%s.errno", to, item->path) >=
		    (int)sizeof(path))
			return 0;
		rc = make_parents(to, path, log);
		snprintf(number, sizeof(number), "%d\n", -item->err);
		return rc || !lstat(path, &st) ? rc
					       : write_text(path, number, strlen(number), log);
	}
	if (item->err)
		return 0;
	names = strdup(item->data);
	if (!names)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	if (snprintf(path, sizeof(path), "%s%s/", to, item->path) < (int)sizeof(path))
		rc = make_parents(to, path, log);
	for (char *name = strtok_r(names, "\n", &save); !rc && name;
	     name = strtok_r(NULL, "\n", &save)) {
		if (snprintf(path, sizeof(path), "%s%s/%s", to, item->path, name) >=
		    (int)sizeof(path))
			continue;
		if (lstat(path, &st) && mkdir(path, 0755))
			rc = h2d_fail_errno(log, errno, "%s", path);
	}
	free(names);
	return rc;
}

int h2d_record_write(const struct h2d_record *r, const char *to, const struct h2d_log *log)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < r->count; i++)
		rc = write_item(&r->items[i], to, log);
	for (size_t i = 0; !rc && i < r->count; i++)
		if (r->items[i].kind == H2D_HOSTFS_LIST)
			rc = write_list(&r->items[i], to, log);
	return rc;
}
