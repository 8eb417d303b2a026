/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA GPUs by the CUDA driver API, loaded at run time: no toolkit, and no runtime library
 * that wants a driver of its own age. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "device/cuda_api.h"
#include "device/gpu.h"

struct cuda {
	struct h2d_gpu gpu;
	struct h2d_cuda_api api;
	CUdevice device;
	CUcontext context; /* primary, retained */
	bool registers_read_only;
};

#define SYMBOL(name, args)   {#name, offsetof(struct h2d_cuda_api, name), false},
#define OPTIONAL(name, args) {#name, offsetof(struct h2d_cuda_api, name), true},
static const struct h2d_dl_symbol symbols[] = {
	H2D_CUDA_CALLS(SYMBOL, OPTIONAL){NULL, 0, false}};
#undef SYMBOL
#undef OPTIONAL

/* The soname has been libcuda.so.1 since CUDA 1. */
static const char *const names[] = {"libcuda.so.1", NULL};
static const struct h2d_dl_spec library = {names, names, symbols};

/* ---------------------------------------------------------------- the runtime */

static const char *known_name(int code)
{
	static const struct {
		int code;
		const char *name;
	} known[] = {
#define KNOWN(name, code) {code, #name},
		H2D_CUDA_ERRORS(KNOWN)
#undef KNOWN
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].code == code)
			return known[i].name;
	return "CUDA_ERROR?";
}

/* The stub library and a broken driver have no names to tell. */
static const char *name_of(const struct h2d_cuda_api *api, int code)
{
	const char *name = NULL;

	if (!api->cuGetErrorName(code, &name) && name && name[0])
		return name;
	return known_name(code);
}

static const char *hint_of(int code)
{
	switch (code) {
	case 34:
		return ": this is the toolkit's stub library, no driver is installed";
	case 100:
		return ": no NVIDIA GPU is visible to it";
	case 802:
		return ": the system is not ready (on NVSwitch machines: the fabric manager)";
	case 803:
		return ": kernel driver and this library are of different versions";
	case 804:
		return ": a compatibility library on a GPU that it does not support";
	default:
		return "";
	}
}

static void set_error(struct h2d_runtime *rt, const struct h2d_cuda_api *api, const char *call,
		      int code)
{
	rt->error_code = code;
	snprintf(rt->error_name, sizeof(rt->error_name), "%s", name_of(api, code));
	snprintf(rt->why, sizeof(rt->why), "%s: %s: %s (%d)%s", rt->library, call,
		 rt->error_name, code, hint_of(code));
}

/* As in hip.c. */
static int start(struct h2d_dl *dl, struct h2d_cuda_api *api, struct h2d_runtime *rt)
{
	int rc, code, count = 0, version = 0;

	memset(rt, 0, sizeof(*rt));
	rc = h2d_dl_open(dl, &library, api, rt->why, sizeof(rt->why));
	snprintf(rt->library, sizeof(rt->library), "%s", dl->soname);
	snprintf(rt->path, sizeof(rt->path), "%s", dl->path);
	if (rc)
		return rc;
	h2d_dl_keep(dl);
	code = api->cuInit(0);
	if (code) {
		set_error(rt, api, "cuInit", code);
	} else {
		code = api->cuDeviceGetCount(&count);
		if (code)
			set_error(rt, api, "cuDeviceGetCount", code);
		else if (count <= 0)
			snprintf(rt->why, sizeof(rt->why), "%s: it counts no device",
				 rt->library);
	}
	if (api->cuDriverGetVersion && !api->cuDriverGetVersion(&version) && version > 0)
		snprintf(rt->version, sizeof(rt->version), "CUDA %d.%d", version / 1000,
			 version % 1000 / 10);
	if (!code && count > 0) {
		rt->device_count = (unsigned)count;
		return 0;
	}
	h2d_dl_close(dl);
	return H2D_E_UNAVAILABLE;
}

static void cuda_runtime(struct h2d_runtime *out)
{
	struct h2d_cuda_api api;
	struct h2d_dl dl;

	start(&dl, &api, out);
	h2d_dl_close(&dl);
}

static int cuda_probe(unsigned *count, char *why, size_t why_bytes)
{
	struct h2d_runtime rt;

	cuda_runtime(&rt);
	*count = rt.device_count;
	snprintf(why, why_bytes, "%s", rt.why);
	return 0;
}

/* ---------------------------------------------------------------- calls */

static struct cuda *cuda_of(struct h2d_gpu *g)
{
	return (struct cuda *)g;
}

static struct h2d_cuda_api *api_of(struct h2d_gpu *g)
{
	return &cuda_of(g)->api;
}

static CUdeviceptr address(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

static void error_name(const struct h2d_gpu *g, int code, char *out, size_t bytes)
{
	snprintf(out, bytes, "%s", name_of(&((const struct cuda *)g)->api, code));
}

static int enter(struct h2d_gpu *g, uintptr_t *was)
{
	struct cuda *c = cuda_of(g);
	CUcontext current = NULL;
	int code = c->api.cuCtxGetCurrent(&current);

	*was = (uintptr_t)current;
	if (code || current == c->context)
		return code;
	return c->api.cuCtxSetCurrent(c->context);
}

static void leave(struct h2d_gpu *g, uintptr_t was)
{
	struct cuda *c = cuda_of(g);

	if ((CUcontext)was != c->context && c->api.cuCtxSetCurrent((CUcontext)was))
		h2d_log_line(&g->dev->log, H2D_LOG_WARNING,
			     "%s: the thread's context could not be made current again",
			     g->dev->facts.name);
}

static int mem_info(struct h2d_gpu *g, size_t *available, size_t *total)
{
	return api_of(g)->cuMemGetInfo_v2(available, total);
}

static int mem_alloc(struct h2d_gpu *g, void **p, size_t bytes)
{
	CUdeviceptr at = 0;
	int code = api_of(g)->cuMemAlloc_v2(&at, bytes);

	*p = (void *)(uintptr_t)at;
	return code;
}

static int mem_free(struct h2d_gpu *g, void *p)
{
	return api_of(g)->cuMemFree_v2(address(p));
}

static int host_alloc(struct h2d_gpu *g, void **p, size_t bytes)
{
	return api_of(g)->cuMemHostAlloc(p, bytes, H2D_CUDA_MEMHOSTALLOC_PORTABLE);
}

static int host_free(struct h2d_gpu *g, void *p)
{
	return api_of(g)->cuMemFreeHost(p);
}

static int host_register(struct h2d_gpu *g, void *p, size_t bytes, bool read_only)
{
	unsigned int flags = H2D_CUDA_MEMHOSTREGISTER_PORTABLE;

	if (read_only && cuda_of(g)->registers_read_only)
		flags |= H2D_CUDA_MEMHOSTREGISTER_READ_ONLY;
	return api_of(g)->cuMemHostRegister_v2(p, bytes, flags);
}

static int host_unregister(struct h2d_gpu *g, void *p)
{
	return api_of(g)->cuMemHostUnregister(p);
}

static int stream_create(struct h2d_gpu *g, void **s)
{
	return api_of(g)->cuStreamCreate((CUstream *)s, H2D_CUDA_STREAM_NON_BLOCKING);
}

static int stream_destroy(struct h2d_gpu *g, void *s)
{
	return api_of(g)->cuStreamDestroy_v2(s);
}

static int stream_check(struct h2d_gpu *g, void *s, bool *mine)
{
	struct cuda *c = cuda_of(g);
	CUcontext context = c->context;
	int code;

	if (!c->api.cuStreamGetCtx)
		return 0;
	code = c->api.cuStreamGetCtx(s, &context);
	*mine = context == c->context;
	return code;
}

static int event_create(struct h2d_gpu *g, void **e)
{
	return api_of(g)->cuEventCreate((CUevent *)e, H2D_CUDA_EVENT_DISABLE_TIMING);
}

static int event_destroy(struct h2d_gpu *g, void *e)
{
	return api_of(g)->cuEventDestroy_v2(e);
}

static int event_record(struct h2d_gpu *g, void *e, void *s)
{
	return api_of(g)->cuEventRecord(e, s);
}

static int event_query(struct h2d_gpu *g, void *e)
{
	return api_of(g)->cuEventQuery(e);
}

static int to_device(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s)
{
	return api_of(g)->cuMemcpyHtoDAsync_v2(address(dst), src, bytes, s);
}

static int to_device_2d(struct h2d_gpu *g, void *dst, size_t dst_pitch, const void *src,
			size_t src_pitch, size_t row_bytes, size_t rows, void *s)
{
	const CUDA_MEMCPY2D copy = {
		.srcMemoryType = H2D_CUDA_MEMORYTYPE_HOST,
		.srcHost = src,
		.srcPitch = src_pitch,
		.dstMemoryType = H2D_CUDA_MEMORYTYPE_DEVICE,
		.dstDevice = address(dst),
		.dstPitch = dst_pitch,
		.WidthInBytes = row_bytes,
		.Height = rows,
	};

	return api_of(g)->cuMemcpy2DAsync_v2(&copy, s);
}

static int to_host(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s)
{
	return api_of(g)->cuMemcpyDtoHAsync_v2(dst, address(src), bytes, s);
}

static const char *const call_names[H2D_GPU_CALL_COUNT] = {
	[H2D_GPU_ENTER] = "cuCtxSetCurrent",
	[H2D_GPU_MEM_INFO] = "cuMemGetInfo_v2",
	[H2D_GPU_ALLOC] = "cuMemAlloc_v2",
	[H2D_GPU_FREE] = "cuMemFree_v2",
	[H2D_GPU_HOST_ALLOC] = "cuMemHostAlloc",
	[H2D_GPU_HOST_FREE] = "cuMemFreeHost",
	[H2D_GPU_REGISTER] = "cuMemHostRegister_v2",
	[H2D_GPU_UNREGISTER] = "cuMemHostUnregister",
	[H2D_GPU_STREAM_CREATE] = "cuStreamCreate",
	[H2D_GPU_STREAM_DESTROY] = "cuStreamDestroy_v2",
	[H2D_GPU_STREAM_CHECK] = "cuStreamGetCtx",
	[H2D_GPU_EVENT_CREATE] = "cuEventCreate",
	[H2D_GPU_EVENT_DESTROY] = "cuEventDestroy_v2",
	[H2D_GPU_EVENT_RECORD] = "cuEventRecord",
	[H2D_GPU_EVENT_QUERY] = "cuEventQuery",
	[H2D_GPU_TO_DEVICE] = "cuMemcpyHtoDAsync_v2",
	[H2D_GPU_TO_DEVICE_2D] = "cuMemcpy2DAsync_v2",
	[H2D_GPU_TO_HOST] = "cuMemcpyDtoHAsync_v2",
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

/* An attribute that this driver does not know counts as `otherwise`. */
static int attribute(struct cuda *c, int which, int otherwise)
{
	int value = otherwise;

	return c->api.cuDeviceGetAttribute(&value, which, c->device) ? otherwise : value;
}

static int describe(struct cuda *c, struct h2d_device *dev)
{
	struct h2d_device_facts *f = &dev->facts;
	size_t total = 0;

	if (c->api.cuDeviceGetName(f->hardware, sizeof(f->hardware), c->device))
		f->hardware[0] = 0;
	if (!c->api.cuDeviceGetPCIBusId ||
	    c->api.cuDeviceGetPCIBusId(f->pci_address, sizeof(f->pci_address), c->device))
		f->pci_address[0] = 0;
	f->hardware[sizeof(f->hardware) - 1] = f->pci_address[sizeof(f->pci_address) - 1] = 0;
	if (!c->api.cuDeviceTotalMem_v2(&total, c->device))
		f->memory_bytes = total;
	c->registers_read_only =
		attribute(c, H2D_CUDA_ATTRIBUTE_READ_ONLY_HOST_REGISTER, 0) > 0;
	if (!c->registers_read_only)
		dev->caps &= ~(unsigned)H2D_DEV_REGISTER_READ_ONLY;
	return h2d_gpu_opened(&c->gpu, dev, attribute(c, H2D_CUDA_ATTRIBUTE_INTEGRATED, 0) > 0,
			      attribute(c, H2D_CUDA_ATTRIBUTE_HOST_NUMA_ID, -1));
}

static int use_device(struct cuda *c, struct h2d_device *dev)
{
	char name[64];
	int code, rc;

	code = c->api.cuDeviceGet(&c->device, c->gpu.index);
	if (code) {
		error_name(&c->gpu, code, name, sizeof(name));
		return h2d_fail(&dev->log, H2D_E_UNAVAILABLE, "cuda:%d: cuDeviceGet: %s (%d)",
				c->gpu.index, name, code);
	}
	code = c->api.cuDevicePrimaryCtxRetain(&c->context, c->device);
	if (code) {
		error_name(&c->gpu, code, name, sizeof(name));
		return h2d_fail(&dev->log, H2D_E_UNAVAILABLE,
				"cuda:%d: cuDevicePrimaryCtxRetain: %s (%d)", c->gpu.index,
				name, code);
	}
	rc = describe(c, dev);
	if (rc) /* nothing is under way, lost or not */
		c->api.cuDevicePrimaryCtxRelease_v2(c->device);
	return rc;
}

static int cuda_open(struct h2d_device *dev, const char *args)
{
	struct h2d_runtime rt;
	struct cuda *c;
	unsigned index;
	bool allow_compat;
	int rc;

	rc = h2d_gpu_parse(dev, args, &index, &allow_compat);
	if (rc)
		return rc;
	c = h2d_mem->calloc(1, sizeof(*c));
	if (!c)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "cuda: out of memory");
	c->gpu.ops = &ops;
	c->gpu.storage_kind = &h2d_storage_cufile;
	c->gpu.allow_compat = allow_compat;
	rc = start(&c->gpu.dl, &c->api, &rt);
	if (rc) {
		h2d_fail(&dev->log, rc, "cuda: %s", rt.why);
		goto out;
	}
	c->gpu.index = (int)index;
	if (index >= rt.device_count)
		rc = h2d_fail(&dev->log, H2D_E_UNAVAILABLE, "cuda:%u: there %s %u device%s",
			      index, rt.device_count == 1 ? "is" : "are", rt.device_count,
			      rt.device_count == 1 ? "" : "s");
	else
		rc = use_device(c, dev);
out:
	if (rc) {
		h2d_dl_close(&c->gpu.dl);
		free(c);
	}
	return rc;
}

static void cuda_close(struct h2d_device *dev)
{
	struct cuda *c = dev->priv;
	int code = 0;

	if (h2d_gpu_closing(&c->gpu))
		code = c->api.cuDevicePrimaryCtxRelease_v2(c->device);
	if (code)
		h2d_log_line(&dev->log, H2D_LOG_WARNING,
			     "%s: cuDevicePrimaryCtxRelease_v2: %s (%d)", dev->facts.name,
			     name_of(&c->api, code), code);
	h2d_dl_close(&c->gpu.dl);
	free(c);
}

const struct h2d_backend h2d_backend_cuda = {
	.name = "cuda",
	.summary = "NVIDIA GPUs by the CUDA driver API",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_PINNED | H2D_DEV_REGISTER |
		H2D_DEV_REGISTER_READ_ONLY | H2D_DEV_COPY_2D | H2D_DEV_CALLER_STREAM |
		H2D_DEV_UNIFIED | H2D_DEV_READ_FILE,
	.probe = cuda_probe,
	.runtime = cuda_runtime,
	.open = cuda_open,
	.close = cuda_close,
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
