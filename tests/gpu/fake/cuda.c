/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libcuda. A context is the number of its device plus one. */
#include <stdio.h>
#include <string.h>

#include "device/cuda_api.h"
#include "fake.h"

#define NAME(name, args) #name,
const char *const fake_names[] = {H2D_CUDA_CALLS(NAME, NAME) NULL};
#undef NAME

/* As the library calls them. */
#define PROTOTYPE(name, args) FAKE_API CUresult name args;
H2D_CUDA_CALLS(PROTOTYPE, PROTOTYPE)

static _Thread_local uintptr_t current; /* context, 0: none */

uintptr_t fake_current(void)
{
	return current;
}

void fake_set_current(uintptr_t value)
{
	current = value;
}

#define ENTER()                                                                                \
	do {                                                                                   \
		int scripted = fake_call(__func__);                                            \
		if (scripted)                                                                  \
			return scripted;                                                       \
	} while (0)

static int context_state(void)
{
	if (!current || !fake_retained((int)current - 1)) {
		fake_violation("a call without a context");
		return FAKE_INVALID_CONTEXT;
	}
	return fake_sticky((int)current - 1);
}

#define ENTER_CONTEXT()                                                                        \
	do {                                                                                   \
		int state;                                                                     \
		ENTER();                                                                       \
		state = context_state();                                                       \
		if (state)                                                                     \
			return state;                                                          \
	} while (0)

static int device(void)
{
	return (int)current - 1;
}

FAKE_API CUresult cuInit(unsigned int flags)
{
	ENTER();
	return flags ? FAKE_INVALID_VALUE : 0;
}

FAKE_API CUresult cuDriverGetVersion(int *version)
{
	ENTER();
	*version = 13000;
	return 0;
}

FAKE_API CUresult cuGetErrorName(CUresult error, const char **name)
{
	ENTER();
	switch (error) {
	case 2:
		*name = "CUDA_ERROR_OUT_OF_MEMORY";
		return 0;
	case 700:
		*name = "CUDA_ERROR_ILLEGAL_ADDRESS";
		return 0;
	case 719:
		*name = "CUDA_ERROR_LAUNCH_FAILED";
		return 0;
	default:
		*name = NULL;
		return FAKE_INVALID_VALUE;
	}
}

FAKE_API CUresult cuDeviceGetCount(int *count)
{
	ENTER();
	*count = fake_device_count();
	return 0;
}

FAKE_API CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
	ENTER();
	if (ordinal < 0 || ordinal >= fake_device_count())
		return FAKE_INVALID_DEVICE;
	*out = ordinal;
	return 0;
}

FAKE_API CUresult cuDeviceGetName(char *name, int bytes, CUdevice d)
{
	ENTER();
	snprintf(name, (size_t)bytes, "Fake GeForce %d", d);
	return 0;
}

FAKE_API CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice d)
{
	ENTER();
	snprintf(id, (size_t)bytes, "0000:%02X:00.0", 0x1A + d); /* in capitals, as NVIDIA's */
	return 0;
}

FAKE_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
	(void)d;
	ENTER();
	*bytes = fake_memory_bytes();
	return 0;
}

FAKE_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice d)
{
	(void)d;
	ENTER();
	switch (attribute) {
	case H2D_CUDA_ATTRIBUTE_INTEGRATED:
		*value = fake_parameter("integrated");
		return 0;
	case H2D_CUDA_ATTRIBUTE_READ_ONLY_HOST_REGISTER:
		*value = fake_parameter("register_read_only");
		return 0;
	default:
		return FAKE_INVALID_VALUE;
	}
}

FAKE_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice d)
{
	ENTER();
	if (fake_retained(d) && fake_sticky(d))
		return fake_sticky(d);
	fake_retain(d, 1);
	*context = (CUcontext)(uintptr_t)(d + 1);
	return 0;
}

FAKE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	ENTER();
	if (!fake_retained(d)) {
		fake_violation("a context released too often");
		return FAKE_INVALID_CONTEXT;
	}
	fake_retain(d, -1);
	return 0;
}

FAKE_API CUresult cuCtxGetCurrent(CUcontext *context)
{
	ENTER();
	*context = (CUcontext)current;
	return 0;
}

FAKE_API CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER();
	current = (uintptr_t)context;
	return 0;
}

FAKE_API CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	ENTER_CONTEXT();
	fake_memory_info(device(), available, total);
	return 0;
}

FAKE_API CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
	void *at = NULL;
	int code;

	ENTER_CONTEXT();
	code = fake_alloc(device(), &at, bytes);
	*p = (uintptr_t)at;
	return code;
}

FAKE_API CUresult cuMemFree_v2(CUdeviceptr p)
{
	ENTER_CONTEXT();
	return fake_free(device(), (void *)(uintptr_t)p);
}

FAKE_API CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags)
{
	(void)flags;
	ENTER_CONTEXT();
	return fake_host_alloc(p, bytes);
}

FAKE_API CUresult cuMemFreeHost(void *p)
{
	ENTER_CONTEXT();
	return fake_host_free(p);
}

FAKE_API CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	bool read_only = flags & H2D_CUDA_MEMHOSTREGISTER_READ_ONLY;

	ENTER_CONTEXT();
	if (read_only && !fake_parameter("register_read_only"))
		return 801;
	return fake_register(p, bytes, read_only);
}

FAKE_API CUresult cuMemHostUnregister(void *p)
{
	ENTER_CONTEXT();
	return fake_unregister(p);
}

FAKE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t bytes,
				       CUstream stream)
{
	ENTER_CONTEXT();
	return fake_copy(device(), (void *)(uintptr_t)dst, bytes, src, bytes, bytes, 1, true,
			 (struct fake_stream *)stream);
}

FAKE_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes,
				       CUstream stream)
{
	ENTER_CONTEXT();
	return fake_copy(device(), dst, bytes, (const void *)(uintptr_t)src, bytes, bytes, 1,
			 false, (struct fake_stream *)stream);
}

FAKE_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream)
{
	ENTER_CONTEXT();
	if (c->srcMemoryType != H2D_CUDA_MEMORYTYPE_HOST ||
	    c->dstMemoryType != H2D_CUDA_MEMORYTYPE_DEVICE || c->srcXInBytes || c->srcY ||
	    c->dstXInBytes || c->dstY)
		return FAKE_INVALID_VALUE;
	return fake_copy(device(), (void *)(uintptr_t)c->dstDevice, c->dstPitch, c->srcHost,
			 c->srcPitch, c->WidthInBytes, c->Height, true,
			 (struct fake_stream *)stream);
}

FAKE_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	ENTER_CONTEXT();
	if (flags != H2D_CUDA_STREAM_NON_BLOCKING)
		return FAKE_INVALID_VALUE;
	*stream = (CUstream)(void *)fake_stream_new(device(), false);
	return 0;
}

FAKE_API CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENTER_CONTEXT();
	return fake_stream_free((struct fake_stream *)stream);
}

FAKE_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	ENTER();
	*context = (CUcontext)(fake_stream_is_other((struct fake_stream *)stream)
				       ? (uintptr_t)0xabc
				       : current);
	return 0;
}

FAKE_API CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	ENTER_CONTEXT();
	if (flags != H2D_CUDA_EVENT_DISABLE_TIMING)
		return FAKE_INVALID_VALUE;
	*event = (CUevent)(void *)fake_event_new(device());
	return 0;
}

FAKE_API CUresult cuEventDestroy_v2(CUevent event)
{
	ENTER_CONTEXT();
	return fake_event_free((struct fake_event *)event);
}

FAKE_API CUresult cuEventRecord(CUevent event, CUstream stream)
{
	ENTER_CONTEXT();
	return fake_event_record(device(), (struct fake_event *)event,
				 (struct fake_stream *)stream);
}

FAKE_API CUresult cuEventQuery(CUevent event)
{
	ENTER_CONTEXT();
	return fake_event_query((struct fake_event *)event);
}
