/* SPDX-License-Identifier: Apache-2.0 */
/* The software runtime itself: its life, its accounts, and the faults that tests put into it.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/mem.h"
#include "device/engine_thread_i.h"
#include "device/hostmem.h"

void h2d_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

struct timespec h2d_deadline(uint64_t timeout_ns)
{
	const uint64_t most = (uint64_t)1 << 61; /* seventy years: for ever, and no overflow */
	uint64_t at = h2d_now_ns() + (timeout_ns < most ? timeout_ns : most);

	return (struct timespec){.tv_sec = (time_t)(at / 1000000000u),
				 .tv_nsec = (long)(at % 1000000000u)};
}

int h2d_soft_create(const struct h2d_log *log, h2d_soft_move_fn move, void *ctx,
		    void (*ctx_free)(void *ctx), struct h2d_soft **out)
{
	struct h2d_soft *soft = h2d_mem->calloc(1, sizeof(*soft));

	if (!soft)
		return h2d_fail(log, H2D_E_NOMEM, "device: out of memory");
	atomic_store(&soft->refs, 1);
	soft->log = *log;
	soft->move = move;
	soft->ctx = ctx;
	soft->ctx_free = ctx_free;
	pthread_mutex_init(&soft->lock, NULL);
	h2d_cond_init(&soft->change);
	*out = soft;
	return 0;
}

void h2d_soft_ref(struct h2d_soft *soft)
{
	atomic_fetch_add(&soft->refs, 1);
}

void h2d_soft_release(struct h2d_soft *soft)
{
	if (!soft || atomic_fetch_sub(&soft->refs, 1) != 1)
		return;
	if (soft->ctx_free)
		soft->ctx_free(soft->ctx);
	pthread_cond_destroy(&soft->change);
	pthread_mutex_destroy(&soft->lock);
	free(soft);
}

struct h2d_soft *h2d_soft_hold(struct h2d_device *dev)
{
	h2d_soft_ref(dev->priv);
	return dev->priv;
}

void *h2d_soft_context(struct h2d_soft *soft)
{
	return soft->ctx;
}

void h2d_copy_fault_set(struct h2d_device *dev, const struct h2d_copy_fault *fault)
{
	struct h2d_soft *soft = dev->priv;

	pthread_mutex_lock(&soft->lock);
	soft->fault = fault ? *fault : (struct h2d_copy_fault){.kind = H2D_COPY_FAULT_NONE};
	soft->fault_copies = 0;
	atomic_store(&soft->fault_armed, soft->fault.kind != H2D_COPY_FAULT_NONE);
	pthread_mutex_unlock(&soft->lock);
}

void h2d_copy_fault_release(struct h2d_soft *soft)
{
	pthread_mutex_lock(&soft->lock);
	soft->release_count++;
	pthread_cond_broadcast(&soft->change);
	pthread_mutex_unlock(&soft->lock);
}

/* Under `lock`. @return whether it was released before the time came */
static bool hold_copy(struct h2d_soft *soft, uint64_t ns)
{
	struct timespec until = h2d_deadline(ns);
	uint64_t released = soft->release_count;

	atomic_fetch_add(&soft->hanging_count, 1);
	pthread_cond_broadcast(&soft->change);
	while (released == soft->release_count &&
	       pthread_cond_timedwait(&soft->change, &soft->lock, &until) != ETIMEDOUT)
		;
	atomic_fetch_sub(&soft->hanging_count, 1);
	return released != soft->release_count;
}

int h2d_soft_apply_fault(struct h2d_soft *soft)
{
	struct h2d_copy_fault f;
	uint64_t n;
	int rc = 0;

	if (!atomic_load_explicit(&soft->fault_armed, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&soft->lock);
	f = soft->fault;
	n = ++soft->fault_copies;
	if (n < f.first || (f.count && n - f.first >= f.count))
		f.kind = H2D_COPY_FAULT_NONE;
	switch (f.kind) {
	case H2D_COPY_FAULT_NONE:
		break;
	case H2D_COPY_FAULT_FAIL:
		rc = f.status;
		break;
	case H2D_COPY_FAULT_HANG:
		hold_copy(soft, UINT64_MAX);
		rc = H2D_E_DEVICE_LOST;
		break;
	case H2D_COPY_FAULT_DELAY:
		rc = hold_copy(soft, f.delay_ns) ? H2D_E_DEVICE_LOST : 0;
		break;
	}
	pthread_mutex_unlock(&soft->lock);
	return rc;
}

void h2d_soft_thread_ended(struct h2d_soft *soft)
{
	pthread_mutex_lock(&soft->lock);
	atomic_fetch_sub(&soft->thread_count, 1);
	pthread_cond_broadcast(&soft->change);
	pthread_mutex_unlock(&soft->lock);
}

/* Wait until `*value` is at least (or at most) `n`. */
static bool wait_count(struct h2d_soft *soft, _Atomic uint64_t *value, uint64_t n,
		       bool at_least, uint64_t timeout_ns)
{
	struct timespec until = h2d_deadline(timeout_ns);
	bool ok, in_time = true;

	pthread_mutex_lock(&soft->lock);
	for (;;) {
		uint64_t v = atomic_load(value);

		ok = at_least ? v >= n : v <= n;
		if (ok || !in_time)
			break;
		in_time =
			pthread_cond_timedwait(&soft->change, &soft->lock, &until) != ETIMEDOUT;
	}
	pthread_mutex_unlock(&soft->lock);
	return ok;
}

bool h2d_soft_wait_hanging(struct h2d_soft *soft, uint64_t n, uint64_t timeout_ns)
{
	return wait_count(soft, &soft->hanging_count, n, true, timeout_ns);
}

bool h2d_soft_wait_threads(struct h2d_soft *soft, uint64_t n, uint64_t timeout_ns)
{
	return wait_count(soft, &soft->thread_count, n, false, timeout_ns);
}

int h2d_soft_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	*out = h2d_hostmem_alloc(bytes);
	if (!*out)
		return h2d_fail_errno(&dev->log, errno, "%s: %llu bytes of staging memory",
				      dev->facts.name, (unsigned long long)bytes);
	h2d_soft_account(dev->priv, true, 1, bytes);
	return 0;
}

void h2d_soft_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	if (!p)
		return;
	h2d_hostmem_free(p, bytes);
	h2d_soft_account(dev->priv, true, -1, bytes);
}

void h2d_soft_account(struct h2d_soft *soft, bool host, int count, uint64_t bytes)
{
	uint64_t sign = count < 0 ? UINT64_MAX : 1; /* wraps to a subtraction */

	atomic_fetch_add(host ? &soft->host_alloc_count : &soft->alloc_count, sign);
	atomic_fetch_add(host ? &soft->host_alloc_bytes : &soft->alloc_bytes, sign * bytes);
}

void h2d_soft_count(struct h2d_soft *soft, struct h2d_soft_counts *out)
{
	*out = (struct h2d_soft_counts){
		.copy_count = atomic_load(&soft->copy_count),
		.copy_bytes = atomic_load(&soft->copy_bytes),
		.failed_count = atomic_load(&soft->failed_count),
		.stream_count = atomic_load(&soft->stream_count),
		.thread_count = atomic_load(&soft->thread_count),
		.thread_total = atomic_load(&soft->thread_total),
		.event_count = atomic_load(&soft->event_count),
		.hanging_count = atomic_load(&soft->hanging_count),
		.alloc_count = atomic_load(&soft->alloc_count),
		.alloc_bytes = atomic_load(&soft->alloc_bytes),
		.host_alloc_count = atomic_load(&soft->host_alloc_count),
		.host_alloc_bytes = atomic_load(&soft->host_alloc_bytes),
	};
}
