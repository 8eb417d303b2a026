/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one command of the job under a timeout and records what it printed and how it ended. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS      256
#define REAP_GRACE_NS 10000000000u /* for a killed process that is still in the kernel */
#define PASS_MAX_NS   1000000000u  /* of one pass of the loop, counted against a timeout */
#define POLL_MS	      50
#define CHUNK_BYTES   (64 << 10)

struct output {
	int fd;
	uint16_t type;
	uint64_t kept_bytes;
};

static const char *const environment[] = {
	"PATH=/bin:/sbin", "HOME=/tmp", "TMPDIR=/tmp", "LC_ALL=C", NULL,
};

static void exec_child(char **argv, int out, int err)
{
	int null = open("/dev/null", O_RDWR);

	setsid();
	dup2(null, 0);
	dup2(out, 1);
	dup2(err, 2);
	close_range(3, ~0U, 0);
	if (chdir("/tmp") != 0)
		_exit(126);
	execve(argv[0], argv, (char *const *)environment);
	_exit(errno == ENOENT ? 127 : 126);
}

/* Takes what is there now. Returns false at end of file. */
static bool drain(struct output *out, uint32_t step, uint64_t limit, uint64_t *dropped)
{
	static uint8_t chunk[CHUNK_BYTES];
	ssize_t n = read(out->fd, chunk, sizeof(chunk));

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	if (out->kept_bytes + (uint64_t)n > limit) {
		uint64_t room = limit - out->kept_bytes;

		*dropped += (uint64_t)n - room;
		n = (ssize_t)room;
	}
	out->kept_bytes += (uint64_t)n;
	if (n > 0)
		result_put(out->type, step, chunk, (size_t)n);
	return true;
}

static int parse_argv(const struct lab_record *job, char **argv, uint64_t *timeout_ns)
{
	size_t offset = 0;
	const char *name = lab_record_string(job, &offset);
	const char *timeout = name ? lab_record_string(job, &offset) : NULL;
	unsigned long long ms;
	char *rest;
	int argc = 0;

	if (!timeout)
		return -EBADMSG;
	errno = 0;
	ms = strtoull(timeout, &rest, 10);
	if (errno || *rest || rest == timeout || ms > 86400000ull)
		return -EBADMSG;
	*timeout_ns = ms * 1000000u;
	while (argc < MAX_ARGS) {
		const char *arg = lab_record_string(job, &offset);

		if (!arg)
			break;
		argv[argc++] = (char *)arg;
	}
	argv[argc] = NULL;
	return argc > 0 && offset == job->length ? 0 : -EBADMSG;
}

static void decode_status(int wstatus, struct lab_step_end *end)
{
	if (WIFSIGNALED(wstatus)) {
		end->status = -WTERMSIG(wstatus);
		end->flags |= LAB_END_SIGNALLED;
	} else {
		end->status = WEXITSTATUS(wstatus);
	}
}

/* Waits for the command and its output; kills its session at the deadline. */
static int supervise(pid_t pid, struct output outs[2], uint32_t step, uint64_t timeout_ns,
		     uint64_t limit, struct lab_step_end *end)
{
	uint64_t start = guest_now_ns(), last = start, spent_ns = 0, killed_ns = 0;
	bool open_[2] = {true, true}, exited = false, killed = false;
	uint64_t exit_ns = 0;

	for (;;) {
		struct pollfd fds[2];
		uint64_t now;
		int wstatus;
		pid_t got;

		for (int i = 0; i < 2; i++) {
			fds[i].fd = open_[i] ? outs[i].fd : -1;
			fds[i].events = POLLIN;
			fds[i].revents = 0;
		}
		poll(fds, 2, exited ? 0 : POLL_MS);
		for (int i = 0; i < 2; i++)
			if (open_[i] && fds[i].revents)
				open_[i] = drain(&outs[i], step, limit, &end->dropped_bytes);

		/* Orphans of the command become ours: reap them too. */
		while ((got = waitpid(-1, &wstatus, WNOHANG)) > 0) {
			if (got != pid)
				continue;
			exited = true;
			exit_ns = guest_now_ns();
			end->elapsed_ns = exit_ns - start;
			decode_status(wstatus, end);
		}
		now = guest_now_ns();
		/* While the host stands still nobody here could have made progress either. */
		spent_ns += now - last < PASS_MAX_NS ? now - last : PASS_MAX_NS;
		last = now;
		if (exited) {
			bool more =
				(open_[0] && fds[0].revents) || (open_[1] && fds[1].revents);

			/* A background child may hold the pipes open for ever. */
			if (!more || now - exit_ns > REAP_GRACE_NS)
				break;
			continue;
		}
		if (!killed && spent_ns > timeout_ns) {
			killed = true;
			killed_ns = spent_ns;
			end->flags |= LAB_END_TIMED_OUT;
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
		}
		if (killed && spent_ns - killed_ns > REAP_GRACE_NS) {
			result_note(step,
				    "the command cannot be killed: it hangs in the kernel");
			end->elapsed_ns = now - start;
			end->status = -SIGKILL;
			return -EDEADLK;
		}
	}
	kill(-pid, SIGKILL);
	return 0;
}

int command_run(const struct lab_record *job, uint64_t limit_bytes, struct lab_step_end *end)
{
	char *argv[MAX_ARGS + 1];
	uint64_t timeout_ns;
	int out[2], errs[2], err;
	struct output outs[2];
	pid_t pid;

	err = parse_argv(job, argv, &timeout_ns);
	if (err)
		return end->status = err;
	if (pipe2(out, O_CLOEXEC) != 0)
		return end->status = -errno;
	if (pipe2(errs, O_CLOEXEC) != 0) {
		end->status = -errno;
		close(out[0]);
		close(out[1]);
		return end->status;
	}
	pid = fork();
	if (pid == 0)
		exec_child(argv, out[1], errs[1]);
	close(out[1]);
	close(errs[1]);
	if (pid < 0) {
		err = end->status = -errno;
		goto done;
	}
	outs[0] = (struct output){.fd = out[0], .type = LAB_RES_OUT};
	outs[1] = (struct output){.fd = errs[0], .type = LAB_RES_ERR};
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(errs[0], F_SETFL, O_NONBLOCK);
	err = supervise(pid, outs, job->step, timeout_ns, limit_bytes, end);
	if (!err && end->status != 0)
		err = -ECHILD;
done:
	close(out[0]);
	close(errs[0]);
	return err;
}
