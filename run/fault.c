/* SPDX-License-Identifier: Apache-2.0 */
/* Our handler of SIGSEGV, and the program's behind it. What the program sees of the latter is
 * in signals.c. Everything here is async-signal-safe: raw system calls, no allocation, one lock
 * that is only held with all signals blocked. */
#include <string.h>
#include <ucontext.h>

#include "run/arch.h"
#include "run/keep.h"
#include "run/memory.h"
#include "run/report.h"
#include "run/signals.h"
#include "run/sys.h"

#ifndef SEGV_MTEAERR
#define SEGV_MTEAERR 8
#endif

/* Whether the fault at `addr` is answered: the page is writable now, or was made so by another
 * thread a moment ago. */
static bool answer(uintptr_t addr)
{
	struct ro_piece *p;
	bool done = false;

	if (!ro_near(addr, 1))
		return false;
	ro_take();
	p = ro_table_at(&ro.table, addr);
	/* Everything that could have made this fault out of date moves the generation. If it
	 * did since this thread was last here, try again; if not, the fault is the program's
	 * own. */
	if (p && !p->open)
		done = !ro_open_block_locked(p, addr);
	else
		done = ro_thread.generation != ro.generation;
	ro_thread.generation = ro.generation;
	ro_drop();
	return done;
}

static struct ro_action take_action(void)
{
	struct ro_action action;

	ro_take();
	action = ro.action;
	if (action.flags & (int)SA_RESETHAND && action.handler != (void *)SIG_IGN)
		ro.action.handler = (void *)SIG_DFL;
	ro_drop();
	return action;
}

static bool sent_by_somebody(const siginfo_t *info)
{
	return info->si_code <= 0;
}

/* End as the kernel ends a process: with the default action, at the instruction that did it. */
static void die(siginfo_t *info)
{
	const struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		ro_signals mask;
	} def = {0};

	ro_end();
	syscall(SYS_rt_sigaction, SIGSEGV, &def, NULL, sizeof(def.mask));
	if (sent_by_somebody(info) || info->si_code == SEGV_MTEAERR)
		ro_signals_send(info);
}

/* The program's handler runs with the mask that the kernel would have set, except that SIGSEGV
 * is not blocked: a write of its own to a kept range must come through. */
static void call(const struct ro_action *action, int sig, siginfo_t *info, ucontext_t *context)
{
	void (*handler)(int, siginfo_t *, void *);
	ro_signals mask;

	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	mask |= ro_signals_real(action->mask);
	if (!(action->flags & (int)SA_NODEFER))
		mask |= RO_SIGNAL(RO_CARRIER);
	mask &= ~RO_SIGNAL(SIGSEGV);
	memcpy(&handler, &action->handler, sizeof(handler));
	ro_signals_mask(SIG_SETMASK, &mask, NULL);
	handler(sig, info, context);
	ro_signals_block();
	memcpy(&mask, &context->uc_sigmask, sizeof(mask));
	if (mask & RO_SIGNAL(SIGSEGV)) {
		mask = ro_signals_adopt(mask);
		memcpy(&context->uc_sigmask, &mask, sizeof(mask));
	}
	ro_signals_send_pending(mask);
}

/* Told to the program when it is no longer blocked. */
static void hold_back(const siginfo_t *info)
{
	ro_thread.pending_pid = (int)syscall(SYS_getpid);
	ro_thread.info = *info;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	struct ro_action action;
	ro_signals interrupted;
	int saved = errno;
	bool sent = sent_by_somebody(info);

	if (info->si_code == SEGV_ACCERR && ro_arch_wrote(uc) &&
	    answer((uintptr_t)info->si_addr)) {
		errno = saved;
		return;
	}
	memcpy(&interrupted, &uc->uc_sigmask, sizeof(interrupted));
	if (interrupted & RO_SIGNAL(RO_CARRIER)) {
		if (sent)
			hold_back(info);
		else
			die(info);
	} else {
		action = take_action();
		if (action.handler == (void *)SIG_DFL ||
		    (action.handler == (void *)SIG_IGN && !sent))
			die(info);
		else if (action.handler != (void *)SIG_IGN)
			call(&action, sig, info, uc);
	}
	errno = saved;
}

void ro_signals_send(const siginfo_t *info)
{
	syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid), syscall(SYS_gettid), SIGSEGV, info);
}

void ro_signals_send_pending(ro_signals mask)
{
	int pid = ro_thread.pending_pid;

	if (!pid || mask & RO_SIGNAL(RO_CARRIER))
		return;
	/* A child of fork() inherits none, and one of vfork() sees its parent's. */
	if (pid != (int)syscall(SYS_getpid))
		return;
	ro_thread.pending_pid = 0;
	ro_signals_send(&ro_thread.info);
}

int ro_install_locked(void)
{
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};

	/* On the stack, and with the restart of interrupted calls, that the program chose. */
	if (ro.action.handler == (void *)SIG_DFL || ro.action.handler == (void *)SIG_IGN)
		ours.sa_flags |= SA_ONSTACK | SA_RESTART;
	else
		ours.sa_flags |= ro.action.flags & (SA_ONSTACK | SA_RESTART);
	memset(&ours.sa_mask, 0xff, sizeof(ours.sa_mask));
	return ro.sigaction(SIGSEGV, &ours, NULL);
}

static void *current_handler(struct sigaction *now)
{
	void *handler;

	ro_count_calls(1);
	if (ro.sigaction(SIGSEGV, NULL, now))
		return NULL;
	memcpy(&handler,
	       now->sa_flags & SA_SIGINFO ? (void *)&now->sa_sigaction
					  : (void *)&now->sa_handler,
	       sizeof(handler));
	return handler;
}

bool ro_handle_faults_locked(void)
{
	void (*ours)(int, siginfo_t *, void *) = on_fault;
	struct sigaction now;
	void *handler, *expected;

	if (!ro.sigaction)
		return false;
	handler = current_handler(&now);
	memcpy(&expected, &ours, sizeof(expected));
	if (ro.handling)
		return handler == expected;
	ro.action.handler = handler;
	ro.action.flags = now.sa_flags;
	memcpy(&ro.action.mask, &now.sa_mask, sizeof(ro.action.mask));
	ro_count_calls(1);
	if (ro_install_locked())
		return false;
	ro.handling = true;
	return true;
}
