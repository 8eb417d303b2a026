/* SPDX-License-Identifier: Apache-2.0 */
#include "core/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

enum { BLOCK_BYTES = 64 * 1024 };

struct h2d_arena_block {
	struct h2d_arena_block *next;
	size_t pad; /* keeps data 16-aligned */
	unsigned char data[];
};

void *h2d_arena_alloc(struct h2d_arena *arena, size_t bytes)
{
	struct h2d_arena_block *b;
	size_t need, cap;

	if (__builtin_add_overflow(bytes, 7, &need))
		return NULL;
	need &= ~(size_t)7;
	if (arena->head && arena->cap - arena->used >= need) {
		void *p = arena->head->data + arena->used;

		arena->used += need;
		return p;
	}
	cap = need > BLOCK_BYTES ? need : BLOCK_BYTES;
	if (cap > SIZE_MAX - sizeof(*b))
		return NULL;
	b = h2d_mem->malloc(sizeof(*b) + cap);
	if (!b)
		return NULL;
	arena->total_bytes += sizeof(*b) + cap;
	if (arena->head && need > BLOCK_BYTES / 4) {
		/* A big piece gets its own block behind the head, which keeps its free rest. */
		b->next = arena->head->next;
		arena->head->next = b;
		return b->data;
	}
	b->next = arena->head;
	arena->head = b;
	arena->cap = cap;
	arena->used = need;
	return b->data;
}

void *h2d_arena_array(struct h2d_arena *arena, size_t count, size_t size)
{
	size_t bytes;

	return h2d_mul_size(count, size, &bytes) ? h2d_arena_alloc(arena, bytes) : NULL;
}

char *h2d_arena_copy(struct h2d_arena *arena, const void *data, size_t bytes)
{
	char *p = bytes < SIZE_MAX ? h2d_arena_alloc(arena, bytes + 1) : NULL;

	if (!p)
		return NULL;
	if (bytes)
		memcpy(p, data, bytes);
	p[bytes] = 0;
	return p;
}

void h2d_arena_free(struct h2d_arena *arena)
{
	struct h2d_arena_block *b = arena->head, *next;

	for (; b; b = next) {
		next = b->next;
		free(b);
	}
	memset(arena, 0, sizeof(*arena));
}
