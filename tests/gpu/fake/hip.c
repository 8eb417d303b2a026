/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libamdhip64. */
#include <stdio.h>
#include <string.h>

#include "device/hip_api.h"
#include "fake.h"

#define NAME(result, name, args) #name,
const char *const fake_names[] = {H2D_HIP_CALLS(NAME, NAME) NULL};
#undef NAME

/* As the library calls them. */
#define PROTOTYPE(result, name, args) FAKE_API result name args;
H2D_HIP_CALLS(PROTOTYPE, PROTOTYPE)

static _Thread_local int current;

uintptr_t fake_current(void)
{
	return (uintptr_t)current;
}

void fake_set_current(uintptr_t value)
{
	current = (int)value;
}

#define ENTER()                                                                                \
	do {                                                                                   \
		int scripted = fake_call(__func__);                                            \
		if (scripted)                                                                  \
			return scripted;                                                       \
	} while (0)

/* … and the device must be well. */
#define ENTER_DEVICE()                                                                         \
	do {                                                                                   \
		ENTER();                                                                       \
		if (fake_sticky(current))                                                      \
			return fake_sticky(current);                                           \
	} while (0)

FAKE_API hipError_t hipInit(unsigned int flags)
{
	ENTER();
	return flags ? FAKE_INVALID_VALUE : 0;
}

FAKE_API hipError_t hipGetDeviceCount(int *count)
{
	ENTER();
	*count = fake_device_count();
	return *count ? 0 : 100;
}

FAKE_API hipError_t hipSetDevice(int device)
{
	ENTER();
	if (device < 0 || device >= fake_device_count())
		return FAKE_INVALID_DEVICE;
	current = device;
	return 0;
}

FAKE_API hipError_t hipGetDevice(int *device)
{
	ENTER();
	*device = current;
	return 0;
}

FAKE_API hipError_t hipRuntimeGetVersion(int *version)
{
	ENTER();
	*version = 60342133;
	return 0;
}

FAKE_API const char *hipGetErrorName(hipError_t error)
{
	switch (error) {
	case 2:
		return "hipErrorOutOfMemory";
	case 100:
		return "hipErrorNoDevice";
	case 101:
		return "hipErrorInvalidDevice";
	case 700:
		return "hipErrorIllegalAddress";
	case 719:
		return "hipErrorLaunchFailure";
	default:
		return "hipErrorOfTheFake";
	}
}

FAKE_API hipError_t hipDeviceGetName(char *name, int bytes, hipDevice_t device)
{
	ENTER();
	snprintf(name, (size_t)bytes, "Fake Radeon %d", device);
	return 0;
}

FAKE_API hipError_t hipDeviceGetPCIBusId(char *id, int bytes, int device)
{
	ENTER();
	snprintf(id, (size_t)bytes, "0000:%02x:00.0", 0x43 + device);
	return 0;
}

FAKE_API hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
	(void)device;
	ENTER();
	*bytes = fake_memory_bytes();
	return 0;
}

FAKE_API hipError_t hipMemGetInfo(size_t *available, size_t *total)
{
	ENTER_DEVICE();
	fake_memory_info(current, available, total);
	return 0;
}

FAKE_API hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute,
					  int device)
{
	(void)device;
	ENTER();
	if (attribute != H2D_HIP_ATTRIBUTE_INTEGRATED)
		return FAKE_INVALID_VALUE;
	*value = fake_parameter("integrated");
	return 0;
}

FAKE_API hipError_t hipMalloc(void **p, size_t bytes)
{
	ENTER_DEVICE();
	return fake_alloc(current, p, bytes);
}

FAKE_API hipError_t hipFree(void *p)
{
	ENTER_DEVICE();
	return fake_free(current, p);
}

FAKE_API hipError_t hipHostMalloc(void **p, size_t bytes, unsigned int flags)
{
	(void)flags;
	ENTER_DEVICE();
	return fake_host_alloc(p, bytes);
}

FAKE_API hipError_t hipHostFree(void *p)
{
	ENTER_DEVICE();
	return fake_host_free(p);
}

FAKE_API hipError_t hipHostRegister(void *p, size_t bytes, unsigned int flags)
{
	ENTER_DEVICE();
	if (flags & ~1u)
		fake_violation("hipHostRegister: a flag that differs between versions");
	return fake_register(p, bytes, false);
}

FAKE_API hipError_t hipHostUnregister(void *p)
{
	ENTER_DEVICE();
	return fake_unregister(p);
}

static int copy(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
		size_t row_bytes, size_t rows, int kind, hipStream_t stream)
{
	if (kind != H2D_HIP_MEMCPY_HOST_TO_DEVICE && kind != H2D_HIP_MEMCPY_DEVICE_TO_HOST)
		return 21;
	return fake_copy(current, dst, dst_pitch, src, src_pitch, row_bytes, rows,
			 kind == H2D_HIP_MEMCPY_HOST_TO_DEVICE, (struct fake_stream *)stream);
}

FAKE_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind kind,
				   hipStream_t stream)
{
	ENTER_DEVICE();
	return copy(dst, bytes, src, bytes, bytes, 1, kind, stream);
}

FAKE_API hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
				     size_t src_pitch, size_t row_bytes, size_t rows,
				     hipMemcpyKind kind, hipStream_t stream)
{
	ENTER_DEVICE();
	return copy(dst, dst_pitch, src, src_pitch, row_bytes, rows, kind, stream);
}

FAKE_API hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags)
{
	ENTER_DEVICE();
	if (flags != H2D_HIP_STREAM_NON_BLOCKING)
		return FAKE_INVALID_VALUE;
	*stream = (hipStream_t)(void *)fake_stream_new(current, false);
	return 0;
}

FAKE_API hipError_t hipStreamDestroy(hipStream_t stream)
{
	ENTER_DEVICE();
	return fake_stream_free((struct fake_stream *)stream);
}

FAKE_API hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned int flags)
{
	ENTER_DEVICE();
	if (flags != H2D_HIP_EVENT_DISABLE_TIMING)
		return FAKE_INVALID_VALUE;
	*event = (hipEvent_t)(void *)fake_event_new(current);
	return 0;
}

FAKE_API hipError_t hipEventDestroy(hipEvent_t event)
{
	ENTER_DEVICE();
	return fake_event_free((struct fake_event *)event);
}

FAKE_API hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
	ENTER_DEVICE();
	return fake_event_record(current, (struct fake_event *)event,
				 (struct fake_stream *)stream);
}

FAKE_API hipError_t hipEventQuery(hipEvent_t event)
{
	ENTER_DEVICE();
	return fake_event_query((struct fake_event *)event);
}
