/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <sys/mman.h>

#include "run/interpose.h"
#include "run/memory.h"

RO_PUBLIC void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return ro_mmap(addr, bytes, prot, flags, fd, offset);
}

RO_PUBLIC void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
	return ro_mmap(addr, bytes, prot, flags, fd, offset);
}

RO_PUBLIC int munmap(void *addr, size_t bytes)
{
	return ro_munmap(addr, bytes);
}

RO_PUBLIC int mprotect(void *addr, size_t bytes, int prot)
{
	return ro_mprotect(addr, bytes, prot);
}

RO_PUBLIC int pkey_mprotect(void *addr, size_t bytes, int prot, int key)
{
	return ro_pkey_mprotect(addr, bytes, prot, key);
}

RO_PUBLIC int madvise(void *addr, size_t bytes, int advice)
{
	return ro_madvise(addr, bytes, advice);
}

RO_PUBLIC void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
	void *to = NULL;
	va_list rest;

	if (flags & (MREMAP_FIXED | 4)) {
		va_start(rest, flags);
		to = va_arg(rest, void *);
		va_end(rest);
	}
	return ro_mremap(old, old_bytes, bytes, flags, to);
}
