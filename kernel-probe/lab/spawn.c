/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program under a timeout and collects what it prints. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define POLL_MS	     50
#define CHUNK_BYTES  (64 << 10)
#define PASS_MAX_NS  1000000000u
#define PIPE_WAIT_NS 2000000000u /* for descendants that hold the pipes open after the end */

uint64_t lab_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int find_in(const char *dirs, const char *name, char *path, size_t size)
{
	while (*dirs) {
		size_t length = strcspn(dirs, ":");
		int n = snprintf(path, size, "%.*s/%s", (int)length, dirs, name);

		if (length && dirs[0] == '/' && n > 0 && (size_t)n < size &&
		    access(path, X_OK) == 0)
			return 0;
		dirs += length + (dirs[length] == ':');
	}
	return -ENOENT;
}

int lab_find_program(const char *name, char *path, size_t size)
{
	const char *dirs = getenv("PATH");

	if (find_in(dirs ? dirs : "/usr/bin:/bin", name, path, size) == 0)
		return 0;
	return find_in("/usr/local/sbin:/usr/sbin:/sbin", name, path, size);
}

/* Our environment and the command's additions, which win. Only the array is owned. */
static char **merge_environment(const char *const *extra)
{
	size_t ours = 0, more = 0, n = 0;
	char **merged;

	while (environ && environ[ours])
		ours++;
	while (extra && extra[more])
		more++;
	merged = calloc(ours + more + 1, sizeof(*merged));
	if (!merged)
		return NULL;
	for (size_t i = 0; i < ours; i++) {
		bool replaced = false;

		for (size_t j = 0; j < more; j++) {
			size_t length = strcspn(extra[j], "=") + 1;

			if (strncmp(environ[i], extra[j], length) == 0)
				replaced = true;
		}
		if (!replaced)
			merged[n++] = environ[i];
	}
	for (size_t j = 0; j < more; j++)
		merged[n++] = (char *)extra[j];
	return merged;
}

/* In the child: only calls that are safe after a fork of a threaded program. */
static void child(const struct lab_command *command, char **env, pid_t parent, int null,
		  int out, int err, int report)
{
	sigset_t none;
	int failed;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (dup2(null, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0 &&
	    (!command->cwd || chdir(command->cwd) == 0))
		execve(command->argv[0], (char *const *)command->argv, env);
	failed = errno;
	while (write(report, &failed, sizeof(failed)) < 0 && errno == EINTR)
		;
	_exit(127);
}

struct watch {
	pid_t pid;
	int fds[2];
	bool exited, killed;
	uint64_t start_ns, exit_ns;
	uint64_t last_ns, spent_ns; /* of the timeout: a machine that stood still spent none */
};

static void take_output(struct watch *w, int i, struct lab_text *text)
{
	char chunk[CHUNK_BYTES];
	ssize_t n = read(w->fds[i], chunk, sizeof(chunk));

	if (n > 0) {
		lab_text_append(text, chunk, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(w->fds[i]);
		w->fds[i] = -1;
	}
}

static void check_exit(struct watch *w, struct lab_outcome *outcome)
{
	int wstatus;
	pid_t got;

	if (w->exited)
		return;
	got = waitpid(w->pid, &wstatus, WNOHANG);
	if (got == 0 || (got < 0 && errno == EINTR))
		return;
	w->exited = true;
	w->exit_ns = lab_now_ns();
	if (got < 0)
		outcome->status = -SIGKILL; /* somebody else reaped it: its status is lost */
	else if (WIFSIGNALED(wstatus))
		outcome->status = -WTERMSIG(wstatus);
	else
		outcome->status = WEXITSTATUS(wstatus);
}

/* Processor time of the program so far, in ms; 0 where it cannot be told. */
static uint64_t cpu_ms(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static bool timed_out(const struct watch *w, const struct lab_command *command)
{
	uint64_t spent_ms = w->spent_ns / 1000000u;

	if (!command->timeout_is_cpu)
		return spent_ms >= command->timeout_ms;
	return spent_ms / LAB_SPAWN_PATIENCE >= command->timeout_ms ||
	       cpu_ms(w->pid) >= command->timeout_ms;
}

static void check_limits(struct watch *w, const struct lab_command *command,
			 struct lab_outcome *outcome)
{
	uint64_t printed = outcome->out.total_bytes + outcome->err.total_bytes;
	uint64_t now = lab_now_ns();
	uint64_t pass = now - (w->last_ns ? w->last_ns : w->start_ns);

	w->spent_ns += pass < PASS_MAX_NS ? pass : PASS_MAX_NS;
	w->last_ns = now;

	if (w->killed || w->exited)
		return;
	if (lab_cancel_asked(command->cancel))
		outcome->cancelled = true;
	else if (timed_out(w, command))
		outcome->timed_out = true;
	else if (command->flood_bytes && printed > command->flood_bytes)
		outcome->flooded = true;
	else
		return;
	w->killed = true;
	kill(-w->pid, SIGKILL);
	kill(w->pid, SIGKILL);
}

static void supervise(struct watch *w, const struct lab_command *command,
		      struct lab_outcome *outcome)
{
	struct lab_text *texts[2] = {&outcome->out, &outcome->err};

	for (;;) {
		struct pollfd polled[2];
		int ready;

		for (int i = 0; i < 2; i++)
			polled[i] = (struct pollfd){.fd = w->fds[i], .events = POLLIN};
		ready = poll(polled, 2, POLL_MS);
		for (int i = 0; ready > 0 && i < 2; i++)
			if (polled[i].revents)
				take_output(w, i, texts[i]);
		check_exit(w, outcome);
		check_limits(w, command, outcome);
		if (!w->exited)
			continue;
		if ((w->fds[0] < 0 && w->fds[1] < 0) || ready <= 0 ||
		    lab_now_ns() - w->exit_ns > PIPE_WAIT_NS)
			break;
	}
	outcome->elapsed_ns = w->exit_ns - w->start_ns;
	/* Whatever the program left running in its group. */
	kill(-w->pid, SIGKILL);
	for (int i = 0; i < 2; i++)
		if (w->fds[i] >= 0)
			close(w->fds[i]);
}

/* Pipes: 0 standard output, 1 standard error, 2 the child's report of a failed exec. */
static int open_pipes(int pipes[3][2])
{
	for (int i = 0; i < 3; i++) {
		int err;

		if (pipe2(pipes[i], O_CLOEXEC) == 0)
			continue;
		err = -errno;
		while (i-- > 0) {
			close(pipes[i][0]);
			close(pipes[i][1]);
		}
		return err;
	}
	return 0;
}

int lab_spawn(const struct lab_command *command, struct lab_outcome *outcome)
{
	int pipes[3][2], null = -1, failed = 0, err;
	struct watch w = {.fds = {-1, -1}};
	pid_t parent = getpid();
	char **env;
	ssize_t n;

	memset(outcome, 0, sizeof(*outcome));
	outcome->out.limit_bytes = outcome->err.limit_bytes = command->keep_bytes;
	env = merge_environment(command->environment);
	if (!env)
		return -ENOMEM;
	err = open_pipes(pipes);
	if (err)
		goto out_env;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	w.start_ns = lab_now_ns();
	w.pid = null < 0 ? -1 : fork();
	if (w.pid == 0)
		child(command, env, parent, null, pipes[0][1], pipes[1][1], pipes[2][1]);
	err = w.pid < 0 ? -errno : 0;
	for (int i = 0; i < 3; i++)
		close(pipes[i][1]);
	if (err) {
		close(pipes[0][0]);
		close(pipes[1][0]);
		goto out_report;
	}
	/* Both sides set the group, so that it exists whoever runs first. */
	setpgid(w.pid, w.pid);
	while ((n = read(pipes[2][0], &failed, sizeof(failed))) < 0 && errno == EINTR)
		;
	for (int i = 0; i < 2; i++) {
		w.fds[i] = pipes[i][0];
		fcntl(w.fds[i], F_SETFL, O_NONBLOCK);
	}
	supervise(&w, command, outcome);
	if (n == sizeof(failed))
		err = -failed;
out_report:
	close(pipes[2][0]);
	if (null >= 0)
		close(null);
out_env:
	free(env);
	return err;
}

void lab_outcome_free(struct lab_outcome *outcome)
{
	lab_text_free(&outcome->out);
	lab_text_free(&outcome->err);
}
