/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "run/keep.h"
#include "run/memory.h"
#include "run/signals.h"
#include "run/sys.h"

#define SEGV	RO_SIGNAL(SIGSEGV)
#define CARRIER RO_SIGNAL(RO_CARRIER)
/* glibc's own signals are nobody's business. */
#define LIBC_SIGNALS (RO_SIGNAL(32) | RO_SIGNAL(33))

/* Signals whose sa_mask the program asked to contain the carrier itself. */
static _Atomic ro_signals carrier_in_mask;

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

ro_signals ro_signals_real(ro_signals asked)
{
	return (asked & ~(SEGV | CARRIER | LIBC_SIGNALS)) | (asked & SEGV ? CARRIER : 0);
}

/* What the program believes of a mask that the kernel has. */
static ro_signals believed(ro_signals real, bool carrier)
{
	return (real & ~(CARRIER | LIBC_SIGNALS)) | (real & CARRIER ? SEGV : 0) |
	       (carrier ? CARRIER : 0);
}

/* In a child of vfork() this memory is the parent's, but masks and actions are its own. */
static bool *carrier_asked(void)
{
	int pid = getpid();

	if (ro_thread.child_pid != pid && ro_own_memory()) {
		ro_thread.child_pid = 0;
		return &ro_thread.carrier;
	}
	if (ro_thread.child_pid != pid) {
		ro_thread.child_pid = pid;
		ro_thread.child_carrier = ro_thread.carrier;
	}
	return &ro_thread.child_carrier;
}

static void note_carrier(bool asked)
{
	if (ro_thread.carrier != asked || ro_thread.child_pid)
		*carrier_asked() = asked;
}

/* Whether SIGSEGV may be left open where the program wants it blocked: our handler is there to
 * hold back what is sent then. */
static bool held_back(void)
{
	ro_signals before;
	bool held;

	if (ro.handling)
		return true;
	if (!ro_own_memory())
		return false;
	before = ro_enter();
	held = ro_handle_faults_locked();
	ro_leave(before);
	return held;
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
	ro_signals bit = sig > 0 && sig <= 64 ? RO_SIGNAL(sig) : 0, asked = 0;
	ro_signals before = atomic_load(&carrier_in_mask);
	struct sigaction changed;
	int rc;

	/* `old` may be where `act` is. */
	if (act) {
		changed = *act;
		asked = from_set(&changed.sa_mask);
		to_set(ro_signals_real(asked) | (asked & LIBC_SIGNALS), &changed.sa_mask);
	}
	rc = ro.sigaction(sig, act ? &changed : NULL, old);
	if (rc)
		return rc;
	if (asked & CARRIER)
		atomic_fetch_or(&carrier_in_mask, bit);
	else if (act && before & bit)
		atomic_fetch_and(&carrier_in_mask, ~bit);
	if (old) {
		asked = from_set(&old->sa_mask);
		to_set(believed(asked, before & bit) | (asked & LIBC_SIGNALS), &old->sa_mask);
	}
	return 0;
}

int ro_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction asked, was;
	ro_signals before;
	int rc = 0, saved;

	if (sig != SIGSEGV)
		return other_signal(sig, act, old);
	if (!ro_own_memory())
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

int ro_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	ro_signals asked = set ? from_set(set) : 0, real = ro_signals_real(asked), was;
	bool carrier = ro_thread.carrier, blocks = how != SIG_UNBLOCK;
	int rc;

	/* Where it cannot be held back, it is blocked; unblocked it is either way. */
	if (asked & SEGV && (!blocks || !held_back()))
		real = (real & ~(blocks ? CARRIER : 0)) | SEGV;
	rc = ro_signals_mask(how, set ? &real : NULL, &was);
	if (rc)
		return rc;
	if (set && (how == SIG_SETMASK || asked & CARRIER))
		note_carrier(blocks && asked & CARRIER);
	if (old)
		to_set(believed(was, carrier), old);
	if (set)
		ro_signals_send_pending(how == SIG_SETMASK ? real
					: blocks	   ? was | real
							   : was & ~real);
	return 0;
}

int ro_sigpending(sigset_t *set)
{
	ro_signals pending = 0;

	if (syscall(SYS_rt_sigpending, &pending, sizeof(pending)))
		return -1;
	if (ro_thread.pending_pid && ro_thread.pending_pid == getpid())
		pending |= SEGV;
	to_set(pending, set);
	return 0;
}

const sigset_t *ro_signals_wait(const sigset_t *set, sigset_t *copy)
{
	if (!set || !ro_readable(set, sizeof(ro_signals)) ||
	    !(from_set(set) & (SEGV | CARRIER)))
		return set;
	to_set(ro_signals_real(from_set(set)), copy);
	return copy;
}

void ro_signals_inherit(void)
{
	ro_signals was, real;

	if (ro_signals_mask(SIG_BLOCK, NULL, &was) || !(was & (SEGV | CARRIER)))
		return;
	ro_thread.carrier = was & CARRIER;
	real = was & SEGV && !held_back() ? was & ~CARRIER : ro_signals_real(was);
	ro_signals_restore(real | (was & LIBC_SIGNALS));
}

ro_signals ro_signals_adopt(ro_signals before)
{
	return before & SEGV ? (before & ~SEGV) | CARRIER : before;
}

bool ro_signals_before_exec(ro_signals *was)
{
	ro_signals passed;

	if (!ro.handling && !ro_thread.carrier)
		return false;
	ro_count_calls(1);
	if (ro_signals_mask(SIG_BLOCK, NULL, was))
		return false;
	passed = (*was & ~CARRIER) | (*was & CARRIER ? SEGV : 0) |
		 (ro_thread.carrier && *carrier_asked() ? CARRIER : 0);
	if (passed == *was)
		return false;
	ro_count_calls(2);
	ro_signals_restore(passed);
	return true;
}
