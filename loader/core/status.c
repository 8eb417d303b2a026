/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

const char *h2d_status_string(int status)
{
	switch (status) {
	case H2D_OK:
		return "ok";
	case H2D_E_INVALID:
		return "invalid argument";
	case H2D_E_NOT_FOUND:
		return "not found";
	case H2D_E_FORMAT:
		return "malformed checkpoint";
	case H2D_E_CHANGED:
		return "file changed while in use";
	case H2D_E_IO:
		return "input/output error";
	case H2D_E_NOMEM:
		return "out of memory";
	case H2D_E_PERMISSION:
		return "permission denied";
	case H2D_E_UNAVAILABLE:
		return "not available";
	case H2D_E_DEVICE:
		return "device error";
	case H2D_E_DEVICE_MEMORY:
		return "out of device memory";
	case H2D_E_DEVICE_LOST:
		return "device lost";
	case H2D_E_CANCELLED:
		return "cancelled";
	case H2D_E_MISMATCH:
		return "bytes differ";
	case H2D_E_UNSUPPORTED:
		return "not supported";
	case H2D_E_INTERNAL:
		return "internal error";
	default:
		return "unknown status";
	}
}

unsigned h2d_version(void)
{
	return H2D_VERSION_MAJOR << 16 | H2D_VERSION_MINOR << 8 | H2D_VERSION_PATCH;
}
