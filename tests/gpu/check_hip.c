/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of HIP against AMD's own header. It is a test that it compiles. */
#define __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_HCC__
#include <hip/hip_runtime_api.h>

#define H2D_VENDOR_TYPES
#include "device/hip_api.h"

/* Pointers, with the types of the header in both. */
#define CHECK(result, name, args)                                                              \
	_Static_assert(                                                                        \
		__builtin_types_compatible_p(__typeof__(((struct h2d_hip_api *)0)->name),      \
					     __typeof__(&name)),                               \
		#name " is declared otherwise");
H2D_HIP_CALLS(CHECK, CHECK)

/* Values. */
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(H2D_HIP_SUCCESS, hipSuccess);
SAME(H2D_HIP_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME(H2D_HIP_EVENT_DISABLE_TIMING, hipEventDisableTiming);
SAME(H2D_HIP_HOST_MALLOC_PORTABLE, hipHostMallocPortable);
SAME(H2D_HIP_HOST_REGISTER_PORTABLE, hipHostRegisterPortable);
SAME(H2D_HIP_MEMCPY_HOST_TO_DEVICE, hipMemcpyHostToDevice);
SAME(H2D_HIP_MEMCPY_DEVICE_TO_HOST, hipMemcpyDeviceToHost);
SAME(H2D_HIP_ATTRIBUTE_INTEGRATED, hipDeviceAttributeIntegrated);
/* Codes that gpu.c knows by number. */
SAME(2, hipErrorOutOfMemory);
SAME(600, hipErrorNotReady);
SAME(801, hipErrorNotSupported);
SAME(4, hipErrorDeinitialized);
SAME(214, hipErrorECCNotCorrectable);
SAME(700, hipErrorIllegalAddress);
SAME(702, hipErrorLaunchTimeOut);
SAME(709, hipErrorContextIsDestroyed);
SAME(710, hipErrorAssert);
SAME(719, hipErrorLaunchFailure);
SAME(999, hipErrorUnknown);
SAME(100, hipErrorNoDevice);
SAME(101, hipErrorInvalidDevice);
/* Types that the library declares for itself are passed alike. */
_Static_assert(sizeof(hipError_t) == sizeof(int), "hipError_t");
_Static_assert(sizeof(hipDeviceAttribute_t) == sizeof(int), "hipDeviceAttribute_t");
_Static_assert(sizeof(hipMemcpyKind) == sizeof(int), "hipMemcpyKind");
_Static_assert(__builtin_types_compatible_p(hipDevice_t, int), "hipDevice_t");
_Static_assert(__builtin_types_compatible_p(hipStream_t, struct ihipStream_t *), "hipStream_t");
_Static_assert(__builtin_types_compatible_p(hipEvent_t, struct ihipEvent_t *), "hipEvent_t");
