/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_clone = {
	.name = "clone",
	.summary = "each tensor copied from a read-only mapping to anonymous memory first",
	.source = H2D_SOURCE_MAP_READ,
	.staging = H2D_STAGING_TENSOR,
	.flags = H2D_PATH_PRESENT | H2D_PATH_ONE_READER,
};
