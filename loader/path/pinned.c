/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_pinned = {
	.name = "pinned",
	.summary = "buffered reads by several readers into a ring of pinned chunks",
	.source = H2D_SOURCE_PREAD,
	.staging = H2D_STAGING_RING,
	.flags = 0,
};
