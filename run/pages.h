/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file pages.h
 * Arithmetic of pages and of the blocks that a first write opens. Pure; the page size is an
 * argument. Tested with 4, 16 and 64 KiB; on a machine with other pages than 4 KiB: not
 * measured.
 */
#ifndef H2D_RUN_PAGES_H
#define H2D_RUN_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A first write opens one aligned block: a PMD's span on x86-64, the unit in which the driver
 *  pays. Every RO_BLOCK_GROWTH blocks opened in one mapping double it, up to the limit, so that
 *  a mapping written everywhere ends with few pieces and few faults. */
enum { RO_BLOCK_BYTES = 2 << 20, RO_BLOCK_BYTES_MAX = 64 << 20, RO_BLOCK_GROWTH = 64 };

struct ro_span {
	uintptr_t start, end;
};

/** `bytes` rounded up to whole pages. @return false if that overflows */
bool ro_pages_round(size_t bytes, size_t page_bytes, size_t *rounded);

/** The whole pages that [addr, addr + bytes) touches. @return false if empty or overflowing */
bool ro_pages_touched(uintptr_t addr, size_t bytes, size_t page_bytes, struct ro_span *pages);

/**
 * The block to open around `addr`.
 * @param within     where it must stay; contains addr, both ends on pages
 * @param open_count blocks opened before in this mapping
 */
struct ro_span ro_pages_block(uintptr_t addr, struct ro_span within, uint64_t open_count,
			      size_t page_bytes);

#endif
