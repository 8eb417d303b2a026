/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, device memory, streams, copies and events of a GPU runtime. */
#include "device/gpu.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clock.h"
#include "core/mem.h"
#include "device/pci.h"

/* Codes that both runtimes share. */
enum {
	CODE_OUT_OF_MEMORY = 2,
	CODE_NOT_READY = 600,
	CODE_NOT_SUPPORTED = 801,
};

enum {
	SPIN_NS = 20000,      /* asked without a pause for that long */
	PAUSE_MIN_NS = 20000, /* then with pauses that grow */
	PAUSE_MAX_NS = 200000,
};

struct h2d_event {
	struct h2d_gpu *gpu;
	void *native;
	_Atomic bool recorded;
};

static struct h2d_gpu *gpu_of(struct h2d_device *dev)
{
	return dev->priv;
}

/* ---------------------------------------------------------------- errors */

bool h2d_gpu_is_fatal(int code)
{
	/* Of these NVIDIA says that all further work returns the same, or that the device is
	 * gone; AMD gives them the same numbers. 999 is "unknown internal error". */
	static const int fatal[] = {4,	 46,  214, 220, 226, 700, 702, 709,
				    710, 714, 715, 716, 717, 718, 719, 999};

	for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
		if (code == fatal[i])
			return true;
	return false;
}

int h2d_gpu_status(int code, bool host)
{
	if (!code)
		return 0;
	if (code == CODE_OUT_OF_MEMORY)
		return host ? H2D_E_NOMEM : H2D_E_DEVICE_MEMORY;
	if (code == CODE_NOT_SUPPORTED)
		return H2D_E_UNSUPPORTED;
	return h2d_gpu_is_fatal(code) ? H2D_E_DEVICE_LOST : H2D_E_DEVICE;
}

void h2d_gpu_error_text(const struct h2d_gpu *g, int code, char *out, size_t bytes)
{
	char name[64];

	g->ops->error_name(g, code, name, sizeof(name));
	snprintf(out, bytes, "%s (%d)", name, code);
}

int h2d_gpu_fail(struct h2d_gpu *g, enum h2d_gpu_call call, int code, const char *fmt, ...)
{
	bool host = call == H2D_GPU_HOST_ALLOC || call == H2D_GPU_REGISTER;
	enum h2d_log_level level = H2D_LOG_ERROR;
	int rc = h2d_gpu_status(code, host);
	char what[384], error[96];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	h2d_gpu_error_text(g, code, error, sizeof(error));
	if (rc == H2D_E_DEVICE_LOST)
		atomic_store(&g->dev->lost, 1);
	else if (call == H2D_GPU_REGISTER)
		level = H2D_LOG_WARNING; /* there is always another way */
	h2d_log_line(&g->dev->log, level, "%s: %s: %s: %s%s", g->dev->facts.name, what,
		     g->ops->names[call], error,
		     rc == H2D_E_DEVICE_LOST ? "; the device is lost to this process" : "");
	return rc;
}

/* That it is was told when it was found out. */
static int fail_lost(struct h2d_gpu *g)
{
	h2d_log_line(&g->dev->log, H2D_LOG_DEBUG, "%s is lost", g->dev->facts.name);
	return H2D_E_DEVICE_LOST;
}

int h2d_gpu_enter(struct h2d_gpu *g, uintptr_t *was)
{
	int code;

	if (atomic_load(&g->dev->lost))
		return fail_lost(g);
	code = g->ops->enter(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_ENTER, code, "it cannot be made current") : 0;
}

/* ---------------------------------------------------------------- open and close */

int h2d_gpu_parse(struct h2d_device *dev, const char *args, unsigned *index, bool *allow_compat)
{
	const char *rest;

	*allow_compat = false;
	if (!h2d_device_index(args, index, &rest)) {
		*allow_compat = !strcmp(rest, ",gds=compat");
		if (!*rest || *allow_compat)
			return 0;
	}
	return h2d_fail(&dev->log, H2D_E_INVALID, "%s: \"%s\" is not [:N][,gds=compat]",
			dev->backend->name, args);
}

int h2d_gpu_opened(struct h2d_gpu *g, struct h2d_device *dev, int unified, int numa_hint)
{
	struct h2d_device_facts *f = &dev->facts;
	size_t available = 0, total = 0;
	struct h2d_pci pci;
	uintptr_t was;
	int rc, code;

	g->dev = dev;
	snprintf(f->name, sizeof(f->name), "%s:%d", dev->backend->name, g->index);
	for (char *p = f->pci_address; *p; p++)
		*p = (char)tolower((unsigned char)*p); /* as the kernel spells it */
	f->numa_node = numa_hint;
	if (f->pci_address[0] && !h2d_pci_read(NULL, f->pci_address, &pci) &&
	    pci.numa_node >= 0)
		f->numa_node = pci.numa_node;
	f->unified = unified ? 1 : 0;
	if (!unified)
		dev->caps &= ~(unsigned)H2D_DEV_UNIFIED;
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->mem_info(g, &available, &total);
	g->ops->leave(g, was);
	if (code)
		return h2d_gpu_fail(g, H2D_GPU_MEM_INFO, code,
				    "how much memory it has cannot be found out");
	f->memory_free_bytes = available;
	if (!f->memory_bytes)
		f->memory_bytes = total;
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->storage_lock, NULL);
	dev->priv = g;
	return 0;
}

bool h2d_gpu_closing(struct h2d_gpu *g)
{
	bool lost = atomic_load(&g->dev->lost);

	h2d_gpu_storage_end(g, lost);
	h2d_gpu_host_forget(g);
	pthread_mutex_destroy(&g->storage_lock);
	pthread_mutex_destroy(&g->lock);
	return !lost;
}

/* ---------------------------------------------------------------- device memory */

static int fail_alloc(struct h2d_gpu *g, uint64_t bytes, int code)
{
	size_t available = 0, total = 0;
	uint64_t ours;

	if (code != CODE_OUT_OF_MEMORY || g->ops->mem_info(g, &available, &total))
		return h2d_gpu_fail(g, H2D_GPU_ALLOC, code,
				    "%" PRIu64 " bytes of device memory", bytes);
	pthread_mutex_lock(&g->lock);
	ours = g->alloc_bytes;
	pthread_mutex_unlock(&g->lock);
	return h2d_gpu_fail(g, H2D_GPU_ALLOC, code,
			    "%" PRIu64 " bytes of device memory cannot be had: %zu of %zu are "
			    "free, this device handle holds %" PRIu64,
			    bytes, available, total, ours);
}

int h2d_gpu_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	struct h2d_gpu *g = gpu_of(dev);
	uintptr_t was;
	int rc, code;

	memset(out, 0, sizeof(*out));
	if (!bytes || bytes > SIZE_MAX)
		return h2d_fail(&dev->log, H2D_E_INVALID,
				"%s: an allocation of %" PRIu64 " bytes", dev->facts.name,
				bytes);
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->alloc(g, &out->ptr, bytes);
	if (code) {
		out->ptr = NULL;
		rc = fail_alloc(g, bytes, code);
	}
	if (!rc) {
		rc = h2d_gpu_memory_add(g, out->ptr, bytes);
		if (rc)
			g->ops->free(g, out->ptr);
	}
	g->ops->leave(g, was);
	if (rc)
		out->ptr = NULL;
	else
		out->bytes = bytes;
	return rc;
}

void h2d_gpu_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	struct h2d_gpu *g = gpu_of(dev);
	uintptr_t was;
	int code;

	if (!mem->ptr || atomic_load(&dev->lost) || h2d_gpu_enter(g, &was))
		return;
	h2d_gpu_memory_remove(g, mem->ptr);
	code = g->ops->free(g, mem->ptr);
	g->ops->leave(g, was);
	if (code)
		h2d_gpu_fail(g, H2D_GPU_FREE, code, "%" PRIu64 " bytes are not given back",
			     mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

/* ---------------------------------------------------------------- streams */

static int stream_new(struct h2d_gpu *g, struct h2d_stream **out)
{
	*out = h2d_mem->calloc(1, sizeof(**out));
	if (!*out)
		return h2d_fail(&g->dev->log, H2D_E_NOMEM, "%s: out of memory for a stream",
				g->dev->facts.name);
	(*out)->gpu = g;
	return 0;
}

int h2d_gpu_stream_create(struct h2d_device *dev, struct h2d_stream **out)
{
	struct h2d_gpu *g = gpu_of(dev);
	struct h2d_stream *s;
	uintptr_t was;
	int rc, code;

	*out = NULL;
	rc = stream_new(g, &s);
	if (rc)
		return rc;
	s->owner = true;
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		goto out;
	code = g->ops->stream_create(g, &s->native);
	g->ops->leave(g, was);
	if (code)
		rc = h2d_gpu_fail(g, H2D_GPU_STREAM_CREATE, code, "a stream");
out:
	if (rc)
		free(s);
	else
		*out = s;
	return rc;
}

int h2d_gpu_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out)
{
	struct h2d_gpu *g = gpu_of(dev);
	struct h2d_stream *s;
	bool mine = true;
	uintptr_t was;
	int rc, code;

	*out = NULL;
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->stream_check(g, native, &mine);
	g->ops->leave(g, was);
	if (code)
		return h2d_gpu_fail(g, H2D_GPU_STREAM_CHECK, code, "the caller's stream");
	if (!mine)
		return h2d_fail(&dev->log, H2D_E_INVALID,
				"%s: the caller's stream belongs to another device or context "
				"(only the primary one is used)",
				dev->facts.name);
	rc = stream_new(g, &s);
	if (rc)
		return rc;
	s->native = native;
	*out = s;
	return 0;
}

void h2d_gpu_stream_destroy(struct h2d_device *dev, struct h2d_stream *s)
{
	struct h2d_gpu *g = gpu_of(dev);
	uintptr_t was;
	int code;

	if (!s)
		return;
	if (s->owner && !atomic_load(&dev->lost) && !h2d_gpu_enter(g, &was)) {
		code = g->ops->stream_destroy(g, s->native);
		g->ops->leave(g, was);
		if (code)
			h2d_gpu_fail(g, H2D_GPU_STREAM_DESTROY, code, "a stream stays");
	}
	if (s->files.first)
		h2d_storage_drop(g->storage, &s->files, atomic_load(&dev->lost));
	free(s);
}

/* ---------------------------------------------------------------- copies */

int h2d_gpu_copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct h2d_gpu *g = s->gpu;
	uintptr_t was;
	int rc = h2d_gpu_enter(g, &was), code;

	if (rc)
		return rc;
	code = g->ops->to_device(g, dst, src, bytes, s->native);
	g->ops->leave(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_TO_DEVICE, code, "%" PRIu64 " bytes to it", bytes)
		    : 0;
}

int h2d_gpu_copy_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch, const void *src,
		    uint64_t src_pitch, uint64_t row_bytes, uint64_t rows)
{
	struct h2d_gpu *g = s->gpu;
	uintptr_t was;
	int rc = 0, code;

	/* What both runtimes take as a pitch at most. */
	if (dst_pitch > INT32_MAX || src_pitch > INT32_MAX) {
		for (uint64_t i = 0; !rc && i < rows; i++)
			rc = h2d_gpu_copy(s, (char *)dst + i * dst_pitch,
					  (const char *)src + i * src_pitch, row_bytes);
		return rc;
	}
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->to_device_2d(g, dst, dst_pitch, src, src_pitch, row_bytes, rows,
				    s->native);
	g->ops->leave(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_TO_DEVICE_2D, code,
				   "%" PRIu64 " rows of %" PRIu64 " bytes to it", rows,
				   row_bytes)
		    : 0;
}

int h2d_gpu_copy_to_host(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes)
{
	struct h2d_gpu *g = s->gpu;
	uintptr_t was;
	int rc = h2d_gpu_enter(g, &was), code;

	if (rc)
		return rc;
	code = g->ops->to_host(g, dst, src, bytes, s->native);
	g->ops->leave(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_TO_HOST, code, "%" PRIu64 " bytes from it", bytes)
		    : 0;
}

/* ---------------------------------------------------------------- events */

int h2d_gpu_event_create(struct h2d_device *dev, struct h2d_event **out)
{
	struct h2d_gpu *g = gpu_of(dev);
	struct h2d_event *e;
	uintptr_t was;
	int rc, code;

	*out = NULL;
	e = h2d_mem->calloc(1, sizeof(*e));
	if (!e)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory for an event",
				dev->facts.name);
	e->gpu = g;
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		goto out;
	code = g->ops->event_create(g, &e->native);
	g->ops->leave(g, was);
	if (code)
		rc = h2d_gpu_fail(g, H2D_GPU_EVENT_CREATE, code, "an event");
out:
	if (rc)
		free(e);
	else
		*out = e;
	return rc;
}

void h2d_gpu_event_destroy(struct h2d_device *dev, struct h2d_event *e)
{
	struct h2d_gpu *g = gpu_of(dev);
	uintptr_t was;
	int code;

	if (!e)
		return;
	if (!atomic_load(&dev->lost) && !h2d_gpu_enter(g, &was)) {
		code = g->ops->event_destroy(g, e->native);
		g->ops->leave(g, was);
		if (code)
			h2d_gpu_fail(g, H2D_GPU_EVENT_DESTROY, code, "an event stays");
	}
	free(e);
}

int h2d_gpu_event_record(struct h2d_event *e, struct h2d_stream *s)
{
	struct h2d_gpu *g = e->gpu;
	uintptr_t was;
	int rc = h2d_gpu_enter(g, &was), code;

	if (rc)
		return rc;
	code = g->ops->event_record(g, e->native, s->native);
	g->ops->leave(g, was);
	if (code)
		return h2d_gpu_fail(g, H2D_GPU_EVENT_RECORD, code, "an event");
	atomic_store(&e->recorded, true);
	return 0;
}

int h2d_gpu_event_query(struct h2d_event *e)
{
	struct h2d_gpu *g = e->gpu;
	uintptr_t was;
	int rc, code;

	if (!atomic_load(&e->recorded))
		return 1;
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->event_query(g, e->native);
	g->ops->leave(g, was);
	if (code == CODE_NOT_READY)
		return 0;
	return code ? h2d_gpu_fail(g, H2D_GPU_EVENT_QUERY, code, "copies have failed") : 1;
}

int h2d_gpu_event_wait(struct h2d_event *e, uint64_t timeout_ns)
{
	uint64_t start = h2d_now_ns(), pause = PAUSE_MIN_NS, waited = 0;

	for (;;) {
		int rc = h2d_gpu_event_query(e);

		if (rc)
			return rc > 0 ? 0 : rc;
		if (waited >= timeout_ns)
			return H2D_E_DEVICE_LOST;
		if (waited >= SPIN_NS) {
			uint64_t left = timeout_ns - waited;
			struct timespec t = {.tv_nsec = (long)(pause < left ? pause : left)};

			nanosleep(&t, NULL);
			pause = pause * 2 < PAUSE_MAX_NS ? pause * 2 : PAUSE_MAX_NS;
		}
		waited = h2d_now_ns() - start;
	}
}
