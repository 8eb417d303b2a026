/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sys.h
 * System calls by their numbers: what we interpose must not be reached by its name, and these
 * work before any constructor, inside allocators and in signal handlers. errno is set as in
 * libc. Only 64-bit Linux, where mmap takes its offset in bytes.
 */
#ifndef H2D_RUN_SYS_H
#define H2D_RUN_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "64-bit system calls");

static inline void *sys_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
			     off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);
}

static inline int sys_munmap(void *addr, size_t bytes)
{
	return (int)syscall(SYS_munmap, addr, bytes);
}

static inline int sys_mprotect(void *addr, size_t bytes, int prot)
{
	return (int)syscall(SYS_mprotect, addr, bytes, prot);
}

static inline void *sys_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
	return (void *)syscall(SYS_mremap, old, old_bytes, bytes, flags, to);
}

static inline int sys_madvise(void *addr, size_t bytes, int advice)
{
	return (int)syscall(SYS_madvise, addr, bytes, advice);
}

/** Open for reading; EINTR is no answer. */
static inline int sys_open(const char *path, int flags, int mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static inline long sys_pread(int fd, void *buf, size_t bytes, uint64_t offset)
{
	return syscall(SYS_pread64, fd, buf, bytes, offset);
}

static inline long sys_write(int fd, const void *buf, size_t bytes)
{
	return syscall(SYS_write, fd, buf, bytes);
}

static inline void sys_close(int fd)
{
	syscall(SYS_close, fd);
}

#endif
