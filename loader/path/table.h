/* SPDX-License-Identifier: Apache-2.0 */
/** @file table.h  The table of transfer paths. */
#ifndef H2D_PATH_TABLE_H
#define H2D_PATH_TABLE_H

#include "transfer/path.h"

/** The table, ended by NULL. Each descriptor is in a file of its own. */
extern const struct h2d_path *const h2d_paths[];
const struct h2d_path *h2d_path_find(const char *name);
/** Whether a path can run on a device with these capabilities and, if not, why (static text).
 */
bool h2d_path_supported(const struct h2d_path *p, unsigned device_caps, bool has_fd,
			const char **why);

/** Whether the path fills only one device at a time: h2d_load_split() refuses it. */
bool h2d_path_one_device(const struct h2d_path *p);

extern const struct h2d_path h2d_path_auto, h2d_path_pinned, h2d_path_direct, h2d_path_mmap,
	h2d_path_mmap_rw, h2d_path_clone, h2d_path_eager, h2d_path_pread, h2d_path_view,
	h2d_path_register, h2d_path_gds;

#endif
