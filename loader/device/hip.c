/* SPDX-License-Identifier: Apache-2.0 */
/* AMD GPUs by the HIP runtime, loaded at run time. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "device/gpu.h"
#include "device/hip_api.h"

struct hip {
	struct h2d_gpu gpu;
	struct h2d_hip_api api;
};

#define SYMBOL(result, name, args)   {#name, offsetof(struct h2d_hip_api, name), false},
#define OPTIONAL(result, name, args) {#name, offsetof(struct h2d_hip_api, name), true},
static const struct h2d_dl_symbol symbols[] = {H2D_HIP_CALLS(SYMBOL, OPTIONAL){NULL, 0, false}};
#undef SYMBOL
#undef OPTIONAL

static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
				    "libamdhip64.so", NULL};
static const char *const sonames[] = {"libamdhip64.so.7", "libamdhip64.so.6",
				      "libamdhip64.so.5", NULL};
static const struct h2d_dl_spec library = {names, sonames, symbols};

/* ---------------------------------------------------------------- the runtime */

static void set_error(struct h2d_runtime *rt, const struct h2d_hip_api *api, const char *call,
		      int code)
{
	const char *name = api->hipGetErrorName(code), *hint = "";

	if (code == 100 || code == 101)
		hint = ": no AMD GPU is visible to it (is /dev/kfd there and permitted?)";
	rt->error_code = code;
	snprintf(rt->error_name, sizeof(rt->error_name), "%s", name ? name : "unknown");
	snprintf(rt->why, sizeof(rt->why), "%s: %s: %s (%d)%s", rt->library, call,
		 rt->error_name, code, hint);
}

static void tell_version(struct h2d_runtime *rt, const struct h2d_hip_api *api)
{
	const char *at = strstr(rt->path, ".so.");
	int v = 0;

	if (api->hipRuntimeGetVersion && !api->hipRuntimeGetVersion(&v) && v > 0)
		snprintf(rt->version, sizeof(rt->version), "%d.%d.%d", v / 10000000,
			 v / 100000 % 100, v % 100000);
	else if (at)
		snprintf(rt->version, sizeof(rt->version), "%s", at + 4);
}

/* Load the runtime, start it and count its devices. Once it was started it is never unloaded:
 * its threads may run by now, and some leak memory each time they are loaded anew. */
static int start(struct h2d_dl *dl, struct h2d_hip_api *api, struct h2d_runtime *rt)
{
	int rc, code, count = 0;

	memset(rt, 0, sizeof(*rt));
	rc = h2d_dl_open(dl, &library, api, rt->why, sizeof(rt->why));
	snprintf(rt->library, sizeof(rt->library), "%s", dl->soname);
	snprintf(rt->path, sizeof(rt->path), "%s", dl->path);
	if (rc)
		return rc;
	h2d_dl_keep(dl);
	code = api->hipInit(0);
	if (code) {
		set_error(rt, api, "hipInit", code);
	} else {
		code = api->hipGetDeviceCount(&count);
		if (code)
			set_error(rt, api, "hipGetDeviceCount", code);
		else if (count <= 0)
			snprintf(rt->why, sizeof(rt->why), "%s: it counts no device",
				 rt->library);
	}
	tell_version(rt, api);
	if (!code && count > 0) {
		rt->device_count = (unsigned)count;
		return 0;
	}
	h2d_dl_close(dl);
	return H2D_E_UNAVAILABLE;
}

static void hip_runtime(struct h2d_runtime *out)
{
	struct h2d_hip_api api;
	struct h2d_dl dl;

	start(&dl, &api, out);
	h2d_dl_close(&dl);
}

static int hip_probe(unsigned *count, char *why, size_t why_bytes)
{
	struct h2d_runtime rt;

	hip_runtime(&rt);
	*count = rt.device_count;
	snprintf(why, why_bytes, "%s", rt.why);
	return 0;
}

/* ---------------------------------------------------------------- calls */

static struct h2d_hip_api *api_of(struct h2d_gpu *g)
{
	return &((struct hip *)g)->api;
}

static void error_name(const struct h2d_gpu *g, int code, char *out, size_t bytes)
{
	const char *name = ((const struct hip *)g)->api.hipGetErrorName(code);

	snprintf(out, bytes, "%s", name && name[0] ? name : "hipError?");
}

/* The device is per thread. Where nobody can tell which it was, it stays ours. */
static int enter(struct h2d_gpu *g, uintptr_t *was)
{
	struct h2d_hip_api *api = api_of(g);
	int current = g->index;
	bool known = api->hipGetDevice && !api->hipGetDevice(&current);

	*was = (uintptr_t)(known ? current : g->index);
	return known && current == g->index ? 0 : api->hipSetDevice(g->index);
}

static void leave(struct h2d_gpu *g, uintptr_t was)
{
	if ((int)was != g->index && api_of(g)->hipSetDevice((int)was))
		h2d_log_line(&g->dev->log, H2D_LOG_WARNING,
			     "%s: device %d of the thread could not be made current again",
			     g->dev->facts.name, (int)was);
}

static int mem_info(struct h2d_gpu *g, size_t *available, size_t *total)
{
	return api_of(g)->hipMemGetInfo(available, total);
}

static int mem_alloc(struct h2d_gpu *g, void **p, size_t bytes)
{
	return api_of(g)->hipMalloc(p, bytes);
}

static int mem_free(struct h2d_gpu *g, void *p)
{
	return api_of(g)->hipFree(p);
}

static int host_alloc(struct h2d_gpu *g, void **p, size_t bytes)
{
	return api_of(g)->hipHostMalloc(p, bytes, H2D_HIP_HOST_MALLOC_PORTABLE);
}

static int host_free(struct h2d_gpu *g, void *p)
{
	return api_of(g)->hipHostFree(p);
}

/* There is no read-only wish: the flag is absent in 5.2, where its bit means something else,
 * and ignored on AMD's devices later. Whether the driver takes a read-only mapping is its own
 * business. */
static int host_register(struct h2d_gpu *g, void *p, size_t bytes, bool read_only)
{
	(void)read_only;
	return api_of(g)->hipHostRegister(p, bytes, H2D_HIP_HOST_REGISTER_PORTABLE);
}

static int host_unregister(struct h2d_gpu *g, void *p)
{
	return api_of(g)->hipHostUnregister(p);
}

static int stream_create(struct h2d_gpu *g, void **s)
{
	return api_of(g)->hipStreamCreateWithFlags((hipStream_t *)s,
						   H2D_HIP_STREAM_NON_BLOCKING);
}

static int stream_destroy(struct h2d_gpu *g, void *s)
{
	return api_of(g)->hipStreamDestroy(s);
}

/* No call that is the same in all versions tells a stream's device. */
static int stream_check(struct h2d_gpu *g, void *s, bool *mine)
{
	(void)g;
	(void)s;
	(void)mine;
	return 0;
}

static int event_create(struct h2d_gpu *g, void **e)
{
	return api_of(g)->hipEventCreateWithFlags((hipEvent_t *)e,
						  H2D_HIP_EVENT_DISABLE_TIMING);
}

static int event_destroy(struct h2d_gpu *g, void *e)
{
	return api_of(g)->hipEventDestroy(e);
}

static int event_record(struct h2d_gpu *g, void *e, void *s)
{
	return api_of(g)->hipEventRecord(e, s);
}

static int event_query(struct h2d_gpu *g, void *e)
{
	return api_of(g)->hipEventQuery(e);
}

static int to_device(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s)
{
	return api_of(g)->hipMemcpyAsync(dst, src, bytes, H2D_HIP_MEMCPY_HOST_TO_DEVICE, s);
}

static int to_device_2d(struct h2d_gpu *g, void *dst, size_t dst_pitch, const void *src,
			size_t src_pitch, size_t row_bytes, size_t rows, void *s)
{
	return api_of(g)->hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows,
					   H2D_HIP_MEMCPY_HOST_TO_DEVICE, s);
}

static int to_host(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s)
{
	return api_of(g)->hipMemcpyAsync(dst, src, bytes, H2D_HIP_MEMCPY_DEVICE_TO_HOST, s);
}

static const char *const call_names[H2D_GPU_CALL_COUNT] = {
	[H2D_GPU_ENTER] = "hipSetDevice",
	[H2D_GPU_MEM_INFO] = "hipMemGetInfo",
	[H2D_GPU_ALLOC] = "hipMalloc",
	[H2D_GPU_FREE] = "hipFree",
	[H2D_GPU_HOST_ALLOC] = "hipHostMalloc",
	[H2D_GPU_HOST_FREE] = "hipHostFree",
	[H2D_GPU_REGISTER] = "hipHostRegister",
	[H2D_GPU_UNREGISTER] = "hipHostUnregister",
	[H2D_GPU_STREAM_CREATE] = "hipStreamCreateWithFlags",
	[H2D_GPU_STREAM_DESTROY] = "hipStreamDestroy",
	[H2D_GPU_STREAM_CHECK] = "", /* cannot fail */
	[H2D_GPU_EVENT_CREATE] = "hipEventCreateWithFlags",
	[H2D_GPU_EVENT_DESTROY] = "hipEventDestroy",
	[H2D_GPU_EVENT_RECORD] = "hipEventRecord",
	[H2D_GPU_EVENT_QUERY] = "hipEventQuery",
	[H2D_GPU_TO_DEVICE] = "hipMemcpyAsync",
	[H2D_GPU_TO_DEVICE_2D] = "hipMemcpy2DAsync",
	[H2D_GPU_TO_HOST] = "hipMemcpyAsync",
};

static const struct h2d_gpu_ops ops = {
	.names = call_names,
	.error_name = error_name,
	.enter = enter,
	.leave = leave,
	.mem_info = mem_info,
	.alloc = mem_alloc,
	.free = mem_free,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.host_register = host_register,
	.host_unregister = host_unregister,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_check = stream_check,
	.event_create = event_create,
	.event_destroy = event_destroy,
	.event_record = event_record,
	.event_query = event_query,
	.to_device = to_device,
	.to_device_2d = to_device_2d,
	.to_host = to_host,
};

/* ---------------------------------------------------------------- open and close */

/* Names are for people: a runtime that cannot tell them is no reason to stop. */
static void describe(struct hip *h, struct h2d_device_facts *f, int *unified)
{
	const struct h2d_hip_api *api = &h->api;
	size_t total = 0;

	if (api->hipDeviceGetName(f->hardware, sizeof(f->hardware), h->gpu.index))
		f->hardware[0] = 0;
	if (!api->hipDeviceGetPCIBusId ||
	    api->hipDeviceGetPCIBusId(f->pci_address, sizeof(f->pci_address), h->gpu.index))
		f->pci_address[0] = 0;
	f->hardware[sizeof(f->hardware) - 1] = f->pci_address[sizeof(f->pci_address) - 1] = 0;
	if (!api->hipDeviceTotalMem(&total, h->gpu.index))
		f->memory_bytes = total;
	if (api->hipDeviceGetAttribute(unified, H2D_HIP_ATTRIBUTE_INTEGRATED, h->gpu.index))
		*unified = 0;
}

static int hip_open(struct h2d_device *dev, const char *args)
{
	struct h2d_runtime rt;
	struct hip *h;
	unsigned index;
	bool allow_compat;
	int rc, unified = 0;

	rc = h2d_gpu_parse(dev, args, &index, &allow_compat);
	if (rc)
		return rc;
	h = h2d_mem->calloc(1, sizeof(*h));
	if (!h)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "hip: out of memory");
	h->gpu.ops = &ops;
	h->gpu.storage_kind = &h2d_storage_hipfile;
	h->gpu.allow_compat = allow_compat;
	rc = start(&h->gpu.dl, &h->api, &rt);
	if (rc) {
		h2d_fail(&dev->log, rc, "hip: %s", rt.why);
		goto out;
	}
	if (index >= rt.device_count) {
		rc = h2d_fail(&dev->log, H2D_E_UNAVAILABLE, "hip:%u: there %s %u device%s",
			      index, rt.device_count == 1 ? "is" : "are", rt.device_count,
			      rt.device_count == 1 ? "" : "s");
		goto out;
	}
	h->gpu.index = (int)index;
	describe(h, &dev->facts, &unified);
	rc = h2d_gpu_opened(&h->gpu, dev, unified, -1);
out:
	if (rc) {
		h2d_dl_close(&h->gpu.dl);
		free(h);
	}
	return rc;
}

static void hip_close(struct h2d_device *dev)
{
	struct hip *h = dev->priv;

	h2d_gpu_closing(&h->gpu);
	h2d_dl_close(&h->gpu.dl);
	free(h);
}

const struct h2d_backend h2d_backend_hip = {
	.name = "hip",
	.summary = "AMD GPUs by the HIP runtime",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_PINNED | H2D_DEV_REGISTER | H2D_DEV_COPY_2D |
		H2D_DEV_CALLER_STREAM | H2D_DEV_UNIFIED | H2D_DEV_READ_FILE,
	.probe = hip_probe,
	.runtime = hip_runtime,
	.open = hip_open,
	.close = hip_close,
	.alloc = h2d_gpu_alloc,
	.free = h2d_gpu_free,
	.host_alloc = h2d_gpu_host_alloc,
	.host_free = h2d_gpu_host_free,
	.host_register = h2d_gpu_host_register,
	.host_unregister = h2d_gpu_host_unregister,
	.stream_create = h2d_gpu_stream_create,
	.stream_destroy = h2d_gpu_stream_destroy,
	.stream_wrap = h2d_gpu_stream_wrap,
	.copy_to_device = h2d_gpu_copy,
	.copy_to_device_2d = h2d_gpu_copy_2d,
	.copy_to_host = h2d_gpu_copy_to_host,
	.event_create = h2d_gpu_event_create,
	.event_destroy = h2d_gpu_event_destroy,
	.event_record = h2d_gpu_event_record,
	.event_query = h2d_gpu_event_query,
	.event_wait = h2d_gpu_event_wait,
	.read_file_check = h2d_gpu_read_file_check,
	.read_file = h2d_gpu_read_file,
};
