/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file opencl_api.h
 * The part of OpenCL that the back-end uses, found in libOpenCL.so.1 at run time, so that
 * nothing of OpenCL is needed to build h2d or to start it. tests/unit/test_opencl_header.c
 * holds types and numbers against the Khronos headers, where these are installed.
 *
 * @source OpenCL API 3.0 specification; extension numbers from its registry (CL/cl_ext.h)
 */
#ifndef H2D_DEVICE_OPENCL_API_H
#define H2D_DEVICE_OPENCL_API_H

#include <stdint.h>

#include "device/dl.h"

typedef struct _cl_platform_id *h2d_cl_platform;
typedef struct _cl_device_id *h2d_cl_device;
typedef struct _cl_context *h2d_cl_context;
typedef struct _cl_command_queue *h2d_cl_queue;
typedef struct _cl_mem *h2d_cl_mem;
typedef struct _cl_event *h2d_cl_event;

enum {
	OCL_SUCCESS = 0,
	OCL_DEVICE_NOT_FOUND = -1,
	OCL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
	OCL_OUT_OF_RESOURCES = -5,
	OCL_OUT_OF_HOST_MEMORY = -6,
	OCL_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
	OCL_PLATFORM_NOT_FOUND = -1001,

	OCL_COMPLETE = 0,
	OCL_PLATFORM_VERSION = 0x0901,
	OCL_PLATFORM_NAME = 0x0902,
	OCL_DEVICE_TYPE = 0x1000,
	OCL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
	OCL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
	OCL_DEVICE_AVAILABLE = 0x1027,
	OCL_DEVICE_NAME = 0x102B,
	OCL_DEVICE_EXTENSIONS = 0x1030,
	OCL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
	OCL_DEVICE_SVM_CAPABILITIES = 0x1053,
	OCL_CONTEXT_DEVICES = 0x1081,
	OCL_QUEUE_CONTEXT = 0x1090,
	OCL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,

	OCL_DEVICE_PCI_BUS_INFO_KHR = 0x410F, /* cl_khr_pci_bus_info */
	OCL_DEVICE_PCI_BUS_ID_NV = 0x4008,    /* cl_nv_device_attribute_query */
	OCL_DEVICE_PCI_SLOT_ID_NV = 0x4009,
	OCL_DEVICE_PCI_DOMAIN_ID_NV = 0x400A,
	OCL_DEVICE_TOPOLOGY_AMD = 0x4037, /* cl_amd_device_attribute_query */
	OCL_DEVICE_GLOBAL_FREE_MEMORY_AMD = 0x4039,
};

#define OCL_DEVICE_TYPE_ALL	    UINT64_C(0xFFFFFFFF)
#define OCL_DEVICE_TYPE_CPU	    (UINT64_C(1) << 1)
#define OCL_DEVICE_TYPE_GPU	    (UINT64_C(1) << 2)
#define OCL_DEVICE_TYPE_ACCELERATOR (UINT64_C(1) << 3)
#define OCL_SVM_COARSE_GRAIN_BUFFER UINT64_C(1)
#define OCL_MEM_READ_WRITE	    UINT64_C(1)
#define OCL_MEM_READ_ONLY	    (UINT64_C(1) << 2)
#define OCL_MEM_USE_HOST_PTR	    (UINT64_C(1) << 3)
#define OCL_MEM_ALLOC_HOST_PTR	    (UINT64_C(1) << 4)
#define OCL_MAP_READ		    UINT64_C(1)
#define OCL_MAP_WRITE		    UINT64_C(2)

/** What cl_khr_pci_bus_info answers. */
struct h2d_cl_pci_khr {
	uint32_t domain, bus, device, function;
};

/** F(optional, result, name, parameters): libraries before OpenCL 2.0 lack the optional ones.
 */
#define H2D_OPENCL_FUNCTIONS(F)                                                                \
	F(0, int32_t, clGetPlatformIDs, (uint32_t, h2d_cl_platform *, uint32_t *))             \
	F(0, int32_t, clGetPlatformInfo,                                                       \
	  (h2d_cl_platform, uint32_t, size_t, void *, size_t *))                               \
	F(0, int32_t, clGetDeviceIDs,                                                          \
	  (h2d_cl_platform, uint64_t, uint32_t, h2d_cl_device *, uint32_t *))                  \
	F(0, int32_t, clGetDeviceInfo, (h2d_cl_device, uint32_t, size_t, void *, size_t *))    \
	F(0, h2d_cl_context, clCreateContext,                                                  \
	  (const intptr_t *, uint32_t, const h2d_cl_device *,                                  \
	   void (*)(const char *, const void *, size_t, void *), void *, int32_t *))           \
	F(0, int32_t, clRetainContext, (h2d_cl_context))                                       \
	F(0, int32_t, clReleaseContext, (h2d_cl_context))                                      \
	F(0, int32_t, clGetContextInfo, (h2d_cl_context, uint32_t, size_t, void *, size_t *))  \
	F(0, h2d_cl_queue, clCreateCommandQueue,                                               \
	  (h2d_cl_context, h2d_cl_device, uint64_t, int32_t *))                                \
	F(0, int32_t, clRetainCommandQueue, (h2d_cl_queue))                                    \
	F(0, int32_t, clReleaseCommandQueue, (h2d_cl_queue))                                   \
	F(0, int32_t, clGetCommandQueueInfo,                                                   \
	  (h2d_cl_queue, uint32_t, size_t, void *, size_t *))                                  \
	F(0, int32_t, clFlush, (h2d_cl_queue))                                                 \
	F(0, h2d_cl_mem, clCreateBuffer,                                                       \
	  (h2d_cl_context, uint64_t, size_t, void *, int32_t *))                               \
	F(0, int32_t, clReleaseMemObject, (h2d_cl_mem))                                        \
	F(0, int32_t, clEnqueueWriteBuffer,                                                    \
	  (h2d_cl_queue, h2d_cl_mem, uint32_t, size_t, size_t, const void *, uint32_t,         \
	   const h2d_cl_event *, h2d_cl_event *))                                              \
	F(0, int32_t, clEnqueueReadBuffer,                                                     \
	  (h2d_cl_queue, h2d_cl_mem, uint32_t, size_t, size_t, void *, uint32_t,               \
	   const h2d_cl_event *, h2d_cl_event *))                                              \
	F(0, int32_t, clEnqueueWriteBufferRect,                                                \
	  (h2d_cl_queue, h2d_cl_mem, uint32_t, const size_t *, const size_t *, const size_t *, \
	   size_t, size_t, size_t, size_t, const void *, uint32_t, const h2d_cl_event *,       \
	   h2d_cl_event *))                                                                    \
	F(0, void *, clEnqueueMapBuffer,                                                       \
	  (h2d_cl_queue, h2d_cl_mem, uint32_t, uint64_t, size_t, size_t, uint32_t,             \
	   const h2d_cl_event *, h2d_cl_event *, int32_t *))                                   \
	F(0, int32_t, clEnqueueUnmapMemObject,                                                 \
	  (h2d_cl_queue, h2d_cl_mem, void *, uint32_t, const h2d_cl_event *, h2d_cl_event *))  \
	F(0, int32_t, clEnqueueMarkerWithWaitList,                                             \
	  (h2d_cl_queue, uint32_t, const h2d_cl_event *, h2d_cl_event *))                      \
	F(0, int32_t, clFinish, (h2d_cl_queue))                                                \
	F(0, int32_t, clGetEventInfo, (h2d_cl_event, uint32_t, size_t, void *, size_t *))      \
	F(0, int32_t, clSetEventCallback,                                                      \
	  (h2d_cl_event, int32_t, void (*)(h2d_cl_event, int32_t, void *), void *))            \
	F(0, int32_t, clReleaseEvent, (h2d_cl_event))                                          \
	F(1, void *, clSVMAlloc, (h2d_cl_context, uint64_t, size_t, uint32_t))                 \
	F(1, void, clSVMFree, (h2d_cl_context, void *))                                        \
	F(1, int32_t, clEnqueueSVMMemcpy,                                                      \
	  (h2d_cl_queue, uint32_t, void *, const void *, size_t, uint32_t,                     \
	   const h2d_cl_event *, h2d_cl_event *))

struct h2d_opencl_api {
	struct h2d_dl dl;
#define H2D_OPENCL_MEMBER(optional, result, name, params) result(*name) params;
	H2D_OPENCL_FUNCTIONS(H2D_OPENCL_MEMBER)
#undef H2D_OPENCL_MEMBER
};

/** Whether this host has what drivers end the process without (see opencl_host.c).
 *  @param why  (out) one line, when it has not */
bool h2d_opencl_host_serves(char *why, size_t why_bytes);

/** Load libOpenCL.so.1, which is never unloaded again once a driver behind it was asked for
 *  anything, since drivers have threads that outlive every context.
 *  @param why  (out) one line, when it fails
 *  @return 0 or H2D_E_UNAVAILABLE */
int h2d_opencl_load(struct h2d_opencl_api *api, char *why, size_t why_bytes);
void h2d_opencl_unload(struct h2d_opencl_api *api);

/** "CL_OUT_OF_RESOURCES", or "an unknown OpenCL error". Static text. */
const char *h2d_opencl_error_name(int32_t code);
/** The status that an OpenCL error is told as. */
int h2d_opencl_status(int32_t code);

#endif
