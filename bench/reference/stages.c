/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two stages of a staged load apart from each other, each by all threads at once: reading a
 * file into a small ring of staging memory, and copying such a ring to new device memory of the
 * file's size. Where the same processors do both, t = t_read + t_copy is what no pipeline of
 * the two can beat. Only the device table is used, not the transfer engine.
 */
#include "reference.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/device.h"

enum { SLOTS = 4 }; /* by thread */

struct stage {
	struct h2d_device *dev;
	const struct reference_opts *o;
	unsigned char *ring, *dst;
	int fd;
	uint64_t bytes;
	_Atomic uint64_t next;
	_Atomic int failed;
};

struct worker {
	struct stage *stage;
	unsigned index;
	pthread_t thread;
	struct h2d_stream *stream;
	struct h2d_event *events[SLOTS];
};

static uint64_t take(struct stage *st, uint64_t *bytes)
{
	uint64_t at = atomic_fetch_add(&st->next, st->o->block_bytes);

	*bytes = at >= st->bytes ? 0 : st->bytes - at;
	if (*bytes > st->o->block_bytes)
		*bytes = st->o->block_bytes;
	return at;
}

static void *read_all(void *arg)
{
	struct worker *w = arg;
	struct stage *st = w->stage;
	uint64_t at, bytes;

	for (unsigned n = 0; at = take(st, &bytes), bytes; n++) {
		unsigned slot = w->index * SLOTS + n % SLOTS;

		if (pread(st->fd, st->ring + slot * st->o->block_bytes, bytes, (off_t)at) !=
		    (ssize_t)bytes)
			atomic_store(&st->failed, 1);
	}
	return NULL;
}

static void *copy_all(void *arg)
{
	struct worker *w = arg;
	struct stage *st = w->stage;
	const struct h2d_backend *b = st->dev->backend;
	uint64_t at, bytes;
	int rc = 0;

	for (unsigned n = 0; !rc && (at = take(st, &bytes), bytes); n++) {
		unsigned slot = n % SLOTS;

		rc = n < SLOTS ? 0 : b->event_wait(w->events[slot], UINT64_C(30000000000));
		if (!rc)
			rc = b->copy_to_device(w->stream, st->dst + at,
					       st->ring + (w->index * SLOTS + slot) *
								  st->o->block_bytes,
					       bytes);
		if (!rc)
			rc = b->event_record(w->events[slot], w->stream);
	}
	for (unsigned i = 0; i < SLOTS; i++)
		rc = rc ? rc : b->event_wait(w->events[i], UINT64_C(30000000000));
	if (rc)
		atomic_store(&st->failed, 1);
	return NULL;
}

static uint64_t run(struct stage *st, struct worker *workers, void *(*fn)(void *))
{
	uint64_t start = reference_now_ns();

	atomic_store(&st->next, 0);
	for (unsigned i = 0; i < st->o->threads; i++)
		if (pthread_create(&workers[i].thread, NULL, fn, &workers[i]))
			abort();
	for (unsigned i = 0; i < st->o->threads; i++)
		pthread_join(workers[i].thread, NULL);
	return reference_now_ns() - start;
}

static int set_up(struct stage *st, struct worker *workers)
{
	const struct h2d_backend *b = st->dev->backend;
	uint64_t ring_bytes = (uint64_t)st->o->threads * SLOTS * st->o->block_bytes;
	void *ring;
	int rc = b->host_alloc(st->dev, ring_bytes, &ring);

	st->ring = ring;
	for (uint64_t i = 0; !rc && i < ring_bytes; i += 4096)
		st->ring[i] = 1;
	for (unsigned i = 0; !rc && i < st->o->threads; i++) {
		workers[i].stage = st;
		workers[i].index = i;
		rc = b->stream_create(st->dev, &workers[i].stream);
		for (unsigned k = 0; !rc && k < SLOTS; k++)
			rc = b->event_create(st->dev, &workers[i].events[k]);
	}
	return rc;
}

static void print(const char *name, const uint64_t *ns, unsigned count)
{
	printf("\"%s\": [", name);
	for (unsigned i = 0; i < count; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)ns[i]);
	fputs("]", stdout);
}

/* Everything is left to the end of the process. */
int reference_stages(const struct reference_opts *o)
{
	uint64_t read_ns[REFERENCE_REPEAT_MAX], copy_ns[REFERENCE_REPEAT_MAX];
	struct stage st = {.o = o};
	struct worker *workers = calloc(o->threads, sizeof(*workers));
	struct h2d_devmem mem;
	off_t end;

	st.fd = open(o->file, O_RDONLY | O_CLOEXEC);
	end = st.fd < 0 ? 0 : lseek(st.fd, 0, SEEK_END);
	if (!workers || end <= 0 || h2d_device_open(o->device, NULL, &st.dev) ||
	    set_up(&st, workers)) {
		fprintf(stderr, "h2d-reference: %s, %s: cannot be used\n", o->file, o->device);
		return 4;
	}
	st.bytes = (uint64_t)end;
	for (unsigned i = 0; i < o->repeat; i++) {
		read_ns[i] = run(&st, workers, read_all);
		if (st.dev->backend->alloc(st.dev, st.bytes, &mem))
			return 4;
		st.dst = mem.ptr;
		copy_ns[i] = run(&st, workers, copy_all);
		st.dev->backend->free(st.dev, &mem);
	}
	if (atomic_load(&st.failed))
		return 5;
	printf("{\"read_bytes\": %llu, ", (unsigned long long)st.bytes);
	print("read_samples_ns", read_ns, o->repeat);
	fputs(", ", stdout);
	print("copy_samples_ns", copy_ns, o->repeat);
	puts("}");
	return 0;
}
