/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a command and stands in for it: signals in, status out. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "run.h"

/* What the child must get back as it was. */
struct before {
	sigset_t mask;
	struct sigaction child;
	pid_t parent;
	int report;
};

static void start(char **argv, const struct before *before)
{
	int err;

	h2d_signals_restore();
	sigaction(SIGCHLD, &before->child, NULL);
	/* SIGKILL is the one signal that h2d cannot pass on. This ends the command with it, but
	 * not what the command has started: those go on, as when their parent is killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != before->parent)
		_exit(H2D_RUN_FAILED);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
	execvp(argv[0], argv);
	err = errno;
	(void)!write(before->report, &err, sizeof(err));
	_exit(H2D_RUN_FAILED);
}

/* All but those by which a terminal stops this process. A fault of our own ends us even so: the
 * kernel lets no blocked SIGSEGV or its like wait, and abort() unblocks its own. */
static void passed_on(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, SIGTTIN);
	sigdelset(set, SIGTTOU);
}

static void ended(int status, struct h2d_run_outcome *o)
{
	o->signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	o->status = o->signal_number ? H2D_RUN_SIGNAL + o->signal_number : WEXITSTATUS(status);
}

/* A command may tidy up before it stops; one that has not stopped by then ignored the signal.
 */
#define TIDY_UP_NS 10000000000ull

/* When a stop of the command is ours too, so that the shell sees the job stop. */
struct stops {
	bool command;	   /* it is stopped */
	uint64_t asked_ns; /* when we got a SIGTSTP of our own, or 0 */
};

/* Whether the command has the terminal for a group of its own, as a shell in it would: the keys
 * of the terminal do not reach us then. */
static bool has_terminal(pid_t command)
{
	pid_t group = getpgid(command), front = -1;
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0) {
		front = tcgetpgrp(fd);
		close(fd);
	}
	return group > 0 && group == front && group != getpgrp();
}

/* With the command, if both were asked, in either order. Stopped by somebody for itself alone,
 * it will be continued alone, and nobody would continue us. */
static void stop_too(struct stops *s)
{
	if (!s->command || !s->asked_ns || h2d_now_ns() - s->asked_ns > TIDY_UP_NS)
		return;
	s->asked_ns = 0;
	kill(getpid(), SIGSTOP);
}

static void stopped(struct stops *s, int signal_number, pid_t command)
{
	s->command = true;
	if (signal_number != SIGSTOP && has_terminal(command))
		s->asked_ns = h2d_now_ns();
	stop_too(s);
}

/* Everything that changed. As process 1 of a container we inherit others' children too.
 * @return 1 when the command has ended, 0, or a negative errno */
static int reap(struct stops *s, struct h2d_run_outcome *o)
{
	int status;
	pid_t got;

	while ((got = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		if (got != o->pid)
			continue;
		if (WIFSTOPPED(status)) {
			stopped(s, WSTOPSIG(status), o->pid);
		} else if (WIFCONTINUED(status)) {
			s->command = false;
		} else {
			ended(status, o);
			return 1;
		}
	}
	return got < 0 && errno != EINTR ? -errno : 0;
}

/* What a process sent to us, with what it sent along. */
static void pass_on(pid_t command, siginfo_t *info)
{
	if (info->si_code != SI_QUEUE ||
	    syscall(SYS_rt_sigqueueinfo, command, info->si_signo, info))
		kill(command, info->si_signo);
}

static int watch(const sigset_t *set, struct h2d_run_outcome *o)
{
	struct stops stops = {0};

	for (;;) {
		siginfo_t info;
		int rc = reap(&stops, o);

		if (rc)
			return rc > 0 ? 0 : rc;
		if (sigwaitinfo(set, &info) < 0)
			continue;
		if (info.si_signo == SIGTSTP || info.si_signo == SIGCONT)
			stops.asked_ns = info.si_signo == SIGTSTP ? h2d_now_ns() : 0;
		stop_too(&stops);
		/* What the terminal sends goes to the whole foreground group, the command
		 * included; only what a process sent to us is for us to pass on. */
		if (info.si_signo != SIGCHLD && info.si_code <= 0 && info.si_pid != o->pid &&
		    info.si_pid != getpid())
			pass_on(o->pid, &info);
	}
}

/* Of the signals still on their way none may cost the command's status; INT and TERM end a
 * report that hangs. */
static void settle(const sigset_t *set)
{
	static const struct timespec now;
	sigset_t ends;

	while (sigtimedwait(set, NULL, &now) > 0)
		;
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_UNBLOCK, &ends, NULL);
}

int h2d_run_child(char **argv, struct h2d_run_outcome *o)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	struct before before = {.parent = getpid()};
	uint64_t begin = h2d_now_ns();
	sigset_t set;
	int pipe_[2], rc = 0;
	ssize_t n;

	*o = (struct h2d_run_outcome){0};
	if (pipe2(pipe_, O_CLOEXEC))
		return -errno;
	before.report = pipe_[1];
	passed_on(&set);
	sigprocmask(SIG_BLOCK, &set, &before.mask);
	/* Ignored by whoever started us, it would take the status away. */
	sigemptyset(&plain.sa_mask);
	sigaction(SIGCHLD, &plain, &before.child);
	o->pid = fork();
	if (!o->pid)
		start(argv, &before);
	rc = o->pid < 0 ? -errno : 0;
	close(pipe_[1]);
	do
		n = rc ? 0 : read(pipe_[0], &o->exec_errno, sizeof(o->exec_errno));
	while (n < 0 && errno == EINTR);
	close(pipe_[0]);
	if (!rc)
		rc = watch(&set, o);
	o->elapsed_ns = h2d_now_ns() - begin;
	settle(&set);
	return rc;
}
