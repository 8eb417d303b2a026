/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

/* A status that means the same wherever it comes from, or -1. */
static int plain_exit(int status)
{
	switch (status) {
	case H2D_OK:
		return H2D_EXIT_OK;
	case H2D_E_MISMATCH:
		return H2D_EXIT_NEGATIVE;
	case H2D_E_FORMAT:
	case H2D_E_CHANGED:
		return H2D_EXIT_INPUT;
	case H2D_E_IO:
	case H2D_E_NOMEM:
	case H2D_E_PERMISSION:
	case H2D_E_INTERNAL:
		return H2D_EXIT_SYSTEM;
	case H2D_E_UNAVAILABLE:
	case H2D_E_DEVICE:
	case H2D_E_DEVICE_MEMORY:
	case H2D_E_DEVICE_LOST:
		return H2D_EXIT_DEVICE;
	case H2D_E_CANCELLED:
		return H2D_EXIT_CANCELLED;
	default:
		return -1;
	}
}

enum h2d_exit h2d_exit_status(int status, enum h2d_stage stage)
{
	int exit = plain_exit(status);

	if (exit >= 0)
		return (enum h2d_exit)exit;
	/* Left are: invalid argument, not found, not supported. */
	switch (stage) {
	case H2D_STAGE_INPUT:
		return H2D_EXIT_INPUT;
	case H2D_STAGE_DEVICE:
		/* "There is no such back-end" is a slip of the user, "no such device" is not.
		 */
		return status == H2D_E_INVALID ? H2D_EXIT_USAGE : H2D_EXIT_DEVICE;
	case H2D_STAGE_LOAD:
		/* A path that this device cannot take is no slip: another one may. */
		if (status == H2D_E_UNSUPPORTED)
			return H2D_EXIT_UNKNOWN;
		/* A data file that is gone since the checkpoint was opened. */
		return status == H2D_E_NOT_FOUND ? H2D_EXIT_INPUT : H2D_EXIT_USAGE;
	case H2D_STAGE_USAGE:
		break;
	}
	return H2D_EXIT_USAGE;
}

const char *h2d_exit_meaning(int exit)
{
	switch (exit) {
	case H2D_EXIT_OK:
		return "Done; not affected.";
	case H2D_EXIT_NEGATIVE:
		return "Negative verdict: affected, mismatch, regression or missing cell.";
	case H2D_EXIT_USAGE:
		return "Usage: the command line makes no sense.";
	case H2D_EXIT_INPUT:
		return "Bad or missing input file.";
	case H2D_EXIT_DEVICE:
		return "Device or runtime not available, or device error.";
	case H2D_EXIT_SYSTEM:
		return "System error: input/output, memory or permission.";
	case H2D_EXIT_CANCELLED:
		return "Cancelled.";
	case H2D_EXIT_UNKNOWN:
		return "Cannot tell, or cannot run here; the reason is on stderr.";
	default:
		return NULL;
	}
}
