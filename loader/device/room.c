/* SPDX-License-Identifier: Apache-2.0 */
#include "device/room.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cgroup.h"
#include "core/hostfs.h"

enum {
	PATH_BYTES = 4096,
	FILE_BYTES = 64 * 1024, /* mountinfo of a busy container host */
};

/* One version of the memory controller's files. */
struct controller {
	bool v2;
	const char *limit, *usage, *active_file, *inactive_file;
};

static const struct controller controllers[] = {
	{true, "memory.max", "memory.current", "active_file ", "inactive_file "},
	{false, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file ",
	 "total_inactive_file "},
};

/* Read a small file as text. @return its length, or -1 */
static ssize_t slurp(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (fd < 0)
		return -1;
	while (n + 1 < cap) {
		ssize_t r = read(fd, buf + n, cap - 1 - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		n += (size_t)r;
	}
	close(fd);
	buf[n] = 0;
	return (ssize_t)n;
}

/* The number after `key` at the start of a line. */
static bool number_after(const char *text, const char *key, uint64_t *out)
{
	size_t n = strlen(key);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, n)) {
			*out = strtoull(line + n, NULL, 10);
			return true;
		}
	}
	return false;
}

static bool read_number(const char *dir, const char *name, uint64_t *out)
{
	char path[PATH_BYTES + 64], text[64], *end;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (slurp(path, text, sizeof(text)) <= 0)
		return false;
	*out = strtoull(text, &end, 10); /* "max" is no number: no bound */
	return end != text;
}

/* What one cgroup still lets its processes have. */
static void bound_by(struct h2d_room *room, const struct controller *c, const char *dir,
		     char *text)
{
	uint64_t limit, usage, active = 0, inactive = 0, left;
	char path[PATH_BYTES + 64];

	if (!read_number(dir, c->limit, &limit) || !read_number(dir, c->usage, &usage))
		return;
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	if (slurp(path, text, FILE_BYTES) > 0) {
		number_after(text, c->active_file, &active);
		number_after(text, c->inactive_file, &inactive);
	}
	usage -= active + inactive < usage ? active + inactive : usage;
	left = usage < limit ? limit - usage : 0;
	if (limit < room->total_bytes)
		room->total_bytes = limit;
	if (left < room->available_bytes) {
		room->available_bytes = left;
		room->bound = "the memory cgroup's limit";
	}
}

/* Where that hierarchy is mounted, and which part of it, from /proc/self/mountinfo. */
static bool cgroup_mount(const char *text, bool v2, char *mount_root, char *mount_point)
{
	char copy[PATH_BYTES];

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		char *tail;

		line += *line == '\n';
		snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
		tail = strstr(copy, " - ");
		if (!tail ||
		    sscanf(copy, "%*s %*s %*s %1023s %1023s", mount_root, mount_point) != 2)
			continue;
		if (v2 ? !strncmp(tail + 3, "cgroup2 ", 8)
		       : !strncmp(tail + 3, "cgroup ", 7) && strstr(tail, "memory"))
			return true;
	}
	return false;
}

/* A hierarchy on the way up. */
struct climb {
	struct h2d_room *room;
	const struct controller *controller;
	const char *base; /* the mount, below the root of files */
	char *text;
};

static void bound_by_group(void *user, const char *group)
{
	const struct climb *c = user;
	char dir[PATH_BYTES];

	snprintf(dir, sizeof(dir), "%s%s", c->base, group);
	bound_by(c->room, c->controller, dir, c->text);
}

static void bound_by_cgroups(struct h2d_room *room, const struct controller *c,
			     const char *root, const char *cgroups, const char *mounts,
			     char *text)
{
	char path[H2D_CGROUP_PATH_BYTES], mount_root[1024], mount_point[1024];
	char base[PATH_BYTES];
	struct climb climb = {room, c, base, text};
	const char *below = path;

	if (!h2d_text_cgroup(cgroups, c->v2 ? "" : "memory", path, sizeof(path)) ||
	    !cgroup_mount(mounts, c->v2, mount_root, mount_point))
		return;
	/* In a container the mount may show only our part of the tree. */
	if (strcmp(mount_root, "/") && !strncmp(path, mount_root, strlen(mount_root)))
		below = path + strlen(mount_root);
	snprintf(base, sizeof(base), "%s%s", root, mount_point);
	h2d_cgroup_up(below, bound_by_group, &climb);
}

void h2d_room_read_at(struct h2d_room *room, const char *root)
{
	char *text = malloc((size_t)FILE_BYTES * 3), *cgroups, *mounts;
	uint64_t total = 0, available = UINT64_MAX, swap = 0;
	char path[PATH_BYTES];

	room->total_bytes = 0;
	room->available_bytes = UINT64_MAX;
	room->bound = "system memory";
	if (!text)
		return;
	cgroups = text + FILE_BYTES;
	mounts = cgroups + FILE_BYTES;
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	if (slurp(path, text, FILE_BYTES) > 0) {
		if (number_after(text, "MemTotal:", &total))
			total *= 1024;
		if (number_after(text, "MemAvailable:", &available))
			available *= 1024;
		if (number_after(text, "SwapFree:", &swap))
			swap *= 1024;
	}
	room->total_bytes = total ? total : UINT64_MAX;
	room->available_bytes = available;
	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	if (slurp(path, cgroups, FILE_BYTES) > 0) {
		snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
		if (slurp(path, mounts, FILE_BYTES) > 0)
			for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]);
			     i++)
				bound_by_cgroups(room, &controllers[i], root, cgroups, mounts,
						 text);
	}
	if (room->total_bytes == UINT64_MAX)
		room->total_bytes = 0;
	if (__builtin_add_overflow(room->available_bytes, swap, &room->available_bytes))
		room->available_bytes = UINT64_MAX;
	free(text);
}

void h2d_room_read(struct h2d_room *room)
{
	h2d_room_read_at(room, "");
}

uint64_t h2d_room_anonymous_bytes(void)
{
	unsigned long long resident, shared;
	char text[256];

	if (slurp("/proc/self/statm", text, sizeof(text)) <= 0 ||
	    sscanf(text, "%*s %llu %llu", &resident, &shared) != 2 || shared > resident)
		return 0;
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}
