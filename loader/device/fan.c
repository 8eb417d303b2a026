/* SPDX-License-Identifier: Apache-2.0 */
#include "device/fan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"

struct target {
	uintptr_t begin, end;
	uint32_t device;
};

struct fan {
	struct h2d_device *devs[H2D_FAN_MAX];
	uint32_t count;
	uint32_t stager; /* whose host memory is used: the first that pins it */
	_Atomic bool suspect[H2D_FAN_MAX]; /* a copy to it did not end in time */
	struct target *targets;
	size_t target_count, target_cap;
};

struct h2d_stream {
	struct h2d_device *fan;
	struct h2d_stream *streams[H2D_FAN_MAX];
	_Atomic bool used[H2D_FAN_MAX]; /* since the last event */
};

struct h2d_event {
	struct h2d_device *fan;
	struct h2d_event *events[H2D_FAN_MAX];
	bool pending[H2D_FAN_MAX];
	int result;
};

static struct fan *fan_of(const struct h2d_device *dev)
{
	return dev->priv;
}

/* Who hangs is lost, once the engine has said that it waits no longer. */
static void tell_lost(struct h2d_device *dev)
{
	struct fan *f = fan_of(dev);

	for (uint32_t i = 0; atomic_load(&dev->lost) && i < f->count; i++)
		if (atomic_load(&f->suspect[i]))
			atomic_store(&f->devs[i]->lost, 1);
}

/* ---------------------------------------------------------------- memory */

static int find(const struct fan *f, const void *p, uint32_t *device)
{
	for (size_t i = 0; i < f->target_count; i++) {
		if ((uintptr_t)p < f->targets[i].begin || (uintptr_t)p >= f->targets[i].end)
			continue;
		*device = f->targets[i].device;
		return 0;
	}
	return H2D_E_INVALID;
}

int h2d_fan_add(struct h2d_device *dev, uint32_t device, const struct h2d_devmem *mem)
{
	struct fan *f = fan_of(dev);

	if (f->target_count == f->target_cap) {
		size_t cap = f->target_cap ? f->target_cap * 2 : 16;
		void *p = h2d_mem->realloc(f->targets, cap * sizeof(*f->targets));

		if (!p)
			return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory",
					dev->facts.name);
		f->targets = p;
		f->target_cap = cap;
	}
	f->targets[f->target_count++] =
		(struct target){(uintptr_t)mem->ptr, (uintptr_t)mem->ptr + mem->bytes, device};
	return 0;
}

static int fan_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	struct fan *f = fan_of(dev);

	return h2d_device_host_get(f->devs[f->stager], &bytes, bytes, out);
}

static void fan_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct fan *f = fan_of(dev);

	tell_lost(dev);
	h2d_device_host_put(f->devs[f->stager], p, bytes);
}

/* ---------------------------------------------------------------- streams and copies */

static void fan_stream_destroy(struct h2d_device *dev, struct h2d_stream *s)
{
	struct fan *f = fan_of(dev);

	tell_lost(dev);
	for (uint32_t i = 0; i < f->count; i++)
		if (s->streams[i])
			f->devs[i]->backend->stream_destroy(f->devs[i], s->streams[i]);
	free(s);
}

static int fan_stream_create(struct h2d_device *dev, struct h2d_stream **out)
{
	struct h2d_stream *s = h2d_mem->calloc(1, sizeof(*s));
	struct fan *f = fan_of(dev);
	int rc = 0;

	*out = NULL;
	if (!s)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory", dev->facts.name);
	s->fan = dev;
	for (uint32_t i = 0; !rc && i < f->count; i++)
		rc = f->devs[i]->backend->stream_create(f->devs[i], &s->streams[i]);
	if (rc)
		fan_stream_destroy(dev, s);
	else
		*out = s;
	return rc;
}

static int fan_copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct fan *f = fan_of(s->fan);
	uint32_t i;

	if (!bytes)
		return 0;
	if (find(f, dst, &i))
		return h2d_fail(&s->fan->log, H2D_E_INTERNAL, "%s: %p is nobody's memory",
				s->fan->facts.name, dst);
	atomic_store(&s->used[i], true);
	return f->devs[i]->backend->copy_to_device(s->streams[i], dst, src, bytes);
}

static int fan_copy_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch, const void *src,
		       uint64_t src_pitch, uint64_t row_bytes, uint64_t rows)
{
	struct fan *f = fan_of(s->fan);
	uint32_t i;

	if (!rows || !row_bytes)
		return 0;
	if (find(f, dst, &i))
		return h2d_fail(&s->fan->log, H2D_E_INTERNAL, "%s: %p is nobody's memory",
				s->fan->facts.name, dst);
	atomic_store(&s->used[i], true);
	return f->devs[i]->backend->copy_to_device_2d(s->streams[i], dst, dst_pitch, src,
						      src_pitch, row_bytes, rows);
}

/* ---------------------------------------------------------------- events */

static void fan_event_destroy(struct h2d_device *dev, struct h2d_event *e)
{
	struct fan *f = fan_of(dev);

	tell_lost(dev);
	for (uint32_t i = 0; i < f->count; i++)
		if (e->events[i])
			f->devs[i]->backend->event_destroy(f->devs[i], e->events[i]);
	free(e);
}

static int fan_event_create(struct h2d_device *dev, struct h2d_event **out)
{
	struct h2d_event *e = h2d_mem->calloc(1, sizeof(*e));
	struct fan *f = fan_of(dev);
	int rc = 0;

	*out = NULL;
	if (!e)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory", dev->facts.name);
	e->fan = dev;
	for (uint32_t i = 0; !rc && i < f->count; i++)
		rc = f->devs[i]->backend->event_create(f->devs[i], &e->events[i]);
	if (rc)
		fan_event_destroy(dev, e);
	else
		*out = e;
	return rc;
}

/* Every device is asked, also after one refused: what is under way must be waited for. */
static int fan_event_record(struct h2d_event *e, struct h2d_stream *s)
{
	struct fan *f = fan_of(e->fan);
	int first = 0;

	e->result = 0;
	for (uint32_t i = 0; i < f->count; i++) {
		int rc;

		e->pending[i] = atomic_exchange(&s->used[i], false);
		rc = e->pending[i]
			     ? f->devs[i]->backend->event_record(e->events[i], s->streams[i])
			     : 0;
		if (rc)
			atomic_store(&f->suspect[i], true);
		first = first ? first : rc;
	}
	return first;
}

static int note(struct h2d_event *e, uint32_t i, int rc)
{
	e->pending[i] = false;
	e->result = e->result ? e->result : rc;
	return rc;
}

static bool still_pending(const struct h2d_event *e)
{
	for (uint32_t i = 0; i < fan_of(e->fan)->count; i++)
		if (e->pending[i])
			return true;
	return false;
}

static int fan_event_query(struct h2d_event *e)
{
	struct fan *f = fan_of(e->fan);

	for (uint32_t i = 0; i < f->count; i++) {
		int rc = e->pending[i] ? f->devs[i]->backend->event_query(e->events[i]) : 0;

		if (rc == H2D_E_DEVICE_LOST) {
			atomic_store(&f->suspect[i], true);
			return rc;
		}
		if (rc)
			note(e, i, rc < 0 ? rc : 0);
	}
	if (still_pending(e))
		return 0;
	return e->result ? e->result : 1;
}

static int fan_event_wait(struct h2d_event *e, uint64_t timeout_ns)
{
	uint64_t start = h2d_now_ns();
	struct fan *f = fan_of(e->fan);

	for (uint32_t i = 0; i < f->count; i++) {
		uint64_t waited = h2d_now_ns() - start;
		int rc;

		if (!e->pending[i])
			continue;
		rc = f->devs[i]->backend->event_wait(
			e->events[i], waited < timeout_ns ? timeout_ns - waited : 0);
		atomic_store(&f->suspect[i], rc == H2D_E_DEVICE_LOST);
		if (rc == H2D_E_DEVICE_LOST) {
			if (atomic_load(&f->devs[i]->lost))
				atomic_store(&e->fan->lost, 1);
			return rc;
		}
		note(e, i, rc);
	}
	return e->result;
}

/* ---------------------------------------------------------------- life */

static const struct h2d_backend backend = {
	.name = "fan",
	.summary = "several devices",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_FILL | H2D_DEV_PINNED | H2D_DEV_COPY_2D | H2D_DEV_UNIFIED,
	.host_alloc = fan_host_alloc,
	.host_free = fan_host_free,
	.stream_create = fan_stream_create,
	.stream_destroy = fan_stream_destroy,
	.copy_to_device = fan_copy,
	.copy_to_device_2d = fan_copy_2d,
	.event_create = fan_event_create,
	.event_destroy = fan_event_destroy,
	.event_record = fan_event_record,
	.event_query = fan_event_query,
	.event_wait = fan_event_wait,
};

static void take_facts(struct h2d_device *dev, const struct fan *f)
{
	size_t used = 0;

	dev->caps = backend.caps;
	dev->facts.numa_node = f->devs[0]->facts.numa_node;
	dev->facts.unified = f->devs[0]->facts.unified;
	for (uint32_t i = 0; i < f->count; i++) {
		const struct h2d_device *d = f->devs[i];
		size_t room = sizeof(dev->facts.name) - used;
		int n;

		dev->caps &= d->caps;
		if (d->copy_timeout_ns > dev->copy_timeout_ns)
			dev->copy_timeout_ns = d->copy_timeout_ns;
		if (d->facts.numa_node != dev->facts.numa_node)
			dev->facts.numa_node = -1;
		if (d->facts.unified != dev->facts.unified)
			dev->facts.unified = 2;
		n = snprintf(dev->facts.name + used, room, "%s%s", i ? "+" : "", d->facts.name);
		used += n > 0 && (size_t)n < room ? (size_t)n : room - 1;
	}
}

int h2d_fan_open(struct h2d_device *const *devs, uint32_t count, const struct h2d_log *log,
		 struct h2d_device **out)
{
	struct h2d_device *dev;
	struct fan *f;

	*out = NULL;
	if (!count || count > H2D_FAN_MAX)
		return h2d_fail(log, H2D_E_INVALID, "%u devices: 1 to %d can be filled at once",
				count, H2D_FAN_MAX);
	for (uint32_t i = 0; i < count; i++)
		if (!devs[i] || atomic_load(&devs[i]->lost))
			return h2d_fail(log, devs[i] ? H2D_E_DEVICE_LOST : H2D_E_INVALID,
					"device number %u is %s", i, devs[i] ? "lost" : "NULL");
	dev = h2d_mem->calloc(1, sizeof(*dev));
	f = h2d_mem->calloc(1, sizeof(*f));
	if (!dev || !f) {
		free(dev);
		free(f);
		return h2d_fail(log, H2D_E_NOMEM, "devices: out of memory");
	}
	memcpy(f->devs, devs, count * sizeof(devs[0]));
	f->count = count;
	while (f->stager < count - 1 && !(devs[f->stager]->caps & H2D_DEV_PINNED))
		f->stager++;
	if (!(devs[f->stager]->caps & H2D_DEV_PINNED))
		f->stager = 0;
	dev->backend = &backend;
	dev->priv = f;
	dev->log = *log;
	pthread_mutex_init(&dev->facts_lock, NULL);
	pthread_mutex_init(&dev->spare_lock, NULL);
	take_facts(dev, f);
	*out = dev;
	return 0;
}

void h2d_fan_close(struct h2d_device *dev)
{
	struct fan *f;

	if (!dev)
		return;
	f = fan_of(dev);
	tell_lost(dev);
	h2d_device_host_trim(dev);
	atomic_fetch_add(&f->devs[f->stager]->quarantined_bytes,
			 atomic_load(&dev->quarantined_bytes));
	pthread_mutex_destroy(&dev->spare_lock);
	pthread_mutex_destroy(&dev->facts_lock);
	free(f->targets);
	free(f);
	free(dev);
}
