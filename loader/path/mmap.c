/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_mmap = {
	.name = "mmap",
	.summary = "copied from a read-only private mapping",
	.source = H2D_SOURCE_MAP_READ,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_PRESENT,
};
