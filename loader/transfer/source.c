/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/source.h"

#include "transfer/path.h"

const struct h2d_source_ops *const h2d_sources[H2D_SOURCE_COUNT] = {
	[H2D_SOURCE_MAP_READ] = &h2d_source_map,
	[H2D_SOURCE_MAP_WRITABLE] = &h2d_source_map,
	[H2D_SOURCE_PREAD] = &h2d_source_pread,
	[H2D_SOURCE_DIRECT] = &h2d_source_direct,
	[H2D_SOURCE_WHOLE] = &h2d_source_whole,
	[H2D_SOURCE_MAP_SHARED] = &h2d_source_register,
	[H2D_SOURCE_DEVICE] = &h2d_source_device,
};
