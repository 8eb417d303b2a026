/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file table.h
 * The address ranges that we keep: disjoint pieces ordered by address, in a treap whose nodes
 * come from the library's own memory (never malloc, which may be what called us). A piece is
 * closed (read-only) or open (made writable); several pieces may belong to one mapping. All
 * operations are logarithmic and iterative: they run on a signal's stack. Not locked here.
 */
#ifndef H2D_RUN_TABLE_H
#define H2D_RUN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2d_run_record;

/** What one mmap() made, as long as a piece of it is left. */
struct ro_mapping {
	struct h2d_run_record *record; /**< where it is counted; NULL when the state was full */
	int32_t pid;		       /**< whose record that is */
	bool inherited;		       /**< from the parent, by fork() */
	uint64_t open_count;	       /**< blocks opened so far */
	size_t piece_count;
	size_t bytes;	   /**< of its pieces */
	size_t open_bytes; /**< of its open pieces */
	struct ro_piece *pieces;
	struct ro_mapping *next_free;
};

struct ro_piece {
	uintptr_t start, end; /**< whole pages */
	bool open;
	uint32_t priority;
	struct ro_mapping *mapping;
	struct ro_piece *left, *right;
	struct ro_piece *next, *previous; /* of the same mapping */
};

struct ro_table {
	struct ro_piece *root, *free;
	struct ro_mapping *free_mappings;
	size_t free_count, free_mapping_count, piece_count;
	uint32_t random;
};

/** See that `pieces` pieces and one mapping are at hand. @return false if memory is short */
bool ro_table_reserve(struct ro_table *t, size_t pieces);

/** A mapping with no pieces; needs a reservation. It is freed with its last piece. */
struct ro_mapping *ro_table_mapping(struct ro_table *t);

/** The first piece that ends above `addr`, or NULL. It may begin above it. */
struct ro_piece *ro_table_from(const struct ro_table *t, uintptr_t addr);

/** The piece that contains `addr`, or NULL. */
struct ro_piece *ro_table_at(const struct ro_table *t, uintptr_t addr);

/** Insert a piece where none is; needs a reservation of 1. */
struct ro_piece *ro_table_insert(struct ro_table *t, uintptr_t start, uintptr_t end, bool open,
				 struct ro_mapping *mapping);

void ro_table_remove(struct ro_table *t, struct ro_piece *piece);

/** Make `addr` a border between pieces; needs a reservation of 1. */
void ro_table_split(struct ro_table *t, uintptr_t addr);

/** Mark a closed piece open. */
void ro_table_mark(struct ro_piece *piece);

/** The same, and join it with its open neighbours of the same mapping. */
void ro_table_open(struct ro_table *t, struct ro_piece *piece);

/** Change the end of a piece; nothing may lie between. */
void ro_table_resize(struct ro_piece *piece, uintptr_t end);

/** Whether all rules of the table hold (for the tests). */
bool ro_table_valid(const struct ro_table *t);

#endif
