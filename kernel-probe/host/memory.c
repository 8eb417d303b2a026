/* SPDX-License-Identifier: Apache-2.0 */
#include "host/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/hostfs.h"

enum { TEXT_BYTES = 16 << 10 };

static void meminfo(const char *text, const char *key, struct h2d_known_u64 *out)
{
	char value[64];

	if (h2d_text_field(text, key, value, sizeof(value)) <= 0)
		return;
	out->known = true;
	out->value = strtoull(value, NULL, 10) * 1024;
}

void h2d_pressure_read(const char *root, const char *resource, struct h2d_pressure *out)
{
	char path[64], text[512];
	const char *full;

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "/proc/pressure/%s", resource);
	if (h2d_hostfs_read(root, path, text, sizeof(text)) <= 0)
		return;
	full = strstr(text, "full ");
	out->known = sscanf(text, "some avg10=%lf avg60=%*f avg300=%*f total=%lu",
			    &out->some_pct, &out->some_total_us) == 2;
	if (full)
		sscanf(full, "full avg10=%lf", &out->full_pct);
}

/* The smallest limit, and what its group uses. */
static void group_limits(const char *root, const char *mount, const char *group,
			 const char *limit_file, const char *used_file, struct h2d_memory *out)
{
	char path[H2D_CGROUP_PATH_BYTES + 256];
	struct h2d_cgroup_limit least;

	h2d_cgroup_limit(root, mount, group, limit_file, &least);
	out->group_read = least.read;
	out->group_limit_bytes.known = least.limited;
	out->group_limit_bytes.value = least.bytes;
	if (!least.limited)
		return;
	snprintf(path, sizeof(path), "%s%s/%s", mount, least.group, used_file);
	out->group_used_bytes.known = !h2d_hostfs_u64(root, path, &out->group_used_bytes.value);
}

static void groups(const char *root, int pid, struct h2d_memory *out)
{
	char path[64], text[TEXT_BYTES], group[H2D_CGROUP_PATH_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (h2d_hostfs_read(root, pid ? path : "/proc/self/cgroup", text, sizeof(text)) < 0)
		return;
	if (h2d_text_cgroup(text, "memory", group, sizeof(group)))
		group_limits(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
			     "memory.usage_in_bytes", out);
	else if (h2d_text_cgroup(text, "", group, sizeof(group)))
		group_limits(root, "/sys/fs/cgroup", group, "memory.max", "memory.current",
			     out);
}

void h2d_memory_read(const char *root, int pid, struct h2d_memory *out)
{
	char text[TEXT_BYTES];
	uint64_t page;

	memset(out, 0, sizeof(*out));
	if (h2d_hostfs_read(root, "/proc/meminfo", text, sizeof(text)) > 0) {
		meminfo(text, "MemTotal", &out->total_bytes);
		meminfo(text, "MemAvailable", &out->available_bytes);
		meminfo(text, "SwapTotal", &out->swap_total_bytes);
		meminfo(text, "SwapFree", &out->swap_free_bytes);
	}
	groups(root, pid, out);
	h2d_pressure_read(root, "memory", &out->memory);
	h2d_pressure_read(root, "io", &out->io);
	out->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!root) {
		snprintf(text, sizeof(text), "%lu", (unsigned long)out->page_bytes);
		h2d_hostfs_note(H2D_HOSTFS_TEXT, "/h2d/page_bytes", text, strlen(text), 0);
	} else if (!h2d_hostfs_u64(root, "/h2d/page_bytes", &page)) {
		out->page_bytes = page;
	}
}

bool h2d_memory_room(const struct h2d_memory *m, uint64_t *bytes)
{
	uint64_t left = UINT64_MAX;

	if (m->available_bytes.known)
		left = m->available_bytes.value;
	if (m->group_limit_bytes.known && m->group_used_bytes.known) {
		uint64_t limit = m->group_limit_bytes.value, used = m->group_used_bytes.value;
		uint64_t group = limit > used ? limit - used : 0;

		left = group < left ? group : left;
	}
	*bytes = left;
	return left != UINT64_MAX;
}

static void number(struct h2d_json *j, const char *key, const struct h2d_known_u64 *n,
		   const char *why)
{
	char name[64];

	if (n->known) {
		h2d_json_u64(j, key, n->value);
		return;
	}
	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void pressure(struct h2d_json *j, const char *key, const struct h2d_pressure *p)
{
	char name[64];

	if (!p->known) {
		snprintf(name, sizeof(name), "%s_why", key);
		h2d_json_null(j, key);
		h2d_json_string(j, name, "the kernel does not tell pressure");
		return;
	}
	h2d_json_object_begin(j, key);
	h2d_json_double(j, "some_10s_pct", p->some_pct);
	h2d_json_double(j, "full_10s_pct", p->full_pct);
	h2d_json_object_end(j);
}

void h2d_memory_write(struct h2d_json *j, const char *key, const struct h2d_memory *m)
{
	static const char meminfo_why[] = "/proc/meminfo does not tell";
	const char *group_why = m->group_read ? "unlimited" : "control groups are not visible";

	h2d_json_object_begin(j, key);
	number(j, "total_bytes", &m->total_bytes, meminfo_why);
	number(j, "available_bytes", &m->available_bytes, meminfo_why);
	number(j, "swap_total_bytes", &m->swap_total_bytes, meminfo_why);
	number(j, "swap_free_bytes", &m->swap_free_bytes, meminfo_why);
	number(j, "group_limit_bytes", &m->group_limit_bytes, group_why);
	number(j, "group_used_bytes", &m->group_used_bytes,
	       m->group_limit_bytes.known ? "not told" : group_why);
	h2d_json_u64(j, "page_bytes", m->page_bytes);
	pressure(j, "memory_pressure", &m->memory);
	pressure(j, "io_pressure", &m->io);
	h2d_json_object_end(j);
}
