/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "device/engine_thread_i.h"

/* Enough for any copy that is not stuck, when another one was. */
#define LOST_PATIENCE_NS 100000000ull

/* A copy when `event` is NULL, else the mark of that event. */
struct op {
	struct h2d_event *event;
	uint64_t record; /* which recording of the event */
	void *dst;
	const void *src;
	uint64_t bytes, rows, dst_pitch, src_pitch;
};

/* What a stream really is. Held by the stream, its wrappers, its thread and by events recorded
 * in it, since any of these may be the last to go. */
struct queue {
	_Atomic unsigned refs;
	struct h2d_soft *soft;
	pthread_mutex_t lock;
	pthread_cond_t work; /* for the thread */
	pthread_cond_t room; /* for producers and for destroy */
	struct op *ops;	     /* ring; the one that runs stays at `head` until it is done */
	unsigned head, count;
	unsigned waiting; /* on `room` */
	bool started, idle, busy, stop, abandoned, ended;
	pthread_t thread;
	int error;	  /* of a failed copy that nobody has seen yet */
	uint64_t failure; /* number of the failure that set it */
};

struct h2d_stream {
	struct h2d_device *dev;
	struct queue *q;
	bool owner;
	struct h2d_stream *next; /* in soft->streams */
};

struct h2d_event {
	_Atomic unsigned refs;
	pthread_mutex_t lock;
	pthread_cond_t done;
	struct queue *q; /* of the last recording */
	uint64_t record; /* number of the last recording */
	bool pending;
	int status;	  /* of that recording, once it is not pending */
	uint64_t failure; /* that gave `status` */
};

static void queue_unref(struct queue *q)
{
	if (!q || atomic_fetch_sub(&q->refs, 1) != 1)
		return;
	pthread_cond_destroy(&q->work);
	pthread_cond_destroy(&q->room);
	pthread_mutex_destroy(&q->lock);
	h2d_soft_release(q->soft);
	free(q->ops);
	free(q);
}

static void event_unref(struct h2d_event *e)
{
	if (atomic_fetch_sub(&e->refs, 1) != 1)
		return;
	queue_unref(e->q);
	pthread_cond_destroy(&e->done);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

/* One recording of an event was reached. Drops the operation's hold on the event. */
static void event_reached(struct h2d_event *e, uint64_t record, int status, uint64_t failure)
{
	pthread_mutex_lock(&e->lock);
	if (e->pending && e->record == record) {
		e->pending = false;
		e->status = status;
		e->failure = failure;
		pthread_cond_broadcast(&e->done);
	}
	pthread_mutex_unlock(&e->lock);
	event_unref(e);
}

/* ---- the copy thread */

static int run_copy(struct h2d_soft *soft, const struct op *op)
{
	int rc = h2d_soft_apply_fault(soft);

	for (uint64_t row = 0; row < op->rows && !rc; row++)
		rc = soft->move(soft->ctx, (char *)op->dst + row * op->dst_pitch,
				(const char *)op->src + row * op->src_pitch, op->bytes);
	atomic_fetch_add_explicit(&soft->copy_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&soft->copy_bytes, op->rows * op->bytes,
				  memory_order_relaxed);
	if (rc)
		atomic_fetch_add_explicit(&soft->failed_count, 1, memory_order_relaxed);
	return rc;
}

static void *copy_thread(void *arg)
{
	struct queue *q = arg;

	pthread_setname_np(pthread_self(), "h2d-copy");
	pthread_mutex_lock(&q->lock);
	for (;;) {
		struct op op;
		int error, rc = 0;
		uint64_t failure;

		q->idle = true;
		while (!q->count && !q->stop)
			pthread_cond_wait(&q->work, &q->lock);
		q->idle = false;
		if (!q->count || q->abandoned)
			break;
		op = q->ops[q->head];
		error = q->error;
		failure = q->failure;
		q->busy = true;
		pthread_mutex_unlock(&q->lock);

		if (op.event)
			event_reached(op.event, op.record, error, failure);
		else
			rc = run_copy(q->soft, &op);

		pthread_mutex_lock(&q->lock);
		q->busy = false;
		if (rc && !q->error) {
			q->error = rc;
			q->failure++;
		}
		q->head = (q->head + 1) % H2D_SOFT_QUEUE_MAX;
		q->count--;
		if (q->waiting)
			pthread_cond_broadcast(&q->room);
	}
	q->ended = true;
	pthread_cond_broadcast(&q->room);
	pthread_mutex_unlock(&q->lock);
	h2d_soft_thread_ended(q->soft);
	queue_unref(q);
	return NULL;
}

/* Under the queue's lock. */
static int start_thread(struct queue *q)
{
	int err;

	atomic_fetch_add(&q->refs, 1);
	atomic_fetch_add(&q->soft->thread_count, 1);
	err = h2d_mem->thread_create(&q->thread, copy_thread, q);
	if (err) {
		h2d_soft_thread_ended(q->soft);
		atomic_fetch_sub(&q->refs, 1);
		return h2d_fail(&q->soft->log, H2D_E_NOMEM,
				"device: a copy thread cannot be started: error %d", err);
	}
	atomic_fetch_add(&q->soft->thread_total, 1);
	q->started = true;
	return 0;
}

/* Under the queue's lock, which is left while waiting. */
static int wait_for_room(struct queue *q, struct h2d_device *dev)
{
	struct timespec until;
	int err = 0;

	if (q->count < H2D_SOFT_QUEUE_MAX)
		return 0;
	until = h2d_deadline(dev->copy_timeout_ns);
	q->waiting++;
	while (q->count == H2D_SOFT_QUEUE_MAX && !q->stop && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&q->room, &q->lock, &until);
	q->waiting--;
	if (q->count < H2D_SOFT_QUEUE_MAX)
		return 0;
	atomic_store(&dev->lost, 1);
	return h2d_fail(&dev->log, H2D_E_DEVICE_LOST,
			"%s: %d copies wait and none completed in time", dev->facts.name,
			H2D_SOFT_QUEUE_MAX);
}

static int push(struct h2d_stream *s, const struct op *op)
{
	struct queue *q = s->q;
	int rc;

	pthread_mutex_lock(&q->lock);
	rc = wait_for_room(q, s->dev);
	if (!rc && q->stop)
		rc = q->abandoned ? H2D_E_DEVICE_LOST : H2D_E_INVALID;
	if (!rc && !q->started)
		rc = start_thread(q);
	if (!rc) {
		q->ops[(q->head + q->count) % H2D_SOFT_QUEUE_MAX] = *op;
		q->count++;
		if (q->idle)
			pthread_cond_signal(&q->work);
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

/* ---- streams */

static struct queue *queue_create(struct h2d_soft *soft)
{
	struct queue *q = h2d_mem->calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->ops = h2d_mem->calloc(H2D_SOFT_QUEUE_MAX, sizeof(*q->ops));
	if (!q->ops) {
		free(q);
		return NULL;
	}
	atomic_store(&q->refs, 1);
	pthread_mutex_init(&q->lock, NULL);
	h2d_cond_init(&q->work);
	h2d_cond_init(&q->room);
	h2d_soft_ref(soft);
	q->soft = soft;
	return q;
}

int h2d_soft_stream_create(struct h2d_device *dev, struct h2d_stream **out)
{
	struct h2d_soft *soft = dev->priv;
	struct h2d_stream *s = h2d_mem->calloc(1, sizeof(*s));

	*out = NULL;
	if (s)
		s->q = queue_create(soft);
	if (!s || !s->q) {
		free(s);
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory for a stream",
				dev->facts.name);
	}
	s->dev = dev;
	s->owner = true;
	pthread_mutex_lock(&soft->lock);
	s->next = soft->streams;
	soft->streams = s;
	pthread_mutex_unlock(&soft->lock);
	atomic_fetch_add(&soft->stream_count, 1);
	*out = s;
	return 0;
}

int h2d_soft_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out)
{
	struct h2d_stream *s = h2d_mem->calloc(1, sizeof(*s)), *known;
	struct h2d_soft *soft = dev->priv;

	*out = NULL;
	if (!s)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory for a stream",
				dev->facts.name);
	pthread_mutex_lock(&soft->lock);
	for (known = soft->streams; known && known != native; known = known->next)
		;
	if (known) {
		s->dev = dev;
		s->q = known->q;
		atomic_fetch_add(&s->q->refs, 1);
	}
	pthread_mutex_unlock(&soft->lock);
	if (!known) {
		free(s);
		return h2d_fail(&dev->log, H2D_E_INVALID, "%s: not a stream of this device",
				dev->facts.name);
	}
	*out = s;
	return 0;
}

/* How long a stream may take to finish what is under way. */
static uint64_t patience_ns(struct h2d_device *dev)
{
	if (atomic_load(&dev->lost) && dev->copy_timeout_ns > LOST_PATIENCE_NS)
		return LOST_PATIENCE_NS;
	return dev->copy_timeout_ns;
}

/* Stop the thread. Under the queue's lock. @return whether it ended in time */
static bool stop_thread(struct queue *q, struct h2d_device *dev)
{
	struct timespec until = h2d_deadline(patience_ns(dev));
	int err = 0;

	q->stop = true;
	pthread_cond_signal(&q->work);
	if (q->waiting)
		pthread_cond_broadcast(&q->room);
	while (q->started && !q->ended && !(q->count && err == ETIMEDOUT)) {
		/* A thread with nothing to do ends for certain, however busy the machine is. */
		err = q->count ? pthread_cond_timedwait(&q->room, &q->lock, &until)
			       : pthread_cond_wait(&q->room, &q->lock);
	}
	return !q->started || q->ended;
}

/* Leave a stuck thread behind: throw away what waits. Under the queue's lock, which is left. */
static void abandon(struct queue *q)
{
	q->abandoned = true;
	while (q->count > (q->busy ? 1u : 0u)) {
		struct op op = q->ops[(q->head + --q->count) % H2D_SOFT_QUEUE_MAX];

		if (!op.event)
			continue;
		pthread_mutex_unlock(&q->lock);
		event_reached(op.event, op.record, H2D_E_DEVICE_LOST, 0);
		pthread_mutex_lock(&q->lock);
	}
}

static void unlink_stream(struct h2d_soft *soft, struct h2d_stream *s)
{
	struct h2d_stream **at;

	pthread_mutex_lock(&soft->lock);
	for (at = &soft->streams; *at && *at != s; at = &(*at)->next)
		;
	if (*at)
		*at = s->next;
	pthread_mutex_unlock(&soft->lock);
	atomic_fetch_sub(&soft->stream_count, 1);
}

void h2d_soft_stream_destroy(struct h2d_device *dev, struct h2d_stream *s)
{
	struct queue *q;
	bool ended;

	if (!s)
		return;
	q = s->q;
	if (s->owner) {
		unlink_stream(q->soft, s);
		pthread_mutex_lock(&q->lock);
		ended = stop_thread(q, dev);
		if (!ended)
			abandon(q);
		pthread_mutex_unlock(&q->lock);
		if (!ended) {
			atomic_store(&dev->lost, 1);
			h2d_log_line(&dev->log, H2D_LOG_WARNING,
				     "%s: a copy never completed; its thread is left behind",
				     dev->facts.name);
			pthread_detach(q->thread);
		} else if (q->started) {
			pthread_join(q->thread, NULL);
		}
	}
	queue_unref(q);
	free(s);
}

/* ---- copies */

int h2d_soft_copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct op op = {.dst = dst, .src = src, .bytes = bytes, .rows = 1};

	return bytes ? push(s, &op) : 0;
}

int h2d_soft_copy_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch, const void *src,
		     uint64_t src_pitch, uint64_t row_bytes, uint64_t rows)
{
	struct op op = {.dst = dst,
			.src = src,
			.bytes = row_bytes,
			.rows = rows,
			.dst_pitch = dst_pitch,
			.src_pitch = src_pitch};
	uint64_t span;

	if (!row_bytes || !rows)
		return 0;
	if (rows > 1 && (dst_pitch < row_bytes || src_pitch < row_bytes))
		return H2D_E_INVALID;
	if (!h2d_mul_u64(dst_pitch, rows, &span) || span > SIZE_MAX ||
	    !h2d_mul_u64(src_pitch, rows, &span) || span > SIZE_MAX)
		return H2D_E_INVALID;
	if (dst_pitch == row_bytes && src_pitch == row_bytes) {
		op.bytes *= rows;
		op.rows = 1;
	}
	return push(s, &op);
}

/* ---- events */

int h2d_soft_event_create(struct h2d_device *dev, struct h2d_event **out)
{
	struct h2d_soft *soft = dev->priv;
	struct h2d_event *e = h2d_mem->calloc(1, sizeof(*e));

	*out = e;
	if (!e)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory for an event",
				dev->facts.name);
	atomic_store(&e->refs, 1);
	pthread_mutex_init(&e->lock, NULL);
	h2d_cond_init(&e->done);
	atomic_fetch_add(&soft->event_count, 1);
	return 0;
}

void h2d_soft_event_destroy(struct h2d_device *dev, struct h2d_event *e)
{
	struct h2d_soft *soft = dev->priv;

	if (!e)
		return;
	atomic_fetch_sub(&soft->event_count, 1);
	event_unref(e);
}

/* The place is reached already when nothing is under way. Under the queue's lock. */
static bool nothing_under_way(struct queue *q, int *error, uint64_t *failure)
{
	*error = q->error;
	*failure = q->failure;
	return !q->count && !q->stop;
}

int h2d_soft_event_record(struct h2d_event *e, struct h2d_stream *s)
{
	struct op op = {.event = e};
	struct queue *q = s->q, *old;
	uint64_t failure;
	bool reached;
	int error, rc = 0;

	atomic_fetch_add(&q->refs, 1);
	atomic_fetch_add(&e->refs, 1); /* of the operation */
	pthread_mutex_lock(&e->lock);
	old = e->q;
	e->q = q;
	e->pending = true;
	op.record = ++e->record;
	pthread_mutex_unlock(&e->lock);
	queue_unref(old);

	pthread_mutex_lock(&q->lock);
	reached = nothing_under_way(q, &error, &failure);
	pthread_mutex_unlock(&q->lock);
	if (!reached) {
		rc = push(s, &op);
		error = rc;
		failure = 0;
	}
	if (reached || rc)
		event_reached(e, op.record, error, failure);
	return rc;
}

/* The failure was seen: later events of the stream start afresh. */
static void forget_failure(struct queue *q, uint64_t failure)
{
	pthread_mutex_lock(&q->lock);
	if (q->error && q->failure == failure)
		q->error = 0;
	pthread_mutex_unlock(&q->lock);
}

int h2d_soft_event_wait(struct h2d_event *e, uint64_t timeout_ns)
{
	struct timespec until = {0};
	struct queue *seen = NULL;
	uint64_t failure;
	int rc, err = 0;

	pthread_mutex_lock(&e->lock);
	if (e->pending && timeout_ns)
		until = h2d_deadline(timeout_ns);
	while (e->pending && timeout_ns && err != ETIMEDOUT)
		err = pthread_cond_timedwait(&e->done, &e->lock, &until);
	rc = e->pending ? H2D_E_DEVICE_LOST : e->status;
	failure = e->failure;
	if (!e->pending && rc && failure) {
		seen = e->q;
		atomic_fetch_add(&seen->refs, 1);
	}
	pthread_mutex_unlock(&e->lock);
	if (seen) {
		forget_failure(seen, failure);
		queue_unref(seen);
	}
	return rc;
}

int h2d_soft_event_query(struct h2d_event *e)
{
	bool pending;
	int rc;

	pthread_mutex_lock(&e->lock);
	pending = e->pending;
	pthread_mutex_unlock(&e->lock);
	if (pending)
		return 0;
	rc = h2d_soft_event_wait(e, 0);
	return rc ? rc : 1;
}
