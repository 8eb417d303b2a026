/* SPDX-License-Identifier: Apache-2.0 */
#include "format/order.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/checked.h"
#include "core/clock.h"
#include "core/mem.h"

/* Radix sort: digits of 11 bits, so that the counters of a pass stay in the L1 cache. */
enum { DIGIT_BITS = 11, DIGIT_VALUES = 1 << DIGIT_BITS, DIGITS = (64 + 10) / 11 };

/* How far ahead memory is asked for, in elements. */
enum { PREFETCH = 16, SCOUT = 8 };

struct key {
	uint64_t offset;
	uint64_t index;
};

static const char *path_of(const struct h2d_catalogue *cat, const struct h2d_tensor *t)
{
	return cat->files[t->file].path;
}

static int no_memory(const struct h2d_catalogue *cat, const struct h2d_log *log,
		     const char *what)
{
	return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory for %s",
			path_of(cat, &cat->tensors[cat->tensor_count - 1]), what);
}

uint32_t h2d_order_hash(struct h2d_catalogue *cat, const char *name, size_t bytes)
{
	if (!cat->hash_seed)
		cat->hash_seed = (h2d_now_ns() ^ (uintptr_t)cat) | 1;
	return (uint32_t)XXH3_64bits_withSeed(name, bytes, cat->hash_seed);
}

static bool sorted(const struct h2d_tensor *t, uint64_t n)
{
	for (uint64_t i = 1; i < n; i++)
		if (t[i].offset_bytes < t[i - 1].offset_bytes)
			return false;
	return true;
}

/* Least significant digit first; digits that are the same in all keys cost nothing. The keys
 * end up in the returned one of the two arrays. */
static struct key *radix_sort(struct key *from, struct key *to, uint64_t n,
			      uint64_t (*counts)[DIGIT_VALUES])
{
	memset(counts, 0, DIGITS * sizeof(*counts));
	for (uint64_t i = 0; i < n; i++)
		for (unsigned d = 0; d < DIGITS; d++)
			counts[d][from[i].offset >> d * DIGIT_BITS & (DIGIT_VALUES - 1)]++;
	for (unsigned d = 0; d < DIGITS; d++) {
		unsigned shift = d * DIGIT_BITS;
		uint64_t sum = 0;
		struct key *swap;

		if (counts[d][from[0].offset >> shift & (DIGIT_VALUES - 1)] == n)
			continue;
		for (unsigned v = 0; v < DIGIT_VALUES; v++) {
			uint64_t c = counts[d][v];

			counts[d][v] = sum;
			sum += c;
		}
		for (uint64_t i = 0; i < n; i++)
			to[counts[d][from[i].offset >> shift & (DIGIT_VALUES - 1)]++] = from[i];
		swap = from;
		from = to;
		to = swap;
	}
	return from;
}

/* Put element key[i].index at place i for all i. In place, cycle by cycle: a copy of a large
 * array would cost more in fresh pages than the cycles cost in cache misses, the more so as
 * the walk knows in advance where it goes. */
static void permute(struct h2d_tensor *t, struct key *key, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct h2d_tensor held = t[i];
		uint64_t hole = i, scout = key[i].index;

		for (int d = 0; d < SCOUT; d++)
			scout = key[scout].index;
		while (key[hole].index != i) {
			uint64_t next = key[hole].index;

			__builtin_prefetch(&t[scout]);
			__builtin_prefetch((char *)&t[scout] + sizeof(*t) - 1);
			scout = key[scout].index;
			t[hole] = t[next];
			key[hole].index = hole;
			hole = next;
		}
		t[hole] = held;
		key[hole].index = hole;
	}
}

static void note_sorted(struct h2d_catalogue *cat, uint64_t first)
{
	if (cat->sorted_count == first)
		cat->sorted_count = cat->tensor_count;
}

int h2d_order_sort(struct h2d_catalogue *cat, uint64_t first, bool in_order,
		   const struct h2d_log *log)
{
	uint64_t n = cat->tensor_count - first;
	struct h2d_tensor *t = cat->tensors + first;
	uint64_t(*counts)[DIGIT_VALUES];
	struct key *keys;
	size_t bytes;

	if (n < 2 || in_order || sorted(t, n)) {
		note_sorted(cat, first);
		return 0;
	}
	if (!h2d_mul_size(n, 2 * sizeof(*keys), &bytes))
		return no_memory(cat, log, "sorting tensors");
	keys = h2d_mem->malloc(bytes);
	counts = h2d_mem->malloc(DIGITS * sizeof(*counts));
	if (!keys || !counts) {
		free(keys);
		free(counts);
		return no_memory(cat, log, "sorting tensors");
	}
	h2d_advise_huge(keys, bytes);
	for (uint64_t i = 0; i < n; i++)
		keys[i] = (struct key){t[i].offset_bytes, i};
	permute(t, radix_sort(keys, keys + n, n, counts), n);
	free(keys);
	free(counts);
	note_sorted(cat, first);
	return 0;
}

static int duplicate(const struct h2d_catalogue *cat, uint64_t a, uint64_t b,
		     const struct h2d_log *log)
{
	const struct h2d_tensor *x = &cat->tensors[a], *y = &cat->tensors[b];
	struct h2d_shown shown;

	h2d_show_name(&shown, x->name, x->name_bytes);
	if (x->file != y->file)
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: tensor \"%s\": name is not unique: the entry at offset "
				"%llu has it too in %s at offset %llu",
				path_of(cat, y), shown.text,
				(unsigned long long)y->entry_offset, path_of(cat, x),
				(unsigned long long)x->entry_offset);
	if (x->ordinal > y->ordinal) {
		const struct h2d_tensor *swap = x;

		x = y;
		y = swap;
	}
	return h2d_fail(
		log, H2D_E_FORMAT,
		"%s: tensor \"%s\": duplicate name at offset %llu, first at offset %llu",
		path_of(cat, y), shown.text, (unsigned long long)y->entry_offset,
		(unsigned long long)x->entry_offset);
}

static bool same_name(const struct h2d_tensor *t, const char *name, size_t bytes)
{
	return t->name_bytes == bytes && !memcmp(t->name, name, bytes);
}

int h2d_order_index_names(struct h2d_catalogue *cat, uint64_t first, const struct h2d_log *log)
{
	uint64_t n = cat->tensor_count - first, slots = 16, mask;
	uint64_t *table;

	free(cat->name_table);
	cat->name_table = NULL;
	cat->name_mask = 0;
	if (!n)
		return 0;
	if (cat->tensor_count >= UINT32_MAX)
		return h2d_fail(log, H2D_E_FORMAT, "%s: more than 2^32 - 2 tensors",
				cat->files[0].path);
	while (slots < 2 * n)
		slots *= 2;
	table = h2d_mem->calloc(slots, sizeof(*table));
	if (!table)
		return no_memory(cat, log, "the table of names");
	h2d_advise_huge(table, slots * sizeof(*table));
	mask = slots - 1;
	cat->name_table = table;
	cat->name_mask = mask;
	for (uint64_t i = first; i < cat->tensor_count; i++) {
		struct h2d_tensor *t = &cat->tensors[i];
		uint64_t ahead = i + PREFETCH < cat->tensor_count ? i + PREFETCH : i;
		uint64_t slot;

		__builtin_prefetch(&table[cat->tensors[ahead].name_hash & mask], 1);
		if (!t->name_hash)
			t->name_hash = h2d_order_hash(cat, t->name, t->name_bytes);
		for (slot = t->name_hash & mask; table[slot]; slot = (slot + 1) & mask) {
			uint64_t other = (table[slot] & UINT32_MAX) - 1;

			if (table[slot] >> 32 == t->name_hash &&
			    same_name(&cat->tensors[other], t->name, t->name_bytes))
				return duplicate(cat, other, i, log);
		}
		table[slot] = (uint64_t)t->name_hash << 32 | (i + 1);
	}
	return 0;
}

uint64_t h2d_order_find(const struct h2d_catalogue *cat, const char *name, size_t bytes)
{
	uint32_t hash;

	if (!cat->name_table)
		return UINT64_MAX;
	hash = (uint32_t)XXH3_64bits_withSeed(name, bytes, cat->hash_seed);
	for (uint64_t slot = hash & cat->name_mask; cat->name_table[slot];
	     slot = (slot + 1) & cat->name_mask) {
		uint64_t i = (cat->name_table[slot] & UINT32_MAX) - 1;

		if (cat->name_table[slot] >> 32 == hash &&
		    same_name(&cat->tensors[i], name, bytes))
			return i;
	}
	return UINT64_MAX;
}

static int overlap(const struct h2d_catalogue *cat, const struct h2d_tensor *a,
		   const struct h2d_tensor *b, const struct h2d_log *log)
{
	struct h2d_shown x, y;

	return h2d_fail(log, H2D_E_FORMAT,
			"%s: tensor \"%s\": data [%llu, %llu) overlaps that of tensor \"%s\", "
			"[%llu, %llu)",
			path_of(cat, b), h2d_show_name(&y, b->name, b->name_bytes),
			(unsigned long long)b->offset_bytes,
			(unsigned long long)(b->offset_bytes + b->size_bytes),
			h2d_show_name(&x, a->name, a->name_bytes),
			(unsigned long long)a->offset_bytes,
			(unsigned long long)(a->offset_bytes + a->size_bytes));
}

static int out_of_bounds(const struct h2d_catalogue *cat, const struct h2d_tensor *t,
			 const struct h2d_log *log)
{
	struct h2d_shown shown;

	return h2d_fail(log, H2D_E_FORMAT,
			"%s: tensor \"%s\": %llu bytes at offset %llu pass the end of the file "
			"(%llu)",
			path_of(cat, t), h2d_show_name(&shown, t->name, t->name_bytes),
			(unsigned long long)t->size_bytes, (unsigned long long)t->offset_bytes,
			(unsigned long long)cat->files[t->file].id.size_bytes);
}

/* Each extent must lie in its file. In file order it must also begin behind the furthest end so
 * far, except that extents which are shared on purpose may overlap each other. */
static int check_extents(struct h2d_catalogue *cat, const struct h2d_log *log)
{
	uint64_t own_end = 0, shared_end = 0, size = 0, end;
	const struct h2d_tensor *own = NULL, *shared = NULL;

	cat->size_bytes = 0;
	for (uint64_t i = 0; i < cat->tensor_count; i++) {
		const struct h2d_tensor *t = &cat->tensors[i];
		bool is_shared = t->flags & H2D_TENSOR_SHARED;

		if (!i || t->file != t[-1].file) {
			own_end = shared_end = 0;
			size = cat->files[t->file].id.size_bytes;
		}
		if (!h2d_add_u64(t->offset_bytes, t->size_bytes, &end) || end > size)
			return out_of_bounds(cat, t, log);
		if (!h2d_add_u64(cat->size_bytes, t->size_bytes, &cat->size_bytes))
			return h2d_fail(log, H2D_E_FORMAT,
					"%s: sizes of all tensors together pass 2^64",
					path_of(cat, t));
		if (!t->size_bytes)
			continue;
		if (t->offset_bytes < own_end)
			return overlap(cat, own, t, log);
		if (!is_shared && t->offset_bytes < shared_end)
			return overlap(cat, shared, t, log);
		if (!is_shared) {
			own = t;
			own_end = end;
		} else if (end > shared_end) {
			shared = t;
			shared_end = end;
		}
	}
	return 0;
}

/* Sort file by file, by telling the sort that the catalogue ends with each. */
static int sort_files(struct h2d_catalogue *cat, const struct h2d_log *log)
{
	uint64_t total = cat->tensor_count;
	int rc = 0;

	for (uint64_t first = cat->sorted_count, end; !rc && first < total; first = end) {
		for (end = first + 1; end < total; end++)
			if (cat->tensors[end].file != cat->tensors[first].file)
				break;
		cat->tensor_count = end;
		rc = h2d_order_sort(cat, first, false, log);
		cat->tensor_count = total;
	}
	return rc;
}

int h2d_order_finish(struct h2d_catalogue *cat, const struct h2d_log *log)
{
	int rc = sort_files(cat, log);

	if (!rc)
		rc = check_extents(cat, log);
	return rc ? rc : h2d_order_index_names(cat, 0, log);
}
