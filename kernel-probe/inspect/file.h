/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_INSPECT_FILE_H
#define H2D_INSPECT_FILE_H

#include "core/log.h"

struct archive;

/* Unpacks compressed bytes. *data is malloc'ed, and NULL where they are not compressed;
 * *compression is static. H2D_E_FORMAT: damaged, or more comes out than a module can have. */
int ins_unpack(const char *name, const void *packed, size_t packed_bytes,
	       const struct h2d_log *log, void **data, size_t *bytes, const char **compression);
/* Reads the current entry of an archive that has packed_bytes in all. *data is malloc'ed, or
 * NULL after an error. */
int ins_read_entry(struct archive *archive, size_t packed_bytes, const char *name,
		   const struct h2d_log *log, void **data, size_t *bytes);
int ins_read_file(const char *path, const struct h2d_log *log, void **data, size_t *bytes);

#endif
