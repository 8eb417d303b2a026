/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "core/hostfs.h"

static void child(int gate, int answer, char **argv)
{
	char go = 0;
	int err;

	h2d_signals_restore();
	while (read(gate, &go, 1) < 0 && errno == EINTR)
		;
	if (go != 'g')
		_exit(H2D_EXIT_CANCELLED);
	execvp(argv[0], argv);
	err = errno;
	(void)!write(answer, &err, sizeof(err));
	_exit(127);
}

int h2d_trace_child_prepare(struct h2d_trace_child *c, char **argv)
{
	int gate[2], answer[2], err;

	if (pipe2(gate, O_CLOEXEC))
		return -errno;
	if (pipe2(answer, O_CLOEXEC)) {
		err = errno;
		close(gate[0]);
		close(gate[1]);
		return -err;
	}
	signal(SIGCHLD, SIG_DFL);
	c->pid = fork();
	err = errno;
	if (!c->pid) {
		close(gate[1]);
		child(gate[0], answer[1], argv);
	}
	close(gate[0]);
	close(answer[1]);
	c->gate = gate[1];
	c->answer = answer[0];
	if (c->pid > 0)
		return 0;
	c->pid = 0;
	close(c->gate);
	close(c->answer);
	return -err;
}

int h2d_trace_child_go(struct h2d_trace_child *c)
{
	int err = 0;
	ssize_t n;

	if (write(c->gate, "g", 1) != 1)
		err = EIO;
	close(c->gate);
	do
		n = read(c->answer, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	close(c->answer);
	if (err)
		h2d_trace_child_ended(c, true);
	return -err;
}

void h2d_trace_child_cancel(struct h2d_trace_child *c)
{
	if (c->pid <= 0)
		return;
	close(c->gate);
	close(c->answer);
	h2d_trace_child_ended(c, true);
	c->pid = 0;
	c->ended = false;
	c->cancelled = true;
}

bool h2d_trace_child_ended(struct h2d_trace_child *c, bool wait)
{
	int status;
	pid_t got;

	if (c->ended)
		return true;
	do
		got = waitpid(c->pid, &status, wait ? 0 : WNOHANG);
	while (got < 0 && errno == EINTR);
	if (!got)
		return false;
	c->ended = true;
	if (got > 0)
		c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return true;
}

/* ---- processes that run already ---- */

static int status_field(int tid, const char *key)
{
	char path[64], text[4096], value[32];

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (h2d_hostfs_read(NULL, path, text, sizeof(text)) <= 0 ||
	    h2d_text_field(text, key, value, sizeof(value)) <= 0)
		return -1;
	return (int)strtol(value, NULL, 10);
}

bool h2d_trace_process_ended(int pid)
{
	char path[64], text[4096], state[32];

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return h2d_hostfs_read(NULL, path, text, sizeof(text)) > 0 &&
	       h2d_text_field(text, "State", state, sizeof(state)) > 0 &&
	       (state[0] == 'Z' || state[0] == 'X');
}

int h2d_trace_process_of(int tid)
{
	return status_field(tid, "Tgid");
}

static void follow_threads(struct h2d_trace_counts *c, int pid)
{
	char path[64], **names;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	if (h2d_hostfs_list(NULL, path, &names) < 0)
		return;
	for (char **n = names; *n; n++)
		h2d_trace_follow(c, (int)strtol(*n, NULL, 10), pid);
	h2d_hostfs_list_free(names);
}

struct parent {
	int pid, parent;
	bool below;
};

void h2d_trace_follow_tree(struct h2d_trace_counts *c, int pid)
{
	char **names;
	struct parent *all;
	bool more = true;
	int n = h2d_hostfs_list(NULL, "/proc", &names), used = 0;

	follow_threads(c, pid);
	if (n < 0)
		return;
	all = calloc((size_t)n + 1, sizeof(*all));
	for (int i = 0; all && i < n; i++) {
		int p = (int)strtol(names[i], NULL, 10);

		if (p > 0)
			all[used++] = (struct parent){p, status_field(p, "PPid"), p == pid};
	}
	while (more && used) {
		more = false;
		for (int i = 0; i < used; i++) {
			for (int k = 0; k < used && !all[i].below; k++)
				all[i].below = all[k].below && all[i].parent == all[k].pid;
			if (!all[i].below || !all[i].parent)
				continue;
			more = true;
			all[i].parent = 0; /* followed, once */
			if (all[i].pid != pid)
				follow_threads(c, all[i].pid);
		}
	}
	free(all);
	h2d_hostfs_list_free(names);
}
