/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"
#include "path/table.h"

const struct h2d_path h2d_path_register = {
	.name = "register",
	.summary = "windows of a read-only shared mapping, registered with the device while it "
		   "copies: no host copy",
	.source = H2D_SOURCE_MAP_SHARED,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_NEEDS_FD,
	.needs = H2D_DEV_REGISTER,
};
