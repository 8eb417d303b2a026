/* SPDX-License-Identifier: Apache-2.0 */
/* Which pages were written: those of our private file mappings that are anonymous or swapped,
 * by /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst: bit 63 present, 62 swapped,
 * 61 page of a file, 56 mapped by this process alone). Only opened pieces are looked at, since
 * only there can one be. */
#include "run/keep.h"
#include "run/sys.h"

enum { ENTRIES = 2048 };

#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define OF_FILE (1ull << 61)
#define ALONE	(1ull << 56)

/* A page that the parent wrote before it forked is still the parent's too. A swapped one does
 * not tell, and counts. */
static bool written(uint64_t entry, bool inherited)
{
	if (!(entry & (PRESENT | SWAPPED)) || entry & OF_FILE)
		return false;
	return !inherited || entry & (ALONE | SWAPPED);
}

static bool written_pages(int fd, struct ro_span part, bool inherited, uint64_t *pages)
{
	/* Not on the stack, which may be a signal's; under the lock. */
	static uint64_t entry[ENTRIES];

	for (uintptr_t at = part.start; at < part.end;) {
		size_t left = (part.end - at) / ro.page_bytes;
		size_t n = left < ENTRIES ? left : ENTRIES;
		long got = sys_pread(fd, entry, n * 8, at / ro.page_bytes * 8);

		ro_count_calls(1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 8)
			return false;
		for (long i = 0; i < got / 8; i++)
			*pages += written(entry[i], inherited);
		at += (uintptr_t)(got / 8) * ro.page_bytes;
	}
	return true;
}

void ro_count_written_locked(struct ro_span range, int sign)
{
	int pid = atomic_load_explicit(&ro.pid, memory_order_relaxed), fd = -1;
	struct ro_piece *p;

	if (range.start >= range.end)
		return;
	for (p = ro_table_from(&ro.table, range.start); p && p->start < range.end;
	     p = ro_table_from(&ro.table, p->end)) {
		struct ro_span part = {p->start, p->end};
		uint64_t pages = 0;

		if (!p->open || !p->mapping->record || p->mapping->pid != pid)
			continue;
		if (part.start < range.start)
			part.start = range.start;
		if (part.end > range.end)
			part.end = range.end;
		if (fd < 0) {
			ro_count_calls(2);
			fd = sys_open("/proc/self/pagemap", O_RDONLY, 0);
			if (fd < 0)
				return;
		}
		if (!written_pages(fd, part, p->mapping->inherited, &pages))
			break;
		atomic_fetch_add(&p->mapping->record->written_page_count,
				 (uint64_t)sign * pages);
		atomic_fetch_add(&p->mapping->record->counted_bytes,
				 (uint64_t)sign * (part.end - part.start));
	}
	if (fd >= 0)
		sys_close(fd);
}
