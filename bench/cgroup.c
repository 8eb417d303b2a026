/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "h2d/h2d.h"

enum { TEXT_BYTES = 16384 };

static int put(const char *dir, const char *file, const char *text)
{
	char path[1200];
	const size_t bytes = strlen(text);
	int fd, rc = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, bytes) != (ssize_t)bytes)
		rc = -errno;
	close(fd);
	return rc;
}

/* Where the hierarchy with the memory controller is mounted. */
static bool find_mount(bool legacy, char *out, size_t cap)
{
	static char text[65536];
	const char *line;

	if (h2d_hostfs_read(NULL, "/proc/self/mountinfo", text, sizeof(text)) < 0)
		return false;
	for (line = text; line && *line; line = strchr(line, '\n')) {
		char point[512], type[32], super[512], list[512], path[640];
		const char *dash;

		line += *line == '\n';
		dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*d %*d %*s %*s %511s", point) != 1 ||
		    sscanf(dash, " - %31s %*s %511s", type, super) != 2)
			continue;
		if (legacy && !strcmp(type, "cgroup") && strstr(super, "memory")) {
			snprintf(out, cap, "%s", point);
			return true;
		}
		snprintf(path, sizeof(path), "%s/cgroup.controllers", point);
		if (!legacy && !strcmp(type, "cgroup2") &&
		    h2d_hostfs_read(NULL, path, list, sizeof(list)) > 0 &&
		    strstr(list, "memory")) {
			snprintf(out, cap, "%s", point);
			return true;
		}
	}
	return false;
}

/* Our own group's folder. In a container the mount may already be it. */
static bool own_group(bool legacy, const char *mount, char *out, size_t cap)
{
	char text[TEXT_BYTES];
	const char *line, *path = NULL;

	if (h2d_hostfs_read(NULL, "/proc/self/cgroup", text, sizeof(text)) < 0)
		return false;
	for (line = text; line && *line; line = strchr(line, '\n')) {
		const char *list, *colon;

		line += *line == '\n';
		list = strchr(line, ':');
		colon = list ? strchr(list + 1, ':') : NULL;
		if (!colon)
			break;
		if (legacy ? memmem(list, (size_t)(colon - list), "memory", 6) != NULL
			   : colon == list + 1)
			path = colon + 1;
	}
	if (!path)
		return false;
	snprintf(out, cap, "%s%.*s", mount, (int)strcspn(path, "\n"), path);
	if (access(out, F_OK))
		snprintf(out, cap, "%s", mount);
	for (size_t n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = 0;
	return true;
}

/* In version 2 a group hands controllers to its children only while it holds no process itself,
 * so ours is tried, then the one above it. */
static int make_dir(struct h2d_bench_cgroup *g, const char *own)
{
	static unsigned counter;
	char base[900], list[512], path[1000];
	int rc = -ENOENT;

	snprintf(base, sizeof(base), "%s", own);
	for (int level = 0; level < 2; level++) {
		snprintf(path, sizeof(path), "%s/cgroup.subtree_control", base);
		if (!g->legacy && (h2d_hostfs_read(NULL, path, list, sizeof(list)) < 0 ||
				   !strstr(list, "memory")))
			rc = put(base, "cgroup.subtree_control", "+memory");
		else
			rc = 0;
		if (!rc) {
			snprintf(g->dir, sizeof(g->dir), "%s/h2d-bench-%d-%u", base,
				 (int)getpid(), counter++);
			rc = mkdir(g->dir, 0755) ? -errno : 0;
		}
		if (!rc || g->legacy || !strrchr(base, '/'))
			break;
		*strrchr(base, '/') = 0;
	}
	if (rc)
		g->dir[0] = 0;
	return rc;
}

int h2d_bench_cgroup_make(struct h2d_bench_cgroup *g, uint64_t memory_max_bytes, char *why,
			  size_t why_bytes)
{
	char mount[512], own[800], text[32];
	int rc;

	memset(g, 0, sizeof(*g));
	g->legacy = !find_mount(false, mount, sizeof(mount));
	if (g->legacy && !find_mount(true, mount, sizeof(mount))) {
		snprintf(
			why, why_bytes,
			"no control group limits memory here: no memory controller is mounted");
		return H2D_E_UNSUPPORTED;
	}
	rc = own_group(g->legacy, mount, own, sizeof(own)) ? make_dir(g, own) : -ENOENT;
	if (rc) {
		snprintf(why, why_bytes,
			 "no control group can be made: %s (run as root, or in: systemd-run "
			 "--user --scope -p Delegate=yes)",
			 strerrordesc_np(-rc));
		return H2D_E_UNSUPPORTED;
	}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)memory_max_bytes);
	rc = put(g->dir, g->legacy ? "memory.limit_in_bytes" : "memory.max", text);
	if (rc) {
		snprintf(why, why_bytes, "the limit on memory was refused: %s",
			 strerrordesc_np(-rc));
		h2d_bench_cgroup_remove(g);
		return H2D_E_UNSUPPORTED;
	}
	snprintf(g->procs, sizeof(g->procs), "%s/cgroup.procs", g->dir);
	return 0;
}

/* Version 1 has no cgroup.kill. */
static void kill_members(const struct h2d_bench_cgroup *g)
{
	char text[TEXT_BYTES], *at = text;

	if (!put(g->dir, "cgroup.kill", "1"))
		return;
	if (h2d_hostfs_read(NULL, g->procs, text, sizeof(text)) <= 0)
		return;
	for (;;) {
		char *end;
		const long pid = strtol(at, &end, 10);

		if (end == at)
			break;
		if (pid > 1)
			kill((pid_t)pid, SIGKILL);
		at = end;
	}
}

void h2d_bench_cgroup_remove(struct h2d_bench_cgroup *g)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	if (!g->dir[0])
		return;
	/* A process that just ended may still be counted for a moment. */
	for (int i = 0; i < 100 && rmdir(g->dir) && errno == EBUSY; i++) {
		kill_members(g);
		nanosleep(&pause, NULL);
	}
	g->dir[0] = 0;
}

int h2d_bench_cgroup_peak(const struct h2d_bench_cgroup *g, uint64_t *bytes)
{
	char path[1200];

	snprintf(path, sizeof(path), "%s/%s", g->dir,
		 g->legacy ? "memory.max_usage_in_bytes" : "memory.peak");
	return h2d_hostfs_u64(NULL, path, bytes);
}

int h2d_bench_cgroup_oom_kills(const struct h2d_bench_cgroup *g, uint64_t *count)
{
	char path[1200], text[1024];
	const char *at;
	int n;

	snprintf(path, sizeof(path), "%s/%s", g->dir,
		 g->legacy ? "memory.oom_control" : "memory.events");
	n = h2d_hostfs_read(NULL, path, text, sizeof(text));
	if (n < 0)
		return n;
	at = strstr(text, "oom_kill ");
	if (!at)
		return -ENOENT;
	*count = strtoull(at + strlen("oom_kill "), NULL, 10);
	return 0;
}
