/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file root.h
 * The root that probes read below: this machine, a directory, or a capture of another machine
 * that is unpacked for as long as it is used. Since 0.1.
 */
#ifndef H2D_HOST_ROOT_H
#define H2D_HOST_ROOT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"

enum {
	H2D_ROOT_ENTRIES_MAX = 20000,
	H2D_ROOT_BYTES_MAX = 64 << 20, /**< unpacked */
};

struct h2d_root {
	const char *path; /**< for h2d_hostfs_*(): NULL for this machine */
	char *name;	  /**< as the user gave it; NULL for this machine */
	char *unpacked;	  /**< temporary directory, or NULL */
};

/**
 * Open what `--root` names. A capture is a tar archive, compressed or not, with the tree at its
 * top or below one directory; of it only directories, files and symbolic links are taken, none
 * outside, and no more than the limits above.
 *
 * @param spec  directory, archive, or NULL: this machine
 * @return 0; H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_FORMAT (no archive, damaged, or beyond
 * the limits), H2D_E_UNAVAILABLE (archives, in a build without libarchive), H2D_E_IO,
 *         H2D_E_NOMEM. `out` may be closed in any case.
 */
int h2d_root_open(const char *spec, const struct h2d_log *log, struct h2d_root *out);
void h2d_root_close(struct h2d_root *r);

/** Whether an archive member's name may be unpacked: relative, and no component is "..". */
bool h2d_root_name_allowed(const char *name);

#endif
