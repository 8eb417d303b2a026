/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_direct = {
	.name = "direct",
	.summary = "O_DIRECT reads into a ring of pinned chunks: leaves the page cache alone",
	.source = H2D_SOURCE_DIRECT,
	.staging = H2D_STAGING_RING,
	.flags = H2D_PATH_NEEDS_FD,
};
