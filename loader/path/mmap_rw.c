/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_mmap_rw = {
	.name = "mmap-rw",
	.summary = "copied from a writable private mapping, as PyTorch does: the defect, as "
		   "baseline",
	.source = H2D_SOURCE_MAP_WRITABLE,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_PRESENT | H2D_PATH_MEMORY_EXEMPT | H2D_PATH_NEEDS_FD |
		 H2D_PATH_NEVER_AUTO,
};
