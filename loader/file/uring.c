/* SPDX-License-Identifier: Apache-2.0 */
#include "file/uring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "file/io.h"

enum {
	DEPTH_MAX = 32768, /* IORING_MAX_ENTRIES */
	READ_MAX_BYTES = 0x7ffff000,
	BUSY_MAX = 1000, /* refusals in a row of a submission, 1 ms apart */
	EINTR_MAX = 1 << 16,
};

static const char *reason(int err)
{
	switch (err) {
	case ENOSYS:
		return "the kernel has no io_uring (or a seccomp filter hides it)";
	case EPERM:
	case EACCES:
		return "io_uring is refused (kernel.io_uring_disabled, or a seccomp filter)";
	case ENOMEM:
		return "io_uring is refused: the memlock limit (RLIMIT_MEMLOCK) or memory is "
		       "too "
		       "small";
	case EMFILE:
	case ENFILE:
		return "io_uring is refused: too many open files";
	default:
		return "io_uring cannot be set up";
	}
}

static bool can_read(struct io_uring *ring)
{
	struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
	bool ok = probe && io_uring_opcode_supported(probe, IORING_OP_READ);

	io_uring_free_probe(probe);
	return ok;
}

int h2d_uring_open(struct h2d_uring *u, unsigned depth, const char **why,
		   const struct h2d_log *log)
{
	int rc;

	memset(u, 0, sizeof(*u));
	*why = NULL;
	if (!depth || depth > DEPTH_MAX)
		return h2d_fail(log, H2D_E_INVALID, "io_uring of %u entries", depth);
	rc = h2d_io->uring_init(depth, &u->ring, 0);
	if (rc) {
		*why = reason(-rc);
		return H2D_E_UNSUPPORTED;
	}
	if (!can_read(&u->ring)) {
		h2d_io->uring_exit(&u->ring);
		*why = "io_uring of this kernel cannot read (before 5.6)";
		return H2D_E_UNSUPPORTED;
	}
	u->depth = depth;
	return 0;
}

int h2d_uring_read(struct h2d_uring *u, int fd, void *dst, size_t bytes, uint64_t offset,
		   uint64_t user)
{
	struct io_uring_sqe *sqe;

	if (u->in_flight >= u->depth || bytes > READ_MAX_BYTES)
		return H2D_E_INVALID;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe) /* cannot be: the queue has `depth` entries */
		return H2D_E_INTERNAL;
	io_uring_prep_read(sqe, fd, dst, (unsigned)bytes, offset);
	io_uring_sqe_set_data64(sqe, user);
	u->in_flight++;
	return 0;
}

int h2d_uring_submit(struct h2d_uring *u, const struct h2d_log *log)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	unsigned busy = 0, interrupted = 0;

	while (io_uring_sq_ready(&u->ring)) {
		int n = h2d_io->uring_submit(&u->ring);

		if (n > 0)
			continue;
		if (n == -EINTR && ++interrupted < EINTR_MAX)
			continue;
		/* No memory for a request, or completions to be reaped first. */
		if ((!n || n == -EAGAIN || n == -EBUSY) && ++busy < BUSY_MAX) {
			nanosleep(&pause, NULL);
			continue;
		}
		return h2d_fail_errno(log, n ? -n : EIO, "io_uring: submitting reads");
	}
	return 0;
}

static void take(struct h2d_uring *u, struct io_uring_cqe *cqe, struct h2d_uring_done *done)
{
	done->user = io_uring_cqe_get_data64(cqe);
	done->result = cqe->res;
	io_uring_cqe_seen(&u->ring, cqe);
	u->in_flight--;
}

int h2d_uring_wait(struct h2d_uring *u, struct h2d_uring_done *done, const struct h2d_log *log)
{
	struct io_uring_cqe *cqe = NULL;
	unsigned interrupted = 0;
	int rc;

	if (!u->in_flight)
		return H2D_E_INVALID;
	rc = h2d_uring_submit(u, log);
	if (rc)
		return rc;
	do {
		rc = h2d_io->uring_wait(&u->ring, &cqe);
	} while ((rc == -EINTR || rc == -EAGAIN) && ++interrupted < EINTR_MAX);
	if (rc || !cqe)
		return h2d_fail_errno(log, rc ? -rc : EIO, "io_uring: waiting for a read");
	take(u, cqe, done);
	return 0;
}

int h2d_uring_peek(struct h2d_uring *u, struct h2d_uring_done *done, const struct h2d_log *log)
{
	struct io_uring_cqe *cqe = NULL;
	int rc;

	if (!u->in_flight)
		return 0;
	rc = h2d_io->uring_peek(&u->ring, &cqe);
	if (rc == -EAGAIN || rc == -EINTR || (!rc && !cqe))
		return 0;
	if (rc)
		return h2d_fail_errno(log, -rc, "io_uring: asking for a read");
	take(u, cqe, done);
	return 1;
}

unsigned h2d_uring_close(struct h2d_uring *u)
{
	struct h2d_uring_done done;
	unsigned left;

	if (!u->depth)
		return 0;
	/* What was queued and never submitted has not touched its buffer. */
	u->in_flight -= io_uring_sq_ready(&u->ring);
	while (u->in_flight) {
		struct io_uring_cqe *cqe = NULL;
		unsigned interrupted = 0;
		int rc;

		do {
			rc = h2d_io->uring_wait(&u->ring, &cqe);
		} while ((rc == -EINTR || rc == -EAGAIN) && ++interrupted < EINTR_MAX);
		if (rc || !cqe)
			break;
		take(u, cqe, &done);
	}
	left = u->in_flight;
	h2d_io->uring_exit(&u->ring);
	memset(u, 0, sizeof(*u));
	return left;
}
