/* SPDX-License-Identifier: Apache-2.0 */
/* Values of registers: constants where they are known, else where they come from. Equal ones
 * have one number, so that comparing them is comparing numbers. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"

enum { TABLE_SLOTS = 1 << 14, VALUES_MAX = TABLE_SLOTS / 2, DEPTH_MAX = 24 };

int ins_values_open(struct ins_values *values)
{
	*values = (struct ins_values){.capacity = VALUES_MAX, .table_size = TABLE_SLOTS};
	values->items = h2d_mem->calloc(VALUES_MAX, sizeof(*values->items));
	values->table = h2d_mem->calloc(TABLE_SLOTS, sizeof(*values->table));
	values->count = 1;
	if (values->items && values->table)
		return 0;
	ins_values_close(values);
	return H2D_E_NOMEM;
}

void ins_values_close(struct ins_values *values)
{
	free(values->items);
	free(values->table);
	*values = (struct ins_values){0};
}

const struct ins_value *ins_value(const struct ins_values *values, ins_id id)
{
	return &values->items[id < values->count ? id : 0];
}

static uint32_t hash(const struct ins_value *v)
{
	uint64_t h = v->kind * 0x9e3779b97f4a7c15ull;

	h = (h ^ v->op) * 0xff51afd7ed558ccdull;
	h = (h ^ v->a ^ (uint64_t)v->b << 32) * 0xff51afd7ed558ccdull;
	h = (h ^ h >> 29 ^ v->k) * 0xc4ceb9fe1a85ec53ull;
	h = (h ^ h >> 31 ^ v->k2) * 0xff51afd7ed558ccdull;
	return (uint32_t)(h >> 32);
}

static bool same(const struct ins_value *x, const struct ins_value *y)
{
	return x->kind == y->kind && x->op == y->op && x->a == y->a && x->b == y->b &&
	       x->k == y->k && x->k2 == y->k2;
}

/* When there are too many, what is new is unknown. */
ins_id ins_value_make(struct ins_values *values, const struct ins_value *value)
{
	uint32_t mask = values->table_size - 1, at = hash(value) & mask;

	if (value->kind == INS_V_UNKNOWN)
		return 0;
	for (; values->table[at]; at = (at + 1) & mask)
		if (same(&values->items[values->table[at]], value))
			return values->table[at];
	if (values->count == values->capacity)
		return 0;
	values->items[values->count] = *value;
	values->table[at] = values->count;
	return values->count++;
}

ins_id ins_const(struct ins_values *values, uint64_t k)
{
	return ins_value_make(values, &(struct ins_value){.kind = INS_V_CONST, .k = k});
}

ins_id ins_pair(struct ins_values *values, uint64_t a, uint64_t b)
{
	struct ins_value v = {.kind = INS_V_PAIR, .k = a < b ? a : b, .k2 = a < b ? b : a};

	return a == b ? ins_const(values, a) : ins_value_make(values, &v);
}

unsigned ins_constants(const struct ins_values *values, ins_id id, uint64_t out[2])
{
	const struct ins_value *v = ins_value(values, id);

	out[0] = v->k;
	out[1] = v->k2;
	return v->kind == INS_V_CONST ? 1 : v->kind == INS_V_PAIR ? 2 : 0;
}

/* The union of two small sets, or unknown. */
static ins_id unite(struct ins_values *values, const uint64_t *x, unsigned nx,
		    const uint64_t *y, unsigned ny)
{
	uint64_t all[2];
	unsigned n = 0;

	for (unsigned i = 0; i < nx + ny; i++) {
		uint64_t k = i < nx ? x[i] : y[i - nx];

		if (n && (all[0] == k || (n == 2 && all[1] == k)))
			continue;
		if (n == 2)
			return 0;
		all[n++] = k;
	}
	return n == 1 ? ins_const(values, all[0]) : ins_pair(values, all[0], all[1]);
}

ins_id ins_join(struct ins_values *values, ins_id a, ins_id b)
{
	uint64_t x[2], y[2];
	unsigned nx, ny;

	if (a == b)
		return a;
	nx = ins_constants(values, a, x);
	ny = ins_constants(values, b, y);
	return nx && ny ? unite(values, x, nx, y, ny) : 0;
}

static uint64_t cut(uint64_t k, unsigned width)
{
	return width >= 8 ? k : k & ((1ull << width * 8) - 1);
}

static int64_t extend(uint64_t k, unsigned width)
{
	unsigned shift = width >= 8 ? 0 : 64 - width * 8;

	return (int64_t)(k << shift) >> shift;
}

static bool compute(enum ins_op op, uint64_t a, uint64_t b, unsigned width, uint64_t *out)
{
	unsigned count = (unsigned)b & (width == 8 ? 63 : 31);

	switch (op) {
	case INS_ADD:
		*out = a + b;
		break;
	case INS_SUB:
		*out = a - b;
		break;
	case INS_AND:
		*out = a & b;
		break;
	case INS_OR:
		*out = a | b;
		break;
	case INS_XOR:
		*out = a ^ b;
		break;
	case INS_SHL:
		*out = a << count;
		break;
	case INS_SHR:
		*out = cut(a, width) >> count;
		break;
	case INS_SAR:
		*out = (uint64_t)(extend(a, width) >> count);
		break;
	case INS_IMUL:
		*out = a * b;
		break;
	case INS_BTS:
		*out = a | 1ull << count;
		break;
	case INS_BTR:
		*out = a & ~(1ull << count);
		break;
	case INS_NOT:
		*out = ~a;
		break;
	case INS_NEG:
		*out = 0 - a;
		break;
	default:
		return false;
	}
	*out = cut(*out, width);
	return true;
}

static bool is_commutative(enum ins_op op)
{
	return op == INS_ADD || op == INS_AND || op == INS_OR || op == INS_XOR ||
	       op == INS_IMUL;
}

/* Nesting of a value, so that loops do not build endless ones. */
static unsigned depth(const struct ins_values *values, ins_id id)
{
	const struct ins_value *v = ins_value(values, id);

	return v->kind == INS_V_OP || v->kind == INS_V_CHOICE || v->kind == INS_V_LOAD
		       ? (unsigned)(v->k2 >> 32)
		       : 0;
}

static ins_id symbolic(struct ins_values *values, enum ins_op op, ins_id a, ins_id b)
{
	unsigned da = depth(values, a), db = depth(values, b), d = 1 + (da > db ? da : db);

	if (d > DEPTH_MAX || (!a && !b))
		return 0;
	return ins_value_make(
		values,
		&(struct ins_value){
			.kind = INS_V_OP, .op = op, .a = a, .b = b, .k2 = (uint64_t)d << 32});
}

ins_id ins_apply(struct ins_values *values, enum ins_op op, ins_id a, ins_id b, unsigned width)
{
	uint64_t x[2], y[2], one, results[4];
	unsigned nx = ins_constants(values, a, x), ny = ins_constants(values, b, y), n = 0;
	const struct ins_value *v;

	/* What is known even when one side is not. */
	if (op == INS_AND && ((nx == 1 && !cut(x[0], width)) || (ny == 1 && !cut(y[0], width))))
		return ins_const(values, 0);
	if (nx && ny) {
		for (unsigned i = 0; i < nx; i++)
			for (unsigned k = 0; k < ny; k++) {
				if (!compute(op, x[i], y[k], width, &one))
					return 0;
				results[n++] = one;
			}
		return unite(values, results, n < 2 ? n : 2, results + 2, n < 2 ? 0 : n - 2);
	}
	if (nx && is_commutative(op)) {
		ins_id t = a;

		a = b;
		b = t;
		ny = nx;
		y[0] = x[0];
	}
	v = ins_value(values, a);
	/* Addresses on the stack stay what they are. */
	if (ny == 1 && (op == INS_ADD || op == INS_SUB) && v->kind == INS_V_STACK) {
		if (width != 8)
			return 0;
		one = v->k + (op == INS_ADD ? y[0] : 0 - y[0]);
		return ins_value_make(values,
				      &(struct ins_value){.kind = INS_V_STACK, .k = one});
	}
	if (ny == 1 && !cut(y[0], width) && op != INS_AND && op != INS_IMUL)
		return a;
	return symbolic(values, op, a, b);
}
