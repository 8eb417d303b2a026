/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"
#include "path/table.h"

const struct h2d_path h2d_path_gds = {
	.name = "gds",
	.summary = "the device reads the file itself, by cuFile or hipFile",
	.source = H2D_SOURCE_DEVICE,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_NEEDS_FD | H2D_PATH_NEVER_AUTO,
	.needs = H2D_DEV_READ_FILE,
};
