/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file arch.h
 * What a signal frame tells of a fault, by architecture. Elsewhere every permission fault
 * counts as a write; then a read that is not allowed is answered once in vain and faults again.
 */
#ifndef H2D_RUN_ARCH_H
#define H2D_RUN_ARCH_H

#include <stdbool.h>
#include <ucontext.h>

/** Whether the access that faulted was a write. */
static inline bool ro_arch_wrote(const ucontext_t *context)
{
#if defined(__x86_64__)
	/* Error code of the page fault: bit 1 a write, bit 4 an instruction fetch. */
	return (context->uc_mcontext.gregs[REG_ERR] & 0x12) == 2;
#else
	(void)context;
	return true;
#endif
}

#endif
