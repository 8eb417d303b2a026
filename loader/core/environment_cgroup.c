/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the control group: the smallest on the way up to the root is the one in force. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/environment.h"

enum { LINE_BYTES = 1024 };

/* Version 1 writes "no limit" as the largest multiple of a page. */
static const uint64_t unlimited = UINT64_C(1) << 62;

static void limit(struct h2d_json *j, const char *root, const char *key, const char *mount,
		  const char *group, const char *file)
{
	char path[LINE_BYTES + 256], rest[LINE_BYTES], text[64], *end;
	uint64_t least = UINT64_MAX, value;
	bool seen = false;
	int n = -ENOENT;

	snprintf(rest, sizeof(rest), "%s", strcmp(group, "/") ? group : "");
	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", mount, rest, file);
		n = h2d_hostfs_read(root, path, text, sizeof(text));
		if (n > 0) {
			seen = true;
			value = strtoull(text, &end, 10);
			if (end != text && value < unlimited && value < least)
				least = value;
		}
		end = strrchr(rest, '/');
		if (!end)
			break;
		*end = 0;
	}
	snprintf(path, sizeof(path), "%s%s/%s", mount, strcmp(group, "/") ? group : "", file);
	if (!seen)
		h2d_env_unknown(j, key, path, n < 0 ? n : 0);
	else if (least == UINT64_MAX)
		h2d_env_why(j, key, "unlimited");
	else
		h2d_json_u64(j, key, least);
}

void h2d_env_cgroup(struct h2d_json *j, const char *root, bool redact)
{
	static const char own[] = "/proc/self/cgroup";
	char text[16384], group[LINE_BYTES], path[LINE_BYTES + 64];
	int n = h2d_hostfs_read(root, own, text, sizeof(text));
	bool legacy;

	if (n < 0) {
		h2d_env_unknown(j, "cgroup", own, n);
		return;
	}
	legacy = h2d_text_cgroup(text, "memory", group, sizeof(group));
	if (!legacy && !h2d_text_cgroup(text, "", group, sizeof(group))) {
		h2d_env_unknown(j, "cgroup", own, 0);
		return;
	}
	h2d_json_object_begin(j, "cgroup");
	h2d_json_u64(j, "version", legacy ? 1 : 2);
	if (redact)
		h2d_env_why(j, "path", "redacted");
	else
		h2d_json_string(j, "path", group);
	if (legacy) {
		limit(j, root, "memory_max_bytes", "/sys/fs/cgroup/memory", group,
		      "memory.limit_in_bytes");
		h2d_env_why(j, "memory_high_bytes", "cgroup version 1 has no such limit");
		h2d_env_why(j, "cpu_max", "cgroup version 1 has no such file");
	} else {
		limit(j, root, "memory_max_bytes", "/sys/fs/cgroup", group, "memory.max");
		limit(j, root, "memory_high_bytes", "/sys/fs/cgroup", group, "memory.high");
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max",
			 strcmp(group, "/") ? group : "");
		h2d_env_text(j, root, "cpu_max", path);
	}
	h2d_json_object_end(j);
}
