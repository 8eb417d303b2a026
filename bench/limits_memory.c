/* SPDX-License-Identifier: Apache-2.0 */
/* Copying within host memory and to a device. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/limits.h"
#include "core/clock.h"
#include "device/device.h"
#include "device/hostmem.h"

enum {
	LINK_CHUNK_BYTES = 16 << 20,
	LINK_CHUNKS = 4,
	COPY_LEAST_BYTES = 256 << 20, /* larger than the caches of any CPU but a few */
};

struct copier {
	unsigned char *dst;
	const unsigned char *src;
	uint64_t bytes;
	pthread_t thread;
};

static void *copy(void *arg)
{
	struct copier *c = arg;

	memcpy(c->dst, c->src, c->bytes);
	return NULL;
}

void h2d_limit_memory(const struct h2d_limits_opts *o, unsigned threads, struct h2d_limit *l)
{
	const uint64_t wish =
		o->size_bytes < COPY_LEAST_BYTES ? o->size_bytes : COPY_LEAST_BYTES;
	const uint64_t part = wish / threads & ~UINT64_C(4095), bytes = part * threads;
	unsigned char *src = h2d_hostmem_alloc(bytes), *dst = h2d_hostmem_alloc(bytes);
	struct copier *copiers = calloc(threads, sizeof(*copiers));

	l->thread_count = threads;
	l->size_bytes = bytes;
	if (!src || !dst || !copiers) {
		snprintf(l->why, sizeof(l->why), "out of memory");
		goto out;
	}
	memset(src, 1, bytes);
	memset(dst, 2, bytes);
	for (unsigned i = 0; i < o->repeat; i++) {
		const uint64_t begin = h2d_now_ns();
		unsigned started = 1;

		for (unsigned t = 0; t < threads; t++) {
			copiers[t].dst = dst + part * t;
			copiers[t].src = src + part * t;
			copiers[t].bytes = part;
		}
		while (started < threads &&
		       !pthread_create(&copiers[started].thread, NULL, copy, &copiers[started]))
			started++;
		copy(&copiers[0]);
		for (unsigned t = started; t < threads; t++)
			copy(&copiers[t]);
		for (unsigned t = 1; t < started; t++)
			pthread_join(copiers[t].thread, NULL);
		h2d_limit_add(l, bytes, h2d_now_ns() - begin);
	}
out:
	h2d_hostmem_free(src, bytes);
	h2d_hostmem_free(dst, bytes);
	free(copiers);
}

struct link {
	const struct h2d_backend *backend;
	struct h2d_devmem mem;
	struct h2d_stream *stream;
	struct h2d_event *event;
	void *host;
	bool pinned;
};

/* All chunks, in the stream one after the other. @return a status */
static int send(struct link *x, uint64_t bytes)
{
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += LINK_CHUNK_BYTES) {
		const uint64_t slot = at / LINK_CHUNK_BYTES % LINK_CHUNKS * LINK_CHUNK_BYTES;

		rc = x->backend->copy_to_device(x->stream, (char *)x->mem.ptr + slot,
						(char *)x->host + slot, LINK_CHUNK_BYTES);
	}
	if (!rc)
		rc = x->backend->event_record(x->event, x->stream);
	if (!rc)
		rc = x->backend->event_wait(x->event, UINT64_C(60000000000));
	return rc;
}

static int prepare(struct link *x, struct h2d_device *dev, uint64_t room)
{
	int rc = x->backend->alloc(dev, room, &x->mem);

	if (!rc && x->pinned)
		rc = x->backend->host_alloc(dev, room, &x->host);
	if (!rc && !x->pinned) {
		x->host = h2d_hostmem_alloc(room);
		rc = x->host ? 0 : H2D_E_NOMEM;
	}
	if (!rc)
		rc = x->backend->stream_create(dev, &x->stream);
	if (!rc)
		rc = x->backend->event_create(dev, &x->event);
	if (!rc)
		memset(x->host, 3, room);
	return rc;
}

void h2d_limit_link(const struct h2d_limits_opts *o, bool pinned, struct h2d_limit *l)
{
	const uint64_t room = (uint64_t)LINK_CHUNK_BYTES * LINK_CHUNKS;
	const uint64_t bytes = o->size_bytes < room ? room : o->size_bytes / room * room;
	struct link x = {.pinned = pinned};
	int rc;

	if (!o->dev || !(o->dev->caps & H2D_DEV_PINNED)) {
		snprintf(
			l->why, sizeof(l->why), "%s",
			o->dev ? "the device has no link: its memory is the host's, or nothing "
				 "is pinned for it"
			       : "no device was given");
		return;
	}
	x.backend = o->dev->backend;
	snprintf(l->device, sizeof(l->device), "%s", o->dev->facts.name);
	l->block_bytes = LINK_CHUNK_BYTES;
	l->depth_count = LINK_CHUNKS;
	l->size_bytes = bytes;
	rc = prepare(&x, o->dev, room);
	for (unsigned i = 0; i <= o->repeat && !rc; i++) { /* the first one in vain */
		const uint64_t begin = h2d_now_ns();

		rc = send(&x, bytes);
		if (!rc && i)
			h2d_limit_add(l, bytes, h2d_now_ns() - begin);
	}
	if (rc)
		snprintf(l->why, sizeof(l->why), "copies to the device: %s",
			 h2d_status_string(rc));
	/* A copy that never ended still reads and writes there. */
	if (rc == H2D_E_DEVICE_LOST)
		return;
	if (x.event)
		x.backend->event_destroy(o->dev, x.event);
	if (x.stream)
		x.backend->stream_destroy(o->dev, x.stream);
	if (x.host && pinned)
		x.backend->host_free(o->dev, x.host, room);
	else if (x.host)
		h2d_hostmem_free(x.host, room);
	if (x.mem.ptr)
		x.backend->free(o->dev, &x.mem);
}
