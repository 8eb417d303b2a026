/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cgroup.h
 * Limits of control groups: any group on the way up to the root may set one, and the smallest
 * is the one in force. Since 0.1.
 *
 * @source Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst
 */
#ifndef H2D_CORE_CGROUP_H
#define H2D_CORE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

enum { H2D_CGROUP_PATH_BYTES = 1024 };

/**
 * Visit a group and those above it: "/a/b", "/a", "".
 * @param group  as h2d_text_cgroup() gives it; of one outside of our namespace ("/../x") only
 * the root of what we see, "", is visited
 */
void h2d_cgroup_up(const char *group, void (*visit)(void *user, const char *group), void *user);

/** A limit and who set it. */
struct h2d_cgroup_limit {
	bool read;    /**< at least one group told */
	bool limited; /**< one of them has a limit */
	int error;    /**< of the last one that did not tell: negative errno, or 0 */
	uint64_t bytes;
	char group[H2D_CGROUP_PATH_BYTES]; /**< the group with that limit */
};

/**
 * The smallest limit from a group upward.
 * @param root   as for h2d_hostfs_read()
 * @param mount  where the hierarchy is, for example "/sys/fs/cgroup"
 * @param file   for example "memory.max"; "max", and version 1's largest number, are no limit
 */
void h2d_cgroup_limit(const char *root, const char *mount, const char *group, const char *file,
		      struct h2d_cgroup_limit *out);

#endif
