/* SPDX-License-Identifier: Apache-2.0 */
/* Registers, the stack and flags before an instruction. */
#include <string.h>

#include "internal.h"

/* The psABI's order of integer arguments. */
static const uint8_t argument_regs[] = {INS_RDI, INS_RSI, INS_RDX, INS_RCX, INS_R8, INS_R9};

enum { FIRST_STACK_ARGUMENT = 8, ARGUMENTS_MAX = 32, STACK_BYTES_MAX = 1 << 24 };

unsigned ins_known(const struct ins_run *run, ins_id id, uint64_t out[2])
{
	if (ins_value(run->values, id)->kind == INS_V_FAULT && run->assume_fault) {
		out[0] = out[1] = (uint64_t)(int64_t)run->fault;
		return 1;
	}
	return ins_constants(run->values, id, out);
}

static ins_id argument(const struct ins_run *run, unsigned k)
{
	if (run->argument == (int)k)
		return ins_const(run->values, run->argument_value);
	return ins_value_make(run->values, &(struct ins_value){.kind = INS_V_ARG, .k = k});
}

void ins_state_entry(struct ins_run *run, struct ins_state *state)
{
	memset(state, 0, sizeof(*state));
	state->escaped = INT32_MAX;
	state->reg[INS_RSP] =
		ins_value_make(run->values, &(struct ins_value){.kind = INS_V_STACK});
	for (unsigned i = 0; i < sizeof(argument_regs); i++)
		state->reg[argument_regs[i]] = argument(run, i);
}

ins_id ins_register(const struct ins_run *run, const struct ins_state *state, unsigned reg,
		    unsigned width)
{
	ins_id id = state->reg[reg];
	uint64_t k[2];
	unsigned n;

	if (width == 1 && state->low[reg])
		return state->low[reg];
	if (width == 8)
		return id;
	if (width == 4 && ins_value(run->values, id)->kind == INS_V_FAULT)
		return id;
	n = ins_known(run, id, k);
	if (n) {
		uint64_t mask = (1ull << width * 8) - 1;

		return ins_pair(run->values, k[0] & mask, k[n - 1] & mask);
	}
	return ins_value(run->values, id)->kind == INS_V_STACK ? 0 : id;
}

/* ---- slots ---- */

static bool overlap(const struct ins_slot *s, int64_t offset, unsigned width)
{
	return s->offset < offset + (int64_t)width && offset < s->offset + (int64_t)s->width;
}

static bool is_argument_slot(int64_t offset)
{
	return offset >= FIRST_STACK_ARGUMENT &&
	       offset < FIRST_STACK_ARGUMENT + 8 * ARGUMENTS_MAX;
}

/* What a slot holds of which nothing was noted. */
static ins_id default_slot(const struct ins_run *run, const struct ins_state *state,
			   int64_t offset)
{
	if (!is_argument_slot(offset) || offset % 8 ||
	    (state->escaped >= FIRST_STACK_ARGUMENT && offset >= state->escaped))
		return 0;
	return argument(run, 6 + (unsigned)((offset - FIRST_STACK_ARGUMENT) / 8));
}

ins_id ins_slot_read(const struct ins_run *run, const struct ins_state *state, int64_t offset,
		     unsigned width)
{
	ins_id id = 0;
	uint64_t k[2];
	unsigned n;

	for (uint32_t i = 0; i < state->slot_count; i++) {
		const struct ins_slot *s = &state->slots[i];

		if (!overlap(s, offset, width))
			continue;
		if (s->offset != offset || width > s->width)
			return 0;
		id = s->value;
		goto found;
	}
	id = default_slot(run, state, offset);
found:
	n = width < 8 ? ins_constants(run->values, id, k) : 0;
	if (n) {
		uint64_t mask = (1ull << width * 8) - 1;

		return ins_pair(run->values, k[0] & mask, k[n - 1] & mask);
	}
	return id;
}

static void remove_slot(struct ins_state *state, uint32_t i)
{
	state->slots[i] = state->slots[--state->slot_count];
}

static void put_slot(struct ins_state *state, int64_t offset, unsigned width, ins_id value)
{
	if (!value && !is_argument_slot(offset))
		return;
	for (uint32_t i = 0; state->slot_count == INS_SLOTS && i < state->slot_count; i++)
		if (!is_argument_slot(state->slots[i].offset))
			remove_slot(state, i);
	if (state->slot_count == INS_SLOTS) {
		state->escaped = FIRST_STACK_ARGUMENT;
		return;
	}
	state->slots[state->slot_count++] =
		(struct ins_slot){(int32_t)offset, (uint32_t)width, value};
}

void ins_slots_forget(struct ins_state *state, int64_t from, int64_t to)
{
	for (uint32_t i = 0; i < state->slot_count;) {
		struct ins_slot *s = &state->slots[i];

		if (s->offset >= to || s->offset + (int64_t)s->width <= from) {
			i++;
		} else if (is_argument_slot(s->offset)) {
			s->value = 0;
			i++;
		} else {
			remove_slot(state, i);
		}
	}
	/* Arguments of which nothing was noted are no longer what they were. */
	if (to > FIRST_STACK_ARGUMENT && state->escaped > FIRST_STACK_ARGUMENT &&
	    from < FIRST_STACK_ARGUMENT + 8 * ARGUMENTS_MAX)
		state->escaped =
			from > FIRST_STACK_ARGUMENT ? (int32_t)from : FIRST_STACK_ARGUMENT;
}

void ins_slot_write(struct ins_state *state, int64_t offset, unsigned width, ins_id value)
{
	for (uint32_t i = 0; i < state->slot_count;) {
		if (overlap(&state->slots[i], offset, width))
			remove_slot(state, i);
		else
			i++;
	}
	put_slot(state, offset, width, value);
}

/* ---- join ---- */

static bool set(ins_id *into, ins_id value)
{
	bool changed = *into != value;

	*into = value;
	return changed;
}

static const struct ins_slot *slot_like(const struct ins_state *state, const struct ins_slot *s)
{
	for (uint32_t i = 0; i < state->slot_count; i++)
		if (state->slots[i].offset == s->offset && state->slots[i].width == s->width)
			return &state->slots[i];
	return NULL;
}

static ins_id joined_slot(const struct ins_run *run, const struct ins_slot *mine,
			  const struct ins_state *other)
{
	const struct ins_slot *theirs = slot_like(other, mine);

	return ins_join(run->values, mine->value,
			theirs ? theirs->value
			       : ins_slot_read(run, other, mine->offset, mine->width));
}

static bool join_slots(const struct ins_run *run, struct ins_state *into,
		       const struct ins_state *from)
{
	bool changed = false;

	for (uint32_t i = 0; i < into->slot_count;) {
		struct ins_slot *s = &into->slots[i];
		ins_id value = joined_slot(run, s, from);

		changed |= set(&s->value, value);
		if (!value && !is_argument_slot(s->offset))
			remove_slot(into, i);
		else
			i++;
	}
	for (uint32_t i = 0; i < from->slot_count; i++) {
		const struct ins_slot *s = &from->slots[i];

		if (slot_like(into, s) || !is_argument_slot(s->offset))
			continue;
		/* Here it still was what it had been. */
		ins_slot_write(into, s->offset, s->width, joined_slot(run, s, into));
		changed = true;
	}
	return changed;
}

bool ins_state_join(struct ins_run *run, struct ins_state *into, const struct ins_state *from)
{
	bool changed = false;

	for (unsigned i = 0; i < INS_REGS; i++) {
		ins_id low = 0;

		if (into->low[i] || from->low[i])
			low = ins_join(run->values, ins_register(run, into, i, 1),
				       ins_register(run, from, i, 1));
		changed |=
			set(&into->reg[i], ins_join(run->values, into->reg[i], from->reg[i]));
		/* Where the whole is known its lowest byte is too. */
		changed |= set(&into->low[i], into->reg[i] && !into->low[i] ? 0 : low);
	}
	if (memcmp(&into->flags, &from->flags, sizeof(into->flags)) && into->flags.kind) {
		memset(&into->flags, 0, sizeof(into->flags));
		changed = true;
	}
	if (from->escaped < into->escaped) {
		into->escaped = from->escaped;
		changed = true;
	}
	return join_slots(run, into, from) || changed;
}

/* ---- calls and addresses ---- */

ins_id ins_call_argument(const struct ins_run *run, const struct ins_state *state, unsigned k)
{
	const struct ins_value *top;

	if (k < sizeof(argument_regs))
		return ins_register(run, state, argument_regs[k], 1);
	top = ins_value(run->values, state->reg[INS_RSP]);
	if (top->kind != INS_V_STACK || (int64_t)top->k < -STACK_BYTES_MAX ||
	    (int64_t)top->k > STACK_BYTES_MAX)
		return 0;
	return ins_slot_read(run, state, (int64_t)top->k + 8 * (int64_t)(k - 6), 1);
}

enum ins_where ins_address(const struct ins_run *run, const struct ins_state *state,
			   const struct ins_operand *operand, ins_id *base, int64_t *offset)
{
	const struct ins_value *v;
	uint64_t k[2];
	ins_id id = 0;

	*base = 0;
	*offset = operand->value;
	if (operand->segment)
		return INS_ELSEWHERE;
	if (operand->symbol) {
		/* A table indexed by a register is not followed. */
		if (operand->reg != INS_NO_REG || operand->index != INS_NO_REG)
			return INS_ELSEWHERE;
		*offset = operand->addend;
		*base = ins_value_make(run->values, &(struct ins_value){.kind = INS_V_SYMBOL,
									.a = operand->symbol});
		return INS_ELSEWHERE;
	}
	if (operand->reg != INS_NO_REG)
		id = state->reg[operand->reg];
	v = ins_value(run->values, id);
	if (operand->index != INS_NO_REG) {
		const struct ins_value *i = ins_value(run->values, state->reg[operand->index]);

		if (v->kind == INS_V_STACK || i->kind == INS_V_STACK)
			return INS_SOMEWHERE_ON_STACK;
		if (ins_known(run, state->reg[operand->index], k) != 1)
			return INS_ELSEWHERE;
		*offset = (int64_t)((uint64_t)*offset + k[0] * operand->scale);
	}
	*base = id;
	if (v->kind != INS_V_STACK)
		return INS_ELSEWHERE;
	*offset = (int64_t)((uint64_t)*offset + v->k);
	return *offset > -STACK_BYTES_MAX && *offset < STACK_BYTES_MAX ? INS_ON_STACK
								       : INS_SOMEWHERE_ON_STACK;
}
