/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of the CUDA driver API against NVIDIA's own header. It is a test that it
 * compiles. */
#include <cuda.h>

#define H2D_VENDOR_TYPES
#include "device/cuda_api.h"

/* Pointers, with the types of the header in both. */
#define CHECK(name, args)                                                                      \
	_Static_assert(                                                                        \
		__builtin_types_compatible_p(__typeof__(((struct h2d_cuda_api *)0)->name),     \
					     __typeof__(&name)),                               \
		#name " is declared otherwise");
H2D_CUDA_CALLS(CHECK, CHECK)

/* Values. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(H2D_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(H2D_CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(H2D_CUDA_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(H2D_CUDA_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(H2D_CUDA_MEMHOSTREGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(H2D_CUDA_MEMHOSTREGISTER_READ_ONLY, CU_MEMHOSTREGISTER_READ_ONLY);
SAME(H2D_CUDA_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST);
SAME(H2D_CUDA_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(H2D_CUDA_ATTRIBUTE_INTEGRATED, CU_DEVICE_ATTRIBUTE_INTEGRATED);
SAME(H2D_CUDA_ATTRIBUTE_READ_ONLY_HOST_REGISTER,
     CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED);
SAME(H2D_CUDA_ATTRIBUTE_HOST_NUMA_ID, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
#define ERROR(name, code) SAME(code, name);
H2D_CUDA_ERRORS(ERROR)
/* Codes that gpu.c knows by number. */
SAME(600, CUDA_ERROR_NOT_READY);
SAME(4, CUDA_ERROR_DEINITIALIZED);
SAME(214, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(220, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(226, CUDA_ERROR_CONTAINED);
SAME(700, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(702, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(709, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(710, CUDA_ERROR_ASSERT);
SAME(714, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(715, CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME(716, CUDA_ERROR_MISALIGNED_ADDRESS);
SAME(717, CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME(718, CUDA_ERROR_INVALID_PC);
SAME(719, CUDA_ERROR_LAUNCH_FAILED);
/* Types that the library declares for itself are passed alike. */
_Static_assert(sizeof(CUresult) == sizeof(int), "CUresult");
_Static_assert(sizeof(CUdevice_attribute) == sizeof(int), "CUdevice_attribute");
_Static_assert(sizeof(CUmemorytype) == sizeof(int), "CUmemorytype");
_Static_assert(__builtin_types_compatible_p(CUdevice, int), "CUdevice");
_Static_assert(__builtin_types_compatible_p(CUdeviceptr, unsigned long long), "CUdeviceptr");
_Static_assert(__builtin_types_compatible_p(CUcontext, struct CUctx_st *), "CUcontext");
_Static_assert(__builtin_types_compatible_p(CUstream, struct CUstream_st *), "CUstream");
_Static_assert(__builtin_types_compatible_p(CUevent, struct CUevent_st *), "CUevent");

/* The one structure: the same offsets with our types. */
struct ours {
	size_t srcXInBytes, srcY;
	unsigned int srcMemoryType;
	const void *srcHost;
	unsigned long long srcDevice;
	void *srcArray;
	size_t srcPitch;
	size_t dstXInBytes, dstY;
	unsigned int dstMemoryType;
	void *dstHost;
	unsigned long long dstDevice;
	void *dstArray;
	size_t dstPitch;
	size_t WidthInBytes, Height;
};
#define PLACE(member)                                                                          \
	_Static_assert(offsetof(struct ours, member) == offsetof(CUDA_MEMCPY2D, member),       \
		       #member)
PLACE(srcXInBytes);
PLACE(srcY);
PLACE(srcMemoryType);
PLACE(srcHost);
PLACE(srcDevice);
PLACE(srcArray);
PLACE(srcPitch);
PLACE(dstXInBytes);
PLACE(dstY);
PLACE(dstMemoryType);
PLACE(dstHost);
PLACE(dstDevice);
PLACE(dstArray);
PLACE(dstPitch);
PLACE(WidthInBytes);
PLACE(Height);
_Static_assert(sizeof(struct ours) == sizeof(CUDA_MEMCPY2D), "CUDA_MEMCPY2D");
