/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_MAPPING_H
#define H2D_LAB_MAPPING_H

/*
 * A file of known bytes, mappings of it, and what the kernel says of them. For the programs
 * that run inside a guest; not thread-safe where errno matters. Since 0.1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping_facts {
	char permissions[5];	  /* as /proc/self/maps prints them */
	uint64_t rss_bytes;	  /* from smaps: status lags on old kernels */
	uint64_t anonymous_bytes; /* from smaps */
	uint64_t present_bytes;	  /* from pagemap, bit 63 */
	uint64_t present_spans;	  /* 2 MiB-aligned spans with at least one present page */
};

/*
 * Opens a file of `bytes` known incompressible bytes, made and synced if it is not there yet,
 * with all its pages in the page cache. Returns a descriptor opened for reading, or -1 with
 * errno.
 */
int mapping_file(const char *path, uint64_t bytes);
/* Reads one byte of every page. */
void mapping_touch(const void *address, uint64_t bytes);
/* Whether every page still begins as the file's does. */
bool mapping_intact(const void *address, uint64_t bytes);
/* Asks about the one mapping [address, address + bytes). Returns 0, or -1 with errno. */
int mapping_read(const void *address, uint64_t bytes, struct mapping_facts *facts);

#endif
