/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/child.h"

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

#include "core/mem.h"

enum {
	REAP_TRIES = 6000, /* of 5 ms */
	STRAY_TRIES = 400, /* as well */
	STRAY_COUNT = 64,  /* in one look */
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* In the new process: only what is safe after fork. */
static void become(char *const *argv, const char *folder, const char *procs, pid_t parent,
		   const int fds[3], int report)
{
	static const int defaults[] = {SIGPIPE, SIGINT, SIGTERM, SIGXFSZ};
	sigset_t none;
	int err, fd;

	setpgid(0, 0);
	/* A campaign that is killed leaves nobody behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		signal(defaults[i], SIG_DFL);
	if (procs) {
		fd = open(procs, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "0", 1) != 1)
			goto fail;
	}
	if (dup2(fds[0], 0) < 0 || dup2(fds[1], 1) < 0 || dup2(fds[2], 2) < 0 ||
	    (folder && chdir(folder)))
		goto fail;
	execvp(argv[0], argv);
fail:
	err = errno;
	while (write(report, &err, sizeof(err)) < 0 && errno == EINTR)
		;
	_exit(127);
}

/* What exec said; nothing when it worked. */
static int exec_result(int fd)
{
	int err = 0;
	ssize_t n;

	do
		n = read(fd, &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(err) ? -err : 0;
}

/* Children of this process, zombies too. @return how many, or -1 where the kernel does not tell
 */
static int own_children(pid_t *list, int room)
{
	char path[64];
	int count = 0;
	FILE *in;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	in = fopen(path, "re");
	if (!in)
		return -1;
	while (count < room && fscanf(in, "%d", &list[count]) == 1)
		count++;
	fclose(in);
	return count;
}

/* Whoever leaves the process group, or the session, comes to us when its parent ends. Not where
 * we have children already, which are none of the sample's: theirs would come as well. */
static void adopt(struct h2d_bench_child *c)
{
	pid_t any;
	int already = 0;

	c->adopts = own_children(&any, 1) == 0 && !prctl(PR_GET_CHILD_SUBREAPER, &already) &&
		    !already && !prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* What ends gives us its own children: until there are none. */
static void end_strays(struct h2d_bench_child *c)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	pid_t list[STRAY_COUNT];

	for (int i = 0; c->adopts && i < STRAY_TRIES; i++) {
		const int count = own_children(list, STRAY_COUNT);

		if (count <= 0)
			break;
		for (int k = 0; k < count; k++) {
			kill(list[k], SIGKILL);
			waitpid(list[k], NULL, WNOHANG);
		}
		nanosleep(&pause, NULL);
	}
	if (c->adopts)
		prctl(PR_SET_CHILD_SUBREAPER, 0);
	c->adopts = false;
}

int h2d_bench_child_start(struct h2d_bench_child *c, char *const *argv, const char *folder,
			  const char *cgroup_procs)
{
	int pipes[4][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}}, rc = 0;
	const pid_t parent = getpid();

	*c = (struct h2d_bench_child){.in = -1, .out = -1, .err = -1};
	c->line = h2d_mem->malloc(H2D_BENCH_LINE_BYTES + 1);
	if (!c->line)
		return -ENOMEM;
	adopt(c);
	for (int i = 0; i < 4 && !rc; i++)
		rc = pipe2(pipes[i], O_CLOEXEC) ? -errno : 0;
	if (!rc) {
		c->pid = fork();
		if (c->pid < 0)
			rc = -errno;
	}
	if (!rc && !c->pid) {
		const int fds[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};

		become(argv, folder, cgroup_procs, parent, fds, pipes[3][1]);
	}
	close_fd(&pipes[3][1]);
	if (!rc) {
		setpgid(c->pid, c->pid); /* whoever comes first */
		rc = exec_result(pipes[3][0]);
		c->in = pipes[0][1];
		c->out = pipes[1][0];
		c->err = pipes[2][0];
		fcntl(c->in, F_SETFL, O_NONBLOCK);
		fcntl(c->out, F_SETFL, O_NONBLOCK);
		fcntl(c->err, F_SETFL, O_NONBLOCK);
		pipes[0][1] = pipes[1][0] = pipes[2][0] = -1;
	} else {
		c->pid = 0;
	}
	for (int i = 0; i < 4; i++) {
		close_fd(&pipes[i][0]);
		close_fd(&pipes[i][1]);
	}
	if (rc)
		h2d_bench_child_finish(c);
	return rc;
}

int h2d_bench_child_send(struct h2d_bench_child *c, const char *text, size_t bytes)
{
	size_t done = 0;

	if (c->in < 0)
		return -EPIPE;
	/* A pipe takes 64 KiB; who reads none of it within a second is not listening. */
	while (done < bytes) {
		struct pollfd p = {.fd = c->in, .events = POLLOUT};
		const ssize_t n = write(c->in, text + done, bytes - done);

		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN) {
			if (poll(&p, 1, 1000) == 0)
				return -ETIMEDOUT;
		} else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static void keep_tail(struct h2d_bench_child *c, const char *text, size_t bytes)
{
	if (bytes > H2D_BENCH_STDERR_BYTES) {
		text += bytes - H2D_BENCH_STDERR_BYTES;
		bytes = H2D_BENCH_STDERR_BYTES;
	}
	if (c->tail_bytes + bytes > H2D_BENCH_STDERR_BYTES) {
		const size_t drop = c->tail_bytes + bytes - H2D_BENCH_STDERR_BYTES;

		memmove(c->tail, c->tail + drop, c->tail_bytes - drop);
		c->tail_bytes -= drop;
	}
	memcpy(c->tail + c->tail_bytes, text, bytes);
	c->tail_bytes += bytes;
	c->tail[c->tail_bytes] = 0;
}

static void read_stderr(struct h2d_bench_child *c)
{
	char text[4096];

	/* Bounded, so that a torrent cannot hold the runner. */
	for (int i = 0; i < 64 && c->err >= 0; i++) {
		const ssize_t n = read(c->err, text, sizeof(text));

		if (n > 0)
			keep_tail(c, text, (size_t)n);
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			close_fd(&c->err);
		else
			break;
	}
}

static int take_line(struct h2d_bench_child *c)
{
	char *end = memchr(c->line, '\n', c->line_bytes);

	if (!end)
		return c->line_bytes == H2D_BENCH_LINE_BYTES ? -EMSGSIZE : 0;
	*end = 0;
	return 1;
}

int h2d_bench_child_read(struct h2d_bench_child *c)
{
	read_stderr(c);
	for (;;) {
		int rc = c->have_line ? 1 : take_line(c);
		ssize_t n;

		c->have_line = rc == 1;
		if (rc)
			return rc;
		if (c->out < 0)
			return -EPIPE;
		n = read(c->out, c->line + c->line_bytes, H2D_BENCH_LINE_BYTES - c->line_bytes);
		if (n > 0)
			c->line_bytes += (size_t)n;
		else if (n == 0)
			return close_fd(&c->out), -EPIPE;
		else if (errno == EAGAIN)
			return 0;
		else if (errno != EINTR)
			return -errno;
	}
}

void h2d_bench_child_next(struct h2d_bench_child *c)
{
	const size_t used = c->have_line ? strlen(c->line) + 1 : 0;

	if (!used || used > c->line_bytes)
		return;
	memmove(c->line, c->line + used, c->line_bytes - used);
	c->line_bytes -= used;
	c->have_line = false;
}

void h2d_bench_child_close_in(struct h2d_bench_child *c)
{
	close_fd(&c->in);
}

bool h2d_bench_child_ended(struct h2d_bench_child *c)
{
	pid_t got;

	if (c->reaped || !c->pid)
		return true;
	do
		got = waitpid(c->pid, &c->wait_status, WNOHANG);
	while (got < 0 && errno == EINTR);
	c->reaped = got == c->pid || got < 0;
	return c->reaped;
}

void h2d_bench_child_finish(struct h2d_bench_child *c)
{
	const struct timespec pause = {.tv_nsec = 5000000};

	if (c->pid > 0) {
		if (!c->reaped) {
			kill(-c->pid, SIGKILL);
			kill(c->pid, SIGKILL); /* in case it left its group */
			/* Bounded: a process that hangs in the kernel must not hold the rest.
			 */
			for (int i = 0; i < REAP_TRIES && !h2d_bench_child_ended(c); i++)
				nanosleep(&pause, NULL);
		} else {
			kill(-c->pid, SIGKILL); /* what it left behind */
		}
	}
	end_strays(c);
	close_fd(&c->in);
	close_fd(&c->out);
	close_fd(&c->err);
	free(c->line);
	c->line = NULL;
}
