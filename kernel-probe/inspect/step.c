/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction does to a state. What is not followed becomes unknown. */
#include <string.h>

#include "internal.h"

enum { STACK_BYTES_MAX = 1 << 24 };

static uint64_t cut(uint64_t k, unsigned width)
{
	return width >= 8 ? k : k & ((1ull << width * 8) - 1);
}

static int64_t extend(uint64_t k, unsigned width)
{
	unsigned shift = width >= 8 ? 0 : 64 - width * 8;

	return (int64_t)(k << shift) >> shift;
}

/* ---- conditions ---- */

static int compare(enum ins_cond cond, uint64_t a, uint64_t b, unsigned width)
{
	uint64_t x = cut(a, width), y = cut(b, width);
	int64_t sx = extend(a, width), sy = extend(b, width);

	switch (cond) {
	case INS_E:
		return x == y;
	case INS_NE:
		return x != y;
	case INS_B:
		return x < y;
	case INS_AE:
		return x >= y;
	case INS_BE:
		return x <= y;
	case INS_A:
		return x > y;
	case INS_L:
		return sx < sy;
	case INS_GE:
		return sx >= sy;
	case INS_LE:
		return sx <= sy;
	case INS_G:
		return sx > sy;
	case INS_S:
		return extend(cut(x - y, width), width) < 0;
	case INS_NS:
		return extend(cut(x - y, width), width) >= 0;
	default:
		return -1;
	}
}

/* The condition for one pair of constants. */
static int decide(unsigned kind, enum ins_cond cond, uint64_t a, uint64_t b, unsigned width)
{
	bool simple = cond == INS_E || cond == INS_NE || cond == INS_S || cond == INS_NS;

	switch (kind) {
	case INS_F_CMP:
		return compare(cond, a, b, width);
	case INS_F_LOGIC: /* carry and overflow are clear, as after a comparison with zero */
		return compare(cond, a, 0, width);
	case INS_F_ARITH:
		return simple ? compare(cond, a, 0, width) : -1;
	case INS_F_BIT:
		if (cond != INS_B && cond != INS_AE)
			return -1;
		return (int)(a >> (b & (width * 8 - 1)) & 1) == (cond == INS_B);
	}
	return -1;
}

int ins_condition(const struct ins_run *run, const struct ins_state *state, enum ins_cond cond)
{
	unsigned kind = state->flags.kind, na, nb;
	uint64_t a[2], b[2] = {0, 0};
	int all = -2;

	if (kind == INS_F_UNKNOWN)
		return -1;
	na = ins_known(run, state->flags.a, a);
	nb = kind == INS_F_CMP || kind == INS_F_BIT ? ins_known(run, state->flags.b, b) : 1;
	for (unsigned i = 0; i < na; i++)
		for (unsigned k = 0; k < nb; k++) {
			int one = decide(kind, cond, a[i], b[k], state->flags.width);

			if (one < 0 || (all != -2 && one != all))
				return -1;
			all = one;
		}
	return all == -2 ? -1 : all;
}

static void set_flags(struct ins_state *state, enum ins_flags_kind kind, ins_id a, ins_id b,
		      unsigned width)
{
	memset(&state->flags, 0, sizeof(state->flags));
	state->flags.kind = (uint8_t)kind;
	state->flags.width = (uint8_t)width;
	state->flags.a = a;
	state->flags.b = b;
}

/* ---- operands ---- */

static void write_register(struct ins_run *run, struct ins_state *state, unsigned reg,
			   unsigned width, bool high, ins_id value)
{
	uint64_t whole[2], byte[2];
	unsigned n;

	if (width == 8 || width == 4) {
		const struct ins_value *v = ins_value(run->values, value);

		n = width == 4 ? ins_constants(run->values, value, byte) : 0;
		if (n)
			value = ins_pair(run->values, cut(byte[0], 4), cut(byte[n - 1], 4));
		else if (width == 4 && v->kind == INS_V_STACK)
			value = 0;
		state->reg[reg] = value;
		state->low[reg] = 0;
		return;
	}
	n = ins_known(run, value, byte);
	if (width == 1 && !high && n &&
	    ins_constants(run->values, state->reg[reg], whole) == 1) {
		whole[0] &= ~0xffull;
		state->reg[reg] = ins_pair(run->values, whole[0] | cut(byte[0], 1),
					   whole[0] | cut(byte[n - 1], 1));
		state->low[reg] = 0;
		return;
	}
	state->reg[reg] = 0;
	state->low[reg] = width == 1 && !high ? value : 0;
}

static ins_id load(struct ins_run *run, uint32_t node, const struct ins_state *state,
		   const struct ins_operand *op)
{
	struct ins_value v = {0};
	enum ins_where where;
	int64_t offset;
	ins_id base;

	if (run->load == node)
		return ins_const(run->values, cut(run->load_value, op->width));
	where = ins_address(run, state, op, &base, &offset);
	if (where == INS_ON_STACK)
		return ins_slot_read(run, state, offset, op->width);
	if (where == INS_SOMEWHERE_ON_STACK || !base)
		return 0;
	if (ins_value(run->values, base)->kind == INS_V_SYMBOL) {
		v = (struct ins_value){.kind = INS_V_GLOBAL, .a = op->symbol};
		v.k = (uint64_t)offset;
	} else {
		const struct ins_value *b = ins_value(run->values, base);
		uint64_t depth =
			b->kind == INS_V_LOAD || b->kind == INS_V_OP || b->kind == INS_V_CHOICE
				? b->k2 >> 32
				: 0;

		if (depth > 16)
			return 0;
		v = (struct ins_value){.kind = INS_V_LOAD, .a = base, .k2 = (depth + 1) << 32};
		v.k = (uint64_t)offset;
	}
	return ins_value_make(run->values, &v);
}

static ins_id read_operand(struct ins_run *run, uint32_t node, const struct ins_state *state,
			   const struct ins_operand *op)
{
	switch (op->kind) {
	case INS_REG:
		return op->high ? 0 : ins_register(run, state, op->reg, op->width);
	case INS_IMM:
		if (op->symbol)
			return ins_value_make(run->values,
					      &(struct ins_value){.kind = INS_V_SYMBOL,
								  .a = op->symbol,
								  .k = (uint64_t)op->addend});
		return ins_const(run->values, cut((uint64_t)op->value, op->width));
	case INS_MEM:
		return load(run, node, state, op);
	default:
		return 0;
	}
}

static void store(struct ins_run *run, uint32_t node, struct ins_state *state,
		  const struct ins_operand *op, ins_id value)
{
	int64_t offset;
	ins_id base;

	switch (ins_address(run, state, op, &base, &offset)) {
	case INS_ON_STACK:
		ins_slot_write(state, offset, op->width, value);
		return;
	case INS_SOMEWHERE_ON_STACK:
		ins_slots_forget(state, -STACK_BYTES_MAX, STACK_BYTES_MAX);
		return;
	case INS_ELSEWHERE:
		break;
	}
	if (state->escaped != INT32_MAX)
		ins_slots_forget(state, state->escaped, 0);
	if (run->stored)
		run->stored(run->user, node, value, base, offset);
}

static void write_operand(struct ins_run *run, uint32_t node, struct ins_state *state,
			  const struct ins_operand *op, ins_id value)
{
	if (op->kind == INS_REG)
		write_register(run, state, op->reg, op->width, op->high, value);
	else if (op->kind == INS_MEM)
		store(run, node, state, op, value);
}

/* A value as a number where an operation needs one. */
static ins_id concrete(const struct ins_run *run, ins_id id, unsigned width)
{
	uint64_t k[2];

	if (ins_value(run->values, id)->kind != INS_V_FAULT)
		return id;
	return ins_known(run, id, k) ? ins_const(run->values, cut(k[0], width)) : id;
}

/* ---- instructions ---- */

static void move(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	const struct ins_operand *from = &i->operands[1];
	ins_id value = read_operand(run, node, state, from);
	uint64_t k[2];
	unsigned n = ins_known(run, value, k), width = i->operands[0].width;
	bool fault = ins_value(run->values, value)->kind == INS_V_FAULT && from->width >= 4;

	if (i->op == INS_MOVZX && n && !fault)
		value = ins_pair(run->values, cut(k[0], from->width),
				 cut(k[n - 1], from->width));
	else if (i->op == INS_MOVSX && n && !fault)
		value = ins_pair(run->values, cut((uint64_t)extend(k[0], from->width), width),
				 cut((uint64_t)extend(k[n - 1], from->width), width));
	write_operand(run, node, state, &i->operands[0], value);
}

static void address(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	const struct ins_operand *from = &i->operands[1];
	unsigned width = i->operands[0].width;
	ins_id base, value = 0;
	int64_t offset;

	switch (ins_address(run, state, from, &base, &offset)) {
	case INS_ON_STACK:
		value = ins_value_make(run->values, &(struct ins_value){.kind = INS_V_STACK,
									.k = (uint64_t)offset});
		if (i->operands[0].reg != INS_RSP && i->operands[0].reg != INS_RBP &&
		    offset < state->escaped)
			state->escaped = (int32_t)offset;
		break;
	case INS_SOMEWHERE_ON_STACK:
		state->escaped = -STACK_BYTES_MAX;
		break;
	case INS_ELSEWHERE:
		if (base && ins_value(run->values, base)->kind != INS_V_SYMBOL)
			value = ins_apply(run->values, INS_ADD, concrete(run, base, width),
					  ins_const(run->values, (uint64_t)offset), width);
		else if (!base && from->reg == INS_NO_REG && from->index != INS_NO_REG)
			value = ins_apply(run->values, INS_IMUL,
					  concrete(run, state->reg[from->index], width),
					  ins_const(run->values, from->scale), width);
		break;
	}
	write_operand(run, node, state, &i->operands[0], value);
}

static enum ins_flags_kind flags_of(enum ins_op op)
{
	return op == INS_AND || op == INS_OR || op == INS_XOR ? INS_F_LOGIC : INS_F_ARITH;
}

static bool same_register(const struct ins_operand *a, const struct ins_operand *b)
{
	return a->kind == INS_REG && b->kind == INS_REG && a->reg == b->reg &&
	       a->width == b->width && !a->high && !b->high;
}

static void arithmetic(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	unsigned width = i->operands[0].width;
	ins_id a, b, result;

	/* imul has one, two or three operands. */
	a = read_operand(run, node, state, &i->operands[i->operand_count == 3 ? 1 : 0]);
	b = read_operand(run, node, state, &i->operands[i->operand_count == 3 ? 2 : 1]);
	a = concrete(run, a, width);
	b = concrete(run, b, width);
	if ((i->op == INS_XOR || i->op == INS_SUB) &&
	    same_register(&i->operands[0], &i->operands[1]))
		result = ins_const(run->values, 0);
	else
		result = ins_apply(run->values, i->op, a, b, width);
	if (i->op == INS_SUB)
		set_flags(state, INS_F_CMP, a, b, width);
	else if (i->op == INS_BTS || i->op == INS_BTR)
		set_flags(state, INS_F_BIT, a, b, width);
	else if (i->op == INS_SHL || i->op == INS_SHR || i->op == INS_SAR || i->op == INS_IMUL)
		/* A shift by zero leaves the flags, and nobody looks at them then. */
		set_flags(state, i->op == INS_IMUL ? INS_F_UNKNOWN : INS_F_ARITH, result, 0,
			  width);
	else
		set_flags(state, flags_of(i->op), result, 0, width);
	write_operand(run, node, state, &i->operands[0], result);
}

static void unary(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	unsigned width = i->operands[0].width;
	ins_id a = concrete(run, read_operand(run, node, state, &i->operands[0]), width);
	ins_id one = ins_const(run->values, 1), result;

	if (i->op == INS_INC || i->op == INS_DEC) {
		result = ins_apply(run->values, i->op == INS_INC ? INS_ADD : INS_SUB, a, one,
				   width);
		set_flags(state, INS_F_ARITH, result, 0, width);
	} else {
		result = ins_apply(run->values, i->op, a, ins_const(run->values, 0), width);
		if (i->op == INS_NEG)
			set_flags(state, INS_F_CMP, ins_const(run->values, 0), a, width);
	}
	write_operand(run, node, state, &i->operands[0], result);
}

static void test(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	unsigned width = i->operands[0].width;
	ins_id a = read_operand(run, node, state, &i->operands[0]);
	ins_id b = read_operand(run, node, state, &i->operands[1]);

	if (i->op == INS_CMP) {
		set_flags(state, INS_F_CMP, a, b, width);
	} else if (i->op == INS_BT) {
		set_flags(state, i->operands[0].kind == INS_MEM ? INS_F_UNKNOWN : INS_F_BIT, a,
			  b, width);
	} else if (same_register(&i->operands[0], &i->operands[1])) {
		set_flags(state, INS_F_LOGIC, a, 0, width);
	} else {
		set_flags(state, INS_F_LOGIC,
			  ins_apply(run->values, INS_AND, concrete(run, a, width),
				    concrete(run, b, width), width),
			  0, width);
	}
}

static void borrow(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	unsigned width = i->operands[0].width;
	int carry = ins_condition(run, state, INS_B);
	ins_id result = 0;

	/* sbb r,r is the compilers' way from the carry to a mask. */
	if (same_register(&i->operands[0], &i->operands[1]))
		result = carry < 0 ? ins_pair(run->values, 0, cut(~0ull, width))
				   : ins_const(run->values, carry ? cut(~0ull, width) : 0);
	memset(&state->flags, 0, sizeof(state->flags));
	write_operand(run, node, state, &i->operands[0], result);
}

static void choose(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	int holds = ins_condition(run, state, i->cond);
	ins_id a, b, value;

	if (i->op == INS_SETCC) {
		value = holds < 0 ? ins_pair(run->values, 0, 1)
				  : ins_const(run->values, (uint64_t)holds);
		write_operand(run, node, state, &i->operands[0], value);
		return;
	}
	a = read_operand(run, node, state, &i->operands[0]);
	b = read_operand(run, node, state, &i->operands[1]);
	value = holds < 0 ? ins_join(run->values, a, b) : holds ? b : a;
	if (holds < 0 && !value && a && b) {
		const struct ins_value *x = ins_value(run->values, a);
		uint64_t depth = x->kind == INS_V_OP || x->kind == INS_V_LOAD ? x->k2 >> 32 : 0;

		if (depth < 16)
			value = ins_value_make(run->values,
					       &(struct ins_value){.kind = INS_V_CHOICE,
								   .a = a,
								   .b = b,
								   .k2 = 20ull << 32});
	}
	write_operand(run, node, state, &i->operands[0], value);
}

static void move_stack(struct ins_run *run, struct ins_state *state, int64_t by)
{
	state->reg[INS_RSP] = ins_apply(run->values, INS_ADD, state->reg[INS_RSP],
					ins_const(run->values, (uint64_t)by), 8);
	state->low[INS_RSP] = 0;
}

static void push(struct ins_run *run, uint32_t node, struct ins_state *state, ins_id value)
{
	struct ins_operand top = {
		.kind = INS_MEM, .width = 8, .reg = INS_RSP, .index = INS_NO_REG};

	move_stack(run, state, -8);
	store(run, node, state, &top, value);
}

static ins_id pop(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	struct ins_operand top = {
		.kind = INS_MEM, .width = 8, .reg = INS_RSP, .index = INS_NO_REG};
	uint32_t assumed = run->load;
	ins_id value;

	run->load = 0;
	value = load(run, node, state, &top);
	run->load = assumed;
	move_stack(run, state, 8);
	return value;
}

/* Registers that a call may change, by the psABI. */
static void clobber_call(struct ins_state *state)
{
	static const uint8_t lost[] = {INS_RAX, INS_RCX, INS_RDX, INS_RSI, INS_RDI,
				       INS_R8,	INS_R9,	 INS_R10, INS_R11};

	for (unsigned i = 0; i < sizeof(lost); i++)
		state->reg[lost[i]] = state->low[lost[i]] = 0;
	memset(&state->flags, 0, sizeof(state->flags));
	if (state->escaped != INT32_MAX)
		ins_slots_forget(state, state->escaped, 0);
}

/* The profiler's entry and the compiler's coverage hook keep all registers. */
static bool keeps_registers(const struct ins_graph *graph, const struct ins_node *node)
{
	return ins_calls(graph, node, "__fentry__") || ins_calls(graph, node, "mcount");
}

static void call(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_node *n = &run->graph->nodes[node];
	struct ins_value result = {.kind = INS_V_RETURN, .k = node, .a = n->called};

	if (n->is_spliced) {
		push(run, node, state, 0);
		return;
	}
	if (keeps_registers(run->graph, n))
		return;
	clobber_call(state);
	if (ins_calls(run->graph, n, "hmm_range_fault"))
		result = (struct ins_value){.kind = INS_V_FAULT};
	state->reg[INS_RAX] = ins_value_make(run->values, &result);
}

static void leave(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	if (run->graph->nodes[node].is_tail_call)
		call(run, node, state);
	pop(run, node, state);
}

static void swap(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	ins_id a, b;

	if (same_register(&i->operands[0], &i->operands[1]))
		return;
	a = read_operand(run, node, state, &i->operands[0]);
	b = read_operand(run, node, state, &i->operands[1]);
	write_operand(run, node, state, &i->operands[0], b);
	write_operand(run, node, state, &i->operands[1], a);
}

static void other(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;
	const struct ins_operand *to = &i->operands[0];
	int64_t offset;
	ins_id base;

	/* The address is made of registers as they were before. */
	if (i->writes_memory && i->repeated) {
		if (ins_address(run, state, to, &base, &offset) == INS_ON_STACK)
			ins_slots_forget(state, offset, STACK_BYTES_MAX);
		else
			store(run, node, state, to, 0);
	} else if (i->writes_memory) {
		store(run, node, state, to, 0);
	}
	for (unsigned reg = 0; reg < INS_REGS; reg++)
		if (i->writes >> reg & 1)
			state->reg[reg] = state->low[reg] = 0;
	if (i->writes_flags)
		memset(&state->flags, 0, sizeof(state->flags));
}

void ins_step(struct ins_run *run, uint32_t node, struct ins_state *state)
{
	const struct ins_insn *i = &run->graph->nodes[node].insn;

	switch (i->op) {
	case INS_MOV:
	case INS_MOVZX:
	case INS_MOVSX:
		move(run, node, state);
		return;
	case INS_LEA:
		address(run, node, state);
		return;
	case INS_IMUL:
		if (i->operand_count < 2) {
			other(run, node, state);
			state->reg[INS_RAX] = state->low[INS_RAX] = 0;
			state->reg[INS_RDX] = state->low[INS_RDX] = 0;
			return;
		}
		arithmetic(run, node, state);
		return;
	case INS_BTS:
	case INS_BTR:
		if (i->operands[0].kind == INS_MEM) {
			/* A register's bit may be far from the place that is named. */
			other(run, node, state);
			if (i->operands[1].kind != INS_IMM)
				ins_slots_forget(state, -STACK_BYTES_MAX, STACK_BYTES_MAX);
			return;
		}
		arithmetic(run, node, state);
		return;
	case INS_SHL:
	case INS_SHR:
	case INS_SAR:
		if (i->operand_count < 2) {
			other(run, node, state);
			write_operand(run, node, state, &i->operands[0], 0);
			return;
		}
		arithmetic(run, node, state);
		return;
	case INS_ADD:
	case INS_SUB:
	case INS_AND:
	case INS_OR:
	case INS_XOR:
		arithmetic(run, node, state);
		return;
	case INS_SBB:
		borrow(run, node, state);
		return;
	case INS_NOT:
	case INS_NEG:
	case INS_INC:
	case INS_DEC:
		unary(run, node, state);
		return;
	case INS_TEST:
	case INS_CMP:
	case INS_BT:
		test(run, node, state);
		return;
	case INS_SETCC:
	case INS_CMOVCC:
		choose(run, node, state);
		return;
	case INS_PUSH:
		push(run, node, state, read_operand(run, node, state, &i->operands[0]));
		return;
	case INS_POP:
		write_operand(run, node, state, &i->operands[0], pop(run, node, state));
		return;
	case INS_XCHG:
		swap(run, node, state);
		return;
	case INS_LEAVE:
		state->reg[INS_RSP] = state->reg[INS_RBP];
		state->low[INS_RSP] = 0;
		state->reg[INS_RBP] = pop(run, node, state);
		state->low[INS_RBP] = 0;
		return;
	case INS_CALL:
		call(run, node, state);
		return;
	case INS_RET:
		leave(run, node, state);
		return;
	case INS_JMP:
		if (run->graph->nodes[node].leave || run->graph->nodes[node].is_end)
			leave(run, node, state);
		return;
	case INS_OTHER:
		other(run, node, state);
		return;
	case INS_NOP:
	case INS_JCC:
	case INS_STOP:
		return;
	}
}
