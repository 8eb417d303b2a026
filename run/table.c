/* SPDX-License-Identifier: Apache-2.0 */
#include "run/sys.h"
#include "run/table.h"

/* Memory is taken in chunks and never given back; the pieces in it are reused. */
enum { CHUNK_BYTES = 1 << 18 };

static void *chunk(void)
{
	void *p = sys_mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

bool ro_table_reserve(struct ro_table *t, size_t pieces)
{
	while (t->free_count < pieces) {
		struct ro_piece *p = chunk();

		if (!p)
			return false;
		for (size_t i = 0; i < CHUNK_BYTES / sizeof(*p); i++, p++) {
			p->left = t->free;
			t->free = p;
			t->free_count++;
		}
	}
	if (!t->free_mapping_count) {
		struct ro_mapping *m = chunk();

		if (!m)
			return false;
		for (size_t i = 0; i < CHUNK_BYTES / sizeof(*m); i++, m++) {
			m->next_free = t->free_mappings;
			t->free_mappings = m;
			t->free_mapping_count++;
		}
	}
	return true;
}

struct ro_mapping *ro_table_mapping(struct ro_table *t)
{
	struct ro_mapping *m = t->free_mappings;

	t->free_mappings = m->next_free;
	t->free_mapping_count--;
	*m = (struct ro_mapping){0};
	return m;
}

struct ro_piece *ro_table_from(const struct ro_table *t, uintptr_t addr)
{
	struct ro_piece *p = t->root, *best = NULL;

	while (p) {
		if (p->end > addr) {
			best = p;
			p = p->left;
		} else {
			p = p->right;
		}
	}
	return best;
}

struct ro_piece *ro_table_at(const struct ro_table *t, uintptr_t addr)
{
	struct ro_piece *p = ro_table_from(t, addr);

	return p && p->start <= addr ? p : NULL;
}

static uint32_t next_random(struct ro_table *t)
{
	uint32_t x = t->random ? t->random : 0x9e3779b9u;

	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	return t->random = x;
}

struct ro_piece *ro_table_insert(struct ro_table *t, uintptr_t start, uintptr_t end, bool open,
				 struct ro_mapping *mapping)
{
	struct ro_piece *piece = t->free, **at = &t->root, *below, **less, **more;

	t->free = piece->left;
	t->free_count--;
	*piece = (struct ro_piece){.start = start,
				   .end = end,
				   .open = open,
				   .priority = next_random(t),
				   .mapping = mapping};
	while (*at && (*at)->priority >= piece->priority)
		at = start < (*at)->start ? &(*at)->left : &(*at)->right;
	/* What was here is parted into what lies below and what lies above the new piece. */
	below = *at;
	*at = piece;
	less = &piece->left;
	more = &piece->right;
	while (below) {
		if (below->start < start) {
			*less = below;
			less = &below->right;
			below = *less;
		} else {
			*more = below;
			more = &below->left;
			below = *more;
		}
	}
	*less = *more = NULL;
	t->piece_count++;
	piece->next = mapping->pieces;
	if (piece->next)
		piece->next->previous = piece;
	mapping->pieces = piece;
	mapping->piece_count++;
	mapping->bytes += end - start;
	mapping->open_bytes += open ? end - start : 0;
	return piece;
}

static void release_mapping(struct ro_table *t, struct ro_mapping *m)
{
	m->next_free = t->free_mappings;
	t->free_mappings = m;
	t->free_mapping_count++;
}

void ro_table_remove(struct ro_table *t, struct ro_piece *piece)
{
	struct ro_piece **at = &t->root, *less = piece->left, *more = piece->right;
	struct ro_mapping *m = piece->mapping;

	while (*at != piece)
		at = piece->start < (*at)->start ? &(*at)->left : &(*at)->right;
	while (less && more) {
		if (less->priority > more->priority) {
			*at = less;
			at = &less->right;
			less = *at;
		} else {
			*at = more;
			at = &more->left;
			more = *at;
		}
	}
	*at = less ? less : more;
	m->bytes -= piece->end - piece->start;
	m->open_bytes -= piece->open ? piece->end - piece->start : 0;
	if (piece->next)
		piece->next->previous = piece->previous;
	if (piece->previous)
		piece->previous->next = piece->next;
	else
		m->pieces = piece->next;
	if (!--m->piece_count)
		release_mapping(t, m);
	piece->left = t->free;
	t->free = piece;
	t->free_count++;
	t->piece_count--;
}

void ro_table_resize(struct ro_piece *piece, uintptr_t end)
{
	struct ro_mapping *m = piece->mapping;
	size_t change = end - piece->end; /* wraps when it shrinks, and so do the sums */

	m->bytes += change;
	m->open_bytes += piece->open ? change : 0;
	piece->end = end;
}

void ro_table_split(struct ro_table *t, uintptr_t addr)
{
	struct ro_piece *p = ro_table_at(t, addr);
	uintptr_t end;

	if (!p || p->start == addr)
		return;
	end = p->end;
	ro_table_resize(p, addr);
	ro_table_insert(t, addr, end, p->open, p->mapping);
}

static bool joins(const struct ro_piece *low, const struct ro_piece *high)
{
	return low && high && low->end == high->start && low->open && high->open &&
	       low->mapping == high->mapping;
}

void ro_table_mark(struct ro_piece *piece)
{
	piece->open = true;
	piece->mapping->open_bytes += piece->end - piece->start;
}

void ro_table_open(struct ro_table *t, struct ro_piece *piece)
{
	struct ro_piece *low = piece->start ? ro_table_at(t, piece->start - 1) : NULL, *high;
	uintptr_t end;

	ro_table_mark(piece);
	if (joins(low, piece)) {
		end = piece->end;
		ro_table_remove(t, piece);
		ro_table_resize(low, end);
		piece = low;
	}
	high = ro_table_at(t, piece->end);
	if (joins(piece, high)) {
		end = high->end;
		ro_table_remove(t, high);
		ro_table_resize(piece, end);
	}
}

bool ro_table_valid(const struct ro_table *t)
{
	size_t n = 0;
	uintptr_t end = 0;

	for (struct ro_piece *p = ro_table_from(t, 0); p; p = ro_table_from(t, p->end)) {
		if (p->start < end || p->start >= p->end || !p->mapping ||
		    !p->mapping->piece_count || p->mapping->open_bytes > p->mapping->bytes ||
		    (p->left && (p->left->priority > p->priority || p->left->end > p->start)) ||
		    (p->right &&
		     (p->right->priority > p->priority || p->right->start < p->end)))
			return false;
		end = p->end;
		n++;
	}
	return n == t->piece_count;
}
