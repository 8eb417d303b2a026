/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests of any sense, and what must hold whatever became of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fuzz.h"

enum {
	LOG_ENTRIES = 24,
	CANARY = 0x5a,
	TIMEOUT_MS_USUAL = 8,
	RESTARTS_USUAL = 40,
};

const int fuzz_errnos[FUZZ_ERRNOS] = {0,      EINVAL, EFAULT,	       EINTR,
				      ENODEV, ENOTTY, EPROTONOSUPPORT, ENOMEM};
const int fuzz_codes[FUZZ_CODES] = {0, -EAGAIN, -EFAULT, -EPERM, -EINTR};

void fuzz_violation(struct fuzz_shared *shared, const char *fmt, ...)
{
	va_list args;

	if (atomic_fetch_add(&shared->violations, 1))
		return;
	va_start(args, fmt);
	vsnprintf(shared->first_violation, sizeof(shared->first_violation), fmt, args);
	va_end(args);
}

/* True when the range lies in one of our mappings, and may be written to. */
static bool choose_range(struct fuzz_random *r, const struct fuzz_map *maps, unsigned count,
			 struct h2d_hmm_copy_source *q)
{
	const struct fuzz_map *m;
	uint64_t first;

	if (!count || fuzz_one_in(r, 12)) {
		/* Anything at all, biased to what is special about 64-bit addresses. */
		q->address = fuzz_next(r) >> fuzz_below(r, 64);
		if (fuzz_one_in(r, 2))
			q->address = -q->address;
		q->length = fuzz_next(r) >> fuzz_below(r, 64);
		if (!fuzz_one_in(r, 4)) {
			q->address &= -(uint64_t)PAGE;
			q->length &= -(uint64_t)PAGE;
		}
		return false;
	}
	if (fuzz_one_in(r, 10) && fuzz_any_range(r, &q->address, &q->length))
		return false;
	m = &maps[fuzz_below(r, count)];
	first = fuzz_one_in(r, 2) ? 0 : fuzz_below(r, m->bytes / PAGE);
	q->address = (uintptr_t)m->address + first * PAGE;
	q->length = m->bytes - first * PAGE;
	if (fuzz_one_in(r, 3))
		q->length = (1 + fuzz_below(r, q->length / PAGE)) * PAGE;
	if (fuzz_one_in(r, 10))
		q->length += SPAN;
	return true;
}

/* A request that is in order, but for its range. */
static void choose_fields(struct fuzz_random *r, const struct h2d_hmm *hmm,
			  struct h2d_hmm_copy_source *q)
{
	q->policy = (uint32_t)(1 + fuzz_below(r, 3));
	q->permission = (uint32_t)(1 + fuzz_below(r, 2));
	q->access = (uint32_t)(1 + fuzz_below(r, 2));
	q->timeout_ms = (uint32_t)(1 + fuzz_below(r, TIMEOUT_MS_USUAL));
	if (fuzz_one_in(r, 200))
		q->timeout_ms = 0;
	q->restart_max = (uint32_t)fuzz_below(r, fuzz_one_in(r, 3) ? 3 : RESTARTS_USUAL);
	if (hmm->facts.driver_state == H2D_HMM_DRIVER_READY ? fuzz_one_in(r, 3)
							    : fuzz_one_in(r, 30))
		h2d_hmm_request_shipped(q);
}

/* One field out of order. */
static void spoil(struct fuzz_random *r, struct h2d_hmm_copy_source *q)
{
	uint32_t *words = (uint32_t *)q;
	const size_t inputs = offsetof(struct h2d_hmm_copy_source, attempt_log_count) / 4;
	size_t at = fuzz_below(r, inputs);

	words[at] = (uint32_t)(fuzz_next(r) >> fuzz_below(r, 64));
}

static void check_outputs(struct fuzz_shared *shared, const struct h2d_hmm_copy_source *before,
			  const struct h2d_hmm_copy_source *q)
{
	const uint64_t pages = q->length / PAGE;
	uint64_t sum = 0;

	for (int i = 0; i < H2D_HMM_EVENT_COUNT; i++)
		sum += q->callbacks_by_event[i];
	for (size_t i = 0; i < sizeof(q->reserved_out) / sizeof(*q->reserved_out); i++)
		if (q->reserved_out[i])
			fuzz_violation(shared, "reserved_out[%zu] is %llu", i,
				       q->reserved_out[i]);
	if (memcmp(q, before, offsetof(struct h2d_hmm_copy_source, attempt_log_count)))
		fuzz_violation(shared, "an input was changed");
	if (sum != q->callbacks || q->callbacks_foreign > sum)
		fuzz_violation(shared, "%llu callbacks, %llu by event", q->callbacks,
			       (unsigned long long)sum);
	if (q->spans_invalidated > q->spans_touched || q->pfns_writable > q->pfns_valid ||
	    q->pfns_valid > pages || q->fault_ebusy > q->fault_calls ||
	    q->restarts > q->restart_max || q->attempt_log_count > q->attempt_log_capacity)
		fuzz_violation(shared, "a part exceeds its whole");
	if (!q->last_code && !q->ended && q->pfns_valid != pages)
		fuzz_violation(shared, "done with %llu of %llu pages", q->pfns_valid,
			       (unsigned long long)pages);
	if (!q->last_code && q->access == H2D_HMM_ACCESS_WRITE && !q->ended &&
	    q->permission == H2D_HMM_PERMISSION_ACCESS && q->pfns_writable != pages)
		fuzz_violation(shared, "write access with read-only pages");
}

static void count(struct fuzz_shared *shared, int err, const struct h2d_hmm_copy_source *q)
{
	atomic_fetch_add(&shared->requests, 1);
	for (int i = 0; i < FUZZ_ERRNOS; i++)
		if (fuzz_errnos[i] == err)
			atomic_fetch_add(&shared->by_errno[i], 1);
	if (err)
		return;
	for (int i = 0; i < FUZZ_CODES; i++)
		if (fuzz_codes[i] == q->last_code)
			atomic_fetch_add(&shared->by_code[i], 1);
	atomic_fetch_add(&shared->windows, q->windows);
	atomic_fetch_add(&shared->callbacks, q->callbacks);
	atomic_fetch_add(&shared->foreign, q->callbacks_foreign);
	atomic_fetch_add(&shared->shipped, q->driver == H2D_HMM_DRIVER_SHIPPED);
}

static bool is_known(int err)
{
	for (int i = 0; i < FUZZ_ERRNOS; i++)
		if (fuzz_errnos[i] == err)
			return true;
	return false;
}

/* The structure itself in memory that others may be taking away. */
static void request_in_range(struct fuzz_random *r, struct fuzz_shared *shared, int fd,
			     const struct fuzz_map *m, const struct h2d_hmm_copy_source *q)
{
	char *at = m->address + fuzz_below(r, m->bytes - sizeof(*q));
	struct iovec from = {(void *)q, sizeof(*q)}, to = {at, sizeof(*q)};
	int err;

	process_vm_writev(getpid(), &from, 1, &to, 1, 0);
	err = ioctl(fd, H2D_HMM_IOCTL_COPY_SOURCE, at) ? errno : 0;
	atomic_fetch_add(&shared->requests, 1);
	if (!is_known(err))
		fuzz_violation(shared, "errno %d", err);
}

void fuzz_request(struct fuzz_random *r, struct fuzz_shared *shared, const struct h2d_hmm *hmm,
		  const struct fuzz_map *maps, unsigned map_count)
{
	struct h2d_hmm_attempt log[LOG_ENTRIES + 1];
	struct h2d_hmm_copy_source before, q;
	unsigned char canary[sizeof(*log)];
	bool ours;
	int err;

	if (fuzz_one_in(r, 50)) { /* not even one of our commands */
		ioctl(hmm->fd, (unsigned long)fuzz_next(r), (uintptr_t)&q);
		ioctl(hmm->fd, H2D_HMM_IOCTL_QUERY, (uintptr_t)fuzz_next(r) | 1ULL << 63);
	}
	h2d_hmm_request_init(&q, NULL, PAGE);
	choose_fields(r, hmm, &q);
	ours = choose_range(r, maps, map_count, &q);
	if (fuzz_one_in(r, 2)) {
		q.attempt_log_capacity = (uint32_t)(1 + fuzz_below(r, LOG_ENTRIES));
		q.attempt_log = (uintptr_t)log;
	}
	if (fuzz_one_in(r, 4))
		spoil(r, &q);
	if (q.timeout_ms > 10 * TIMEOUT_MS_USUAL)
		q.timeout_ms |= 1 << 31; /* refused; seconds of spinning teach nothing */
	/* A log where the kernel may write: our own, or the range where that is a mapping. */
	if (ours && q.attempt_log && fuzz_one_in(r, 8))
		q.attempt_log = q.address;
	else if (q.attempt_log &&
		 (q.attempt_log != (uintptr_t)log || q.attempt_log_capacity > LOG_ENTRIES))
		q.attempt_log |= 1ULL << 63;
	if (map_count && fuzz_one_in(r, 16)) {
		request_in_range(r, shared, hmm->fd, &maps[fuzz_below(r, map_count)], &q);
		return;
	}
	memset(log, CANARY, sizeof(log));
	memset(canary, CANARY, sizeof(canary));
	memset(q.callbacks_by_event, CANARY, sizeof(q.callbacks_by_event));
	before = q;
	err = ioctl(hmm->fd, H2D_HMM_IOCTL_COPY_SOURCE, &q) ? errno : 0;
	count(shared, err, &q);
	if (!is_known(err))
		fuzz_violation(shared, "errno %d", err);
	if (!err || err == EINTR)
		check_outputs(shared, &before, &q);
	else if (memcmp(&before, &q, sizeof(q)))
		fuzz_violation(shared, "written although errno %d", err);
	if (q.attempt_log == (uintptr_t)log &&
	    memcmp(&log[err && err != EINTR ? 0 : q.attempt_log_count], canary, sizeof(canary)))
		fuzz_violation(shared, "log written behind its end");
}
