/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "run/interpose.h"
#include "run/keep.h"
#include "run/signals.h"

RO_PUBLIC int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	ro_resolve();
	return ro_sigaction(sig, act, old);
}

RO_PUBLIC int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
RO_PUBLIC int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

static sighandler_t set_handler(int sig, sighandler_t handler, int flags, bool blocks)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

	sigemptyset(&act.sa_mask);
	if (blocks)
		sigaddset(&act.sa_mask, sig);
	if (handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

typedef sighandler_t signal_fn(int, sighandler_t);

static sighandler_t next_signal(const char *name, int sig, sighandler_t handler)
{
	signal_fn *next;
	void *p = ro_next(name);

	memcpy(&next, &p, sizeof(next));
	return next(sig, handler);
}

/* All of them have the C library's semantics, and only SIGSEGV is ours. */
RO_PUBLIC sighandler_t signal(int sig, sighandler_t handler)
{
	if (sig == SIGSEGV)
		return set_handler(sig, handler, SA_RESTART, true);
	return next_signal("signal", sig, handler);
}

RO_PUBLIC sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

RO_PUBLIC sighandler_t bsd_signal(int sig, sighandler_t handler);
RO_PUBLIC sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

RO_PUBLIC sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	if (sig == SIGSEGV)
		return set_handler(sig, handler, (int)SA_RESETHAND | (int)SA_NODEFER, false);
	return next_signal("sysv_signal", sig, handler);
}

RO_PUBLIC sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return sysv_signal(sig, handler);
}

static int hold(int how, int sig)
{
	sigset_t set;
	int rc;

	sigemptyset(&set);
	if (sigaddset(&set, sig))
		return -1;
	rc = ro_sigmask(how, &set, NULL);
	if (rc)
		errno = rc;
	return rc ? -1 : 0;
}

RO_PUBLIC int sighold(int sig)
{
	return hold(SIG_BLOCK, sig);
}

RO_PUBLIC int sigrelse(int sig)
{
	return hold(SIG_UNBLOCK, sig);
}

RO_PUBLIC int sigignore(int sig)
{
	return set_handler(sig, SIG_IGN, 0, false) == SIG_ERR ? -1 : 0;
}

RO_PUBLIC sighandler_t sigset(int sig, sighandler_t handler)
{
	struct sigaction old;
	sigset_t set, was;

	if (sig != SIGSEGV)
		return next_signal("sigset", sig, handler);
	sigemptyset(&set);
	sigaddset(&set, sig);
	if (sigaction(sig, NULL, &old) ||
	    ro_sigmask(handler == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &set, &was))
		return SIG_ERR;
	if (handler != SIG_HOLD && set_handler(sig, handler, 0, false) == SIG_ERR)
		return SIG_ERR;
	return sigismember(&was, sig) ? SIG_HOLD : old.sa_handler;
}

RO_PUBLIC int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	return ro_sigmask(how, set, old);
}

RO_PUBLIC int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int rc = ro_sigmask(how, set, old);

	if (rc)
		errno = rc;
	return rc ? -1 : 0;
}

/* What a new thread begins with. */
int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set);
RO_PUBLIC int pthread_attr_setsigmask_np(pthread_attr_t *attributes, const sigset_t *set)
{
	__typeof__(pthread_attr_setsigmask_np) *next;
	void *p = ro_next("pthread_attr_setsigmask_np");
	sigset_t copy;

	if (!p)
		return ENOSYS;
	memcpy(&next, &p, sizeof(next));
	return next(attributes, ro_signals_wait(set, &copy));
}

RO_PUBLIC int sigpending(sigset_t *set)
{
	return ro_sigpending(set);
}

/* Of BSD: the first 32 signals in an int. */
static int mask_int(int how, int mask)
{
	sigset_t set, old;
	int was = 0;

	sigemptyset(&set);
	memcpy(&set, &mask, sizeof(mask));
	sigemptyset(&old);
	if (ro_sigmask(how, &set, &old))
		return -1;
	memcpy(&was, &old, sizeof(was));
	return was;
}

RO_PUBLIC int sigblock(int mask)
{
	return mask_int(SIG_BLOCK, mask);
}

RO_PUBLIC int sigsetmask(int mask)
{
	return mask_int(SIG_SETMASK, mask);
}
