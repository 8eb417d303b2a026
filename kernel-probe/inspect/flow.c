/* SPDX-License-Identifier: Apache-2.0 */
/* What holds before each node on every path that leads there: a work list, to the fixed point.
 */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "internal.h"

enum { LAYERS = 2 };

int ins_flow_open(const struct ins_graph *graph, uint64_t *steps_left, struct ins_flow *flow)
{
	size_t n;

	*flow = (struct ins_flow){.steps_left = steps_left};
	if (!h2d_mul_size(graph->count, LAYERS, &n))
		return H2D_E_NOMEM;
	flow->states = h2d_mem->calloc(n, sizeof(*flow->states));
	flow->reached = h2d_mem->calloc(graph->count, 1);
	flow->taken = h2d_mem->calloc(graph->count, 1);
	flow->work = h2d_mem->calloc(n, sizeof(*flow->work));
	flow->queued = h2d_mem->calloc(n, sizeof(*flow->queued));
	if (flow->states && flow->reached && flow->taken && flow->work && flow->queued)
		return 0;
	ins_flow_close(flow);
	return H2D_E_NOMEM;
}

void ins_flow_close(struct ins_flow *flow)
{
	free(flow->states);
	free(flow->reached);
	free(flow->taken);
	free(flow->work);
	free(flow->queued);
	*flow = (struct ins_flow){0};
}

void ins_flow_reset(const struct ins_graph *graph, struct ins_flow *flow)
{
	memset(flow->reached, 0, graph->count);
	memset(flow->taken, 0, graph->count);
	memset(flow->queued, 0, graph->count * LAYERS * sizeof(*flow->queued));
	flow->work_count = 0;
}

void ins_flow_seed(struct ins_run *run, struct ins_flow *flow, uint32_t node, unsigned layer,
		   const struct ins_state *state)
{
	uint32_t at = node * LAYERS + layer;

	if (!node)
		return;
	if (!(flow->reached[node] >> layer & 1)) {
		flow->states[at] = *state;
		flow->reached[node] |= (uint8_t)(1u << layer);
	} else if (!ins_state_join(run, &flow->states[at], state)) {
		return;
	}
	if (!flow->queued[at]) {
		flow->queued[at] = true;
		flow->work[flow->work_count++] = at;
	}
}

static void propagate(struct ins_run *run, struct ins_flow *flow, uint32_t node, unsigned layer)
{
	const struct ins_node *n = &run->graph->nodes[node];
	struct ins_state state = flow->states[node * LAYERS + layer];
	int holds = -1;

	if (flow->stop && ins_calls(run->graph, n, flow->stop))
		return;
	if (n->insn.op == INS_JCC) {
		holds = ins_condition(run, &state, n->insn.cond);
		flow->taken[node] |= holds < 0 ? 3 : holds ? 1 : 2;
	}
	ins_step(run, node, &state);
	if (flow->divide && ins_calls(run->graph, n, flow->divide))
		layer = 1;
	if (holds != 1)
		ins_flow_seed(run, flow, n->fall, layer, &state);
	if (holds != 0)
		ins_flow_seed(run, flow, n->jump, layer, &state);
	ins_flow_seed(run, flow, n->label, layer, &state);
	ins_flow_seed(run, flow, n->leave, layer, &state);
}

bool ins_flow_run(struct ins_run *run, struct ins_flow *flow)
{
	while (flow->work_count) {
		uint32_t at = flow->work[--flow->work_count];

		if (!*flow->steps_left)
			return false;
		--*flow->steps_left;
		flow->queued[at] = false;
		propagate(run, flow, at / LAYERS, at % LAYERS);
	}
	return true;
}

const struct ins_state *ins_flow_state(const struct ins_flow *flow, uint32_t node,
				       unsigned layer)
{
	return flow->reached[node] >> layer & 1 ? &flow->states[node * LAYERS + layer] : NULL;
}

unsigned ins_flow_next(const struct ins_graph *graph, const struct ins_flow *flow,
		       uint32_t node, uint32_t next[4])
{
	const struct ins_node *n = &graph->nodes[node];
	bool is_jcc = n->insn.op == INS_JCC;
	unsigned count = 0;

	if (!flow->reached[node] || (flow->stop && ins_calls(graph, n, flow->stop)))
		return 0;
	if (n->fall && (!is_jcc || flow->taken[node] & 2))
		next[count++] = n->fall;
	if (n->jump && (!is_jcc || flow->taken[node] & 1))
		next[count++] = n->jump;
	if (n->label)
		next[count++] = n->label;
	if (n->leave)
		next[count++] = n->leave;
	return count;
}
