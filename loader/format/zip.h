/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file zip.h
 * The directory of a zip archive whose records can be used in place (PKWARE APPNOTE 6.3.10, and
 * PyTorch's inline_container.cc for what its writer makes of it).
 *
 * What a record is comes from the central directory alone: sizes in local headers may be zero
 * (data descriptors) or saturated. Local headers tell where the bytes begin, and must agree in
 * name and method. Proven at opening: one top folder, no name twice, nothing encrypted, every
 * record before the directory and none over another. Not thread-safe.
 */
#ifndef H2D_FORMAT_ZIP_H
#define H2D_FORMAT_ZIP_H

#include "format/format.h"

struct h2d_zip_record {
	const char *name; /**< below the top folder, NUL-terminated */
	size_t name_bytes;
	uint64_t entry_offset;	/**< of its directory entry, for messages */
	uint64_t header_offset; /**< of its local header */
	uint64_t offset_bytes;	/**< of its bytes */
	uint64_t size_bytes;
	uint16_t method; /**< 0: stored */
	uint16_t flags;
};

struct h2d_zip {
	struct h2d_catalogue *cat; /**< lends the seed of its hashes */
	struct h2d_arena arena;
	struct h2d_zip_record *records; /**< by place in the file; malloc'd */
	uint64_t count;
	const char *top; /**< the folder that holds everything, with its slash */
	size_t top_bytes;
	uint64_t directory_offset, directory_bytes;
	uint64_t *table; /**< hash of names: index + 1 */
	uint64_t table_mask;
};

/** @return 0, H2D_E_FORMAT, H2D_E_NOMEM or a status of reading; free in any case. */
int h2d_zip_open(struct h2d_zip *zip, const struct h2d_parse *p);
void h2d_zip_free(struct h2d_zip *zip);
/** The record of that name below the top folder, or NULL. */
const struct h2d_zip_record *h2d_zip_find(const struct h2d_zip *zip, const char *name,
					  size_t name_bytes);

#endif
