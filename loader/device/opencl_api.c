/* SPDX-License-Identifier: Apache-2.0 */
#include "device/opencl_api.h"

#include <string.h>

#include "h2d/h2d.h"

static const struct h2d_dl_symbol symbols[] = {
#define ENTRY(optional, result, name, params)                                                  \
	{#name, offsetof(struct h2d_opencl_api, name), optional},
	H2D_OPENCL_FUNCTIONS(ENTRY)
#undef ENTRY
		{NULL, 0, false},
};

static const struct h2d_dl_spec spec = {
	.names = (const char *const[]){"libOpenCL.so.1", NULL},
	.symbols = symbols,
};

int h2d_opencl_load(struct h2d_opencl_api *api, char *why, size_t why_bytes)
{
	int rc;

	memset(api, 0, sizeof(*api));
	rc = h2d_dl_open(&api->dl, &spec, api, why, why_bytes);
	if (!rc && !h2d_opencl_host_serves(why, why_bytes)) {
		h2d_dl_close(&api->dl);
		rc = H2D_E_UNAVAILABLE;
	}
	if (!rc)
		h2d_dl_keep(&api->dl);
	return rc;
}

void h2d_opencl_unload(struct h2d_opencl_api *api)
{
	h2d_dl_close(&api->dl);
}

const char *h2d_opencl_error_name(int32_t code)
{
	static const char *const runtime[] = {
		"CL_SUCCESS",
		"CL_DEVICE_NOT_FOUND",
		"CL_DEVICE_NOT_AVAILABLE",
		"CL_COMPILER_NOT_AVAILABLE",
		"CL_MEM_OBJECT_ALLOCATION_FAILURE",
		"CL_OUT_OF_RESOURCES",
		"CL_OUT_OF_HOST_MEMORY",
		"CL_PROFILING_INFO_NOT_AVAILABLE",
		"CL_MEM_COPY_OVERLAP",
		"CL_IMAGE_FORMAT_MISMATCH",
		"CL_IMAGE_FORMAT_NOT_SUPPORTED",
		"CL_BUILD_PROGRAM_FAILURE",
		"CL_MAP_FAILURE",
		"CL_MISALIGNED_SUB_BUFFER_OFFSET",
		"CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
	};
	static const char *const invalid[] = {
		"CL_INVALID_VALUE",	    "CL_INVALID_DEVICE_TYPE",
		"CL_INVALID_PLATFORM",	    "CL_INVALID_DEVICE",
		"CL_INVALID_CONTEXT",	    "CL_INVALID_QUEUE_PROPERTIES",
		"CL_INVALID_COMMAND_QUEUE", "CL_INVALID_HOST_PTR",
		"CL_INVALID_MEM_OBJECT",
	};
	uint32_t n = code <= 0 ? (uint32_t) - (int64_t)code : UINT32_MAX;

	if (n < sizeof(runtime) / sizeof(runtime[0]))
		return runtime[n];
	if (n >= 30 && n - 30 < sizeof(invalid) / sizeof(invalid[0]))
		return invalid[n - 30];
	switch (code) {
	case -57:
		return "CL_INVALID_EVENT_WAIT_LIST";
	case -58:
		return "CL_INVALID_EVENT";
	case -59:
		return "CL_INVALID_OPERATION";
	case -61:
		return "CL_INVALID_BUFFER_SIZE";
	case OCL_PLATFORM_NOT_FOUND:
		return "CL_PLATFORM_NOT_FOUND_KHR";
	default:
		return "an unknown OpenCL error";
	}
}

int h2d_opencl_status(int32_t code)
{
	switch (code) {
	case OCL_SUCCESS:
		return 0;
	case OCL_MEM_OBJECT_ALLOCATION_FAILURE:
		return H2D_E_DEVICE_MEMORY;
	case OCL_OUT_OF_HOST_MEMORY:
		return H2D_E_NOMEM;
	case OCL_DEVICE_NOT_FOUND:
	case OCL_PLATFORM_NOT_FOUND:
		return H2D_E_UNAVAILABLE;
	default:
		return H2D_E_DEVICE;
	}
}
