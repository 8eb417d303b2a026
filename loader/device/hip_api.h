/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file hip_api.h
 * The part of the HIP runtime that is used, as declarations of our own: only entry points and
 * values that are the same in ROCm 5, 6 and 7. `hipDeviceProp_t` is not (its size and its
 * function's name changed), nor are the memory types; hipGetLastError() changed its meaning.
 *
 * With H2D_VENDOR_TYPES the types come from AMD's header, included before: the tests then
 * compare every pointer below with what that header declares.
 *
 * @source hip_runtime_api.h of HIP 5.2.3 and 6.3
 * @since 0.1
 */
#ifndef H2D_DEVICE_HIP_API_H
#define H2D_DEVICE_HIP_API_H

#include <stddef.h>

#ifndef H2D_VENDOR_TYPES
typedef int hipError_t;		  /* an enumeration there */
typedef int hipDeviceAttribute_t; /* likewise */
typedef int hipMemcpyKind;	  /* likewise */
typedef int hipDevice_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
#endif

enum {
	H2D_HIP_SUCCESS = 0,
	H2D_HIP_STREAM_NON_BLOCKING = 1,
	H2D_HIP_EVENT_DISABLE_TIMING = 2,
	H2D_HIP_HOST_MALLOC_PORTABLE = 1,
	H2D_HIP_HOST_REGISTER_PORTABLE = 1,
	H2D_HIP_MEMCPY_HOST_TO_DEVICE = 1,
	H2D_HIP_MEMCPY_DEVICE_TO_HOST = 2,
	H2D_HIP_ATTRIBUTE_INTEGRATED = 16,
};

/* X(result, name, arguments), O() where h2d can do without. */
#define H2D_HIP_CALLS(X, O)                                                                    \
	X(hipError_t, hipInit, (unsigned int flags))                                           \
	X(hipError_t, hipGetDeviceCount, (int *count))                                         \
	X(hipError_t, hipSetDevice, (int device))                                              \
	O(hipError_t, hipGetDevice, (int *device))                                             \
	O(hipError_t, hipRuntimeGetVersion, (int *version))                                    \
	X(const char *, hipGetErrorName, (hipError_t error))                                   \
	X(hipError_t, hipDeviceGetName, (char *name, int bytes, hipDevice_t device))           \
	O(hipError_t, hipDeviceGetPCIBusId, (char *id, int bytes, int device))                 \
	X(hipError_t, hipDeviceTotalMem, (size_t * bytes, hipDevice_t device))                 \
	X(hipError_t, hipMemGetInfo, (size_t * available, size_t * total))                     \
	X(hipError_t, hipDeviceGetAttribute,                                                   \
	  (int *value, hipDeviceAttribute_t attribute, int device))                            \
	X(hipError_t, hipMalloc, (void **p, size_t bytes))                                     \
	X(hipError_t, hipFree, (void *p))                                                      \
	X(hipError_t, hipHostMalloc, (void **p, size_t bytes, unsigned int flags))             \
	X(hipError_t, hipHostFree, (void *p))                                                  \
	X(hipError_t, hipHostRegister, (void *p, size_t bytes, unsigned int flags))            \
	X(hipError_t, hipHostUnregister, (void *p))                                            \
	X(hipError_t, hipMemcpyAsync,                                                          \
	  (void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream))  \
	X(hipError_t, hipMemcpy2DAsync,                                                        \
	  (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t row_bytes,   \
	   size_t rows, hipMemcpyKind kind, hipStream_t stream))                               \
	X(hipError_t, hipStreamCreateWithFlags, (hipStream_t * stream, unsigned int flags))    \
	X(hipError_t, hipStreamDestroy, (hipStream_t stream))                                  \
	X(hipError_t, hipEventCreateWithFlags, (hipEvent_t * event, unsigned int flags))       \
	X(hipError_t, hipEventDestroy, (hipEvent_t event))                                     \
	X(hipError_t, hipEventRecord, (hipEvent_t event, hipStream_t stream))                  \
	X(hipError_t, hipEventQuery, (hipEvent_t event))

struct h2d_hip_api {
#define H2D_HIP_MEMBER(result, name, args) result(*name) args;
	H2D_HIP_CALLS(H2D_HIP_MEMBER, H2D_HIP_MEMBER)
#undef H2D_HIP_MEMBER
};

#endif
