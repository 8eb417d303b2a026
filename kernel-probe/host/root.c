/* SPDX-License-Identifier: Apache-2.0 */
#include "host/root.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "host/unpack.h"

bool h2d_root_name_allowed(const char *name)
{
	if (!name || !name[0] || name[0] == '/')
		return false;
	while (*name) {
		size_t n = strcspn(name, "/");

		if (n == 2 && name[0] == '.' && name[1] == '.')
			return false;
		name += n + (name[n] == '/');
	}
	return true;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	remove(path);
	return 0;
}

void h2d_root_close(struct h2d_root *r)
{
	if (r->unpacked)
		nftw(r->unpacked, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	free(r->unpacked);
	free(r->name);
	free((void *)(uintptr_t)r->path);
	memset(r, 0, sizeof(*r));
}

/* Where an archive has all of its tree below one directory, that is the root. */
static char *find_tree(const char *top)
{
	char **names, *inside = NULL;
	struct stat st;
	int n = h2d_hostfs_list(NULL, top, &names);

	if (n == 1 && asprintf(&inside, "%s/%s", top, names[0]) < 0)
		inside = NULL;
	/* A lone "proc" is a tree of its own. */
	if (n == 1 && inside &&
	    (!strcmp(names[0], "proc") || !strcmp(names[0], "sys") || lstat(inside, &st) ||
	     !S_ISDIR(st.st_mode))) {
		free(inside);
		inside = NULL;
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
	return inside ? inside : strdup(top);
}

int h2d_root_open(const char *spec, const struct h2d_log *log, struct h2d_root *out)
{
	const char *tmp = getenv("TMPDIR");
	struct stat st;
	int rc;

	memset(out, 0, sizeof(*out));
	if (!spec)
		return 0;
	if (stat(spec, &st))
		return h2d_fail_errno(log, errno, "%s", spec);
	out->name = strdup(spec);
	if (!out->name)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", spec);
	if (S_ISDIR(st.st_mode)) {
		out->path = realpath(spec, NULL);
		return out->path ? 0 : h2d_fail_errno(log, errno, "%s", spec);
	}
	if (!S_ISREG(st.st_mode))
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: a root is a directory or a capture's archive", spec);
	if (asprintf(&out->unpacked, "%s/h2d-root-XXXXXX",
		     tmp && tmp[0] == '/' ? tmp : "/tmp") < 0) {
		out->unpacked = NULL;
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", spec);
	}
	if (!mkdtemp(out->unpacked)) {
		rc = h2d_fail_errno(log, errno, "temporary directory %s", out->unpacked);
		free(out->unpacked);
		out->unpacked = NULL;
		return rc;
	}
	rc = h2d_unpack(spec, out->unpacked, log);
	if (rc)
		return rc;
	out->path = find_tree(out->unpacked);
	return out->path ? 0 : h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", spec);
}
