/* SPDX-License-Identifier: Apache-2.0 */
/** @file engine_thread_i.h  What engine_thread.c and soft.c share. */
#ifndef H2D_DEVICE_ENGINE_THREAD_I_H
#define H2D_DEVICE_ENGINE_THREAD_I_H

#include <time.h>

#include "device/engine_thread.h"

struct h2d_soft {
	_Atomic unsigned refs;
	struct h2d_log log;
	h2d_soft_move_fn move;
	void *ctx;
	void (*ctx_free)(void *ctx);

	pthread_mutex_t lock;	    /* of what follows */
	pthread_cond_t change;	    /* a fault was released, a copy hangs, a thread ended */
	struct h2d_stream *streams; /* owners, for stream_wrap() */
	struct h2d_copy_fault fault;
	uint64_t fault_copies; /* since the fault was set */
	uint64_t release_count;

	_Atomic bool fault_armed;
	_Atomic uint64_t copy_count, copy_bytes, failed_count;
	_Atomic uint64_t stream_count, thread_count, thread_total, event_count, hanging_count;
	_Atomic uint64_t alloc_count, alloc_bytes, host_alloc_count, host_alloc_bytes;
};

void h2d_soft_ref(struct h2d_soft *soft);
/* Before a copy moves anything: 0, or the status it shall fail with. May take its time. */
int h2d_soft_apply_fault(struct h2d_soft *soft);
void h2d_soft_thread_ended(struct h2d_soft *soft);

/* Condition variables that time waits by CLOCK_MONOTONIC. */
void h2d_cond_init(pthread_cond_t *c);
struct timespec h2d_deadline(uint64_t timeout_ns);

#endif
