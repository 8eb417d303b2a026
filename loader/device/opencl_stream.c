/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, copies and events of OpenCL.
 *
 * A stream is a command queue, in order unless it is a caller's. An event of ours is a marker
 * command together with the events of the copies in front of it: the marker says when, the
 * copies say how it went, each with a status of its own. The driver calls back when the marker
 * has ended, which is what waits with a timeout hang on; what it calls back to outlives our
 * event, since a command that never ends may call much later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/clock.h"
#include "core/mem.h"
#include "device/engine_thread_i.h"
#include "device/opencl.h"

/* How often a driver is asked that has not called back. */
#define ASK_NS UINT64_C(10000000)

struct h2d_stream {
	struct h2d_device *dev;
	h2d_cl_queue queue;
	pthread_mutex_t lock; /* enqueueing, and what follows */
	h2d_cl_event *copies; /* since the last mark */
	size_t count, cap;
};

/* What a marker calls back to. */
struct mark {
	_Atomic unsigned refs;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	bool done;
	int32_t code;
};

struct h2d_event {
	struct h2d_device *dev;
	struct mark *mark; /* NULL: never recorded, or seen: then `result` */
	h2d_cl_event marker;
	h2d_cl_event *copies;
	size_t count;
	int result;
};

static struct h2d_opencl_api *api_of(const struct h2d_device *dev)
{
	return &((struct h2d_opencl *)dev->priv)->api;
}

/* ---------------------------------------------------------------- streams */

static int stream_new(struct h2d_device *dev, h2d_cl_queue queue, struct h2d_stream **out)
{
	struct h2d_stream *s = h2d_mem->calloc(1, sizeof(*s));

	if (!s) {
		api_of(dev)->clReleaseCommandQueue(queue);
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory", dev->facts.name);
	}
	s->dev = dev;
	s->queue = queue;
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

int h2d_opencl_stream_create(struct h2d_device *dev, struct h2d_stream **out)
{
	struct h2d_opencl *ocl = dev->priv;
	h2d_cl_queue queue;
	int32_t code;

	*out = NULL;
	queue = ocl->api.clCreateCommandQueue(ocl->context, ocl->device, 0, &code);
	if (!queue)
		return h2d_opencl_fail(dev, code, "clCreateCommandQueue");
	return stream_new(dev, queue, out);
}

int h2d_opencl_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out)
{
	struct h2d_opencl *ocl = dev->priv;
	h2d_cl_context context = NULL;
	int32_t code;

	*out = NULL;
	code = ocl->api.clGetCommandQueueInfo(native, OCL_QUEUE_CONTEXT, sizeof(context),
					      &context, NULL);
	if (code)
		return h2d_opencl_fail(dev, code,
				       "clGetCommandQueueInfo of the caller's queue");
	if (context != ocl->context)
		return h2d_fail(&dev->log, H2D_E_INVALID,
				"%s: the caller's queue is of another context: open the device "
				"with that context",
				dev->facts.name);
	code = ocl->api.clRetainCommandQueue(native);
	if (code)
		return h2d_opencl_fail(dev, code, "clRetainCommandQueue");
	return stream_new(dev, native, out);
}

/* Of a lost device nothing is given back: its driver may still have use for it. */
static void release_events(const struct h2d_device *dev, h2d_cl_event *events, size_t count)
{
	if (atomic_load(&dev->lost))
		return;
	for (size_t i = 0; i < count; i++)
		api_of(dev)->clReleaseEvent(events[i]);
}

void h2d_opencl_stream_destroy(struct h2d_device *dev, struct h2d_stream *s)
{
	if (!s)
		return;
	release_events(dev, s->copies, s->count);
	/* A driver may wait for a queue that it destroys, and this one would be for ever. */
	if (!atomic_load(&dev->lost))
		api_of(dev)->clReleaseCommandQueue(s->queue);
	pthread_mutex_destroy(&s->lock);
	free(s->copies);
	free(s);
}

/* ---------------------------------------------------------------- copies */

static int32_t status_of(const struct h2d_device *dev, h2d_cl_event e)
{
	int32_t status = OCL_COMPLETE;
	int32_t code = api_of(dev)->clGetEventInfo(e, OCL_EVENT_COMMAND_EXECUTION_STATUS,
						   sizeof(status), &status, NULL);

	return code ? code : status;
}

/* Room for one more copy's event: those that ended well need not be kept. */
static int reserve(struct h2d_stream *s)
{
	size_t kept = 0, cap;
	void *p;

	if (s->count < s->cap)
		return 0;
	for (size_t i = 0; i < s->count; i++) {
		if (status_of(s->dev, s->copies[i]) == OCL_COMPLETE)
			api_of(s->dev)->clReleaseEvent(s->copies[i]);
		else
			s->copies[kept++] = s->copies[i];
	}
	s->count = kept;
	if (s->count < s->cap / 2)
		return 0;
	cap = s->cap ? s->cap * 2 : 16;
	p = h2d_mem->realloc(s->copies, cap * sizeof(*s->copies));
	if (!p)
		return h2d_fail(&s->dev->log, H2D_E_NOMEM, "%s: out of memory",
				s->dev->facts.name);
	s->copies = p;
	s->cap = cap;
	return 0;
}

/* Under the stream's lock: the outcome of an enqueue. */
static int enqueued(struct h2d_stream *s, int32_t code, h2d_cl_event e, const char *call)
{
	if (code)
		return h2d_opencl_fail(s->dev, code, call);
	s->copies[s->count++] = e;
	return 0;
}

static int copy_buffer(struct h2d_stream *s, void *dev_ptr, void *host_ptr, uint64_t bytes,
		       bool to_device)
{
	struct h2d_opencl *ocl = s->dev->priv;
	struct h2d_opencl_range r;
	h2d_cl_event e = NULL;
	uint64_t at;
	int32_t code;

	if (h2d_opencl_find(ocl, dev_ptr, bytes, &r) || !r.mem)
		return h2d_fail(&s->dev->log, H2D_E_INVALID,
				"%s: %llu bytes at %p are not memory of this device",
				s->dev->facts.name, (unsigned long long)bytes, dev_ptr);
	at = (uint64_t)((unsigned char *)dev_ptr - r.base);
	if (to_device) {
		code = ocl->api.clEnqueueWriteBuffer(s->queue, r.mem, 0, at, bytes, host_ptr, 0,
						     NULL, &e);
		return enqueued(s, code, e, "clEnqueueWriteBuffer");
	}
	code = ocl->api.clEnqueueReadBuffer(s->queue, r.mem, 0, at, bytes, host_ptr, 0, NULL,
					    &e);
	return enqueued(s, code, e, "clEnqueueReadBuffer");
}

static int copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes,
		bool to_device)
{
	struct h2d_opencl *ocl = s->dev->priv;
	h2d_cl_event e = NULL;
	int32_t code;
	int rc;

	if (!bytes)
		return 0;
	pthread_mutex_lock(&s->lock);
	rc = reserve(s);
	if (!rc && ocl->svm) {
		code = ocl->api.clEnqueueSVMMemcpy(s->queue, 0, dst, src, bytes, 0, NULL, &e);
		rc = enqueued(s, code, e, "clEnqueueSVMMemcpy");
	} else if (!rc) {
		void *from = (void *)(uintptr_t)src;

		rc = to_device ? copy_buffer(s, dst, from, bytes, true)
			       : copy_buffer(s, from, dst, bytes, false);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

int h2d_opencl_copy_to_device(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	return copy(s, dst, src, bytes, true);
}

int h2d_opencl_copy_to_host(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	return copy(s, dst, src, bytes, false);
}

static int copy_rect(struct h2d_stream *s, const struct h2d_opencl_range *r, void *dst,
		     uint64_t dst_pitch, const void *src, uint64_t src_pitch,
		     uint64_t row_bytes, uint64_t rows)
{
	struct h2d_opencl *ocl = s->dev->priv;
	uint64_t at = (uint64_t)((unsigned char *)dst - r->base);
	/* The origin's first member is a column: of any size, it need not be inside a row. */
	const size_t device_origin[3] = {at, 0, 0}, host_origin[3] = {0, 0, 0};
	const size_t region[3] = {row_bytes, rows, 1};
	h2d_cl_event e = NULL;
	int32_t code;

	code = ocl->api.clEnqueueWriteBufferRect(s->queue, r->mem, 0, device_origin,
						 host_origin, region, dst_pitch, 0, src_pitch,
						 0, src, 0, NULL, &e);
	return enqueued(s, code, e, "clEnqueueWriteBufferRect");
}

int h2d_opencl_copy_to_device_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch,
				 const void *src, uint64_t src_pitch, uint64_t row_bytes,
				 uint64_t rows)
{
	struct h2d_opencl *ocl = s->dev->priv;
	struct h2d_opencl_range r;
	uint64_t span, total;
	int rc;

	if (!rows || !row_bytes)
		return 0;
	if (rows > 1 && (dst_pitch < row_bytes || src_pitch < row_bytes))
		return h2d_fail(&s->dev->log, H2D_E_INVALID, "%s: rows that overlap",
				s->dev->facts.name);
	if (!h2d_mul_u64(rows - 1, dst_pitch, &span) || !h2d_add_u64(span, row_bytes, &span) ||
	    !h2d_mul_u64(rows - 1, src_pitch, &total) || !h2d_add_u64(total, row_bytes, &total))
		return h2d_fail(&s->dev->log, H2D_E_INVALID, "%s: rows that overflow",
				s->dev->facts.name);
	if (rows == 1 || (dst_pitch == row_bytes && src_pitch == row_bytes))
		return copy(s, dst, src, rows * row_bytes, true);
	rc = h2d_opencl_find_buffer(ocl, dst, span, &r);
	if (!rc) {
		pthread_mutex_lock(&s->lock);
		rc = reserve(s);
		if (!rc)
			rc = copy_rect(s, &r, dst, dst_pitch, src, src_pitch, row_bytes, rows);
		pthread_mutex_unlock(&s->lock);
		return rc;
	}
	/* Memory of the caller's, which no buffer object is known for. */
	rc = 0;
	for (uint64_t i = 0; !rc && i < rows; i++)
		rc = copy(s, (unsigned char *)dst + i * dst_pitch,
			  (const unsigned char *)src + i * src_pitch, row_bytes, true);
	return rc;
}

/* ---------------------------------------------------------------- events */

static void mark_put(struct mark *m)
{
	if (atomic_fetch_sub(&m->refs, 1) != 1)
		return;
	pthread_cond_destroy(&m->ended);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static void marker_ended(h2d_cl_event e, int32_t code, void *user)
{
	struct mark *m = user;

	(void)e;
	pthread_mutex_lock(&m->lock);
	m->done = true;
	m->code = code;
	pthread_cond_broadcast(&m->ended);
	pthread_mutex_unlock(&m->lock);
	mark_put(m);
}

static struct mark *mark_new(void)
{
	struct mark *m = h2d_mem->calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	atomic_store(&m->refs, 1);
	pthread_mutex_init(&m->lock, NULL);
	h2d_cond_init(&m->ended);
	return m;
}

int h2d_opencl_event_create(struct h2d_device *dev, struct h2d_event **out)
{
	*out = h2d_mem->calloc(1, sizeof(**out));
	if (!*out)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory", dev->facts.name);
	(*out)->dev = dev;
	return 0;
}

/* Forget what was recorded. */
static void clear(struct h2d_event *e)
{
	if (e->marker)
		release_events(e->dev, &e->marker, 1);
	release_events(e->dev, e->copies, e->count);
	free(e->copies);
	if (e->mark)
		mark_put(e->mark);
	*e = (struct h2d_event){.dev = e->dev};
}

void h2d_opencl_event_destroy(struct h2d_device *dev, struct h2d_event *e)
{
	(void)dev;
	if (!e)
		return;
	clear(e);
	free(e);
}

int h2d_opencl_event_record(struct h2d_event *e, struct h2d_stream *s)
{
	struct h2d_opencl_api *api = api_of(s->dev);
	const char *call = "clEnqueueMarkerWithWaitList";
	int32_t code;

	clear(e);
	e->mark = mark_new();
	if (!e->mark)
		return h2d_fail(&s->dev->log, H2D_E_NOMEM, "%s: out of memory",
				s->dev->facts.name);
	pthread_mutex_lock(&s->lock);
	code = api->clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &e->marker);
	if (!code) {
		atomic_fetch_add(&e->mark->refs, 1);
		call = "clSetEventCallback";
		code = api->clSetEventCallback(e->marker, OCL_COMPLETE, marker_ended, e->mark);
		if (code)
			mark_put(e->mark);
	}
	if (!code) {
		call = "clFlush";
		code = api->clFlush(s->queue);
	}
	if (!code) {
		e->copies = s->copies;
		e->count = s->count;
		s->copies = NULL;
		s->count = s->cap = 0;
	}
	pthread_mutex_unlock(&s->lock);
	if (!code)
		return 0;
	clear(e);
	return h2d_opencl_fail(s->dev, code, call);
}

/* Released with the device; where there is no memory to note it, never. */
static void keep_failed(struct h2d_opencl *ocl, h2d_cl_event e)
{
	pthread_mutex_lock(&ocl->lock);
	if (ocl->failed_count == ocl->failed_cap) {
		size_t cap = ocl->failed_cap ? ocl->failed_cap * 2 : 16;
		void *p = h2d_mem->realloc(ocl->failed, cap * sizeof(*ocl->failed));

		if (p) {
			ocl->failed = p;
			ocl->failed_cap = cap;
		}
	}
	if (ocl->failed_count < ocl->failed_cap)
		ocl->failed[ocl->failed_count++] = e;
	pthread_mutex_unlock(&ocl->lock);
}

/* As clear(), after a failure. */
static void clear_failed(struct h2d_event *e)
{
	keep_failed(e->dev->priv, e->marker);
	for (size_t i = 0; i < e->count; i++)
		keep_failed(e->dev->priv, e->copies[i]);
	e->marker = NULL;
	e->count = 0;
	clear(e);
}

/* The marker has ended: how the copies went. That of the first which failed by itself says more
 * than what others say who waited for it. */
static int take_result(struct h2d_event *e, int32_t marker_code)
{
	int32_t first = OCL_COMPLETE, code;
	size_t failed = 0;

	for (size_t i = 0; i < e->count; i++) {
		code = status_of(e->dev, e->copies[i]);
		if (code >= 0)
			continue;
		if (!failed++ || first == OCL_ERROR_FOR_EVENTS_IN_WAIT_LIST)
			first = code;
	}
	code = failed ? first : marker_code;
	if (code >= 0) {
		clear(e);
		return 0;
	}
	clear_failed(e);
	/* PoCL says -1 of what it gives no other number; as a result that has another name. */
	e->result = code == OCL_DEVICE_NOT_FOUND ? H2D_E_DEVICE : h2d_opencl_status(code);
	return h2d_fail(&e->dev->log, e->result,
			"%s: %zu of the copies before a mark failed: %s (%d)",
			e->dev->facts.name, failed,
			code == OCL_DEVICE_NOT_FOUND ? "the driver gives no reason"
						     : h2d_opencl_error_name(code),
			code);
}

/* Whether the mark and the copies before it have ended. PoCL 3.1 calls nobody back when a
 * marker fails, so it is asked as well; and a failed marker need not have waited for all
 * copies. */
static bool has_ended(struct h2d_event *e, int32_t *code)
{
	bool done;

	pthread_mutex_lock(&e->mark->lock);
	done = e->mark->done;
	*code = e->mark->code;
	pthread_mutex_unlock(&e->mark->lock);
	if (!done) {
		*code = status_of(e->dev, e->marker);
		done = *code <= OCL_COMPLETE;
	}
	for (size_t i = 0; done && *code < 0 && i < e->count; i++)
		done = status_of(e->dev, e->copies[i]) <= OCL_COMPLETE;
	return done;
}

int h2d_opencl_event_query(struct h2d_event *e)
{
	int32_t code;
	int rc;

	if (e->mark && !has_ended(e, &code))
		return 0;
	rc = e->mark ? take_result(e, code) : e->result;
	return rc ? rc : 1;
}

int h2d_opencl_event_wait(struct h2d_event *e, uint64_t timeout_ns)
{
	uint64_t start = h2d_now_ns(), waited = 0;
	int32_t code;

	while (e->mark && !has_ended(e, &code)) {
		uint64_t slice = timeout_ns - waited;
		struct timespec until = h2d_deadline(slice < ASK_NS ? slice : ASK_NS);
		bool in_time = true;

		if (waited >= timeout_ns)
			return H2D_E_DEVICE_LOST;
		pthread_mutex_lock(&e->mark->lock);
		while (!e->mark->done && in_time)
			in_time = pthread_cond_timedwait(&e->mark->ended, &e->mark->lock,
							 &until) != ETIMEDOUT;
		pthread_mutex_unlock(&e->mark->lock);
		waited = h2d_now_ns() - start;
	}
	return e->mark ? take_result(e, code) : e->result;
}
