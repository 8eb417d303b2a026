/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file pages.h
 * The state of a mapping as the kernel tells it: page-table entries from /proc/self/pagemap,
 * permissions and the split of resident memory from /proc/self/smaps. Thread-safe. Since 0.1.
 *
 * @source Documentation/admin-guide/mm/pagemap.rst, Documentation/filesystems/proc.rst
 */
#ifndef H2D_REPRO_PAGES_H
#define H2D_REPRO_PAGES_H

#include <stdio.h>

#include "core/log.h"
#include "repro/window.h"

/** Entries of one range, counted. */
struct h2d_page_state {
	uint64_t page_bytes, page_count;
	uint64_t present_count;	  /**< bit 63 */
	uint64_t file_count;	  /**< present, of a file or of shared memory (bit 61) */
	uint64_t anonymous_count; /**< present, neither; the zero page counts here */
	uint64_t exclusive_count; /**< anonymous and mapped nowhere else (bit 56) */
	uint64_t swapped_count;	  /**< bit 62 */
	/** Present pages whose frame follows that of the page before them: nearly all of them
	 * in large folios. 0 without CAP_SYS_ADMIN, to whom alone the kernel tells frames. */
	uint64_t contiguous_count;
	uint64_t span_count;	     /**< spans that the range overlaps */
	uint64_t present_span_count; /**< … that hold a present entry */
	/**
	 * … that hold a present entry which a write through a private mapping has to replace: a
	 * page of a file, or an anonymous one that is not ours alone (after fork(), and the
	 * zero page). Entries of an anonymous page that is ours alone are writable or become so
	 * in place.
	 */
	uint64_t replaced_span_count;
};

/** Count `count` pagemap entries of the range that starts at `address`. Pure. */
void h2d_pages_count(const uint64_t *entries, uint64_t count, uint64_t address,
		     uint64_t page_bytes, struct h2d_page_state *out);

/**
 * Read the entries of [address, address + bytes); `address` is a multiple of the page size.
 * @return 0; H2D_E_PERMISSION or H2D_E_NOT_FOUND (no pagemap here), H2D_E_IO, H2D_E_NOMEM
 */
int h2d_pages_read(const void *address, uint64_t bytes, const struct h2d_log *log,
		   struct h2d_page_state *out);

/** What smaps says of the mappings that overlap a range. */
struct h2d_smaps {
	char permissions[5]; /**< as printed, "rw-p"; "?" when the mappings differ */
	uint64_t map_count;  /**< mappings that overlap the range */
	uint64_t begin, end; /**< from the first one's start to the last one's end */
	uint64_t rss_bytes, anonymous_bytes, swap_bytes;
	uint64_t huge_bytes; /**< mapped by PMD: AnonHugePages + ShmemPmdMapped +
			      *   FilePmdMapped */
};

/** Take the answer out of the text of a smaps file. @return 0 or H2D_E_FORMAT (no mapping
 *  there, or not smaps) */
int h2d_smaps_parse(FILE *text, uint64_t begin, uint64_t end, struct h2d_smaps *out);
/** The same from /proc/self/smaps. @return 0, H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO or
 *  H2D_E_FORMAT */
int h2d_smaps_read(const void *address, uint64_t bytes, const struct h2d_log *log,
		   struct h2d_smaps *out);

#endif
