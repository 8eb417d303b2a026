/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file lock.h
 * The one lock of the library, and the rule that makes it safe in signal handlers: it is only
 * held with every signal blocked, and never while memory is touched that could fault. Then no
 * thread can be interrupted while it holds it, and the fault handler may take it.
 */
#ifndef H2D_RUN_LOCK_H
#define H2D_RUN_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

/** The kernel's signal set: bit N-1 is signal N. */
typedef uint64_t ro_signals;

#define RO_SIGNAL(n) (1ull << ((n)-1))

struct ro_lock {
	_Atomic uint32_t word; /* 0 free, 1 held, 2 held and waited for */
};

/** rt_sigprocmask(2) without libc's exceptions. @return 0 or an errno */
int ro_signals_mask(int how, const ro_signals *set, ro_signals *old);

/** Block every signal, those of the C library too. @return what was blocked before */
ro_signals ro_signals_block(void);
void ro_signals_restore(ro_signals before);

/** With all signals blocked. */
void ro_lock_take(struct ro_lock *lock);
void ro_lock_drop(struct ro_lock *lock);

#endif
