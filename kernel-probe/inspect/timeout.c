/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeout of a retry loop: in it jiffies are compared with a sum of jiffies and something.
 * That is a constant, or what msecs_to_jiffies() made of milliseconds; those may be multiplied
 * with a part of the range's size.
 */
#include <string.h>

#include "internal.h"

enum { PAGE_SHIFT = 12, PARTS_MAX = 64 };

static bool is_jiffies(const struct ins_run *run, ins_id id)
{
	const struct ins_value *v = ins_value(run->values, id);
	const char *name;

	if (v->kind != INS_V_GLOBAL)
		return false;
	name = run->graph->image->symbols[v->a].name;
	return !strcmp(name, "jiffies") || !strcmp(name, "jiffies_64");
}

/* What jiffies are added to in `id`; 0 when it is no such sum. */
static ins_id added(const struct ins_run *run, ins_id id)
{
	const struct ins_value *v = ins_value(run->values, id);

	if (v->kind != INS_V_OP || v->op != INS_ADD)
		return 0;
	if (is_jiffies(run, v->a))
		return v->b;
	return is_jiffies(run, v->b) ? v->a : 0;
}

/* The constant factor and the shift inside an expression of the range's size. */
static void scaling(const struct ins_run *run, ins_id id, uint64_t *factor, uint64_t *shift,
		    unsigned *parts)
{
	const struct ins_value *v = ins_value(run->values, id);
	uint64_t k[2];

	if (++*parts > PARTS_MAX || (v->kind != INS_V_OP && v->kind != INS_V_CHOICE))
		return;
	if (v->kind == INS_V_OP && ins_constants(run->values, v->b, k) == 1) {
		if (v->op == INS_IMUL)
			*factor = k[0];
		else if (v->op == INS_SHR)
			*shift = k[0];
	}
	scaling(run, v->a, factor, shift, parts);
	if (v->b)
		scaling(run, v->b, factor, shift, parts);
}

/* What msecs_to_jiffies() was given by the call at a node. */
static void from_ms(struct ins_run *run, const struct ins_flow *flow, uint32_t node,
		    struct h2d_inspect_timeout *t)
{
	const struct ins_state *state = ins_flow_state(flow, node, 0);
	uint64_t k[2], factor = 0, shift = 0;
	unsigned parts = 0;
	ins_id ms;

	if (!state)
		return;
	ms = ins_register(run, state, INS_RDI, 4);
	if (ins_constants(run->values, ms, k) == 1) {
		t->is_known = true;
		t->ms = k[0];
		return;
	}
	scaling(run, ms, &factor, &shift, &parts);
	if (!factor || !shift || shift > 40)
		return;
	t->is_known = t->is_scaled = true;
	t->ms = factor;
	/* A shift below that of 64 MiB in bytes is one of pages. */
	t->step_bytes = 1ull << (shift < 26 ? shift + PAGE_SHIFT : shift);
}

static bool by_name(const struct ins_run *run, uint32_t node)
{
	const struct ins_node *n = &run->graph->nodes[node];

	return ins_calls(run->graph, n, "__msecs_to_jiffies") ||
	       ins_calls(run->graph, n, "msecs_to_jiffies");
}

void ins_timeout(struct ins_run *run, const struct ins_flow *flow, const bool *cycle,
		 struct h2d_inspect_timeout *t, struct ins_place *place)
{
	*t = (struct h2d_inspect_timeout){0};
	*place = (struct ins_place){0};
	for (uint32_t i = 1; i < run->graph->count && !t->is_known; i++) {
		const struct ins_node *n = &run->graph->nodes[i];
		const struct ins_state *state = ins_flow_state(flow, i, 0);
		ins_id limit = 0;
		uint64_t k[2];

		/* At the jump behind the comparison both sides are at hand. */
		if (!cycle[i] || !state || n->insn.op != INS_JCC ||
		    state->flags.kind != INS_F_CMP)
			continue;
		if (is_jiffies(run, state->flags.b))
			limit = added(run, state->flags.a);
		else if (is_jiffies(run, state->flags.a))
			limit = added(run, state->flags.b);
		if (!limit)
			continue;
		*place = n->insn.place;
		if (ins_constants(run->values, limit, k) == 1) {
			t->is_known = true;
			t->jiffies = k[0];
		} else if (ins_value(run->values, limit)->kind == INS_V_RETURN &&
			   by_name(run, (uint32_t)ins_value(run->values, limit)->k)) {
			from_ms(run, flow, (uint32_t)ins_value(run->values, limit)->k, t);
		}
	}
}
