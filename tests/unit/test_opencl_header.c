/* SPDX-License-Identifier: Apache-2.0 */
/* What opencl_api.h declares, held against the Khronos headers at compile time. */
#include "device/opencl_api.h"
#include "test.h"

#if __has_include(<CL/cl_ext.h>)
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>

#define TYPE(optional, result, name, params)                                                   \
	_Static_assert(                                                                        \
		__builtin_types_compatible_p(__typeof__(&(name)),                              \
					     __typeof__(((struct h2d_opencl_api *)0)->name)),  \
		#name " has another type");
H2D_OPENCL_FUNCTIONS(TYPE)

#define SAME(name) _Static_assert((OCL_##name) == (CL_##name), #name " has another value")
SAME(SUCCESS);
SAME(DEVICE_NOT_FOUND);
SAME(MEM_OBJECT_ALLOCATION_FAILURE);
SAME(OUT_OF_RESOURCES);
SAME(OUT_OF_HOST_MEMORY);
_Static_assert(OCL_ERROR_FOR_EVENTS_IN_WAIT_LIST ==
		       CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
	       "wait list");
_Static_assert(OCL_PLATFORM_NOT_FOUND == CL_PLATFORM_NOT_FOUND_KHR, "no platform");
SAME(COMPLETE);
SAME(PLATFORM_VERSION);
SAME(PLATFORM_NAME);
SAME(DEVICE_TYPE);
SAME(DEVICE_MAX_MEM_ALLOC_SIZE);
SAME(DEVICE_GLOBAL_MEM_SIZE);
SAME(DEVICE_AVAILABLE);
SAME(DEVICE_NAME);
SAME(DEVICE_EXTENSIONS);
SAME(DEVICE_HOST_UNIFIED_MEMORY);
SAME(DEVICE_SVM_CAPABILITIES);
SAME(CONTEXT_DEVICES);
SAME(QUEUE_CONTEXT);
SAME(EVENT_COMMAND_EXECUTION_STATUS);
SAME(DEVICE_TOPOLOGY_AMD);
SAME(DEVICE_GLOBAL_FREE_MEMORY_AMD);
SAME(DEVICE_PCI_BUS_INFO_KHR);
_Static_assert(sizeof(struct h2d_cl_pci_khr) == sizeof(cl_device_pci_bus_info_khr), "PCI");
_Static_assert(offsetof(cl_device_topology_amd, pcie.bus) == 21 &&
		       offsetof(cl_device_topology_amd, pcie.function) == 23 &&
		       sizeof(cl_device_topology_amd) == 24,
	       "topology");
_Static_assert(OCL_DEVICE_TYPE_ALL == CL_DEVICE_TYPE_ALL, "all");
SAME(DEVICE_TYPE_CPU);
SAME(DEVICE_TYPE_GPU);
SAME(DEVICE_TYPE_ACCELERATOR);
_Static_assert(OCL_SVM_COARSE_GRAIN_BUFFER == CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, "svm");
SAME(MEM_READ_WRITE);
SAME(MEM_READ_ONLY);
SAME(MEM_USE_HOST_PTR);
SAME(MEM_ALLOC_HOST_PTR);
SAME(MAP_READ);
SAME(MAP_WRITE);

static void errors_have_their_names(void)
{
	CHECK_STR(h2d_opencl_error_name(CL_SUCCESS), "CL_SUCCESS");
	CHECK_STR(h2d_opencl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
	CHECK_STR(h2d_opencl_error_name(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
		  "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
	CHECK_STR(h2d_opencl_error_name(CL_INVALID_VALUE), "CL_INVALID_VALUE");
	CHECK_STR(h2d_opencl_error_name(CL_INVALID_MEM_OBJECT), "CL_INVALID_MEM_OBJECT");
	CHECK_STR(h2d_opencl_error_name(CL_INVALID_EVENT), "CL_INVALID_EVENT");
	CHECK_STR(h2d_opencl_error_name(CL_INVALID_OPERATION), "CL_INVALID_OPERATION");
	CHECK_STR(h2d_opencl_error_name(CL_INVALID_BUFFER_SIZE), "CL_INVALID_BUFFER_SIZE");
	CHECK_STR(h2d_opencl_error_name(CL_PLATFORM_NOT_FOUND_KHR),
		  "CL_PLATFORM_NOT_FOUND_KHR");
	for (int32_t code = -20000; code < 100; code++)
		CHECK(h2d_opencl_error_name(code)[0]);
	CHECK(h2d_opencl_error_name(INT32_MIN)[0]);
}

int main(void)
{
	RUN(errors_have_their_names);
	return TEST_DONE();
}
#else
int main(void)
{
	SKIP("the Khronos headers are not installed (opencl-headers)");
}
#endif
