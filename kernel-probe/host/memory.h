/* SPDX-License-Identifier: Apache-2.0 */
/** @file memory.h  How much memory a process may have, and how hard it is to get. Since 0.1. */
#ifndef H2D_HOST_MEMORY_H
#define H2D_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/json.h"

/** A number that may not be known. */
struct h2d_known_u64 {
	bool known;
	uint64_t value;
};

/** Share of the last ten seconds in which tasks waited, Documentation/accounting/psi.rst. */
struct h2d_pressure {
	bool known;
	double some_pct, full_pct;
	uint64_t some_total_us; /**< since boot */
};

struct h2d_memory {
	struct h2d_known_u64 total_bytes, available_bytes, swap_total_bytes, swap_free_bytes;
	struct h2d_known_u64
		group_limit_bytes;	       /**< the smallest on the way up; unknown: none */
	struct h2d_known_u64 group_used_bytes; /**< of the group that has that limit */
	bool group_read;		       /**< whether the groups could be looked at */
	struct h2d_pressure memory, io;
	uint64_t page_bytes; /**< of the machine; of a capture the one it tells */
};

/** Read what applies to a process (its control groups); `pid` 0: to ourselves. Never fails. */
void h2d_memory_read(const char *root, int pid, struct h2d_memory *out);
/** Pressure alone. */
void h2d_pressure_read(const char *root, const char *resource, struct h2d_pressure *out);
/** What can still be used before something is reclaimed or killed: the smaller of what the
 *  machine and the control group have left. @return false when neither is known */
bool h2d_memory_room(const struct h2d_memory *m, uint64_t *bytes);

void h2d_memory_write(struct h2d_json *j, const char *key, const struct h2d_memory *m);

#endif
