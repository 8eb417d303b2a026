/* SPDX-License-Identifier: Apache-2.0 */
/* The device table. A new back-end is one file and one line here. */
#include "device/device.h"

extern const struct h2d_backend h2d_backend_host, h2d_backend_null, h2d_backend_hip;
extern const struct h2d_backend h2d_backend_cuda, h2d_backend_hmm, h2d_backend_opencl;

const struct h2d_backend *const h2d_backends[] = {
	&h2d_backend_host,
	&h2d_backend_null,
	&h2d_backend_hip,
	&h2d_backend_cuda,
	&h2d_backend_hmm,
	&h2d_backend_opencl,
	NULL,
};
