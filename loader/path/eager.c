/* SPDX-License-Identifier: Apache-2.0 */
#include "path/table.h"

const struct h2d_path h2d_path_eager = {
	.name = "eager",
	.summary = "whole files read into anonymous memory, then copied",
	.source = H2D_SOURCE_WHOLE,
	.staging = H2D_STAGING_NONE,
	.flags = H2D_PATH_MEMORY_EXEMPT | H2D_PATH_ONE_READER,
};
