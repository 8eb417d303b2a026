/* SPDX-License-Identifier: Apache-2.0 */
#include "format/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "format/pickle_machine.h"

enum {
	GLOBAL_NAME_MAX_BYTES = 1024,
	PROTOCOL_MIN = 2,
	PROTOCOL_MAX = 5,
};

static int push_kind(struct machine *m, enum h2d_pickle_kind kind)
{
	value *v;

	return h2d_pickle_push_new(m, kind, &v);
}

static int push_int(struct machine *m, enum h2d_pickle_kind kind, int64_t i)
{
	value *v;
	int rc = h2d_pickle_push_new(m, kind, &v);

	if (!rc)
		v->integer = i;
	return rc;
}

/* ---- scalars and text */

/* `width` bytes of length, then the text. */
static int push_text(struct machine *m, enum h2d_pickle_kind kind, unsigned width)
{
	uint64_t bytes = 0;
	value *v;
	char *p;
	int rc = h2d_reader_read(m->r, &bytes, width, "a length");

	if (rc)
		return rc;
	if (bytes > h2d_reader_left(m->r))
		return h2d_reader_fail(m->r, m->at, "a string of %llu bytes passes the end",
				       (unsigned long long)bytes);
	rc = h2d_pickle_push_new(m, kind, &v);
	if (rc)
		return rc;
	p = h2d_arena_alloc(m->arena, (size_t)bytes + 1);
	if (!p)
		return h2d_reader_nomem(m->r);
	p[bytes] = 0;
	v->text.data = p;
	v->text.bytes = bytes;
	return h2d_reader_read(m->r, p, bytes, "a string");
}

static int push_number(struct machine *m, unsigned width, bool is_signed)
{
	uint64_t raw = 0;
	int rc = h2d_reader_read(m->r, &raw, width, "a number");

	if (rc)
		return rc;
	return push_int(m, H2D_PICKLE_INT, is_signed ? (int32_t)raw : (int64_t)raw);
}

/* Two's complement of any length, least significant byte first. */
static int push_long(struct machine *m, unsigned width)
{
	unsigned char byte = 0;
	uint64_t count = 0, v = 0;
	int rc = h2d_reader_read(m->r, &count, width, "a length");

	if (rc)
		return rc;
	if (count > h2d_reader_left(m->r))
		return h2d_reader_fail(m->r, m->at, "a number of %llu bytes passes the end",
				       (unsigned long long)count);
	for (uint64_t i = 0; i < count && !rc; i++) {
		rc = h2d_reader_u8(m->r, &byte, "a number");
		if (i < 8)
			v |= (uint64_t)byte << 8 * i;
	}
	if (rc)
		return rc;
	if (count > 8)
		return push_int(m, H2D_PICKLE_LONG, 0);
	if (count && count < 8 && byte & 0x80)
		v |= UINT64_MAX << 8 * count;
	return push_int(m, H2D_PICKLE_INT, (int64_t)v);
}

static int push_float(struct machine *m)
{
	uint64_t raw;
	value *v;
	int rc = h2d_reader_u64(m->r, &raw, "a float");

	if (!rc)
		rc = h2d_pickle_push_new(m, H2D_PICKLE_FLOAT, &v);
	if (rc)
		return rc;
	raw = __builtin_bswap64(raw); /* the one big-endian number of a pickle */
	memcpy(&v->real, &raw, sizeof(v->real));
	return 0;
}

/* ---- globals, calls, memo */

static int read_line(struct machine *m, const char **line)
{
	char buf[GLOBAL_NAME_MAX_BYTES];
	size_t n = 0;
	int rc;

	for (;;) {
		uint8_t c;

		rc = h2d_reader_u8(m->r, &c, "a global's name");
		if (rc)
			return rc;
		if (c == '\n')
			break;
		if (!c || n == sizeof(buf))
			return h2d_reader_fail(m->r, m->at, "a global's name is damaged");
		buf[n++] = (char)c;
	}
	*line = h2d_arena_copy(m->arena, buf, n);
	return *line ? 0 : h2d_reader_nomem(m->r);
}

static int push_global(struct machine *m, const char *module, const char *name)
{
	value *v;
	int rc = h2d_pickle_push_new(m, H2D_PICKLE_GLOBAL, &v);

	if (rc)
		return rc;
	v->text.data = module;
	v->text.bytes = strlen(module);
	v->name = name;
	return 0;
}

static int text_global(struct machine *m)
{
	const char *module, *name;
	int rc = read_line(m, &module);

	if (!rc)
		rc = read_line(m, &name);
	return rc ? rc : push_global(m, module, name);
}

static int stack_global(struct machine *m)
{
	value *module, *name;
	int rc = h2d_pickle_need(m, 2);

	if (rc)
		return rc;
	name = pop(m);
	module = pop(m);
	if (name->kind != H2D_PICKLE_STRING || module->kind != H2D_PICKLE_STRING ||
	    strlen(name->text.data) != name->text.bytes ||
	    strlen(module->text.data) != module->text.bytes)
		return h2d_reader_fail(m->r, m->at, "a global's name is damaged");
	return push_global(m, module->text.data, name->text.data);
}

static int push_call(struct machine *m, enum h2d_pickle_kind kind, value *callable, value *args)
{
	struct h2d_pickle_call *call = h2d_arena_alloc(m->arena, sizeof(*call));
	value *v;
	int rc;

	if (!call)
		return h2d_reader_nomem(m->r);
	rc = h2d_pickle_push_new(m, kind, &v);
	if (rc)
		return rc;
	*call = (struct h2d_pickle_call){.callable = callable, .args = args, .at = m->at};
	v->call = call;
	return 0;
}

/* REDUCE and NEWOBJ (count 2), NEWOBJ_EX (3: the keywords become a last argument). */
static int make_object(struct machine *m, size_t count)
{
	value *callable, *args, *keywords = NULL;
	int rc = h2d_pickle_need(m, count);

	if (rc)
		return rc;
	if (count == 3)
		keywords = pop(m);
	args = pop(m);
	callable = pop(m);
	if (args->kind != H2D_PICKLE_TUPLE)
		return h2d_reader_fail(m->r, m->at, "the arguments of a call are not a tuple");
	if (keywords && keywords->kind == H2D_PICKLE_DICT && keywords->count) {
		value *both;

		rc = h2d_pickle_new(m, H2D_PICKLE_TUPLE, &both);
		if (!rc)
			rc = h2d_pickle_add_item(m, both, NULL, args);
		if (!rc)
			rc = h2d_pickle_add_item(m, both, NULL, keywords);
		if (rc)
			return rc;
		args = both;
	}
	return push_call(m, H2D_PICKLE_OBJECT, callable, args);
}

static int build(struct machine *m)
{
	value *state, *to;
	int rc = h2d_pickle_need(m, 2);

	if (rc)
		return rc;
	state = pop(m);
	to = stack_of(m)[m->stack.count - 1];
	if (to->kind != H2D_PICKLE_OBJECT)
		return h2d_reader_fail(m->r, m->at, "state is given to what is no object");
	if (to->call->state)
		return h2d_reader_fail(m->r, m->at, "state is given to an object twice");
	to->call->state = state;
	return 0;
}

static int persistent(struct machine *m)
{
	int rc = h2d_pickle_need(m, 1);

	return rc ? rc : push_call(m, H2D_PICKLE_PERSISTENT, NULL, pop(m));
}

static int put_at(struct machine *m, uint64_t index)
{
	value **slot;
	int rc = h2d_pickle_need(m, 1);

	if (rc)
		return rc;
	/* Each put takes at least a byte, so a writer that counts up stays below this. */
	if (index >= m->r->pos - m->begin)
		return h2d_reader_fail(m->r, m->at, "memo index %llu is too large",
				       (unsigned long long)index);
	if (!h2d_pickle_room(&m->memo, (size_t)index + 1, sizeof(value *)))
		return h2d_reader_nomem(m->r);
	slot = m->memo.data;
	while (m->memo.count <= index)
		slot[m->memo.count++] = NULL;
	m->memoised += !slot[index];
	slot[index] = stack_of(m)[m->stack.count - 1];
	return 0;
}

static int put(struct machine *m, unsigned width)
{
	uint64_t index = 0;
	int rc = h2d_reader_read(m->r, &index, width, "a memo index");

	return rc ? rc : put_at(m, index);
}

static int get(struct machine *m, unsigned width)
{
	uint64_t index = 0;
	int rc = h2d_reader_read(m->r, &index, width, "a memo index");

	if (rc)
		return rc;
	if (index >= m->memo.count || !((value **)m->memo.data)[index])
		return h2d_reader_fail(m->r, m->at, "memo index %llu was never set",
				       (unsigned long long)index);
	return h2d_pickle_push(m, ((value **)m->memo.data)[index]);
}

/* ---- running */

static int frame(struct machine *m)
{
	uint64_t bytes;
	int rc = h2d_reader_u64(m->r, &bytes, "a frame's length");

	if (!rc && bytes > h2d_reader_left(m->r))
		rc = h2d_reader_fail(m->r, m->at, "a frame of %llu bytes passes the end",
				     (unsigned long long)bytes);
	return rc;
}

static int refuse(struct machine *m, unsigned op)
{
	return h2d_reader_fail(
		m->r, m->at, "opcode 0x%02x is none that torch.save or TorchScript writes", op);
}

static int step(struct machine *m, unsigned op)
{
	switch (op) {
	case 'N':
		return push_kind(m, H2D_PICKLE_NONE);
	case 0x88:
		return push_int(m, H2D_PICKLE_BOOL, 1);
	case 0x89:
		return push_int(m, H2D_PICKLE_BOOL, 0);
	case 'K':
		return push_number(m, 1, false);
	case 'M':
		return push_number(m, 2, false);
	case 'J':
		return push_number(m, 4, true);
	case 0x8a:
		return push_long(m, 1);
	case 0x8b:
		return push_long(m, 4);
	case 'G':
		return push_float(m);
	case 'X':
	case 'T':
		return push_text(m, H2D_PICKLE_STRING, 4);
	case 'U':
	case 0x8c:
		return push_text(m, H2D_PICKLE_STRING, 1);
	case 0x8d:
		return push_text(m, H2D_PICKLE_STRING, 8);
	case 'B':
		return push_text(m, H2D_PICKLE_BYTES, 4);
	case 'C':
		return push_text(m, H2D_PICKLE_BYTES, 1);
	case 0x8e:
	case 0x96:
		return push_text(m, H2D_PICKLE_BYTES, 8);
	case '(':
		return h2d_pickle_push_mark(m);
	case '0':
		return h2d_pickle_drop(m);
	case '1':
		return h2d_pickle_drop_marked(m);
	case '2':
		return h2d_pickle_duplicate(m);
	case ')':
		return push_kind(m, H2D_PICKLE_TUPLE);
	case 't':
		return h2d_pickle_gather(m, H2D_PICKLE_TUPLE);
	case 0x85:
	case 0x86:
	case 0x87:
		return h2d_pickle_short_tuple(m, op - 0x84);
	case ']':
		return push_kind(m, H2D_PICKLE_LIST);
	case 'l':
		return h2d_pickle_gather(m, H2D_PICKLE_LIST);
	case 'a':
		return h2d_pickle_extend_by(m, H2D_PICKLE_LIST, 1);
	case 'e':
		return h2d_pickle_extend_marked(m, H2D_PICKLE_LIST);
	case '}':
		return push_kind(m, H2D_PICKLE_DICT);
	case 'd':
		return h2d_pickle_gather(m, H2D_PICKLE_DICT);
	case 's':
		return h2d_pickle_extend_by(m, H2D_PICKLE_DICT, 2);
	case 'u':
		return h2d_pickle_extend_marked(m, H2D_PICKLE_DICT);
	case 0x8f:
		return push_kind(m, H2D_PICKLE_SET);
	case 0x90:
		return h2d_pickle_extend_marked(m, H2D_PICKLE_SET);
	case 0x91:
		return h2d_pickle_gather(m, H2D_PICKLE_SET);
	case 'c':
		return text_global(m);
	case 0x93:
		return stack_global(m);
	case 'R':
	case 0x81:
		return make_object(m, 2);
	case 0x92:
		return make_object(m, 3);
	case 'b':
		return build(m);
	case 'Q':
		return persistent(m);
	case 'q':
		return put(m, 1);
	case 'r':
		return put(m, 4);
	case 0x94:
		return put_at(m, m->memoised);
	case 'h':
		return get(m, 1);
	case 'j':
		return get(m, 4);
	case 0x95:
		return frame(m);
	default:
		return refuse(m, op);
	}
}

static int run(struct machine *m, value **root)
{
	uint8_t op, protocol;
	int rc = h2d_reader_u8(m->r, &op, "its begin");

	if (!rc)
		rc = h2d_reader_u8(m->r, &protocol, "its begin");
	if (rc)
		return rc;
	if (op != 0x80 || protocol < PROTOCOL_MIN || protocol > PROTOCOL_MAX)
		return h2d_reader_fail(m->r, m->begin, "not a pickle of protocol %d to %d",
				       PROTOCOL_MIN, PROTOCOL_MAX);
	for (;;) {
		m->at = m->r->pos;
		rc = h2d_reader_u8(m->r, &op, "its opcodes");
		if (rc)
			return rc;
		if (op == '.')
			break;
		rc = step(m, op);
		if (rc)
			return rc;
	}
	if (m->stack.count != 1 || m->marks.count)
		return h2d_reader_fail(m->r, m->at,
				       "it ends with %zu values on the stack, not one",
				       m->stack.count);
	*root = stack_of(m)[0];
	return 0;
}

int h2d_pickle_read(struct h2d_reader *r, struct h2d_arena *arena, value **root)
{
	struct machine m = {.r = r, .arena = arena, .begin = r->pos};
	int rc = run(&m, root);

	free(m.stack.data);
	free(m.marks.data);
	free(m.memo.data);
	return rc;
}

bool h2d_pickle_is_global(const value *v, const char *module, const char *name)
{
	return v && v->kind == H2D_PICKLE_GLOBAL && !strcmp(v->text.data, module) &&
	       !strcmp(v->name, name);
}

value *h2d_pickle_at(const value *v, uint32_t i)
{
	const struct h2d_pickle_item *item;

	if (!v || (v->kind != H2D_PICKLE_TUPLE && v->kind != H2D_PICKLE_LIST))
		return NULL;
	for (item = v->items.first; item && i; i--)
		item = item->next;
	return item ? item->value : NULL;
}
