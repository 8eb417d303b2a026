/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file path.h  (the table itself is in ../path/table.c)
 * A path is data: where the copy's source comes from, how it is staged, what it needs.
 * One engine loop serves all of them; only `view` and `gds` bypass it.
 */
#ifndef H2D_TRANSFER_PATH_H
#define H2D_TRANSFER_PATH_H

#include <stdbool.h>
#include <stdint.h>

/** Where the bytes of a copy come from. */
enum h2d_source {
	H2D_SOURCE_VIEW,	 /**< no copy: tensors are views of a read-only mapping */
	H2D_SOURCE_MAP_READ,	 /**< r--p mapping */
	H2D_SOURCE_MAP_WRITABLE, /**< rw-p mapping */
	H2D_SOURCE_MAP_SHARED,	 /**< r--s mapping, registered in windows */
	H2D_SOURCE_PREAD,	 /**< buffered reads */
	H2D_SOURCE_DIRECT,	 /**< O_DIRECT reads */
	H2D_SOURCE_WHOLE,	 /**< the whole file, read into anonymous memory first */
	H2D_SOURCE_DEVICE,	 /**< the device reads the file itself */
	H2D_SOURCE_AUTO,	 /**< chosen per extent */
	H2D_SOURCE_COUNT,
};

/** What lies between source and device. */
enum h2d_staging {
	H2D_STAGING_NONE,   /**< copied from the source in place; small pieces are gathered */
	H2D_STAGING_TENSOR, /**< one anonymous buffer per tensor */
	H2D_STAGING_BUFFER, /**< one pageable buffer of chunk size */
	H2D_STAGING_RING,   /**< ring of pinned chunks, several readers */
};

enum {
	H2D_PATH_HOST_ONLY = 1 << 0,	 /**< only on devices with H2D_DEV_FILL */
	H2D_PATH_MEMORY_EXEMPT = 1 << 1, /**< outside the staging bound: eager, mmap-rw */
	H2D_PATH_NEEDS_FD = 1 << 2,	 /**< not on h2d_checkpoint_open_memory() */
	H2D_PATH_NEVER_AUTO = 1 << 3,
	H2D_PATH_ONE_READER = 1 << 4, /**< whatever `threads` says */
	H2D_PATH_PRESENT = 1 << 5,    /**< takes --present: its source is a file mapping */
	H2D_PATH_OWN_MEMORY = 1 << 6, /**< not into memory of the caller: view */
};

struct h2d_path {
	const char *name;
	const char *summary; /**< one line, for help and man page */
	enum h2d_source source;
	enum h2d_staging staging;
	unsigned flags; /**< H2D_PATH_* */
	unsigned needs; /**< H2D_DEV_* capabilities */
};

#endif
