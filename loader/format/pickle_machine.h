/* SPDX-License-Identifier: Apache-2.0 */
/** @file pickle_machine.h  The stack machine of a pickle: values, stack, marks, containers. */
#ifndef H2D_FORMAT_PICKLE_MACHINE_H
#define H2D_FORMAT_PICKLE_MACHINE_H

#include "format/pickle.h"

typedef struct h2d_pickle_value value;

/* A stack whose size is bounded by the caller. */
struct pile {
	void *data;
	size_t count, cap;
};

struct machine {
	struct h2d_reader *r;
	struct h2d_arena *arena;
	uint64_t begin; /* of the pickle */
	uint64_t at;	/* of the current opcode */
	uint64_t value_count;
	struct pile stack; /* value * */
	struct pile marks; /* size_t: stack depths */
	struct pile memo;  /* value *, some NULL; count is the highest used + 1 */
	uint64_t memoised; /* slots in use, the index that MEMOIZE takes next */
};

static inline value **stack_of(const struct machine *m)
{
	return m->stack.data;
}

static inline value *pop(struct machine *m)
{
	return stack_of(m)[--m->stack.count];
}

/* Room for `count` elements of `size` bytes; false: no memory. */
bool h2d_pickle_room(struct pile *p, size_t count, size_t size);
int h2d_pickle_new(struct machine *m, enum h2d_pickle_kind kind, value **out);
int h2d_pickle_push(struct machine *m, value *v);
int h2d_pickle_push_new(struct machine *m, enum h2d_pickle_kind kind, value **out);
/* Refuse unless `count` values lie above the last mark. */
int h2d_pickle_need(struct machine *m, size_t count);
int h2d_pickle_push_mark(struct machine *m);
/* POP, which may take a mark; POP_MARK; DUP. */
int h2d_pickle_drop(struct machine *m);
int h2d_pickle_drop_marked(struct machine *m);
int h2d_pickle_duplicate(struct machine *m);
int h2d_pickle_add_item(struct machine *m, value *to, value *key, value *v);
/* TUPLE, LIST, DICT, FROZENSET: everything above the mark becomes one new value. */
int h2d_pickle_gather(struct machine *m, enum h2d_pickle_kind kind);
/* TUPLE1 to TUPLE3. */
int h2d_pickle_short_tuple(struct machine *m, size_t count);
/* APPENDS, SETITEMS, ADDITEMS, and the same for the last `count` values without a mark. */
int h2d_pickle_extend_marked(struct machine *m, enum h2d_pickle_kind kind);
int h2d_pickle_extend_by(struct machine *m, enum h2d_pickle_kind kind, size_t count);

#endif
