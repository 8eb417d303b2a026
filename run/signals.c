/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "run/keep.h"
#include "run/signals.h"
#include "run/sys.h"

/* Signals whose sa_mask the program asked to contain SIGSEGV. */
static _Atomic ro_signals masked_with;

static void to_set(ro_signals from, sigset_t *to)
{
	sigemptyset(to);
	memcpy(to, &from, sizeof(from));
}

static ro_signals from_set(const sigset_t *set)
{
	ro_signals s;

	memcpy(&s, set, sizeof(s));
	return s;
}

static void describe(const struct ro_action *action, struct sigaction *to)
{
	memset(to, 0, sizeof(*to));
	memcpy(&to->sa_sigaction, &action->handler, sizeof(action->handler));
	to->sa_flags = action->flags;
	to_set(action->mask, &to->sa_mask);
}

/* The other signals: their handlers must not run with SIGSEGV blocked. */
static int other_signal(int sig, const struct sigaction *act, struct sigaction *old)
{
	ro_signals bit = sig > 0 && sig <= 64 ? RO_SIGNAL(sig) : 0;
	ro_signals before = atomic_load(&masked_with);
	struct sigaction changed;
	bool masks = false;
	int rc;

	/* `old` may be where `act` is. */
	if (act) {
		changed = *act;
		masks = sigismember(&changed.sa_mask, SIGSEGV) == 1;
		sigdelset(&changed.sa_mask, SIGSEGV);
	}
	rc = ro.sigaction(sig, act ? &changed : NULL, old);
	if (rc)
		return rc;
	if (masks)
		atomic_fetch_or(&masked_with, bit);
	else if (act && before & bit)
		atomic_fetch_and(&masked_with, ~bit);
	if (old && before & bit)
		sigaddset(&old->sa_mask, SIGSEGV);
	return 0;
}

int ro_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction asked, was;
	ro_signals before;
	int rc = 0, saved;

	if (sig != SIGSEGV)
		return other_signal(sig, act, old);
	/* In a child of vfork() this memory is the parent's, but the actions are the child's
	 * own. */
	if (!atomic_load(&ro.ready) || atomic_load(&ro.pid) != getpid())
		return ro.sigaction(sig, act, old);
	/* Copies, since the program's structures may lie where a write must be answered. */
	if (act)
		asked = *act;
	before = ro_enter();
	if (ro.handling) {
		describe(&ro.action, &was);
		if (act) {
			memcpy(&ro.action.handler, &asked.sa_sigaction,
			       sizeof(ro.action.handler));
			ro.action.flags = asked.sa_flags;
			ro.action.mask = from_set(&asked.sa_mask);
			ro_count_calls(1);
			rc = ro_install_locked();
		}
	} else {
		rc = ro.sigaction(sig, act ? &asked : NULL, &was);
	}
	saved = errno;
	ro_leave(before);
	errno = saved;
	if (!rc && old)
		*old = was;
	return rc;
}

/* glibc's own signals are nobody's business. */
#define LIBC_SIGNALS (RO_SIGNAL(32) | RO_SIGNAL(33))

int ro_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	const ro_signals segv = RO_SIGNAL(SIGSEGV), carrier = RO_SIGNAL(RO_CARRIER);
	ro_signals asked = 0, was = 0, shown;
	bool blocked = ro_thread.blocked;
	int rc;

	if (set) {
		asked = from_set(set);
		shown = asked & ~LIBC_SIGNALS & ~segv;
		if (how == SIG_UNBLOCK && asked & segv)
			shown |= carrier;
		if (how == SIG_SETMASK && asked & segv) {
			ro_count_calls(1);
			ro_signals_mask(SIG_BLOCK, NULL, &was);
			shown |= was & carrier;
		}
		rc = ro_signals_mask(how, &shown, &was);
	} else {
		rc = ro_signals_mask(how, NULL, &was);
	}
	if (rc)
		return rc;
	if (set && (how == SIG_SETMASK || asked & segv))
		ro_thread.blocked = how != SIG_UNBLOCK && asked & segv;
	if (old) {
		shown = was & ~LIBC_SIGNALS & ~segv;
		to_set(shown | (blocked || was & carrier ? segv : 0), old);
	}
	if (set)
		ro_signals_send_pending();
	return 0;
}

const sigset_t *ro_signals_wait(const sigset_t *set, sigset_t *copy)
{
	if (!set || !ro_readable(set, sizeof(ro_signals)) ||
	    !(from_set(set) & RO_SIGNAL(SIGSEGV)))
		return set;
	to_set(from_set(set), copy);
	sigdelset(copy, SIGSEGV);
	return copy;
}

void ro_signals_inherit(void)
{
	const ro_signals segv = RO_SIGNAL(SIGSEGV);
	ro_signals was;

	if (!ro_signals_mask(SIG_UNBLOCK, &segv, &was) && was & segv)
		ro_thread.blocked = true;
}
