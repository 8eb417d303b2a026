/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file arena.h
 * Memory that lives and dies together: strings and shapes of an opened header.
 * Not thread-safe. A zeroed arena is empty and valid.
 */
#ifndef H2D_CORE_ARENA_H
#define H2D_CORE_ARENA_H

#include <stddef.h>

struct h2d_arena_block;
struct h2d_arena {
	struct h2d_arena_block *head;
	size_t used, cap; /**< of the head block */
	size_t total_bytes;
};

/** `bytes` uninitialised bytes aligned to 8, or NULL when memory cannot be had. */
void *h2d_arena_alloc(struct h2d_arena *arena, size_t bytes);
/** As above for `count` elements of `size` bytes, with the product checked. */
void *h2d_arena_array(struct h2d_arena *arena, size_t count, size_t size);
/** Copy of `bytes` bytes, NUL-terminated, or NULL. */
char *h2d_arena_copy(struct h2d_arena *arena, const void *data, size_t bytes);
void h2d_arena_free(struct h2d_arena *arena);

#endif
