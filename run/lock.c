/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/futex.h>
#include <signal.h>

#include "run/lock.h"
#include "run/sys.h"

enum { FREE, HELD, WAITED_FOR };

int ro_signals_mask(int how, const ro_signals *set, ro_signals *old)
{
	return syscall(SYS_rt_sigprocmask, how, set, old, sizeof(*set)) ? errno : 0;
}

ro_signals ro_signals_block(void)
{
	const ro_signals all = ~0ull;
	ro_signals before = 0;

	ro_signals_mask(SIG_SETMASK, &all, &before);
	return before;
}

void ro_signals_restore(ro_signals before)
{
	ro_signals_mask(SIG_SETMASK, &before, NULL);
}

void ro_lock_take(struct ro_lock *lock)
{
	uint32_t word = FREE;

	if (atomic_compare_exchange_strong_explicit(&lock->word, &word, HELD,
						    memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&lock->word, WAITED_FOR, memory_order_acquire) != FREE)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, WAITED_FOR, NULL, NULL, 0);
}

void ro_lock_drop(struct ro_lock *lock)
{
	if (atomic_exchange_explicit(&lock->word, FREE, memory_order_release) == WAITED_FOR)
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
