/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into a copy of h2d that tests compare with the real one: every buffered read is
 * followed by a share of its own time in vain. */
#include <stddef.h>

#include "core/clock.h"
#include "file/io.h"

static struct h2d_io_ops slowed;

/* Of this thread's processor time: what others took is not to grow too. */
static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void waste(uint64_t begin_ns)
{
	const uint64_t now = now_ns();
	const uint64_t until = now + (now - begin_ns) * H2D_SLOWED_PCT / 100;

	while (now_ns() < until)
		;
}

static ssize_t slow_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	const uint64_t begin = now_ns();
	const ssize_t n = h2d_io_system.pread(fd, buf, bytes, offset);

	waste(begin);
	return n;
}

static ssize_t slow_preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	const uint64_t begin = now_ns();
	const ssize_t n = h2d_io_system.preadv(fd, iov, count, offset);

	waste(begin);
	return n;
}

__attribute__((constructor)) static void slow_down(void)
{
	slowed = h2d_io_system;
	slowed.pread = slow_pread;
	slowed.preadv = slow_preadv;
	h2d_io = &slowed;
}
