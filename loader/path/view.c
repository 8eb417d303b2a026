/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_view = {
	.name = "view",
	.summary = "tensors are views of a read-only mapping: no copy at all (host only)",
	.source = H2D_SOURCE_VIEW,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_HOST_ONLY | H2D_PATH_NEVER_AUTO | H2D_PATH_OWN_MEMORY,
};
