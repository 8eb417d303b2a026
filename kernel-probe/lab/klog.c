/* SPDX-License-Identifier: Apache-2.0 */
/* The phrases by which kernels report their own faults. */
#include "klog.h"

#include <stddef.h>
#include <string.h>

/*
 * From the kernel's lib/bug.c, kernel/panic.c, arch/x86/kernel/dumpstack.c, kernel/locking/
 * lockdep.c, kernel/rcu, kernel/hung_task.c, kernel/watchdog.c, mm/kasan, mm/kmemleak.c, lib/
 * ubsan.c, lib/refcount.c and lib/list_debug.c.
 */
static const char *const fault_phrases[] = {
	"BUG:",
	"kernel BUG at",
	"WARNING:",
	"Oops:",
	"Oops -",
	"general protection fault",
	"Kernel panic",
	"Unable to handle kernel",
	"KASAN:",
	"KFENCE:",
	"KCSAN:",
	"UBSAN:",
	"double fault",
	"stack-protector:",
	"bad page state",
	"Bad page state",
	"Bad rss-counter state",
	"refcount_t:",
	"list_add corruption",
	"list_del corruption",
	"scheduling while atomic",
	"sleeping function called from invalid context",
	"DEBUG_LOCKS_WARN_ON",
	"possible recursive locking",
	"possible circular locking",
	"inconsistent lock state",
	"suspicious RCU usage",
	"bad unlock balance",
	"still has locks held",
	"lock held when returning to user space",
	"self-detected stall",
	"detected stalls on CPU",
	"soft lockup",
	"hard LOCKUP",
	"blocked for more than",
	"unreferenced object",
	"new suspected memory leaks",
	"mmu_notifier leak",
	"Objects remaining in",
};

bool lab_klog_is_fault(const char *line)
{
	for (size_t i = 0; i < sizeof(fault_phrases) / sizeof(fault_phrases[0]); i++)
		if (strstr(line, fault_phrases[i]))
			return true;
	return false;
}

bool lab_klog_is_panic(const char *line)
{
	return strstr(line, "Kernel panic") != NULL;
}
