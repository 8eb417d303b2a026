/* SPDX-License-Identifier: Apache-2.0 */
/* Filesystem and disk under one file: its mount from /proc/self/mountinfo, its queue from sys.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/environment.h"

/* A mount of /proc/PID/mountinfo (Documentation/filesystems/proc.rst, section 3.5). */
struct mount {
	int id;
	unsigned major, minor;
	char point[1024], options[512], type[64], source[512], super[1024];
};

static bool parse_mount(char *line, struct mount *m)
{
	char *dash = strstr(line, " - ");

	memset(m, 0, sizeof(*m));
	return dash &&
	       sscanf(line, "%d %*d %u:%u %*s %1023s %511s", &m->id, &m->major, &m->minor,
		      m->point, m->options) == 5 &&
	       sscanf(dash, " - %63s %511s %1023s", m->type, m->source, m->super) >= 2;
}

/* The kernel names the mount a descriptor lies on in its fdinfo. */
static int mount_id(const char *file)
{
	char path[64], text[512], value[32];
	int fd = open(file, O_PATH | O_CLOEXEC), id = -1;

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	if (h2d_hostfs_read(NULL, path, text, sizeof(text)) > 0 &&
	    h2d_text_field(text, "mnt_id", value, sizeof(value)) > 0)
		sscanf(value, "%d", &id);
	close(fd);
	return id < 0 ? -ENOENT : id;
}

static int find_mount(int id, struct mount *m)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[8192];
	int rc = -ENOENT;

	if (!f)
		return -errno;
	while (rc && fgets(line, sizeof(line), f))
		if (parse_mount(line, m) && m->id == id)
			rc = 0;
	fclose(f);
	return rc;
}

/* A partition's queue is that of the disk it lies on, one directory up. */
static void queue(struct h2d_json *j, const char *key, const struct mount *m, const char *file,
		  bool number)
{
	char path[256];
	uint64_t ignored;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/queue/%s", m->major, m->minor, file);
	if (h2d_hostfs_u64(NULL, path, &ignored) == -ENOENT)
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../queue/%s", m->major,
			 m->minor, file);
	if (number)
		h2d_env_number(j, NULL, key, path, 1);
	else
		h2d_env_chosen(j, NULL, key, path);
}

void h2d_env_storage(struct h2d_json *j, const struct h2d_environment *env)
{
	struct mount m;
	char path[128];
	int id;

	if (!env->file) {
		h2d_env_why(j, "storage", "no file belongs to this document");
		return;
	}
	if (env->root) {
		h2d_env_why(j, "storage", "not part of a capture");
		return;
	}
	id = mount_id(env->file);
	if (id >= 0) {
		int err = find_mount(id, &m);

		if (err)
			id = err;
	}
	if (id < 0) {
		h2d_env_unknown(j, "storage", h2d_redacted_path(env->file, env->redact), id);
		return;
	}
	h2d_json_object_begin(j, "storage");
	h2d_json_string(j, "filesystem", m.type);
	if (env->redact) {
		h2d_env_why(j, "source", "redacted");
		h2d_env_why(j, "mount_point", "redacted");
	} else {
		h2d_json_string(j, "source", m.source);
		h2d_json_string(j, "mount_point", m.point);
	}
	h2d_json_string(j, "mount_options", m.options);
	if (env->redact) /* network and overlay mounts name machines and paths here */
		h2d_env_why(j, "super_options", "redacted");
	else
		h2d_json_string(j, "super_options", m.super);
	h2d_json_stringf(j, "device", "%u:%u", m.major, m.minor);
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", m.major, m.minor);
	h2d_env_number(j, NULL, "read_ahead_bytes", path, 1024);
	queue(j, "rotational", &m, "rotational", true);
	queue(j, "scheduler", &m, "scheduler", false);
	queue(j, "logical_block_bytes", &m, "logical_block_size", true);
	h2d_json_object_end(j);
}
