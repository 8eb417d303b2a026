/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cuda_api.h
 * The part of the CUDA driver API that is used, as declarations of our own. Names carry their
 * suffixes: the macros of cuda.h that add them differ between releases. Only primary contexts
 * are used, which the runtime API shares.
 *
 * With H2D_VENDOR_TYPES the types come from NVIDIA's header, included before: the tests then
 * compare every pointer below with what that header declares.
 *
 * @source cuda.h of CUDA 13.0
 * @since 0.1
 */
#ifndef H2D_DEVICE_CUDA_API_H
#define H2D_DEVICE_CUDA_API_H

#include <stddef.h>

#ifndef H2D_VENDOR_TYPES
typedef int CUresult;		   /* an enumeration there */
typedef int CUdevice_attribute;	   /* likewise */
typedef unsigned int CUmemorytype; /* likewise */
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
#endif

enum {
	H2D_CUDA_SUCCESS = 0,
	H2D_CUDA_STREAM_NON_BLOCKING = 1,
	H2D_CUDA_EVENT_DISABLE_TIMING = 2,
	H2D_CUDA_MEMHOSTALLOC_PORTABLE = 1,
	H2D_CUDA_MEMHOSTREGISTER_PORTABLE = 1,
	H2D_CUDA_MEMHOSTREGISTER_READ_ONLY = 8,
	H2D_CUDA_MEMORYTYPE_HOST = 1,
	H2D_CUDA_MEMORYTYPE_DEVICE = 2,
	H2D_CUDA_ATTRIBUTE_INTEGRATED = 18,
	H2D_CUDA_ATTRIBUTE_READ_ONLY_HOST_REGISTER = 113,
	H2D_CUDA_ATTRIBUTE_HOST_NUMA_ID = 134,
};

/* Names for what cuInit() answers where there is no driver to ask for them. */
#define H2D_CUDA_ERRORS(X)                                                                     \
	X(CUDA_ERROR_INVALID_VALUE, 1)                                                         \
	X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                         \
	X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                       \
	X(CUDA_ERROR_STUB_LIBRARY, 34)                                                         \
	X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                   \
	X(CUDA_ERROR_NO_DEVICE, 100)                                                           \
	X(CUDA_ERROR_INVALID_DEVICE, 101)                                                      \
	X(CUDA_ERROR_OPERATING_SYSTEM, 304)                                                    \
	X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                       \
	X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                    \
	X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                              \
	X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                      \
	X(CUDA_ERROR_UNKNOWN, 999)

/* X(name, arguments), O() where h2d can do without. All return CUresult. */
#define H2D_CUDA_CALLS(X, O)                                                                   \
	X(cuInit, (unsigned int flags))                                                        \
	O(cuDriverGetVersion, (int *version))                                                  \
	X(cuGetErrorName, (CUresult error, const char **name))                                 \
	X(cuDeviceGetCount, (int *count))                                                      \
	X(cuDeviceGet, (CUdevice * device, int ordinal))                                       \
	X(cuDeviceGetName, (char *name, int bytes, CUdevice device))                           \
	O(cuDeviceGetPCIBusId, (char *id, int bytes, CUdevice device))                         \
	X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                              \
	X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))   \
	X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                    \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                     \
	X(cuCtxGetCurrent, (CUcontext * context))                                              \
	X(cuCtxSetCurrent, (CUcontext context))                                                \
	X(cuMemGetInfo_v2, (size_t * available, size_t * total))                               \
	X(cuMemAlloc_v2, (CUdeviceptr * p, size_t bytes))                                      \
	X(cuMemFree_v2, (CUdeviceptr p))                                                       \
	X(cuMemHostAlloc, (void **p, size_t bytes, unsigned int flags))                        \
	X(cuMemFreeHost, (void *p))                                                            \
	X(cuMemHostRegister_v2, (void *p, size_t bytes, unsigned int flags))                   \
	X(cuMemHostUnregister, (void *p))                                                      \
	X(cuMemcpyHtoDAsync_v2,                                                                \
	  (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream))                   \
	X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream))   \
	X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))                    \
	X(cuStreamCreate, (CUstream * stream, unsigned int flags))                             \
	X(cuStreamDestroy_v2, (CUstream stream))                                               \
	O(cuStreamGetCtx, (CUstream stream, CUcontext * context))                              \
	X(cuEventCreate, (CUevent * event, unsigned int flags))                                \
	X(cuEventDestroy_v2, (CUevent event))                                                  \
	X(cuEventRecord, (CUevent event, CUstream stream))                                     \
	X(cuEventQuery, (CUevent event))

struct h2d_cuda_api {
#define H2D_CUDA_MEMBER(name, args) CUresult(*name) args;
	H2D_CUDA_CALLS(H2D_CUDA_MEMBER, H2D_CUDA_MEMBER)
#undef H2D_CUDA_MEMBER
};

#endif
