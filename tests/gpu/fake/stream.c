/* SPDX-License-Identifier: Apache-2.0 */
/* Streams with a thread each, copies and events of the fakes, and their accounts. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"
#include "script.h"

struct op {
	struct op *next;
	struct fake_event *event; /* a mark, else a copy */
	uint64_t record;
	unsigned char *dst;
	const unsigned char *src;
	size_t dst_pitch, src_pitch, row_bytes, rows;
	bool pinned;
};

struct fake_stream {
	struct fake_stream *next;
	int device;
	bool other, stop, hanging;
	int error; /* of a copy, for the events behind it */
	pthread_t thread;
	struct op *head, **tail;
};

struct fake_event {
	struct fake_event *next;
	int device;
	uint64_t record, done; /* numbers of the last recording, and of the last reached */
	int status;
	uint64_t pending; /* marks in streams */
	bool gone;	  /* destroyed while pending */
};

/* One lock for everything: clarity before speed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct fake_stream *streams;
static struct fake_event *events;
static int sticky[FAKE_DEVICES_MAX];
static int retained[FAKE_DEVICES_MAX];
static uint64_t release_count, pending_copies;
static struct fake_live account;

void fake_violation(const char *what)
{
	fprintf(stderr, "fake: violation: %s\n", what);
	pthread_mutex_lock(&lock);
	account.violation_count++;
	pthread_mutex_unlock(&lock);
}

int fake_call(const char *name)
{
	return (int)fake_script_hit(name);
}

int fake_parameter(const char *name)
{
	return (int)fake_script_parameter(name, 0);
}

int fake_device_count(void)
{
	return (int)fake_script_parameter("devices", 2);
}

int fake_sticky(int d)
{
	int code;

	pthread_mutex_lock(&lock);
	code = sticky[d];
	pthread_mutex_unlock(&lock);
	return code;
}

void fake_retain(int d, int count)
{
	pthread_mutex_lock(&lock);
	retained[d] += count;
	if (!retained[d])
		sticky[d] = 0; /* a new context begins anew */
	pthread_mutex_unlock(&lock);
}

int fake_retained(int d)
{
	int n;

	pthread_mutex_lock(&lock);
	n = retained[d];
	pthread_mutex_unlock(&lock);
	return n;
}

void fake_count_register(bool read_only)
{
	pthread_mutex_lock(&lock);
	account.read_only_register_count += read_only;
	pthread_mutex_unlock(&lock);
}

void fake_count_file(int files, int drivers)
{
	pthread_mutex_lock(&lock);
	account.file_count += (uint64_t)(int64_t)files;
	account.driver_count += (uint64_t)(int64_t)drivers;
	pthread_mutex_unlock(&lock);
}

/* ---------------------------------------------------------------- the thread of a stream */

static bool is_fatal(int code)
{
	return code == 4 || code == 46 || code == 214 || (code >= 700 && code <= 719) ||
	       code == 999;
}

static void pause_us(int64_t us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	if (us)
		nanosleep(&t, NULL);
}

/* Under the lock, which is left meanwhile. @return the code of the copy */
static int run_copy(struct fake_stream *s, const struct op *op)
{
	uint64_t released = release_count;
	int code = s->error ? s->error : (int)fake_script_hit("copy");

	if (fake_script_hit("hang")) {
		s->hanging = true;
		while (release_count == released)
			pthread_cond_wait(&change, &lock);
		s->hanging = false;
		pthread_cond_broadcast(&change);
		return code ? code : 719;
	}
	pthread_mutex_unlock(&lock);
	pause_us(fake_script_parameter("delay_us", 0));
	for (size_t i = 0; !code && i < op->rows; i++)
		memcpy(op->dst + i * op->dst_pitch, op->src + i * op->src_pitch, op->row_bytes);
	pthread_mutex_lock(&lock);
	return code;
}

/* Under the lock. */
static void forget_event(struct fake_event *e)
{
	struct fake_event **at;

	for (at = &events; *at != e; at = &(*at)->next)
		;
	*at = e->next;
	free(e);
}

/* Under the lock. */
static void reach(struct fake_stream *s, const struct op *op)
{
	struct fake_event *e = op->event;

	e->pending--;
	if (op->record > e->done) {
		e->done = op->record;
		e->status = s->error;
	}
	if (e->gone && !e->pending)
		forget_event(e);
}

static void *serve(void *arg)
{
	struct fake_stream *s = arg;

	pthread_mutex_lock(&lock);
	for (;;) {
		struct op *op;

		while (!s->head && !s->stop)
			pthread_cond_wait(&change, &lock);
		op = s->head;
		if (!op)
			break;
		if (op->event) {
			reach(s, op);
		} else {
			int code = run_copy(s, op);

			account.copy_count++;
			account.pinned_copy_count += op->pinned;
			pending_copies--;
			if (code) {
				s->error = code;
				if (is_fatal(code))
					sticky[s->device] = code;
			}
		}
		s->head = op->next;
		if (!s->head)
			s->tail = &s->head;
		free(op);
		pthread_cond_broadcast(&change);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static bool touches(const void *a, uint64_t a_bytes, const void *b, uint64_t b_bytes)
{
	return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

bool fake_is_pending(const void *p, uint64_t bytes)
{
	bool hit = false;

	pthread_mutex_lock(&lock);
	for (struct fake_stream *s = streams; s; s = s->next)
		for (struct op *op = s->head; op; op = op->next)
			if (!op->event &&
			    (touches(p, bytes, op->dst,
				     (op->rows - 1) * op->dst_pitch + op->row_bytes) ||
			     touches(p, bytes, op->src,
				     (op->rows - 1) * op->src_pitch + op->row_bytes)))
				hit = true;
	pthread_mutex_unlock(&lock);
	return hit;
}

/* ---------------------------------------------------------------- streams */

struct fake_stream *fake_stream_new(int d, bool other)
{
	struct fake_stream *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->device = d;
	s->other = other;
	s->tail = &s->head;
	pthread_mutex_lock(&lock);
	s->next = streams;
	streams = s;
	account.stream_count++;
	pthread_mutex_unlock(&lock);
	if (pthread_create(&s->thread, NULL, serve, s))
		abort();
	return s;
}

/* Under the lock. */
static bool is_stream(const struct fake_stream *s)
{
	for (struct fake_stream *known = streams; known; known = known->next)
		if (known == s)
			return true;
	return false;
}

int fake_stream_free(struct fake_stream *s)
{
	struct fake_stream **at;
	bool hanging;

	pthread_mutex_lock(&lock);
	if (!is_stream(s)) {
		pthread_mutex_unlock(&lock);
		fake_violation("no such stream");
		return FAKE_INVALID_HANDLE;
	}
	hanging = s->hanging;
	s->stop = true;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
	if (hanging)
		fake_violation("a stream destroyed under a copy that does not end");
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&lock);
	for (at = &streams; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	account.stream_count--;
	pthread_mutex_unlock(&lock);
	free(s);
	return 0;
}

bool fake_stream_is_other(const struct fake_stream *s)
{
	return s->other;
}

/* Under the lock. */
static void push(struct fake_stream *s, const struct op *op)
{
	struct op *copy = malloc(sizeof(*copy));

	if (!copy)
		abort();
	*copy = *op;
	copy->next = NULL;
	*s->tail = copy;
	s->tail = &copy->next;
	pthread_cond_broadcast(&change);
}

int fake_copy(int d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
	      size_t row_bytes, size_t rows, bool to_device, struct fake_stream *s)
{
	struct op op = {.row_bytes = row_bytes, .rows = rows};
	uint64_t dst_bytes, src_bytes;

	if (!rows || !row_bytes)
		return 0;
	op.dst_pitch = rows > 1 ? dst_pitch : row_bytes;
	op.src_pitch = rows > 1 ? src_pitch : row_bytes;
	dst_bytes = (rows - 1) * op.dst_pitch + row_bytes;
	src_bytes = (rows - 1) * op.src_pitch + row_bytes;
	op.dst = to_device ? fake_device_bytes(d, dst, dst_bytes) : dst;
	op.src = to_device ? src : fake_device_bytes(d, src, src_bytes);
	op.pinned = fake_is_pinned(to_device ? src : dst, to_device ? src_bytes : dst_bytes);
	if (!op.dst || !op.src || op.dst_pitch < row_bytes || op.src_pitch < row_bytes) {
		fake_violation("a copy out of bounds, or of another device");
		return FAKE_INVALID_VALUE;
	}
	pthread_mutex_lock(&lock);
	if (!is_stream(s) || s->device != d) {
		pthread_mutex_unlock(&lock);
		fake_violation("a copy in a stream of another device");
		return FAKE_INVALID_HANDLE;
	}
	push(s, &op);
	pending_copies++;
	if (pending_copies > account.max_pending_count)
		account.max_pending_count = pending_copies;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* ---------------------------------------------------------------- events */

struct fake_event *fake_event_new(int d)
{
	struct fake_event *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	e->device = d;
	pthread_mutex_lock(&lock);
	e->next = events;
	events = e;
	account.event_count++;
	pthread_mutex_unlock(&lock);
	return e;
}

int fake_event_free(struct fake_event *e)
{
	pthread_mutex_lock(&lock);
	account.event_count--;
	e->gone = true;
	if (!e->pending)
		forget_event(e);
	pthread_mutex_unlock(&lock);
	return 0;
}

int fake_event_record(int d, struct fake_event *e, struct fake_stream *s)
{
	struct op op = {.event = e};
	int code = 0;

	pthread_mutex_lock(&lock);
	if (!is_stream(s) || s->device != d || e->device != d) {
		code = FAKE_INVALID_HANDLE;
	} else {
		op.record = ++e->record;
		e->pending++;
		push(s, &op);
	}
	pthread_mutex_unlock(&lock);
	if (code)
		fake_violation("an event and a stream of different devices");
	return code;
}

int fake_event_query(struct fake_event *e)
{
	int code;

	pthread_mutex_lock(&lock);
	code = e->done < e->record ? FAKE_NOT_READY : e->status;
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---------------------------------------------------------------- control */

static void live(struct fake_live *out)
{
	pthread_mutex_lock(&lock);
	*out = account;
	out->context_count = 0;
	for (int i = 0; i < FAKE_DEVICES_MAX; i++)
		out->context_count += (uint64_t)retained[i];
	pthread_mutex_unlock(&lock);
	fake_memory_live(out);
}

static void release(void)
{
	pthread_mutex_lock(&lock);
	release_count++;
	pthread_cond_broadcast(&change);
	pthread_mutex_unlock(&lock);
}

static void sweep(void)
{
	struct fake_stream *s;

	for (;;) {
		release();
		pthread_mutex_lock(&lock);
		s = streams;
		for (bool busy = s && s->hanging; busy; busy = s->hanging)
			pthread_cond_wait(&change, &lock);
		pthread_mutex_unlock(&lock);
		if (!s)
			break;
		fake_stream_free(s);
	}
	pthread_mutex_lock(&lock);
	while (events)
		forget_event(events);
	account.event_count = 0;
	memset(retained, 0, sizeof(retained));
	memset(sticky, 0, sizeof(sticky));
	pthread_mutex_unlock(&lock);
	fake_memory_sweep();
}

static void script(const char *text)
{
	fake_script_set(text);
	pthread_mutex_lock(&lock);
	account.copy_count = account.pinned_copy_count = account.max_pending_count = 0;
	account.read_only_register_count = account.violation_count = 0;
	pthread_mutex_unlock(&lock);
}

static void *stream_new(int device, bool other)
{
	return fake_stream_new(device, other);
}

static void stream_free(void *s)
{
	fake_stream_free(s);
}

FAKE_API const struct fake_control *fake_control(void)
{
	static const struct fake_control control = {
		.script = script,
		.release = release,
		.sweep = sweep,
		.live = live,
		.calls = fake_script_calls,
		.names = fake_names,
		.stream_new = stream_new,
		.stream_free = stream_free,
		.current = fake_current,
		.set_current = fake_set_current,
		.bytes = fake_bytes,
	};

	return &control;
}
