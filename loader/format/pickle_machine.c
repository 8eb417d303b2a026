/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pickle_machine.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

bool h2d_pickle_room(struct pile *p, size_t count, size_t size)
{
	size_t cap = p->cap ? p->cap : 64, bytes;
	void *data;

	if (count <= p->cap)
		return true;
	while (cap < count)
		if (!h2d_mul_size(cap, 2, &cap))
			return false;
	if (!h2d_mul_size(cap, size, &bytes))
		return false;
	data = h2d_mem->realloc(p->data, bytes);
	if (!data)
		return false;
	p->data = data;
	p->cap = cap;
	return true;
}

/* ---- values and the stack */

int h2d_pickle_new(struct machine *m, enum h2d_pickle_kind kind, value **out)
{
	value *v;

	if (m->value_count++ == H2D_PICKLE_VALUES_MAX)
		return h2d_reader_fail(m->r, m->at, "more than %d values",
				       H2D_PICKLE_VALUES_MAX);
	v = h2d_arena_alloc(m->arena, sizeof(*v));
	if (!v)
		return h2d_reader_nomem(m->r);
	memset(v, 0, sizeof(*v));
	v->kind = (uint8_t)kind;
	*out = v;
	return 0;
}

int h2d_pickle_push(struct machine *m, value *v)
{
	if (m->stack.count == H2D_PICKLE_STACK_MAX)
		return h2d_reader_fail(m->r, m->at, "more than %d values on the stack",
				       H2D_PICKLE_STACK_MAX);
	if (!h2d_pickle_room(&m->stack, m->stack.count + 1, sizeof(v)))
		return h2d_reader_nomem(m->r);
	stack_of(m)[m->stack.count++] = v;
	return 0;
}

int h2d_pickle_push_new(struct machine *m, enum h2d_pickle_kind kind, value **out)
{
	int rc = h2d_pickle_new(m, kind, out);

	return rc ? rc : h2d_pickle_push(m, *out);
}

/* Values above the last mark. */
static size_t above_mark(const struct machine *m)
{
	const size_t *marks = m->marks.data;

	return m->stack.count - (m->marks.count ? marks[m->marks.count - 1] : 0);
}

int h2d_pickle_need(struct machine *m, size_t count)
{
	if (above_mark(m) >= count)
		return 0;
	return h2d_reader_fail(m->r, m->at,
			       "the stack holds fewer values than the opcode takes");
}

int h2d_pickle_push_mark(struct machine *m)
{
	if (m->marks.count == H2D_PICKLE_STACK_MAX)
		return h2d_reader_fail(m->r, m->at, "more than %d marks", H2D_PICKLE_STACK_MAX);
	if (!h2d_pickle_room(&m->marks, m->marks.count + 1, sizeof(size_t)))
		return h2d_reader_nomem(m->r);
	((size_t *)m->marks.data)[m->marks.count++] = m->stack.count;
	return 0;
}

/* Take the last mark away and tell where on the stack it was. */
static int pop_mark(struct machine *m, size_t *depth)
{
	if (!m->marks.count)
		return h2d_reader_fail(m->r, m->at, "no mark on the stack");
	*depth = ((size_t *)m->marks.data)[--m->marks.count];
	return 0;
}

int h2d_pickle_add_item(struct machine *m, value *to, value *key, value *v)
{
	struct h2d_pickle_item *item = h2d_arena_alloc(m->arena, sizeof(*item));

	if (!item)
		return h2d_reader_nomem(m->r);
	*item = (struct h2d_pickle_item){.key = key, .value = v};
	if (to->items.last)
		to->items.last->next = item;
	else
		to->items.first = item;
	to->items.last = item;
	to->count++;
	return 0;
}

/* ---- containers */

/* Move the values from `depth` up into `to`, as elements or as pairs. */
static int take_items(struct machine *m, value *to, size_t depth, bool pairs)
{
	value **s = stack_of(m);
	int rc = 0;

	if (pairs && (m->stack.count - depth) % 2)
		return h2d_reader_fail(m->r, m->at, "a key without a value");
	for (size_t i = depth; i < m->stack.count && !rc; i += pairs ? 2 : 1)
		rc = pairs ? h2d_pickle_add_item(m, to, s[i], s[i + 1])
			   : h2d_pickle_add_item(m, to, NULL, s[i]);
	m->stack.count = depth;
	return rc;
}

/* TUPLE, LIST, DICT, FROZENSET: everything above the mark becomes one new value. */
int h2d_pickle_gather(struct machine *m, enum h2d_pickle_kind kind)
{
	size_t depth = 0;
	value *v = NULL;
	int rc = pop_mark(m, &depth);

	if (!rc)
		rc = h2d_pickle_new(m, kind, &v);
	if (!rc)
		rc = take_items(m, v, depth, kind == H2D_PICKLE_DICT);
	return rc ? rc : h2d_pickle_push(m, v);
}

int h2d_pickle_short_tuple(struct machine *m, size_t count)
{
	value *v = NULL;
	int rc = h2d_pickle_need(m, count);

	if (!rc)
		rc = h2d_pickle_new(m, H2D_PICKLE_TUPLE, &v);
	if (!rc)
		rc = take_items(m, v, m->stack.count - count, false);
	return rc ? rc : h2d_pickle_push(m, v);
}

/* APPEND(S), SETITEM(S), ADDITEMS: what is at `depth` and above goes into what is below it. */
static int extend(struct machine *m, enum h2d_pickle_kind kind, size_t depth)
{
	value *to;

	if (!depth ||
	    (m->marks.count && depth == ((size_t *)m->marks.data)[m->marks.count - 1]))
		return h2d_reader_fail(m->r, m->at, "nothing on the stack to add to");
	to = stack_of(m)[depth - 1];
	if (to->kind != kind && (to->kind != H2D_PICKLE_OBJECT || kind == H2D_PICKLE_SET))
		return h2d_reader_fail(m->r, m->at, "the value cannot be added to");
	return take_items(m, to, depth, kind == H2D_PICKLE_DICT);
}

int h2d_pickle_extend_marked(struct machine *m, enum h2d_pickle_kind kind)
{
	size_t depth = 0;
	int rc = pop_mark(m, &depth);

	return rc ? rc : extend(m, kind, depth);
}

int h2d_pickle_extend_by(struct machine *m, enum h2d_pickle_kind kind, size_t count)
{
	int rc = h2d_pickle_need(m, count);

	return rc ? rc : extend(m, kind, m->stack.count - count);
}

/* ---- taking away */

int h2d_pickle_drop(struct machine *m)
{
	size_t depth;
	int rc;

	if (m->marks.count && !above_mark(m))
		return pop_mark(m, &depth);
	rc = h2d_pickle_need(m, 1);
	if (!rc)
		pop(m);
	return rc;
}

int h2d_pickle_drop_marked(struct machine *m)
{
	size_t depth = 0;
	int rc = pop_mark(m, &depth);

	if (!rc)
		m->stack.count = depth;
	return rc;
}

int h2d_pickle_duplicate(struct machine *m)
{
	int rc = h2d_pickle_need(m, 1);

	return rc ? rc : h2d_pickle_push(m, stack_of(m)[m->stack.count - 1]);
}
