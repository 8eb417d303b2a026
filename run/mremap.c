/* SPDX-License-Identifier: Apache-2.0 */
/* mremap(2) of kept ranges: the pieces go along where what moves is kept all over, as it is
 * where the program remaps what it mapped. There opening may have made several entries of the
 * kernel's map of what would be one, and the kernel moves one entry at a time: then they are
 * moved one by one. From 6.17 on it moves several to a fixed place, with what lies between them
 * left out of both places, and stops at the first that it cannot move. That, and whatever else
 * takes more than what we keep, is done by the kernel on a range that is given up before. */
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

/* As the program called. */
struct remap {
	void *old;
	size_t old_bytes, bytes;
	int flags;
	void *to;
};

static void *system_call(const struct remap *r)
{
	return sys_mremap(r->old, r->old_bytes, r->bytes, r->flags, r->to);
}

static size_t span_bytes(struct ro_span s)
{
	return s.end - s.start;
}

/* What is unmapped behind the part that stays. */
static struct ro_span tail(const struct move *m)
{
	struct ro_span t = m->from;

	if (span_bytes(m->from) > span_bytes(m->to))
		t.start += span_bytes(m->to);
	else
		t.start = t.end;
	return t;
}

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

/* The table's part of a move that the kernel has done. */
static void follow(const struct move *m)
{
	uintptr_t delta = m->to.start - m->from.start, at = m->from.start, end = m->from.end;
	size_t kept = m->to.end - m->to.start;

	if (end - at > kept) {
		end = at + kept;
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
		ro_table_insert(&ro.table, start + delta, stop + delta, open, mapping);
		if (!(m->flags & MREMAP_DONTUNMAP))
			ro_table_remove(&ro.table, p);
		at = stop;
	}
	ro_near_add(m->to);
	ro.generation++;
}

/* Pieces in `range`, whose ends are borders; `all` tells whether they cover it. */
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
	/* Back, also over what a DONTUNMAP left there: what was written has gone along. */
	saved = errno;
	move_parts(m->from.start + delta, reached + delta, -delta, 0, 0);
	sys_munmap(place, bytes);
	errno = saved;
	return MAP_FAILED;
}

/* A range that is kept all over. */
static void *remap_kept(const struct move *m, const struct remap *r)
{
	bool fixed = m->flags & MREMAP_FIXED;
	size_t part = span_bytes(m->from) - span_bytes(tail(m));
	void *p;

	/* To a fixed place a call may do a part of its work and fail. */
	if (fixed && !one_entry(m->from.start, part))
		return move_apart(m, r->to);
	p = system_call(r);
	if (p == MAP_FAILED && errno == EFAULT && !fixed)
		p = move_apart(m, r->to);
	return p;
}

/* The table's part, when it was kept and is at m->to now. */
static void remapped(const struct move *m)
{
	uintptr_t old_end = m->to.start + span_bytes(m->from);
	bool here = m->to.start == m->from.start;

	if (here && old_end < m->to.end)
		ro_forget_locked((struct ro_span){old_end, m->to.end});
	if (!here) {
		ro_forget_locked(m->to);
		follow(m);
	}
	if (here)
		ro_forget_locked(tail(m));
	else if (!(m->flags & MREMAP_DONTUNMAP))
		ro_forget_locked(m->from);
	if (old_end < m->to.end)
		grow(old_end, m->to.end);
}

/* When it failed: a fixed place and the tail are unmapped first. */
static void not_remapped(const struct move *m)
{
	const struct ro_span gone[] = {m->to, tail(m), m->from};

	for (size_t i = m->flags & MREMAP_FIXED ? 0 : 1; i < 3; i++) {
		ro_forget_unmapped_locked(gone[i]);
		if (i < 2)
			ro_count_written_locked(gone[i], -1);
	}
}

static void *remap_locked(struct move *m, const struct remap *r)
{
	bool fixed = m->flags & MREMAP_FIXED, from = ro_touch_locked(m->from), all = false;
	size_t bytes = span_bytes(m->to), n;
	void *p;

	if (from) {
		ro_table_split(&ro.table, m->from.start);
		ro_table_split(&ro.table, m->from.end);
		n = pieces_in(m->from, &all);
		/* Each of them anew, and the borders of what is forgotten. */
		all = all && ro_table_reserve(&ro.table, n + 8);
	}
	if (fixed && ro_touch_locked(m->to))
		ro_count_written_locked(m->to, 1);
	ro_count_written_locked(all ? tail(m) : m->from, 1);
	if (!all && (ro_release_locked(m->from) || (fixed && ro_release_locked(m->to)))) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	p = all ? remap_kept(m, r) : system_call(r);
	if (p != MAP_FAILED)
		m->to = (struct ro_span){(uintptr_t)p, (uintptr_t)p + bytes};
	if (all && p != MAP_FAILED)
		remapped(m);
	else if (all) {
		int saved = errno;

		not_remapped(m);
		errno = saved;
	} else if (p != MAP_FAILED && ro_touch_locked(m->to)) {
		ro_forget_locked(m->to);
	}
	return p;
}

/* What the kernel looks at the mappings for. All else it refuses, and nothing has changed
 * (mm/mremap.c). */
static bool well_formed(struct move *m, const struct remap *r)
{
	const int known = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
	uintptr_t from = (uintptr_t)r->old, to = (uintptr_t)r->to, page = ro.page_bytes;
	/* As it rounds them: what is too large becomes 0. */
	size_t old_bytes = (r->old_bytes + page - 1) & ~(page - 1);
	size_t bytes = (r->bytes + page - 1) & ~(page - 1);
	bool fixed = r->flags & MREMAP_FIXED;

	if (r->flags & ~known || (r->flags != 0 && !(r->flags & MREMAP_MAYMOVE)) ||
	    from % page || !bytes || (fixed && to % page) ||
	    (r->flags & MREMAP_DONTUNMAP && old_bytes != bytes))
		return false;
	m->flags = r->flags;
	m->from = (struct ro_span){from, from + old_bytes};
	if (m->from.end < from)
		m->from.end = -page;
	m->to.start = fixed ? to : from;
	m->to.end = m->to.start + bytes;
	return m->to.end > m->to.start &&
	       !(fixed && m->from.start < m->to.end && m->to.start < m->from.end);
}

void *ro_mremap(void *old, size_t old_bytes, size_t bytes, int flags, void *to)
{
	const struct remap r = {old, old_bytes, bytes, flags, to};
	ro_signals before;
	struct move m;
	void *p;
	int saved;

	if ((!ro_near((uintptr_t)old, old_bytes) &&
	     !(flags & MREMAP_FIXED && ro_near((uintptr_t)to, bytes))) ||
	    !well_formed(&m, &r)) {
		p = system_call(&r);
		if (p != MAP_FAILED && p != old)
			ro_forget_stale(p, bytes);
		return p;
	}
	before = ro_enter();
	p = remap_locked(&m, &r);
	saved = errno;
	ro_leave(before);
	errno = saved;
	return p;
}
