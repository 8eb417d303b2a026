/* SPDX-License-Identifier: Apache-2.0 */
#include "host/mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "host/smaps.h"

enum { MOUNTINFO_BYTES = 4 << 20 };

void h2d_mount_kind(struct h2d_mount *m)
{
	static const char *const network[] = {
		"nfs", "nfs4", "cifs",	 "smb3",   "lustre",	"ceph",	    "9p",
		"afs", "gpfs", "beegfs", "wekafs", "glusterfs", "virtiofs", NULL};
	static const char *const memory[] = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs", NULL};

	/* "fuse.s3fs", "fuse.juicefs" … may be anything, but none reads ahead like a disk. */
	m->network = !strncmp(m->type, "fuse.", 5);
	m->memory = false;
	for (size_t i = 0; network[i]; i++)
		m->network |= !strcmp(m->type, network[i]);
	for (size_t i = 0; memory[i]; i++)
		m->memory |= !strcmp(m->type, memory[i]);
}

/* Whether `path` is `point` or lies below it. */
static bool below(const char *path, const char *point)
{
	size_t n = strlen(point);

	if (!strcmp(point, "/"))
		return path[0] == '/';
	return !strncmp(path, point, n) && (path[n] == '/' || !path[n]);
}

int h2d_mount_find(const char *root, int pid, const char *path, struct h2d_mount *out)
{
	unsigned major, minor, best_major = 0, best_minor = 0;
	char name[64], point[4096], type[64];
	char *text, *save = NULL;
	size_t bytes, best = 0;
	uint64_t kib;
	int err;

	memset(out, 0, sizeof(*out));
	snprintf(name, sizeof(name), "/proc/%d/mountinfo", pid);
	err = h2d_hostfs_read_all(root, name, MOUNTINFO_BYTES, &text, &bytes);
	if (err)
		return err;
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		const char *dash = strstr(line, " - ");

		if (!dash ||
		    sscanf(line, "%*d %*d %u:%u %*s %4095s", &major, &minor, point) != 3 ||
		    sscanf(dash, " - %63s", type) != 1)
			continue;
		h2d_unescape_octal(point);
		/* Of mounts on the same point the last one hides the others. */
		if (!below(path, point) || strlen(point) < best)
			continue;
		best = strlen(point);
		best_major = major;
		best_minor = minor;
		memcpy(out->type, type, sizeof(type));
	}
	free(text);
	if (!out->type[0])
		return -ENOENT;
	h2d_mount_kind(out);
	snprintf(name, sizeof(name), "/sys/class/bdi/%u:%u/read_ahead_kb", best_major,
		 best_minor);
	if (!h2d_hostfs_u64(root, name, &kib) && kib < UINT64_MAX / 1024) {
		out->have_read_ahead = true;
		out->read_ahead_bytes = kib * 1024;
	}
	return 0;
}
