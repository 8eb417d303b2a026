/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file interpose.h
 * What the library defines in place of the C library's functions, and how it reaches those.
 *
 * Not seen, with what follows:
 *  - mmap by a raw system call, or inside the C library: nothing is kept there.
 *  - munmap, mremap, mprotect of a kept range by a raw system call: the table does not follow.
 * The next mapping made there through the C library corrects it. mseal() of a kept range ends
 * with the first write to it.
 *  - Writes by the kernel other than by the functions in interpose_io.c (io_uring, aio, raw
 * read, ioctl, getcwd, stat, readlink, epoll_wait, waitpid, vmsplice, getsockopt, getdents64,
 * clock_gettime … with a kept buffer that was never written), by another process
 * (process_vm_writev), by a device other than through device.c (unified memory, kernels that
 * write through host pointers, storage to a mapping): EFAULT or the device's own error, as for
 * a read-only buffer.
 *  - MADV_DONTFORK by a raw system call: a child opens page by page around the hole.
 *  - What was given up in the middle of a mapping (by mprotect(), or an mremap() of more than
 *    is kept, also a refused one) that was written on both sides is several entries of the
 * kernel's map for ever: mremap() of all may be EFAULT.
 *  - mremap() over several mappings that lie side by side may succeed where the kernel alone
 *    refuses it, when all of it is kept.
 *  - rt_sigaction(SIGSEGV) by a raw system call: whoever does it gets the faults. One made
 * before the first mapping is chained; after one made later nothing more is kept, and what was
 * kept lives on the other's forwarding of faults that are not its own.
 *  - rt_sigprocmask by a raw system call, setcontext and the like with a mask built by hand: a
 * first write in a thread that really blocks SIGSEGV kills.
 *  - sigtimedwait, sigwaitinfo, sigwait and signalfd for SIGSEGV: one that was sent while the
 * program had it blocked is held by us and never taken from there; sigsuspend, ppoll and the
 * like do not let it in. Sent to the process, it waits for the thread that the kernel chose,
 * though another may not have it blocked. What siglongjmp() unblocks comes with the next call
 * that changes the mask.
 *  - A thread that had blocked SIGSEGV by a raw system call before the first mapping, and those
 *    of the C library's own (timers): the same as rt_sigprocmask.
 *  - SIGSTKFLT, which stands for SIGSEGV in the kernel's masks (signals.h): whether the program
 * blocks it is remembered by thread, told and not done. /proc/PID/status and ucontexts show it.
 *  - SIGSEGV in another signal's sa_mask, before anything is kept and while the program has not
 * blocked it otherwise: one that is sent during that handler is not held.
 *  - A program that blocked SIGSEGV has our handler from then on: one set past us later, before
 * the first mapping, is not chained, and nothing is kept.
 *  - system() and popen() pass on the kernel's mask.
 *  - clone() or fork by a raw system call while another thread is in the table: the child may
 *    wait for ever at its first new fault. Where kcmp() is refused it is taken for one of
 *    vfork(): its own action on SIGSEGV gets the first writes too.
 *  - Between the handlers of fork() and fork itself the C library takes locks of its own while
 *    ours is held: a thread that writes first to a kept page in the middle of stdio, while
 *    another flushes all streams, could wait for both.
 *  - RLIMIT_DATA lowered to nothing after the mapping was made, the hard limit too: a first
 * write kills. A signal's or a thread's stack in a kept range: the kernel cannot push a frame
 * there.
 *  - Writes through /proc/self/mem and by ptrace() are done and not counted.
 *  - One runtime loaded twice: calls found by name go to the copy that was found first.
 *  - An exec passes on SIGSEGV as default even where the program had it ignored.
 * Debuggers stop at every first write. Programs built with a sanitizer refuse preloaded
 * libraries or see our mappings as theirs.
 */
#ifndef H2D_RUN_INTERPOSE_H
#define H2D_RUN_INTERPOSE_H

#define RO_PUBLIC __attribute__((visibility("default")))

/** The next definition of `name` after ours; NULL if there is none. */
void *ro_next(const char *name);
/* Of several: into the pointers to functions at `table`, in their order. */
void ro_next_all(const char *const *names, size_t count, void *table);

/** dlsym() as the C library has it. */
void *ro_in_object(void *object, const char *name);

/** Find the C library's functions. By the constructor, and before it by who comes first. */
void ro_resolve(void);
void ro_resolve_io(void);
void ro_resolve_exec(void);

#endif
