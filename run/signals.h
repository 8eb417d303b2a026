/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file signals.h
 * Signals as the program sees them: its action on SIGSEGV is kept by us, and SIGSEGV is never
 * really blocked, since a fault while it is blocked kills. The program is told what it asked
 * for.
 */
#ifndef H2D_RUN_SIGNALS_H
#define H2D_RUN_SIGNALS_H

#include <signal.h>

/** Blocked while the program's handler of SIGSEGV runs, in place of SIGSEGV: a signal that the
 * C library keeps for thread cancellation, and that programs therefore neither see nor use. */
enum { RO_CARRIER = 32 };

/** As sigaction(2). */
int ro_sigaction(int signal, const struct sigaction *act, struct sigaction *old);

/** As pthread_sigmask(3). @return 0 or an errno */
int ro_sigmask(int how, const sigset_t *set, sigset_t *old);

/** A mask for the time of a wait, without SIGSEGV. @return copy or NULL, as `set` */
const sigset_t *ro_signals_wait(const sigset_t *set, sigset_t *copy);

/** At the start of the program: what it inherited blocked. */
void ro_signals_inherit(void);

/** Our handler for what `ro.action` says. Locked. @return 0 or -1 */
int ro_install_locked(void);

/** Send SIGSEGV to this thread, as if it came from where it came. */
void ro_signals_send(const siginfo_t *info);

/** What was sent while the program had it blocked, if it has not any more. */
void ro_signals_send_pending(void);

#endif
