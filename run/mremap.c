/* SPDX-License-Identifier: Apache-2.0 */
/* mremap(2) of kept ranges: the pieces go along. Where the kernel moves only one entry of its
 * map at a time (before 6.17) and opening has made several of one mapping, they are moved one
 * by one. */
#include <stdbool.h>

#include "run/keep.h"
#include "run/memory.h"
#include "run/sys.h"

/* Newer than some headers. */
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

struct move {
	struct ro_span from, to; /* whole pages */
	int flags;
};

/* Give the last page's piece the new end, if the mapping grew in place or after its move. */
static void grow(uintptr_t old_end, uintptr_t end)
{
	struct ro_piece *last = ro_table_at(&ro.table, old_end - 1);
	struct h2d_run_record *r;

	if (!last || end <= old_end || last->end != old_end)
		return;
	r = ro_record_locked(last->mapping);
	if (r)
		atomic_fetch_add(&r->mapping_bytes, end - old_end);
	if (r && last->open)
		atomic_fetch_add(&r->opened_bytes, end - old_end);
	ro_table_resize(last, end);
	ro_near_add((struct ro_span){old_end, end});
}

/* The table's part of a move that the kernel has done. Pieces are taken out before any is put
 * in, in a list of their own, since both places may overlap in the table's eyes only after a
 * DONTUNMAP. */
static void follow(const struct move *m)
{
	uintptr_t delta = m->to.start - m->from.start, at = m->from.start, end = m->from.end;
	size_t kept = m->to.end - m->to.start;

	if (end - at > kept) {
		end = at + kept;
		ro_table_reserve(&ro.table, 2);
		ro_table_split(&ro.table, end);
	}
	while (at < end) {
		struct ro_piece *p = ro_table_from(&ro.table, at);
		struct ro_mapping *mapping;
		uintptr_t start, stop;
		bool open;

		if (!p || p->start >= end)
			break;
		start = p->start;
		stop = p->end;
		open = p->open;
		mapping = p->mapping;
		/* First in, then out: the mapping must not be without a piece in between. */
		ro_table_reserve(&ro.table, 1);
		ro_table_insert(&ro.table, start + delta, stop + delta, open, mapping);
		if (!(m->flags & MREMAP_DONTUNMAP))
			ro_table_remove(&ro.table, p);
		at = stop;
	}
	ro_near_add(m->to);
	ro.generation++;
}

/* Pieces in `range`, after its ends became borders; `all` tells whether they cover it. */
static size_t pieces_in(struct ro_span range, bool *all)
{
	struct ro_piece *p = ro_table_from(&ro.table, range.start);
	uintptr_t at = range.start;
	size_t n = 0;

	for (; p && p->start < range.end; p = ro_table_from(&ro.table, p->end)) {
		if (p->start == at)
			at = p->end;
		n++;
	}
	*all = at == range.end;
	return n;
}

/* Whether [from, from + bytes) is one entry of the kernel's map, asked without harm: growing by
 * a page in place is refused with EFAULT only if not (mm/mremap.c looks at that first). */
static bool one_entry(uintptr_t from, size_t bytes)
{
	ro_count_calls(1);
	if (sys_mremap((void *)from, bytes, bytes + ro.page_bytes, 0, NULL) == MAP_FAILED)
		return errno != EFAULT;
	sys_munmap((void *)(from + bytes), ro.page_bytes);
	return true;
}

/* Move [from, end) by `delta`, in parts as large as the kernel takes at a time. The last part
 * takes the growth. @return how far it came */
static uintptr_t move_parts(uintptr_t from, uintptr_t end, uintptr_t delta, size_t growth,
			    int flags)
{
	size_t part = end - from;

	while (from < end) {
		if (part > end - from)
			part = end - from;
		while (part > ro.page_bytes && !one_entry(from, part))
			part = part / 2 & ~(ro.page_bytes - 1);
		ro_count_calls(1);
		if (sys_mremap((void *)from, part, part + (from + part == end ? growth : 0),
			       flags | MREMAP_MAYMOVE | MREMAP_FIXED,
			       (void *)(from + delta)) == MAP_FAILED)
			break;
		from += part;
		part *= 2;
	}
	return from;
}

/* What one call did not do. @return the new address or MAP_FAILED, with errno */
static void *move_apart(const struct move *m, void *to)
{
	size_t old_bytes = m->from.end - m->from.start, bytes = m->to.end - m->to.start;
	size_t growth = bytes > old_bytes ? bytes - old_bytes : 0;
	uintptr_t end = m->from.end, reached, last, delta;
	void *place;
	int saved;

	if (!(m->flags & (MREMAP_FIXED | MREMAP_DONTUNMAP))) {
		/* In place, if there is room behind the last page. */
		last = end - ro.page_bytes;
		ro_count_calls(1);
		if (sys_mremap((void *)last, ro.page_bytes, ro.page_bytes + growth, 0, NULL) !=
		    MAP_FAILED)
			return (void *)m->from.start;
		if (!(m->flags & MREMAP_MAYMOVE))
			return MAP_FAILED;
	}
	if (bytes < old_bytes)
		end = m->from.start + bytes;
	ro_count_calls(1);
	place = sys_mmap(to, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 (m->flags & MREMAP_FIXED ? MAP_FIXED : 0),
			 -1, 0);
	if (place == MAP_FAILED)
		return place;
	delta = (uintptr_t)place - m->from.start;
	reached = move_parts(m->from.start, end, delta, growth, m->flags & MREMAP_DONTUNMAP);
	if (reached == end) {
		if (end < m->from.end)
			sys_munmap((void *)end, m->from.end - end);
		return place;
	}
	saved = errno;
	if (!(m->flags & MREMAP_DONTUNMAP))
		move_parts(m->from.start + delta, reached + delta, -delta, 0, 0);
	sys_munmap(place, bytes);
	errno = saved;
	return MAP_FAILED;
}

static void *remap_locked(struct move *m, void *old, size_t old_bytes, size_t bytes, void *to)
{
	bool fixed = m->flags & MREMAP_FIXED, all;
	size_t moved = m->to.end - m->to.start;
	void *p;

	/* Borders where the range begins and ends, and memory for what may follow. */
	if (!ro_touch_locked(m->from) && !(fixed && ro_touch_locked(m->to)))
		return sys_mremap(old, old_bytes, bytes, m->flags, to);
	ro_table_split(&ro.table, m->from.start);
	ro_table_split(&ro.table, m->from.end);
	if (!ro_table_reserve(&ro.table, pieces_in(m->from, &all) + 4)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	if (fixed)
		ro_count_written_locked(m->to, 1);
	if (m->from.start + moved < m->from.end)
		ro_count_written_locked((struct ro_span){m->from.start + moved, m->from.end},
					1);
	p = sys_mremap(old, old_bytes, bytes, m->flags, to);
	if (p == MAP_FAILED && errno == EFAULT && all)
		p = move_apart(m, to);
	return p;
}

static bool whole_pages(struct move *m, void *old, size_t old_bytes, size_t bytes, void *to)
{
	size_t rounded;

	if ((uintptr_t)old % ro.page_bytes || !old_bytes ||
	    !ro_pages_touched((uintptr_t)old, old_bytes, ro.page_bytes, &m->from) ||
	    !ro_pages_round(bytes, ro.page_bytes, &rounded) || !rounded)
		return false;
	m->to.start = (uintptr_t)(m->flags & MREMAP_FIXED ? to : old);
	m->to.end = m->to.start + rounded;
	return m->to.end > m->to.start;
}

void *ro_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
	struct move m = {.flags = flags};
	uintptr_t old_end;
	ro_signals before;
	void *p;
	int saved;

	if ((!ro_near((uintptr_t)old, old_bytes) &&
	     !(flags & MREMAP_FIXED && ro_near((uintptr_t)to, bytes))) ||
	    !whole_pages(&m, old, old_bytes, bytes, to))
		return sys_mremap(old, old_bytes, bytes, flags, to);
	before = ro_enter();
	p = remap_locked(&m, old, old_bytes, bytes, to);
	saved = errno;
	if (p != MAP_FAILED) {
		m.to = (struct ro_span){(uintptr_t)p, (uintptr_t)p + (m.to.end - m.to.start)};
		old_end = m.from.end - m.from.start + m.to.start;
		if (p != old) {
			if (ro_touch_locked(m.to))
				ro_forget_locked(m.to, false);
			follow(&m);
		}
		if (m.to.start + (m.from.end - m.from.start) > m.to.end && p == old)
			ro_forget_locked((struct ro_span){m.to.end, m.from.end}, false);
		else if (p != old && !(flags & MREMAP_DONTUNMAP) && ro_touch_locked(m.from))
			ro_forget_locked(m.from, false);
		if (old_end < m.to.end)
			grow(old_end, m.to.end);
	}
	ro_leave(before);
	errno = saved;
	return p;
}
