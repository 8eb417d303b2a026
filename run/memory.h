/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file memory.h
 * The memory calls as the program sees them. Arguments, results and errno are those of the
 * system calls of the same names.
 */
#ifndef H2D_RUN_MEMORY_H
#define H2D_RUN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

void *ro_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
int ro_munmap(void *addr, size_t bytes);
int ro_mprotect(void *addr, size_t bytes, int prot);
int ro_pkey_mprotect(void *addr, size_t bytes, int prot, int key);
int ro_madvise(void *addr, size_t bytes, int advice);
void *ro_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to);

/** Install our handler of SIGSEGV over the program's, once. Locked.
 *  @return false if it cannot be, or the program has replaced it behind our back */
bool ro_handle_faults_locked(void);

#endif
