/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file room.h
 * How much host memory can still be had, by the system's and the cgroups' own accounts.
 *
 * An estimate that errs upward: page cache that could be reclaimed and free swap count as room.
 * What does not fit into it cannot be had; what fits may still fail.
 *
 * @source Documentation/filesystems/proc.rst (MemAvailable),
 *         Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst
 */
#ifndef H2D_DEVICE_ROOM_H
#define H2D_DEVICE_ROOM_H

#include <stdint.h>

struct h2d_room {
	uint64_t total_bytes;	  /**< memory, or the cgroup's limit where that is less */
	uint64_t available_bytes; /**< UINT64_MAX when unknown */
	const char
		*bound; /**< what bounds it: "system memory" or "the memory cgroup's limit" */
};

/** Never fails: what cannot be read does not bound. Thread-safe. About 0.1 ms. */
void h2d_room_read(struct h2d_room *room);

/** As h2d_room_read(), from files under `root` instead of "/" (for tests: a directory with
 *  proc/meminfo, proc/self/cgroup, proc/self/mountinfo and what the last one points to). */
void h2d_room_read_at(struct h2d_room *room, const char *root);

/** Bytes of anonymous memory that this process has touched (statm: resident - shared), 0 when
 *  unknown. */
uint64_t h2d_room_anonymous_bytes(void);

#endif
