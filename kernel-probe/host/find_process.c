/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the processes that may be looked at loads a checkpoint. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "core/mem.h"
#include "host/doctor.h"
#include "host/task.h"

/* Smaller mappings are no checkpoint that anybody waits for. */
enum { MAPPING_BYTES_MIN = 1 << 20 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static bool may_be_one(const struct h2d_vma *v)
{
	return v->inode && v->path[0] == '/' && v->permissions[2] != 'x' &&
	       v->end - v->begin >= MAPPING_BYTES_MIN && !strstr(v->path, ".so") &&
	       strncmp(v->path, "/dev/", 5) && strncmp(v->path, "/usr/lib/locale/", 16) &&
	       strncmp(v->path, "/SYSV", 5);
}

/* A look at maps costs little; smaps of a large process does not. */
static bool maps_one(const char *root, int pid, bool *empty)
{
	struct h2d_smaps_reader *r = h2d_mem->calloc(1, sizeof(*r));
	struct h2d_vma *v = h2d_mem->calloc(1, sizeof(*v));
	char path[64];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (r && v && h2d_hostfs_open(root, path, &r->in)) {
		r->in = NULL;
		/* A capture keeps smaps only, whose first lines are the same. */
		snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
		if (root && h2d_hostfs_open(root, path, &r->in))
			r->in = NULL;
	}
	*empty = r && v && r->in;
	while (r && v && r->in && !found && h2d_smaps_next(r, v) > 0) {
		found = may_be_one(v);
		*empty = false;
	}
	if (r && r->in)
		fclose(r->in);
	free(r);
	free(v);
	return found;
}

static bool worth_a_look(const char *root, int pid)
{
	bool empty, found = maps_one(root, pid, &empty);
	char state;
	int task;

	/* A kernel thread, or one whose first thread has ended. */
	if (!empty)
		return found;
	task = h2d_task_alive(root, pid, &state);
	return task && task != pid && maps_one(root, task, &empty);
}

/* Copied pages weigh most, then what is mapped. */
static uint64_t weight(const struct h2d_process *p)
{
	uint64_t copied = p->copied.anonymous_bytes + p->copied.swap_bytes;

	if (!p->checkpoint_count)
		return 0;
	return copied > UINT64_MAX >> 8 ? UINT64_MAX
					: (copied << 4) + (p->checkpoints.size_bytes >> 4) + 1;
}

int h2d_doctor_find_process(const char *root, uint64_t budget_ns)
{
	const struct h2d_log silent = {0};
	uint64_t end = now_ns() + budget_ns, most = 0;
	char **names;
	int best = 0, n;

	if (root && !root[0])
		root = NULL;
	n = h2d_hostfs_list(root, "/proc", &names);
	/* New processes have high numbers, and are what somebody waits for. */
	for (int i = n - 1; i >= 0 && now_ns() < end; i--) {
		int pid = isdigit((unsigned char)names[i][0]) ? atoi(names[i]) : 0;
		struct h2d_process p;

		if (pid < 1 || (!root && pid == getpid()) || !worth_a_look(root, pid))
			continue;
		if (!h2d_process_read(root, pid, &silent, &p) && weight(&p) > most) {
			most = weight(&p);
			best = pid;
		}
		h2d_process_free(&p);
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
	return best;
}
