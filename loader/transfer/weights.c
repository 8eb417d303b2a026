/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "core/opts.h"

enum { READBACK_BYTES = 8 << 20 };

struct h2d_weights *h2d_weights_new(struct h2d_device *dev, uint32_t file_count)
{
	struct h2d_weights *w = h2d_mem->calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->dev = dev;
	w->origins = h2d_mem->calloc(file_count ? file_count : 1, sizeof(*w->origins));
	if (!w->origins) {
		free(w);
		return NULL;
	}
	for (uint32_t i = 0; i < file_count; i++)
		w->origins[i].file.fd = -1;
	w->origin_count = file_count;
	pthread_mutex_init(&w->readback.lock, NULL);
	return w;
}

void h2d_weights_free(struct h2d_weights *w)
{
	struct h2d_readback *rb;

	if (!w)
		return;
	rb = &w->readback;
	if (rb->event)
		w->dev->backend->event_destroy(w->dev, rb->event);
	if (rb->stream)
		w->dev->backend->stream_destroy(w->dev, rb->stream);
	if (rb->buf)
		w->dev->backend->host_free(w->dev, rb->buf, rb->buf_bytes);
	pthread_mutex_destroy(&rb->lock);
	h2d_placement_free(&w->placement, w->dev);
	for (uint32_t i = 0; i < w->origin_count; i++)
		h2d_file_close(&w->origins[i].file);
	free(w->origins);
	free(w->targets);
	free(w->slices);
	free(w->measures);
	free((char *)(uintptr_t)w->report.reason);
	free(w);
}

uint64_t h2d_weights_count(const struct h2d_weights *w)
{
	return w ? w->count : 0;
}

int h2d_weights_data(const struct h2d_weights *w, uint64_t i, uint64_t *index, void **data,
		     uint64_t *size_bytes)
{
	if (!w)
		return H2D_E_INVALID;
	if (i >= w->count)
		return H2D_E_NOT_FOUND;
	if (index)
		*index = w->targets[i].tensor;
	if (data)
		*data = w->targets[i].dst;
	if (size_bytes)
		*size_bytes = w->targets[i].bytes;
	return 0;
}

int h2d_weights_report(const struct h2d_weights *w, struct h2d_report *report)
{
	if (!w || !report)
		return H2D_E_INVALID;
	return h2d_info_write(report, &w->report, sizeof(w->report)) ? H2D_E_INVALID : 0;
}

int h2d_weights_tensor_report(const struct h2d_weights *w, uint64_t i,
			      struct h2d_tensor_report *report)
{
	struct h2d_tensor_report r = {.size = sizeof(r)};

	if (!w || !report)
		return H2D_E_INVALID;
	if (i >= w->count)
		return H2D_E_NOT_FOUND;
	if (!w->measures)
		return h2d_fail(&w->log, H2D_E_UNSUPPORTED,
				"tensors were not timed: load with per_tensor");
	r.present_before_bytes = w->measures[i].present_before_bytes;
	r.elapsed_ns = w->measures[i].elapsed_ns;
	r.windows = w->measures[i].windows;
	return h2d_info_write(report, &r, sizeof(r)) ? H2D_E_INVALID : 0;
}

/* ---------------------------------------------------------------- reading back */

static int prepare(struct h2d_weights *w, const struct h2d_log *log)
{
	const struct h2d_backend *b = w->dev->backend;
	struct h2d_readback *rb = &w->readback;
	void *p;
	int rc = 0;

	if (!rb->buf) {
		rc = b->host_alloc(w->dev, READBACK_BYTES, &p);
		if (rc)
			return h2d_fail(log, rc, "device %s: no memory for reading back",
					w->dev->facts.name);
		rb->buf = p;
		rb->buf_bytes = READBACK_BYTES;
	}
	if (!rb->stream)
		rc = b->stream_create(w->dev, &rb->stream);
	if (!rc && !rb->event)
		rc = b->event_create(w->dev, &rb->event);
	return rc ? h2d_fail(log, rc, "device %s: no stream for reading back",
			     w->dev->facts.name)
		  : 0;
}

static int fetch_view(struct h2d_weights *w, const struct h2d_plan_target *t, uint64_t offset,
		      uint64_t bytes, const struct h2d_log *log)
{
	struct h2d_map *m = w->origins[t->file].view;
	struct h2d_guard *guard = NULL;
	bool bus_blocked;
	int rc;

	if (!w->readback.buf) {
		rc = prepare(w, log);
		if (rc)
			return rc;
	}
	rc = m ? h2d_guard_add(m, &guard, log) : 0;
	if (rc)
		return rc;
	bus_blocked = h2d_guard_thread_begin();
	memcpy(w->readback.buf, t->dst + offset, bytes);
	h2d_guard_thread_end(bus_blocked);
	if (h2d_guard_remove(guard))
		return h2d_fail(log, H2D_E_CHANGED, "%s: was truncated while in use",
				w->origins[t->file].file.path);
	return 0;
}

int h2d_weights_fetch(struct h2d_weights *w, uint64_t i, uint64_t offset, uint64_t *bytes,
		      const unsigned char **data, const struct h2d_log *log)
{
	const struct h2d_plan_target *t = &w->targets[i];
	const struct h2d_backend *b = w->dev->backend;
	struct h2d_readback *rb = &w->readback;
	int rc;

	if (*bytes > READBACK_BYTES)
		*bytes = READBACK_BYTES;
	*data = rb->buf;
	if (w->view) {
		rc = fetch_view(w, t, offset, *bytes, log);
		*data = rb->buf;
		return rc;
	}
	if (!(w->dev->caps & H2D_DEV_READABLE))
		return h2d_fail(log, H2D_E_UNSUPPORTED,
				"device %s: what it was given cannot be read back",
				w->dev->facts.name);
	if (atomic_load(&w->dev->lost))
		return h2d_fail(log, H2D_E_DEVICE_LOST, "device %s is lost",
				w->dev->facts.name);
	rc = prepare(w, log);
	if (rc)
		return rc;
	*data = rb->buf;
	rc = b->copy_to_host(rb->stream, rb->buf, t->dst + offset, *bytes);
	if (!rc)
		rc = b->event_record(rb->event, rb->stream);
	if (!rc)
		rc = b->event_wait(rb->event, w->dev->copy_timeout_ns);
	if (rc)
		h2d_fail(log, rc, "device %s: reading tensor #%llu back, byte %llu, failed",
			 w->dev->facts.name, (unsigned long long)t->tensor,
			 (unsigned long long)offset);
	if (rc == H2D_E_DEVICE_LOST) {
		atomic_store(&w->dev->lost, 1);
		atomic_fetch_add(&w->dev->quarantined_bytes, rb->buf_bytes);
		rb->buf = NULL;
	}
	return rc;
}

int h2d_origin_reopen(const struct h2d_file *was, struct h2d_file *now,
		      const struct h2d_log *log)
{
	char proc[32];
	int rc;

	if (was->memory)
		return h2d_file_open_memory(now, was->memory, was->id.size_bytes, log);
	if (was->by_fd)
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", was->fd);
	rc = h2d_file_open(now, was->by_fd ? proc : was->path, log);
	if (rc)
		return rc == H2D_E_NOT_FOUND ? H2D_E_CHANGED : rc;
	/* It must be what it was at the load, whatever it is now. */
	now->id = was->id;
	return 0;
}

/* Bytes of a view are the file's: they count only while it is the file that was loaded. */
static int check_view(const struct h2d_weights *w, uint64_t i)
{
	struct h2d_file now;
	int rc = h2d_origin_reopen(&w->origins[w->targets[i].file].file, &now, &w->log);

	if (rc)
		return rc;
	rc = h2d_file_check_unchanged(&now, &w->log);
	h2d_file_close(&now);
	return rc;
}

int h2d_weights_read(const struct h2d_weights *weights, uint64_t i, uint64_t offset, void *dst,
		     uint64_t bytes)
{
	/* Reading changes nothing that a caller can see: only the buffer it goes through. */
	struct h2d_weights *w = (struct h2d_weights *)(uintptr_t)weights;
	unsigned char *out = dst;
	uint64_t end;
	int rc = 0;

	if (!w || (!dst && bytes))
		return H2D_E_INVALID;
	if (i >= w->count)
		return H2D_E_NOT_FOUND;
	if (!h2d_add_u64(offset, bytes, &end) || end > w->targets[i].bytes)
		return h2d_fail(&w->log, H2D_E_INVALID,
				"bytes %llu to %llu of a tensor of %llu bytes",
				(unsigned long long)offset, (unsigned long long)end,
				(unsigned long long)w->targets[i].bytes);
	if (!w->view && !(w->dev->caps & H2D_DEV_READABLE))
		return h2d_fail(&w->log, H2D_E_UNSUPPORTED,
				"device %s: what it was given cannot be read back",
				w->dev->facts.name);
	pthread_mutex_lock(&w->readback.lock);
	while (!rc && bytes) {
		const unsigned char *data;
		uint64_t n = bytes;

		rc = h2d_weights_fetch(w, i, offset, &n, &data, &w->log);
		if (rc)
			break;
		memcpy(out, data, n);
		out += n;
		offset += n;
		bytes -= n;
	}
	pthread_mutex_unlock(&w->readback.lock);
	if (!rc && w->view && w->targets[i].bytes)
		rc = check_view(w, i);
	return rc;
}
