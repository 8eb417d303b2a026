/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file signals.h
 * Signals as the program sees them: its action on SIGSEGV is kept by us, and SIGSEGV is never
 * really blocked, since a fault while it is blocked kills. In its place another signal is
 * blocked, so that whatever saves, restores and passes on masks (siglongjmp, ucontext, new
 * threads, fork) does so with this one too. The program is told what it asked for.
 */
#ifndef H2D_RUN_SIGNALS_H
#define H2D_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "run/lock.h"

/** Blocked in place of SIGSEGV: a signal that no kernel sends (asm-generic/signal.h: "unused")
 * and that programs have no use for. What a program asks of its own about it is remembered and
 * told, and not done. */
enum { RO_CARRIER = SIGSTKFLT };

/** The mask for the kernel, of one that the program asked for. */
ro_signals ro_signals_real(ro_signals asked);

/** As sigaction(2). */
int ro_sigaction(int signal, const struct sigaction *act, struct sigaction *old);

/** As pthread_sigmask(3). @return 0 or an errno */
int ro_sigmask(int how, const sigset_t *set, sigset_t *old);

/** As sigpending(2). */
int ro_sigpending(sigset_t *set);

/** A mask for the time of a wait, without SIGSEGV. @return copy or NULL, as `set` */
const sigset_t *ro_signals_wait(const sigset_t *set, sigset_t *copy);

/** At the start of the program: what it inherited blocked. */
void ro_signals_inherit(void);

/** A mask to go back to that may block SIGSEGV, since it was set past us: so that it does not.
 */
ro_signals ro_signals_adopt(ro_signals before);

/** A program is about to be started with this thread's mask: give it what the program asked
 *  for. @return whether that was another; `was` is to be restored if this thread goes on */
bool ro_signals_before_exec(ro_signals *was);

/** Our handler for what `ro.action` says. Locked. @return 0 or -1 */
int ro_install_locked(void);

/** Send SIGSEGV to this thread, as if it came from where it came. */
void ro_signals_send(const siginfo_t *info);

/** What was sent while the program had it blocked, if it has not any more with `mask`. */
void ro_signals_send_pending(ro_signals mask);

#endif
