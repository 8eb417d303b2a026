/* SPDX-License-Identifier: Apache-2.0 */
/* The control group in the environment block. */
#include <stdio.h>
#include <string.h>

#include "core/cgroup.h"
#include "core/environment.h"

static void limit(struct h2d_json *j, const char *root, const char *key, const char *mount,
		  const char *group, const char *file)
{
	char path[H2D_CGROUP_PATH_BYTES + 256];
	struct h2d_cgroup_limit least;

	h2d_cgroup_limit(root, mount, group, file, &least);
	snprintf(path, sizeof(path), "%s%s/%s", mount, strcmp(group, "/") ? group : "", file);
	if (!least.read)
		h2d_env_unknown(j, key, path, least.error);
	else if (!least.limited)
		h2d_env_why(j, key, "unlimited");
	else
		h2d_json_u64(j, key, least.bytes);
}

void h2d_env_cgroup(struct h2d_json *j, const char *root, bool redact)
{
	static const char own[] = "/proc/self/cgroup";
	char text[16384], group[H2D_CGROUP_PATH_BYTES], path[H2D_CGROUP_PATH_BYTES + 64];
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
