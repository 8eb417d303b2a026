/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file fake_copy.h
 * What our fake runtimes have in common: a device writes as the kernel does, by a system call
 * that nobody interposes, so that it fails where a page may not be written.
 */
#ifndef H2D_TEST_FAKE_COPY_H
#define H2D_TEST_FAKE_COPY_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FAKE_OK, FAKE_INVALID = 1 };

static inline int fake_copy(void *to, const void *from, size_t bytes)
{
	struct iovec local = {to, bytes}, remote = {(void *)(size_t)from, bytes};

	return syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == (long)bytes
		       ? FAKE_OK
		       : FAKE_INVALID;
}

/* Pinned for writing, as get_user_pages() does it. */
static inline int fake_pin(void *at, size_t bytes)
{
	return syscall(SYS_madvise, at, bytes, 23 /* MADV_POPULATE_WRITE */) ? FAKE_INVALID
									     : FAKE_OK;
}

#endif
