/* SPDX-License-Identifier: Apache-2.0 */
/** @file whole_file.h  A file of bounded size in memory. */
#ifndef H2D_ABI_WHOLE_FILE_H
#define H2D_ABI_WHOLE_FILE_H

#include <stddef.h>

#include "core/log.h"

/**
 * Read a regular file (also one of sysfs) of 1 to `max` bytes.
 *
 * @param data  (out) owned by the caller, released with free(); NULL on failure
 * @return 0; H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_FORMAT (not such a file), H2D_E_IO,
 *         H2D_E_NOMEM. @since 0.1
 */
int h2d_whole_file_read(const char *path, size_t max, const struct h2d_log *log, void **data,
			size_t *bytes);

#endif
