/* SPDX-License-Identifier: Apache-2.0 */
/** @file mounts.h  The mount that a path of a process lies on. Thread-safe. Since 0.1. */
#ifndef H2D_HOST_MOUNTS_H
#define H2D_HOST_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct h2d_mount {
	char type[64]; /**< "" when unknown */
	bool network;  /**< a file system of a server, where each fault is a round trip */
	bool memory;   /**< tmpfs and its like: nothing can be dropped or read again */
	bool have_read_ahead;
	uint64_t read_ahead_bytes;
};

/** The mount with the longest mount point above `path`, as `pid` sees it. @return 0, or a
 *  negative errno */
int h2d_mount_find(const char *root, int pid, const char *path, struct h2d_mount *out);
/** Set `network` and `memory` from `type`. */
void h2d_mount_kind(struct h2d_mount *m);

#endif
