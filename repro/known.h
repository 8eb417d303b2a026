/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file known.h
 * Bytes that everybody can compute and nobody can compress, and a file of them. Pure functions
 * are thread-safe. Since 0.1.
 */
#ifndef H2D_REPRO_KNOWN_H
#define H2D_REPRO_KNOWN_H

#include <stdint.h>

#include "core/log.h"

/** Write the known bytes [offset, offset + bytes) to `dst`. */
void h2d_known_fill(void *dst, uint64_t bytes, uint64_t offset);
/** Offset in `data` of the first byte that is not the known one, or UINT64_MAX. */
uint64_t h2d_known_compare(const void *data, uint64_t bytes, uint64_t offset);

/** A file of known bytes, without a name as soon as it is complete, so that nothing is left
 *  behind however the process ends. */
struct h2d_known_file {
	int fd; /**< -1: none */
	char *path;
	uint64_t bytes;
	uint64_t filesystem_type; /**< statfs f_type */
};

/**
 * Make the file, write it back, and leave it in the page cache.
 * @param path  a file that must not exist yet, a directory, or NULL: a file in the current
 *              directory or, where that cannot be written, in $TMPDIR or /tmp
 * @return 0; H2D_E_INVALID (the file exists: it is never overwritten), H2D_E_NOT_FOUND,
 *         H2D_E_PERMISSION, H2D_E_IO (no space), H2D_E_NOMEM
 */
int h2d_known_file_make(const char *path, uint64_t bytes, const struct h2d_log *log,
			struct h2d_known_file *out);
/** The same in an empty file that the caller opened for reading and writing; `fd` is taken
 * over, also on failure. @param name  for messages */
int h2d_known_file_adopt(int fd, const char *name, uint64_t bytes, const struct h2d_log *log,
			 struct h2d_known_file *out);
void h2d_known_file_close(struct h2d_known_file *f);

#endif
