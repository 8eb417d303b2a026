/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_pread = {
	.name = "pread",
	.summary = "one pageable buffer of chunk size, filled by buffered reads",
	.source = H2D_SOURCE_PREAD,
	.staging = H2D_STAGING_BUFFER,
	.flags = H2D_PATH_ONE_READER,
};
