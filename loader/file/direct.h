/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file direct.h
 * O_DIRECT: a second descriptor of a data file and the alignment its filesystem asks for.
 */
#ifndef H2D_FILE_DIRECT_H
#define H2D_FILE_DIRECT_H

#include "file/file.h"

struct h2d_direct {
	int fd;
	uint32_t offset_align_bytes; /**< of file offsets and lengths */
	uint32_t memory_align_bytes; /**< of buffers */
};

/**
 * Open the file of `f` for direct reads: the same inode is checked, alignment is taken from
 * statx(STATX_DIOALIGN, Linux ≥ 6.1) or assumed to be 4096, and one aligned probe read proves
 * that the filesystem accepts it.
 * @param why (out) static text when H2D_E_UNSUPPORTED is returned, for the fallback's reason
 */
int h2d_direct_open(struct h2d_direct *d, const struct h2d_file *f, const char **why,
		    const struct h2d_log *log);
void h2d_direct_close(struct h2d_direct *d);

#endif
