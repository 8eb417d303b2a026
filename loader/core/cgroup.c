/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"

/* Version 1 writes "no limit" as the largest multiple of a page. */
static const uint64_t unlimited = UINT64_C(1) << 62;

void h2d_cgroup_up(const char *group, void (*visit)(void *user, const char *group), void *user)
{
	char rest[H2D_CGROUP_PATH_BYTES], *slash;

	/* Outside of our control group namespace the path leads upward. */
	snprintf(rest, sizeof(rest), "%s",
		 !strcmp(group, "/") || strstr(group, "/..") ? "" : group);
	for (;;) {
		visit(user, rest);
		slash = strrchr(rest, '/');
		if (!slash)
			return;
		*slash = 0;
	}
}

struct search {
	const char *root, *mount, *file;
	struct h2d_cgroup_limit *out;
};

static void look(void *user, const char *group)
{
	const struct search *s = user;
	char path[H2D_CGROUP_PATH_BYTES + 256], text[64], *end;
	uint64_t value;
	int n;

	snprintf(path, sizeof(path), "%s%s/%s", s->mount, group, s->file);
	n = h2d_hostfs_read(s->root, path, text, sizeof(text));
	if (n <= 0) {
		s->out->error = n;
		return;
	}
	s->out->read = true;
	value = strtoull(text, &end, 10);
	if (end == text || value >= unlimited || (s->out->limited && value >= s->out->bytes))
		return;
	s->out->limited = true;
	s->out->bytes = value;
	snprintf(s->out->group, sizeof(s->out->group), "%s", group);
}

void h2d_cgroup_limit(const char *root, const char *mount, const char *group, const char *file,
		      struct h2d_cgroup_limit *out)
{
	struct search s = {root, mount, file, out};

	memset(out, 0, sizeof(*out));
	h2d_cgroup_up(group, look, &s);
}
