/* SPDX-License-Identifier: Apache-2.0 */
#include "host/task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"

bool h2d_task_ended(char state)
{
	return state == 'Z' || state == 'X';
}

char h2d_task_state(const char *root, const char *stat_path)
{
	char text[2048], state, *close;

	if (h2d_hostfs_read(root, stat_path, text, sizeof(text)) <= 0)
		return 0;
	close = strrchr(text, ')');
	return close && sscanf(close + 1, " %c", &state) == 1 ? state : 0;
}

int h2d_task_alive(const char *root, int pid, char *state)
{
	char path[64], **names;
	int n, alive = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	*state = h2d_task_state(root, path);
	if (*state && !h2d_task_ended(*state))
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	n = h2d_hostfs_list(root, path, &names);
	for (int i = 0; i < n && i < H2D_TASKS_MAX && !alive; i++) {
		char of;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", pid, names[i]);
		of = h2d_task_state(root, path);
		if (!of || h2d_task_ended(of))
			continue;
		alive = atoi(names[i]);
		*state = of;
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
	return alive;
}
