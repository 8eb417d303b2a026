/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The retry policy of one function that calls hmm_range_fault(). The flow behind those calls is
 * followed three times, under the assumption that they returned -EBUSY, another error, and 0:
 *
 *   -EBUSY never leads back to such a call            no_retry
 *   it does, never by way of mmu_interval_read_begin  stale
 *   it does, always by way of it                      refresh
 *
 * Branches are left out only where the assumption decides them, so what is not understood adds
 * paths; more paths than there are can turn a verdict into unknown, and not into another one:
 * a loop must also end for other errors, and must look at the clock.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"
#include "policy.h"

static const char fault[] = "hmm_range_fault", read_begin[] = "mmu_interval_read_begin";

/* What followed from one assumption. */
struct outcome {
	bool back[2]; /* came to a call again: without, with a new sequence number */
	bool lost;    /* control went where it cannot be followed */
	bool returns;
	ins_id returned;
	bool complete;
};

struct study {
	struct ins_analysis *a;
	struct ins_graph graph;
	struct ins_values values;
	struct ins_run run;
	struct ins_flow entry, busy, other;
	struct outcome on_busy, on_error;
	bool *cycle;
	uint32_t stored; /* where the new sequence number is put, or 0 */
	struct ins_root *root;
};

bool ins_reads_jiffies(const struct ins_graph *graph, const struct ins_node *node)
{
	for (uint8_t i = 0; i < node->insn.operand_count; i++) {
		const struct ins_operand *op = &node->insn.operands[i];
		const char *name = op->symbol ? graph->image->symbols[op->symbol].name : "";

		if (op->kind == INS_MEM &&
		    (!strcmp(name, "jiffies") || !strcmp(name, "jiffies_64")))
			return true;
	}
	return false;
}

static void note_store(void *user, uint32_t node, ins_id value, ins_id base, int64_t offset)
{
	struct study *s = user;
	const struct ins_value *v = ins_value(&s->values, value);

	(void)base;
	(void)offset;
	if (v->kind == INS_V_RETURN && v->k < s->graph.count &&
	    ins_calls(&s->graph, &s->graph.nodes[v->k], read_begin))
		s->stored = node;
}

static int study_open(struct study *s)
{
	const char *const externals[] = {fault, read_begin, NULL};
	const struct ins_interest interest = {.externals = externals};
	int err;

	err = ins_graph_build(s->a->image, s->a->decoder, &interest, s->root->entry, &s->graph);
	s->graph.interest.externals = NULL;
	if (!err)
		err = ins_values_open(&s->values);
	if (!err)
		err = ins_flow_open(&s->graph, &s->a->steps_left, &s->entry);
	if (!err)
		err = ins_flow_open(&s->graph, &s->a->steps_left, &s->busy);
	if (!err)
		err = ins_flow_open(&s->graph, &s->a->steps_left, &s->other);
	if (err)
		return err;
	s->cycle = h2d_mem->calloc(s->graph.count, sizeof(*s->cycle));
	s->run = (struct ins_run){.graph = &s->graph,
				  .values = &s->values,
				  .argument = -1,
				  .stored = note_store,
				  .user = s};
	return s->cycle ? 0 : H2D_E_NOMEM;
}

static void study_close(struct study *s)
{
	free(s->cycle);
	ins_flow_close(&s->other);
	ins_flow_close(&s->busy);
	ins_flow_close(&s->entry);
	ins_values_close(&s->values);
	ins_graph_close(&s->graph);
}

/* From the function's entry, nothing assumed: what holds at each call. */
static bool reach_calls(struct study *s)
{
	struct ins_state state;

	ins_state_entry(&s->run, &state);
	ins_flow_seed(&s->run, &s->entry, s->graph.entry, 0, &state);
	return ins_flow_run(&s->run, &s->entry);
}

static void look_back(const struct study *s, const struct ins_flow *flow, struct outcome *o)
{
	uint64_t k[2];

	for (uint32_t i = 1; i < s->graph.count; i++) {
		const struct ins_node *n = &s->graph.nodes[i];

		if (!flow->reached[i])
			continue;
		if (ins_calls(&s->graph, n, fault)) {
			o->back[0] |= flow->reached[i] & 1;
			o->back[1] |= flow->reached[i] >> 1 & 1;
			continue;
		}
		o->lost |= n->is_lost;
		for (unsigned layer = 0; n->is_end && layer < 2; layer++) {
			const struct ins_state *st = ins_flow_state(flow, i, layer);
			ins_id id = st && !n->is_tail_call
					    ? ins_register(&s->run, st, INS_RAX, 4)
					    : 0;

			if (!st)
				continue;
			/* As a number, so that -EBUSY passed on and -EBUSY set are equal. */
			if (ins_known(&s->run, id, k) == 1)
				id = ins_const(s->run.values, k[0] & 0xffffffff);
			o->returned =
				o->returns ? ins_join(s->run.values, o->returned, id) : id;
			o->returns = true;
		}
	}
}

static void assume(struct study *s, int32_t returned, struct ins_flow *flow, struct outcome *o)
{
	s->run.assume_fault = true;
	s->run.fault = returned;
	flow->stop = fault;
	flow->divide = read_begin;
	ins_flow_reset(&s->graph, flow);
	for (uint32_t i = 1; i < s->graph.count; i++) {
		const struct ins_node *n = &s->graph.nodes[i];
		const struct ins_state *before = ins_flow_state(&s->entry, i, 0);
		struct ins_state after;

		if (!before || !ins_calls(&s->graph, n, fault))
			continue;
		after = *before;
		ins_step(&s->run, i, &after);
		ins_flow_seed(&s->run, flow, n->fall, 0, &after);
		ins_flow_seed(&s->run, flow, n->leave, 0, &after);
		/* A tail call returns what the call returned. */
		if (n->is_end) {
			o->returns = true;
			o->returned = ins_const(&s->values, (uint32_t)returned);
		}
	}
	o->complete = ins_flow_run(&s->run, flow);
	look_back(s, flow, o);
}

/* Nodes between the calls and the way back to one, for -EBUSY. */
static bool mark_cycle(struct study *s)
{
	bool changed = true;

	for (unsigned pass = 0; changed; pass++) {
		changed = false;
		if (pass == 1000)
			return false;
		for (uint32_t i = s->graph.count - 1; i; i--) {
			uint32_t next[4];
			unsigned n = ins_flow_next(&s->graph, &s->busy, i, next);

			for (unsigned k = 0; k < n && !s->cycle[i]; k++)
				if (s->cycle[next[k]] ||
				    ins_calls(&s->graph, &s->graph.nodes[next[k]], fault))
					s->cycle[i] = changed = true;
		}
	}
	return true;
}

static bool on_cycle(const struct study *s, bool (*is)(const struct study *, uint32_t))
{
	for (uint32_t i = 1; i < s->graph.count; i++)
		if (s->cycle[i] && is(s, i))
			return true;
	return false;
}

static bool is_clock(const struct study *s, uint32_t i)
{
	return ins_reads_jiffies(&s->graph, &s->graph.nodes[i]);
}

/* A jump that -EBUSY takes one way and another error the other way. */
static bool is_busy_test(const struct study *s, uint32_t i)
{
	uint8_t b = s->busy.taken[i], o = s->other.taken[i];

	return s->graph.nodes[i].insn.op == INS_JCC && (b == 1 || b == 2) && o == (b ^ 3);
}

static bool any_call(const struct study *s, const char *name)
{
	for (uint32_t i = 1; i < s->graph.count; i++)
		if (ins_calls(&s->graph, &s->graph.nodes[i], name))
			return true;
	return false;
}

static bool returns_one_of(const struct study *s, const struct outcome *o, int32_t x, int32_t y)
{
	uint64_t k[2];
	unsigned n = o->returns ? ins_known(&s->run, o->returned, k) : 0;

	for (unsigned i = 0; i < n; i++)
		if ((int32_t)k[i] != x && (int32_t)k[i] != y)
			return false;
	return n > 0;
}

/* The verdict, or unknown with a reason. */
static enum h2d_retry_policy decide(struct study *s, const char **why)
{
	const struct outcome *b = &s->on_busy, *o = &s->on_error;
	bool named = s->root->is_named;

	if (s->graph.why)
		*why = s->graph.why;
	else if (!b->complete || !o->complete)
		*why = "its flow of control takes too long to follow";
	else if (!any_call(s, read_begin))
		*why = "it does not read the notifier's sequence number itself";
	else if (b->lost || o->lost)
		*why = "control goes through a pointer or a table that cannot be followed";
	else if (!b->returns && !b->back[0] && !b->back[1])
		*why = "what follows the call of hmm_range_fault() was not found";
	else if (!b->back[0] && !b->back[1] && named && returns_one_of(s, b, -EAGAIN, -EBUSY))
		return H2D_RETRY_NONE;
	else if (!b->back[0] && !b->back[1] && returns_one_of(s, b, -EAGAIN, -EAGAIN))
		return H2D_RETRY_NONE;
	else if (!b->back[0] && !b->back[1])
		*why = "-EBUSY leaves it, but what it returns then was not understood";
	else if (o->back[0] || o->back[1])
		*why = "the way back to hmm_range_fault() does not depend on -EBUSY alone";
	else if (!on_cycle(s, is_busy_test))
		*why = "a retry loop without a test for -EBUSY";
	else if (!on_cycle(s, is_clock))
		*why = "a retry loop that does not look at jiffies";
	else if (b->back[0] && b->back[1])
		*why = "some retries read the sequence number again and some do not";
	else if (b->back[0])
		return H2D_RETRY_STALE;
	else if (!s->stored)
		*why = "the sequence number is read again, but where it goes was not found";
	else
		return H2D_RETRY_REFRESH;
	return H2D_RETRY_UNKNOWN;
}

/* ---- evidence ---- */

static const char *returned_text(const struct study *s, char *buf, size_t cap)
{
	uint64_t k[2];
	unsigned n = s->on_busy.returns ? ins_known(&s->run, s->on_busy.returned, k) : 0;

	if (n == 1)
		snprintf(buf, cap, "%d", (int32_t)k[0]);
	else if (n == 2)
		snprintf(buf, cap, "%d or %d", (int32_t)k[0], (int32_t)k[1]);
	else
		snprintf(buf, cap, "what was not understood");
	return buf;
}

static int tell_calls(struct study *s)
{
	int err = 0;

	for (uint32_t i = 1; !err && i < s->graph.count; i++) {
		const struct ins_node *n = &s->graph.nodes[i];

		if (ins_calls(&s->graph, n, fault))
			err = ins_evidence(s->a, "call", n->insn.place,
					   "calls hmm_range_fault()");
		else if (ins_calls(&s->graph, n, read_begin))
			err = ins_evidence(s->a, "call", n->insn.place,
					   "calls mmu_interval_read_begin(), %s",
					   s->cycle[i]		? "inside the retry loop"
					   : s->busy.reached[i] ? "behind hmm_range_fault()"
								: "not on the way of a retry");
		else if (is_busy_test(s, i))
			err = ins_evidence(
				s->a, "busy_test", n->insn.place,
				"-EBUSY goes to 0x%llx here, another error does not",
				(unsigned long long)(s->busy.taken[i] == 1
							     ? n->insn.target.address
							     : n->insn.place.address +
								       n->insn.size));
		else if (s->cycle[i] && ins_reads_jiffies(&s->graph, n))
			err = ins_evidence(s->a, "clock", n->insn.place,
					   "reads jiffies, inside the retry loop");
	}
	return err;
}

static int tell_cycle(struct study *s)
{
	int err = 0;

	for (uint32_t i = 1; !err && i < s->graph.count; i++) {
		uint32_t next[4];
		unsigned n = s->cycle[i] ? ins_flow_next(&s->graph, &s->busy, i, next) : 0;
		const struct ins_node *from = &s->graph.nodes[i];

		/* The step back, to a smaller address of the same part. */
		for (unsigned k = 0; !err && k < n; k++) {
			const struct ins_node *to = &s->graph.nodes[next[k]];

			if (to->insn.place.section == from->insn.place.section &&
			    to->insn.place.address <= from->insn.place.address &&
			    (s->cycle[next[k]] || ins_calls(&s->graph, to, fault)))
				err = ins_evidence(s->a, "cycle", from->insn.place,
						   "goes back to 0x%llx",
						   (unsigned long long)to->insn.place.address);
		}
	}
	return err;
}

static int tell_timeout(struct study *s)
{
	struct h2d_inspect_timeout *t = &s->a->report->timeout;

	struct ins_place place;

	ins_timeout(&s->run, &s->entry, s->cycle, t, &place);
	if (!t->is_known)
		return 0;
	if (t->is_scaled)
		return ins_evidence(s->a, "timeout", place,
				    "the timeout is %llu ms for every %llu MiB of the range",
				    (unsigned long long)t->ms,
				    (unsigned long long)(t->step_bytes >> 20));
	if (t->jiffies)
		return ins_evidence(s->a, "timeout", place, "the timeout is %llu jiffies",
				    (unsigned long long)t->jiffies);
	return ins_evidence(s->a, "timeout", place, "the timeout is %llu ms",
			    (unsigned long long)t->ms);
}

static int tell(struct study *s, enum h2d_retry_policy policy, const char *why)
{
	const struct ins_symbol *symbol = ins_function_begins(s->a->image, s->root->entry);
	char text[64];
	int err = ins_evidence(s->a, "function", s->root->entry,
			       "%s begins here, %u instructions",
			       symbol ? symbol->name : "a function", s->graph.count - 1);

	if (!err && !s->graph.why)
		err = tell_calls(s);
	if (!err && s->stored && s->cycle[s->stored])
		err = ins_evidence(s->a, "store", s->graph.nodes[s->stored].insn.place,
				   "the new sequence number is put into the range");
	if (!err && (policy == H2D_RETRY_STALE || policy == H2D_RETRY_REFRESH)) {
		err = tell_cycle(s);
		if (!err)
			err = tell_timeout(s);
	}
	if (err)
		return err;
	switch (policy) {
	case H2D_RETRY_STALE:
		return ins_evidence(
			s->a, "verdict", s->root->entry,
			"-EBUSY leads back to hmm_range_fault() on a cycle that avoids "
			"mmu_interval_read_begin(): stale");
	case H2D_RETRY_REFRESH:
		return ins_evidence(s->a, "verdict", s->root->entry,
				    "-EBUSY leads back to hmm_range_fault() only by way of "
				    "mmu_interval_read_begin(): refresh");
	case H2D_RETRY_NONE:
		return ins_evidence(
			s->a, "verdict", s->root->entry,
			"-EBUSY never leads back to hmm_range_fault(); it returns %s: "
			"no_retry",
			returned_text(s, text, sizeof(text)));
	case H2D_RETRY_UNKNOWN:
		break;
	}
	return ins_evidence(s->a, "verdict", s->root->entry, "%s: unknown", why);
}

int ins_policy_of(struct ins_analysis *a, struct ins_root *root)
{
	struct study s = {.a = a, .root = root};
	const char *why = NULL;
	int err = study_open(&s);

	root->policy = H2D_RETRY_UNKNOWN;
	if (err)
		goto out;
	if (!s.graph.why && reach_calls(&s)) {
		s.stored = 0;
		assume(&s, -EBUSY, &s.busy, &s.on_busy);
		if (!mark_cycle(&s))
			s.on_busy.complete = false;
		/* Other stores than those of a retry do not count. */
		if (s.stored && !s.cycle[s.stored])
			s.stored = 0;
		s.run.stored = NULL;
		assume(&s, -EFAULT, &s.other, &s.on_error);
	}
	s.run.fault = -EBUSY;
	root->policy = decide(&s, &why);
	snprintf(root->why, sizeof(root->why), "%s", why ? why : "");
	for (uint32_t i = 1; i < s.graph.count; i++)
		for (size_t k = 0; k < a->site_count; k++)
			if (ins_calls(&s.graph, &s.graph.nodes[i], fault) &&
			    s.graph.nodes[i].insn.place.section == a->sites[k].place.section &&
			    s.graph.nodes[i].insn.place.address == a->sites[k].place.address)
				a->sites[k].is_covered = true;
	err = tell(&s, root->policy, why);
out:
	study_close(&s);
	return err;
}
