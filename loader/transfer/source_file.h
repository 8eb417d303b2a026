/* SPDX-License-Identifier: Apache-2.0 */
/** @file source_file.h  The data files of one load, opened the ways in which its chunks need
 * them. */
#ifndef H2D_TRANSFER_SOURCE_FILE_H
#define H2D_TRANSFER_SOURCE_FILE_H

#include "file/direct.h"
#include "file/map.h"
#include "transfer/path.h"

struct h2d_source_file {
	const struct h2d_file *file;
	/** Where the byte at offset 0 of the file is in memory, for sources that have it there:
	 *  the mapping or, of H2D_SOURCE_WHOLE, the buffer. Else NULL. */
	const unsigned char *base;
	struct h2d_map map;
	struct h2d_guard *guard; /**< on `map`, for as long as the load runs */
	struct h2d_direct direct;
	bool has_direct;
	uint64_t begin, end; /**< what the load uses of it; equal: nothing */
};

/** Map the file for a source of that kind (nothing to do for others) and put a guard on it. */
int h2d_source_file_map(struct h2d_source_file *in, enum h2d_source source,
			const struct h2d_log *log);
/** Release. With `quarantine` a mapping stays, since a lost device may still read from it. */
void h2d_source_file_close(struct h2d_source_file *in, bool quarantine);

#endif
