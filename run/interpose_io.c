/* SPDX-License-Identifier: Apache-2.0 */
/* Calls in which the kernel writes into memory that the program names: to a kept page it could
 * not, and the program would see EFAULT. What is written is opened first. These are
 * cancellation points, so the C library's own functions do the work.
 *
 * Not seen, and unsafe: io_uring, aio, and system calls made by number, or inside the C library
 * other than those below (getcwd, readlink, stat … into a kept mapping), process_vm_writev() by
 * another process, and everything a statically linked or Go runtime does itself. */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "run/interpose.h"
#include "run/keep.h"
#include "run/signals.h"

/* Newer than some headers. */
#define POPULATE_WRITE 23
ssize_t process_madvise(int fd, const struct iovec *v, size_t n, int advice, unsigned flags);

/* A macro, where functions are inlined. */
#undef fread_unlocked

/* The variants that _FORTIFY_SOURCE compiles into programs. */
ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t bytes, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t bytes, off64_t offset, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t bytes, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t bytes, size_t room, int flags,
		       struct sockaddr *from, socklen_t *length);
size_t __fread_chk(void *to, size_t room, size_t size, size_t n, FILE *f);
size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t n, FILE *f);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		const sigset_t *mask, size_t room);

#define FUNCTIONS(X)                                                                           \
	X(read)                                                                                \
	X(pread)                                                                               \
	X(pread64)                                                                             \
	X(readv)                                                                               \
	X(preadv)                                                                              \
	X(preadv64)                                                                            \
	X(preadv2)                                                                             \
	X(preadv64v2)                                                                          \
	X(recv)                                                                                \
	X(recvfrom)                                                                            \
	X(recvmsg)                                                                             \
	X(recvmmsg)                                                                            \
	X(process_vm_readv)                                                                    \
	X(process_madvise)                                                                     \
	X(getrandom)                                                                           \
	X(getentropy)                                                                          \
	X(fread)                                                                               \
	X(fread_unlocked)                                                                      \
	X(setvbuf)                                                                             \
	X(setbuffer)                                                                           \
	X(__read_chk)                                                                          \
	X(__pread_chk)                                                                         \
	X(__pread64_chk)                                                                       \
	X(__recv_chk)                                                                          \
	X(__recvfrom_chk)                                                                      \
	X(__fread_chk)                                                                         \
	X(__fread_unlocked_chk)                                                                \
	X(ppoll)                                                                               \
	X(__ppoll_chk)                                                                         \
	X(pselect)                                                                             \
	X(epoll_pwait)                                                                         \
	X(epoll_pwait2)                                                                        \
	X(sigsuspend)

#define FIELD(name) __typeof__(name) *name;

static struct {
	FUNCTIONS(FIELD)
} next;

static const char *const names[] = {
#define NAME(name) #name,
	FUNCTIONS(NAME)};

static _Atomic bool resolved;

void ro_resolve_io(void)
{
	ro_next_all(names, sizeof(names) / sizeof(names[0]), &next);
	atomic_store(&resolved, true);
}

/* Before our constructor some other's may call us. An allocator that begins then reads files,
 * and must not be called back by dlsym(): for these a system call does. */
#define EARLY	   (!atomic_load(&resolved))
#define NEXT(name) (atomic_load(&resolved) ? (void)0 : ro_resolve_io(), next.name)

/* The kernel transfers no more than this at a time. */
static void open_bytes(void *addr, size_t bytes)
{
	ro_open(addr, bytes < INT_MAX ? bytes : INT_MAX, RO_KERNEL_WRITE);
}

static void open_items(void *addr, size_t size, size_t n)
{
	size_t bytes;

	ro_open(addr, __builtin_mul_overflow(size, n, &bytes) ? SIZE_MAX : bytes,
		RO_KERNEL_WRITE);
}

/* Not looked at before anything is kept; a bad pointer is the kernel's to refuse. */
static void open_vector(const struct iovec *v, long n)
{
	if (!ro.handling || n <= 0 || n > IOV_MAX || !ro_readable(v, (size_t)n * sizeof(*v)))
		return;
	for (long i = 0; i < n; i++)
		open_bytes(v[i].iov_base, v[i].iov_len);
}

/* The head too: its lengths and flags are written. */
static void open_message(struct msghdr *m, size_t head_bytes)
{
	if (!ro.handling || !ro_readable(m, sizeof(*m)))
		return;
	open_bytes(m, head_bytes);
	open_vector(m->msg_iov, m->msg_iovlen <= IOV_MAX ? (long)m->msg_iovlen : 0);
	open_bytes(m->msg_control, m->msg_controllen);
	open_bytes(m->msg_name, m->msg_namelen);
}

RO_PUBLIC ssize_t read(int fd, void *buf, size_t bytes)
{
	open_bytes(buf, bytes);
	if (EARLY)
		return syscall(SYS_read, fd, buf, bytes);
	return NEXT(read)(fd, buf, bytes);
}

RO_PUBLIC ssize_t __read_chk(int fd, void *buf, size_t bytes, size_t room)
{
	open_bytes(buf, bytes);
	return NEXT(__read_chk)(fd, buf, bytes, room);
}

RO_PUBLIC ssize_t pread(int fd, void *buf, size_t bytes, off_t offset)
{
	open_bytes(buf, bytes);
	if (EARLY)
		return syscall(SYS_pread64, fd, buf, bytes, offset);
	return NEXT(pread)(fd, buf, bytes, offset);
}

RO_PUBLIC ssize_t __pread_chk(int fd, void *buf, size_t bytes, off_t offset, size_t room)
{
	open_bytes(buf, bytes);
	return NEXT(__pread_chk)(fd, buf, bytes, offset, room);
}

RO_PUBLIC ssize_t pread64(int fd, void *buf, size_t bytes, off64_t offset)
{
	open_bytes(buf, bytes);
	if (EARLY)
		return syscall(SYS_pread64, fd, buf, bytes, offset);
	return NEXT(pread64)(fd, buf, bytes, offset);
}

RO_PUBLIC ssize_t __pread64_chk(int fd, void *buf, size_t bytes, off64_t offset, size_t room)
{
	open_bytes(buf, bytes);
	return NEXT(__pread64_chk)(fd, buf, bytes, offset, room);
}

RO_PUBLIC ssize_t readv(int fd, const struct iovec *v, int n)
{
	open_vector(v, n);
	return NEXT(readv)(fd, v, n);
}

RO_PUBLIC ssize_t preadv(int fd, const struct iovec *v, int n, off_t offset)
{
	open_vector(v, n);
	return NEXT(preadv)(fd, v, n, offset);
}

RO_PUBLIC ssize_t preadv64(int fd, const struct iovec *v, int n, off64_t offset)
{
	open_vector(v, n);
	return NEXT(preadv64)(fd, v, n, offset);
}

RO_PUBLIC ssize_t preadv2(int fd, const struct iovec *v, int n, off_t offset, int flags)
{
	open_vector(v, n);
	return NEXT(preadv2)(fd, v, n, offset, flags);
}

RO_PUBLIC ssize_t preadv64v2(int fd, const struct iovec *v, int n, off64_t offset, int flags)
{
	open_vector(v, n);
	return NEXT(preadv64v2)(fd, v, n, offset, flags);
}

RO_PUBLIC ssize_t recv(int fd, void *buf, size_t bytes, int flags)
{
	open_bytes(buf, bytes);
	return NEXT(recv)(fd, buf, bytes, flags);
}

RO_PUBLIC ssize_t __recv_chk(int fd, void *buf, size_t bytes, size_t room, int flags)
{
	open_bytes(buf, bytes);
	return NEXT(__recv_chk)(fd, buf, bytes, room, flags);
}

/* Who sent it, in no more bytes than an address has. */
static void open_sender(struct sockaddr *from, socklen_t *length)
{
	if (!from || !length)
		return;
	open_bytes(from, sizeof(struct sockaddr_storage));
	open_bytes(length, sizeof(*length));
}

RO_PUBLIC ssize_t recvfrom(int fd, void *buf, size_t bytes, int flags, struct sockaddr *from,
			   socklen_t *length)
{
	open_bytes(buf, bytes);
	open_sender(from, length);
	return NEXT(recvfrom)(fd, buf, bytes, flags, from, length);
}

RO_PUBLIC ssize_t __recvfrom_chk(int fd, void *buf, size_t bytes, size_t room, int flags,
				 struct sockaddr *from, socklen_t *length)
{
	open_bytes(buf, bytes);
	open_sender(from, length);
	return NEXT(__recvfrom_chk)(fd, buf, bytes, room, flags, from, length);
}

RO_PUBLIC ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	open_message(m, sizeof(*m));
	return NEXT(recvmsg)(fd, m, flags);
}

RO_PUBLIC int recvmmsg(int fd, struct mmsghdr *m, unsigned n, int flags,
		       struct timespec *timeout)
{
	for (unsigned i = 0; ro.handling && m && i < n && i < IOV_MAX; i++)
		open_message(&m[i].msg_hdr, sizeof(m[i]));
	if (timeout)
		open_bytes(timeout, sizeof(*timeout));
	return NEXT(recvmmsg)(fd, m, n, flags, timeout);
}

RO_PUBLIC ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
				   const struct iovec *from, unsigned long from_count,
				   unsigned long flags)
{
	open_vector(to, to_count <= IOV_MAX ? (long)to_count : 0);
	return NEXT(process_vm_readv)(pid, to, to_count, from, from_count, flags);
}

/* Of another process or of this one: opened too often is harmless. */
RO_PUBLIC ssize_t process_madvise(int fd, const struct iovec *v, size_t n, int advice,
				  unsigned flags)
{
	if (advice == POPULATE_WRITE)
		open_vector(v, n <= IOV_MAX ? (long)n : 0);
	if (!NEXT(process_madvise))
		return syscall(SYS_process_madvise, fd, v, n, advice, flags);
	return next.process_madvise(fd, v, n, advice, flags);
}

RO_PUBLIC ssize_t getrandom(void *buf, size_t bytes, unsigned flags)
{
	open_bytes(buf, bytes);
	if (EARLY)
		return syscall(SYS_getrandom, buf, bytes, flags);
	return NEXT(getrandom)(buf, bytes, flags);
}

RO_PUBLIC int getentropy(void *buf, size_t bytes)
{
	open_bytes(buf, bytes);
	return NEXT(getentropy)(buf, bytes);
}

RO_PUBLIC size_t fread(void *to, size_t size, size_t n, FILE *f)
{
	open_items(to, size, n);
	return NEXT(fread)(to, size, n, f);
}

RO_PUBLIC size_t fread_unlocked(void *to, size_t size, size_t n, FILE *f)
{
	open_items(to, size, n);
	return NEXT(fread_unlocked)(to, size, n, f);
}

RO_PUBLIC size_t __fread_chk(void *to, size_t room, size_t size, size_t n, FILE *f)
{
	open_items(to, size, n);
	return NEXT(__fread_chk)(to, room, size, n, f);
}

RO_PUBLIC size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t n, FILE *f)
{
	open_items(to, size, n);
	return NEXT(__fread_unlocked_chk)(to, room, size, n, f);
}

/* What the stream will be read into by the C library's own read(). */
RO_PUBLIC int setvbuf(FILE *f, char *buf, int mode, size_t bytes)
{
	if (buf)
		open_bytes(buf, bytes);
	return NEXT(setvbuf)(f, buf, mode, bytes);
}

RO_PUBLIC void setbuffer(FILE *f, char *buf, size_t bytes)
{
	if (buf)
		open_bytes(buf, bytes);
	NEXT(setbuffer)(f, buf, bytes);
}

RO_PUBLIC void setbuf(FILE *f, char *buf)
{
	setbuffer(f, buf, BUFSIZ);
}

/* ---- waits that change the signal mask: never to one with SIGSEGV in it */

RO_PUBLIC int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		    const sigset_t *mask)
{
	sigset_t copy;

	return NEXT(ppoll)(fds, n, timeout, ro_signals_wait(mask, &copy));
}

RO_PUBLIC int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
			  const sigset_t *mask, size_t room)
{
	sigset_t copy;

	return NEXT(__ppoll_chk)(fds, n, timeout, ro_signals_wait(mask, &copy), room);
}

RO_PUBLIC int pselect(int n, fd_set *in, fd_set *out, fd_set *other,
		      const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t copy;

	return NEXT(pselect)(n, in, out, other, timeout, ro_signals_wait(mask, &copy));
}

RO_PUBLIC int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout,
			  const sigset_t *mask)
{
	sigset_t copy;

	return NEXT(epoll_pwait)(fd, events, n, timeout, ro_signals_wait(mask, &copy));
}

RO_PUBLIC int epoll_pwait2(int fd, struct epoll_event *events, int n,
			   const struct timespec *timeout, const sigset_t *mask)
{
	sigset_t copy;

	return NEXT(epoll_pwait2)(fd, events, n, timeout, ro_signals_wait(mask, &copy));
}

RO_PUBLIC int sigsuspend(const sigset_t *mask)
{
	sigset_t copy;

	return NEXT(sigsuspend)(ro_signals_wait(mask, &copy));
}
