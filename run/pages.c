/* SPDX-License-Identifier: Apache-2.0 */
#include "run/pages.h"

bool ro_pages_round(size_t bytes, size_t page_bytes, size_t *rounded)
{
	size_t up = bytes + (page_bytes - 1);

	*rounded = up & ~(page_bytes - 1);
	return up >= bytes;
}

bool ro_pages_touched(uintptr_t addr, size_t bytes, size_t page_bytes, struct ro_span *pages)
{
	uintptr_t last = addr + bytes - 1;

	if (!bytes || last < addr)
		return false;
	pages->start = addr & ~(uintptr_t)(page_bytes - 1);
	pages->end = (last & ~(uintptr_t)(page_bytes - 1)) + page_bytes;
	return pages->end > pages->start;
}

struct ro_span ro_pages_block(uintptr_t addr, struct ro_span within, uint64_t open_count,
			      size_t page_bytes)
{
	uintptr_t bytes = RO_BLOCK_BYTES;
	struct ro_span block;

	for (uint64_t n = open_count / RO_BLOCK_GROWTH; n && bytes < RO_BLOCK_BYTES_MAX; n--)
		bytes *= 2;
	if (bytes < page_bytes)
		bytes = page_bytes;
	block.start = addr & ~(bytes - 1);
	/* In this order, since the end of the last block may overflow. */
	block.end = within.end - block.start > bytes ? block.start + bytes : within.end;
	if (block.start < within.start)
		block.start = within.start;
	return block;
}
