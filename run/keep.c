/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "run/keep.h"
#include "run/sys.h"

static size_t granule_bit(uintptr_t granule)
{
	return (size_t)((granule * 0x9e3779b97f4a7c15ull) >> 50) % RO_FILTER_BITS;
}

bool ro_near(uintptr_t addr, size_t bytes)
{
	uintptr_t granule = addr >> RO_GRANULE_SHIFT, last = addr + bytes - 1;

	if (!bytes)
		return false;
	if (last < addr)
		last = UINTPTR_MAX;
	last >>= RO_GRANULE_SHIFT;
	if (last - granule >= RO_FILTER_BITS)
		return true;
	for (; granule <= last; granule++) {
		size_t bit = granule_bit(granule);

		if (atomic_load_explicit(&ro.filter[bit / 64], memory_order_relaxed) &
		    1ull << bit % 64)
			return true;
	}
	return false;
}

void ro_near_add(struct ro_span range)
{
	uintptr_t granule = range.start >> RO_GRANULE_SHIFT,
		  last = (range.end - 1) >> RO_GRANULE_SHIFT;

	for (; granule <= last; granule++) {
		size_t bit = granule_bit(granule);

		atomic_fetch_or(&ro.filter[bit / 64], 1ull << bit % 64);
	}
}

struct ro_mapping *ro_keep_locked(struct ro_span range)
{
	struct ro_mapping *m = ro_table_mapping(&ro.table);

	ro_table_insert(&ro.table, range.start, range.end, false, m);
	ro_near_add(range);
	ro.generation++;
	return m;
}

struct h2d_run_record *ro_record_locked(struct ro_mapping *m)
{
	int pid = atomic_load_explicit(&ro.pid, memory_order_relaxed);
	struct h2d_run_record *from = m->record, *r;
	bool claimed;

	if (!from || m->pid == pid)
		return from;
	/* A child of fork() has a record of its own from the first event on. */
	r = h2d_run_state_claim(ro.state, ro.image, pid, from->device, from->inode, &claimed);
	if (r && claimed) {
		atomic_store(&r->flags,
			     H2D_RUN_INHERITED | (atomic_load(&from->flags) &
						  (H2D_RUN_BY_PATTERN | H2D_RUN_PATH_CUT)));
		r->format = from->format;
		__builtin_memcpy(r->command, from->command, sizeof(r->command));
		__builtin_memcpy(r->path, from->path, sizeof(r->path));
		h2d_run_state_publish(r);
	}
	if (r) {
		atomic_fetch_add(&r->mapping_count, 1);
		atomic_fetch_add(&r->mapping_bytes, m->bytes);
		atomic_fetch_add(&r->opened_bytes, m->open_bytes);
	} else {
		atomic_fetch_add(&ro.state->lost_record_count, 1);
	}
	m->record = r;
	m->pid = pid;
	m->inherited = true;
	return r;
}

/* RLIMIT_DATA, lowered since: what was mapped before it is not measured by it, and would not be
 * if it had been writable from the start. */
static int open_past_limit(struct ro_span part)
{
	struct rlimit was, lifted;
	int rc;

	ro_count_calls(4);
	if (syscall(SYS_prlimit64, 0, RLIMIT_DATA, NULL, &was) || was.rlim_cur == was.rlim_max)
		return -ENOMEM;
	lifted = (struct rlimit){was.rlim_max, was.rlim_max};
	if (syscall(SYS_prlimit64, 0, RLIMIT_DATA, &lifted, NULL))
		return -ENOMEM;
	rc = sys_mprotect((void *)part.start, part.end - part.start, PROT_READ | PROT_WRITE);
	rc = rc ? -errno : 0;
	syscall(SYS_prlimit64, 0, RLIMIT_DATA, &was, NULL);
	return rc;
}

static int make_writable(struct ro_mapping *m, struct ro_span part)
{
	struct h2d_run_record *r;
	int rc = 0;

	ro_count_calls(1);
	if (sys_mprotect((void *)part.start, part.end - part.start, PROT_READ | PROT_WRITE))
		rc = errno == ENOMEM ? open_past_limit(part) : -errno;
	if (rc)
		return rc;
	r = ro_record_locked(m);
	if (r)
		atomic_fetch_add(&r->opened_bytes, part.end - part.start);
	m->open_count++;
	ro.generation++;
	return 0;
}

/* What is closed of a mapping, since no part can be opened alone: at the limit of the map count
 * a border costs an entry, and none is needed to open all. */
static int open_whole(struct ro_mapping *m)
{
	struct h2d_run_record *r = ro_record_locked(m);
	int rc = 0;

	for (struct ro_piece *p = m->pieces; p; p = p->next) {
		int one = p->open ? 0 : make_writable(m, (struct ro_span){p->start, p->end});

		if (one)
			rc = one;
		else if (!p->open)
			ro_table_mark(p);
	}
	if (r)
		atomic_fetch_or(&r->flags, H2D_RUN_WHOLE_OPENED);
	return rc;
}

/* Make a part of a closed piece writable and say so in the table. Without memory for a border
 * the piece is opened whole, which needs none. */
static int open_part(struct ro_piece *p, struct ro_span part)
{
	struct ro_mapping *m = p->mapping;
	int rc;

	if (!ro_table_reserve(&ro.table, 2))
		part = (struct ro_span){p->start, p->end};
	rc = make_writable(m, part);
	if (rc)
		return open_whole(m);
	ro_table_split(&ro.table, part.start);
	ro_table_split(&ro.table, part.end);
	ro_table_open(&ro.table, ro_table_at(&ro.table, part.start));
	return 0;
}

static void count_reason(struct ro_mapping *m, enum ro_reason reason)
{
	struct h2d_run_record *r = ro_record_locked(m);

	if (!r)
		return;
	switch (reason) {
	case RO_FAULT:
		atomic_fetch_add(&r->fault_count, 1);
		break;
	case RO_KERNEL_WRITE:
		atomic_fetch_add(&r->kernel_open_count, 1);
		break;
	case RO_DEVICE_WRITE:
		atomic_fetch_add(&r->device_open_count, 1);
		break;
	}
}

int ro_open_locked(struct ro_span range, enum ro_reason reason)
{
	struct ro_piece *p;
	int rc = 0;

	while (range.start < range.end && (p = ro_table_from(&ro.table, range.start)) &&
	       p->start < range.end) {
		struct ro_span part = {p->start, p->end};
		struct ro_mapping *m = p->mapping;
		int one;

		if (part.start < range.start)
			part.start = range.start;
		if (part.end > range.end)
			part.end = range.end;
		range.start = part.end;
		if (p->open)
			continue;
		count_reason(m, reason);
		one = open_part(p, part);
		if (one)
			rc = one;
	}
	return rc;
}

int ro_open_block_locked(struct ro_piece *piece, uintptr_t addr)
{
	struct ro_span within = {piece->start, piece->end}, page;
	int rc = ro_open_locked(
		ro_pages_block(addr, within, piece->mapping->open_count, ro.page_bytes),
		RO_FAULT);

	/* Something of the block may be unmapped behind our back. */
	if (rc && ro_pages_touched(addr, 1, ro.page_bytes, &page))
		rc = ro_open_locked(page, RO_FAULT);
	return rc;
}

void ro_open(void *addr, size_t bytes, enum ro_reason reason)
{
	struct ro_span range;
	ro_signals before;
	int saved = errno;

	if (!ro_near((uintptr_t)addr, bytes) ||
	    !ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range))
		return;
	before = ro_enter();
	/* Whole blocks at both ends, as if the program had written there. */
	for (int end = 0; end < 2; end++) {
		uintptr_t at = end ? range.end - 1 : range.start;
		struct ro_piece *p = ro_table_at(&ro.table, at);
		struct ro_span block;

		if (!p || p->open)
			continue;
		block = ro_pages_block(at, (struct ro_span){p->start, p->end}, 0,
				       ro.page_bytes);
		if (end)
			range.end = block.end;
		else
			range.start = block.start;
	}
	ro_open_locked(range, reason);
	ro_leave(before);
	errno = saved;
}

/* Without memory for a border nothing could be cut: leave the mapping to the program, writable.
 */
static void give_up(struct ro_mapping *m)
{
	open_whole(m);
	for (size_t n = m->piece_count; n; n--)
		ro_table_remove(&ro.table, m->pieces);
}

bool ro_touch_locked(struct ro_span range)
{
	struct ro_piece *p = ro_table_from(&ro.table, range.start);

	if (range.start >= range.end || !p || p->start >= range.end)
		return false;
	if (ro_table_reserve(&ro.table, 2))
		return true;
	while ((p = ro_table_from(&ro.table, range.start)) && p->start < range.end)
		give_up(p->mapping);
	return false;
}

void ro_forget_locked(struct ro_span range)
{
	struct ro_piece *p;

	if (range.start >= range.end)
		return;
	ro.generation++;
	ro_table_split(&ro.table, range.start);
	ro_table_split(&ro.table, range.end);
	while ((p = ro_table_from(&ro.table, range.start)) && p->start < range.end)
		ro_table_remove(&ro.table, p);
}

/* Asked of the kernel without harm. */
static bool is_mapped(uintptr_t page)
{
	unsigned char cached;

	ro_count_calls(1);
	return !syscall(SYS_mincore, page, ro.page_bytes, &cached) || errno != ENOMEM;
}

void ro_forget_unmapped_locked(struct ro_span range)
{
	struct ro_piece *p;
	uintptr_t end;

	if (!ro_touch_locked(range))
		return;
	ro_table_split(&ro.table, range.start);
	ro_table_split(&ro.table, range.end);
	while ((p = ro_table_from(&ro.table, range.start)) && p->start < range.end) {
		end = p->end;
		if (!is_mapped(p->start))
			ro_table_remove(&ro.table, p);
		range.start = end;
	}
	ro.generation++;
}

void ro_forget_stale(void *addr, size_t bytes)
{
	struct ro_span range;
	ro_signals before;
	int saved = errno;

	if (!ro_near((uintptr_t)addr, bytes) ||
	    !ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range))
		return;
	before = ro_enter();
	if (ro_touch_locked(range))
		ro_forget_locked(range);
	ro_leave(before);
	errno = saved;
}

/* One piece, whose ends are those of what is released. */
static bool release(struct ro_piece *p)
{
	struct h2d_run_record *r = ro_record_locked(p->mapping);
	size_t bytes = p->end - p->start;

	ro_count_calls(1);
	if (!p->open && sys_mprotect((void *)p->start, bytes, PROT_READ | PROT_WRITE)) {
		if (!is_mapped(p->start))
			return true;
		open_whole(p->mapping);
		return p->open;
	}
	if (r && !p->open)
		atomic_fetch_add(&r->released_bytes, bytes);
	return true;
}

int ro_release_locked(struct ro_span range)
{
	struct ro_piece *p;

	if (!ro_touch_locked(range))
		return 0;
	ro.generation++;
	ro_table_split(&ro.table, range.start);
	ro_table_split(&ro.table, range.end);
	while ((p = ro_table_from(&ro.table, range.start)) && p->start < range.end) {
		if (!release(p))
			return -ENOMEM;
		ro_table_remove(&ro.table, p);
	}
	return 0;
}
