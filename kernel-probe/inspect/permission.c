/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides, in each caller, whether write access is asked for. First the argument
 * `readonly` is found: the one that, set to 1, keeps HMM_PFN_REQ_WRITE out of the request that
 * is put together, and set to 0 has it in. Then, in each caller, one read of memory after the
 * other is assumed to have given 0, a single bit, all bits but that one, and all bits:
 *
 *   readonly is always the opposite of VM_WRITE in what was read of a mapping    vma
 *   readonly needs a bit of what the caller was given, and nothing of a mapping  access
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum {
	ARGUMENTS = 10,
	LOADS_MAX = 400,
	/* include/linux/hmm.h: HMM_PFN_REQ_FAULT and HMM_PFN_REQ_WRITE are bits 63 and 62. */
	REQUEST_SHIFT = 62,
	REQUEST_READ = 2,
	REQUEST_WRITE = 3,
	/* include/linux/mm.h, and uapi/drm/amdgpu_drm.h AMDGPU_GEM_USERPTR_READONLY */
	VM_WRITE_BIT = 1,
	USERPTR_READONLY_BIT = 0,
	READONLY_NOT_FOUND = -1,
};

/* What finds a mapping by its address (mm/mmap.c, lib/maple_tree.c). */
static const char *const find_mapping[] = {
	"find_vma",
	"find_vma_intersection",
	"vma_lookup",
	"mtree_load",
	"mas_walk",
	"mas_find",
	"mt_find",
	"lock_vma_under_rcu",
	"find_extend_vma",
	"find_vma_prev",
	NULL,
};

/* ---- which argument is `readonly` ---- */

struct requests {
	struct ins_values *values;
	bool seen[4];
	bool unclear;
	struct ins_run *run;
};

static void note_request(void *user, uint32_t node, ins_id value, ins_id base, int64_t offset)
{
	struct requests *r = user;
	uint64_t k[2];
	unsigned n = ins_constants(r->values, value, k);

	(void)base;
	(void)offset;
	(void)node;
	for (unsigned i = 0; i < n; i++)
		if (k[i] >> REQUEST_SHIFT >= REQUEST_READ &&
		    !(k[i] & ((1ull << REQUEST_SHIFT) - 1)))
			r->seen[k[i] >> REQUEST_SHIFT] = true;
}

static bool requests_with(struct ins_run *run, struct ins_flow *flow, int argument,
			  uint64_t value, struct requests *r)
{
	struct ins_state state;

	*r = (struct requests){.values = run->values};
	run->argument = argument;
	run->argument_value = value;
	run->stored = note_request;
	run->user = r;
	ins_flow_reset(run->graph, flow);
	ins_state_entry(run, &state);
	ins_flow_seed(run, flow, run->graph->entry, 0, &state);
	return ins_flow_run(run, flow);
}

static int find_readonly(struct ins_run *run, struct ins_flow *flow)
{
	struct requests with[2];
	int found = READONLY_NOT_FOUND;

	for (int k = 0; k < ARGUMENTS; k++) {
		if (!requests_with(run, flow, k, 0, &with[0]) ||
		    !requests_with(run, flow, k, 1, &with[1]))
			return READONLY_NOT_FOUND;
		if (!with[0].seen[REQUEST_WRITE] || with[0].seen[REQUEST_READ] ||
		    with[1].seen[REQUEST_WRITE] || !with[1].seen[REQUEST_READ])
			continue;
		if (found != READONLY_NOT_FOUND)
			return READONLY_NOT_FOUND;
		found = k;
	}
	return found;
}

static int readonly_argument(struct ins_analysis *a, int *argument)
{
	struct ins_interest interest = {0};
	struct ins_graph graph = {0};
	struct ins_values values = {0};
	struct ins_flow flow = {0};
	struct ins_run run;
	int err;

	*argument = READONLY_NOT_FOUND;
	err = ins_graph_build(a->image, a->decoder, &interest, a->root, &graph);
	if (!err)
		err = ins_values_open(&values);
	if (!err)
		err = ins_flow_open(&graph, &a->steps_left, &flow);
	if (!err && !graph.why) {
		run = (struct ins_run){.graph = &graph, .values = &values, .argument = -1};
		*argument = find_readonly(&run, &flow);
	}
	ins_flow_close(&flow);
	ins_values_close(&values);
	ins_graph_close(&graph);
	return err;
}

/* ---- one caller ---- */

struct caller {
	struct ins_analysis *a;
	struct ins_graph graph;
	struct ins_values values;
	struct ins_flow flow;
	struct ins_run run;
	int argument;
	struct ins_place entry;
};

/* What `readonly` may be at the calls, joined. False: not reached, or too long. */
static bool readonly_with(struct caller *c, uint32_t load, uint64_t value, ins_id *readonly)
{
	struct ins_state state;
	bool reached = false;

	c->run.load = load;
	c->run.load_value = value;
	ins_flow_reset(&c->graph, &c->flow);
	ins_state_entry(&c->run, &state);
	ins_flow_seed(&c->run, &c->flow, c->graph.entry, 0, &state);
	if (!ins_flow_run(&c->run, &c->flow))
		return false;
	for (uint32_t i = 1; i < c->graph.count; i++) {
		const struct ins_state *st = ins_flow_state(&c->flow, i, 0);
		ins_id id;

		if (!st || !c->graph.nodes[i].is_target)
			continue;
		/* A tail call has the return address where a call has its arguments. */
		if (c->graph.nodes[i].is_tail_call && c->argument >= 6)
			return false;
		id = ins_call_argument(&c->run, st, (unsigned)c->argument);
		*readonly = reached ? ins_join(&c->values, *readonly, id) : id;
		reached = true;
	}
	return reached;
}

/* Bits: it may be 0, it may be 1, it may be anything. */
static unsigned may_be(struct caller *c, uint32_t load, uint64_t value)
{
	ins_id id = 0;
	uint64_t k[2];
	unsigned n, bits = 0;

	if (!readonly_with(c, load, value, &id))
		return 4;
	n = ins_constants(&c->values, id, k);
	for (unsigned i = 0; i < n; i++)
		bits |= (k[i] & 0xff) ? 2 : 1;
	return n ? bits : 4;
}

/* Where the address that an instruction reads comes from. */
enum source { SOURCE_OTHER, SOURCE_MAPPING, SOURCE_ARGUMENT };

static enum source source_of(const struct caller *c, ins_id id, unsigned depth)
{
	const struct ins_value *v = ins_value(&c->values, id);

	if (depth > 16)
		return SOURCE_OTHER;
	switch (v->kind) {
	case INS_V_ARG:
		return SOURCE_ARGUMENT;
	case INS_V_RETURN:
		for (unsigned i = 0; v->a && find_mapping[i]; i++)
			if (!strcmp(c->a->image->symbols[v->a].name, find_mapping[i]))
				return SOURCE_MAPPING;
		return SOURCE_OTHER;
	case INS_V_LOAD:
		/* What a mapping points to is no longer the mapping. */
		return source_of(c, v->a, depth + 1) == SOURCE_ARGUMENT ? SOURCE_ARGUMENT
									: SOURCE_OTHER;
	case INS_V_OP:
		return v->op == INS_ADD ? source_of(c, v->a, depth + 1) : SOURCE_OTHER;
	default:
		return SOURCE_OTHER;
	}
}

static bool reads_memory(const struct ins_insn *i)
{
	for (uint8_t k = 0; k < i->operand_count; k++)
		if (i->operands[k].kind == INS_MEM && !i->operands[k].symbol)
			return (k > 0 || i->op == INS_TEST || i->op == INS_CMP ||
				i->op == INS_BT) &&
			       i->op != INS_LEA && i->op != INS_OTHER && i->op != INS_NOP;
	return false;
}

static const struct ins_operand *memory_operand(const struct ins_insn *i)
{
	for (uint8_t k = 0; k < i->operand_count; k++)
		if (i->operands[k].kind == INS_MEM)
			return &i->operands[k];
	return NULL;
}

/* readonly is 1 exactly when the bit is clear. */
static bool is_opposite_of(struct caller *c, uint32_t load, unsigned bit)
{
	uint64_t one = 1ull << bit;

	return may_be(c, load, 0) == 2 && may_be(c, load, one) == 1 &&
	       may_be(c, load, ~one) == 2 && may_be(c, load, ~0ull) == 1;
}

/* readonly is 1 only when the bit is set, and can be then. */
static bool needs(struct caller *c, uint32_t load, unsigned bit)
{
	uint64_t one = 1ull << bit;

	return may_be(c, load, 0) == 1 && may_be(c, load, ~one) == 1 &&
	       (may_be(c, load, one) & 6) == 2 && (may_be(c, load, ~0ull) & 6) == 2;
}

static enum h2d_permission_rule decide(struct caller *c, uint32_t *load, const char **why)
{
	enum source *sources = calloc(c->graph.count, sizeof(*sources));
	unsigned tried = 0, plain;
	enum h2d_permission_rule rule = H2D_PERMISSION_UNKNOWN;
	ins_id id = 0;

	*why = "no single bit that is read decides it";
	if (!sources) {
		*why = "out of memory";
		return rule;
	}
	/* Without any assumption: where addresses come from, and whether it is a constant. */
	if (!readonly_with(c, 0, 0, &id)) {
		*why = "the call was not reached on any path that was followed";
		goto out;
	}
	plain = may_be(c, 0, 0);
	if (plain == 1 || plain == 2) {
		*why = plain == 1 ? "it always asks for write access"
				  : "it never asks for write access";
		goto out;
	}
	for (uint32_t i = 1; i < c->graph.count; i++) {
		const struct ins_state *st = ins_flow_state(&c->flow, i, 0);
		int64_t offset;
		ins_id base;

		if (st && reads_memory(&c->graph.nodes[i].insn) &&
		    ins_address(&c->run, st, memory_operand(&c->graph.nodes[i].insn), &base,
				&offset) == INS_ELSEWHERE)
			sources[i] = source_of(c, base, 0);
	}
	for (uint32_t i = 1; i < c->graph.count; i++) {
		if (sources[i] == SOURCE_OTHER)
			continue;
		if (++tried > LOADS_MAX) {
			*why = "it reads too much to try it all";
			goto out;
		}
		if (sources[i] == SOURCE_MAPPING && is_opposite_of(c, i, VM_WRITE_BIT))
			rule = H2D_PERMISSION_VMA;
		else if (sources[i] == SOURCE_ARGUMENT && needs(c, i, USERPTR_READONLY_BIT))
			rule = H2D_PERMISSION_ACCESS;
		else
			continue;
		*load = i;
		*why = NULL;
		goto out;
	}
out:
	free(sources);
	c->run.load = 0;
	return rule;
}

static int tell(struct caller *c, enum h2d_permission_rule rule, uint32_t load, const char *why)
{
	const struct ins_insn *i = load ? &c->graph.nodes[load].insn : NULL;
	const struct ins_symbol *s = ins_function_begins(c->a->image, c->entry);
	const char *name = s ? s->name : "a function";
	int err = 0;

	for (uint32_t k = 1; !err && k < c->graph.count; k++)
		if (c->graph.nodes[k].is_target)
			err = ins_evidence(c->a, "call", c->graph.nodes[k].insn.place,
					   "%s asks for pages here", name);
	if (err)
		return err;
	switch (rule) {
	case H2D_PERMISSION_VMA:
		return ins_evidence(
			c->a, "permission", i->place,
			"readonly is the opposite of bit 1 (VM_WRITE) of what is read "
			"of the mapping at +0x%llx: vma",
			(unsigned long long)memory_operand(i)->value);
	case H2D_PERMISSION_ACCESS:
		return ins_evidence(
			c->a, "permission", i->place,
			"readonly needs bit 0 of the request's flags, read at +0x%llx, "
			"whatever the mapping allows: access",
			(unsigned long long)memory_operand(i)->value);
	case H2D_PERMISSION_UNKNOWN:
		break;
	}
	return ins_evidence(c->a, "permission", c->entry, "%s: unknown", why);
}

static int judge_caller(struct ins_analysis *a, struct ins_place entry, int argument,
			enum h2d_permission_rule *rule, char *text, size_t cap)
{
	const struct ins_interest interest = {.place = a->root, .leaves = true};
	struct caller c = {.a = a, .argument = argument, .entry = entry};
	const char *why = NULL;
	uint32_t load = 0;
	int err;

	*rule = H2D_PERMISSION_UNKNOWN;
	err = ins_graph_build(a->image, a->decoder, &interest, entry, &c.graph);
	if (!err)
		err = ins_values_open(&c.values);
	if (!err)
		err = ins_flow_open(&c.graph, &a->steps_left, &c.flow);
	if (err)
		goto out;
	c.run = (struct ins_run){.graph = &c.graph, .values = &c.values, .argument = -1};
	if (c.graph.why)
		why = c.graph.why;
	else if (argument == READONLY_NOT_FOUND)
		why = "which argument asks for read access only was not found";
	else
		*rule = decide(&c, &load, &why);
	snprintf(text, cap, "%s", why ? why : "");
	err = tell(&c, *rule, load, why);
out:
	ins_flow_close(&c.flow);
	ins_values_close(&c.values);
	ins_graph_close(&c.graph);
	return err;
}

/* ---- all callers ---- */

static const char *const caller_functions[] = {"svm_range_validate_and_map",
					       "amdgpu_ttm_tt_get_user_pages"};

static void set(struct ins_analysis *a, unsigned which, bool is_present,
		enum h2d_permission_rule rule, const char *why)
{
	struct h2d_caller_report *r = &a->report->callers[which];

	r->is_present = is_present;
	r->rule = rule;
	snprintf(r->why, sizeof(r->why), "%s", why);
}

/* The function that a call is in. */
static const struct ins_symbol *function_of(const struct ins_image *image,
					    struct ins_place place)
{
	const struct ins_symbol *s = ins_function_at(image, place);
	size_t n = s ? strcspn(s->name, ".") : 0;

	if (!s || !ins_name_is_cold(s->name))
		return s;
	for (uint32_t i = 0; i < image->function_count; i++) {
		const struct ins_symbol *f = &image->symbols[image->functions[i]];

		if (strlen(f->name) == n && !memcmp(f->name, s->name, n))
			return f;
	}
	return NULL;
}

/* Judges each function with calls once. *strangers: callers of other names. */
static int judge_all(struct ins_analysis *a, const struct ins_place *calls, size_t count,
		     int argument, unsigned *strangers)
{
	const struct ins_symbol *done[H2D_CALLER_COUNT] = {NULL};

	for (size_t i = 0; i < count; i++) {
		const struct ins_symbol *s = function_of(a->image, calls[i]);
		enum h2d_permission_rule rule;
		char why[160];
		unsigned which = 0;
		int err;

		while (s && which < H2D_CALLER_COUNT &&
		       !ins_name_is(s->name, caller_functions[which]))
			which++;
		if (!s || which == H2D_CALLER_COUNT) {
			err = ins_evidence(a, "call", calls[i],
					   "asks for pages, not known by name");
			++*strangers;
			if (err)
				return err;
			continue;
		}
		if (done[which] == s)
			continue;
		err = judge_caller(a, (struct ins_place){s->section, s->value}, argument, &rule,
				   why, sizeof(why));
		if (err)
			return err;
		if (done[which] && a->report->callers[which].rule != rule)
			set(a, which, true, H2D_PERMISSION_UNKNOWN,
			    "the function is there more than once, and they differ");
		else
			set(a, which, true, rule, why);
		done[which] = s;
	}
	return 0;
}

static bool is_defined(const struct ins_image *image, const char *name)
{
	for (uint32_t i = 0; i < image->function_count; i++)
		if (ins_name_is(image->symbols[image->functions[i]].name, name))
			return true;
	return false;
}

/* Why no call of this caller was found. */
static const char *missing(const struct ins_analysis *a, unsigned which, bool is_certain)
{
	if (a->has_copies)
		return "the code that callers ask for pages is inlined in several functions";
	if (is_defined(a->image, caller_functions[which]))
		return "the function is there, but how it asks for pages was not found";
	if (!is_certain)
		return "a caller is not known by its name";
	return which == H2D_CALLER_SVM ? "this module has no such caller: it was built without "
					 "shared virtual memory (HSA_AMD_SVM)"
				       : "this module has no such caller";
}

static void unknown(struct ins_analysis *a, const char *why)
{
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		set(a, i, false, H2D_PERMISSION_UNKNOWN, why);
}

int ins_permission(struct ins_analysis *a)
{
	struct ins_place *calls = NULL;
	size_t count = 0;
	unsigned strangers = 0;
	bool address_taken;
	int argument, err;

	if (!a->have_root) {
		unknown(a, "the function that callers ask for pages was not found");
		return 0;
	}
	err = ins_references(a->image, a->decoder, a->root, &calls, &count, &address_taken);
	if (err == H2D_E_UNSUPPORTED) {
		unknown(a, "too many callers");
		return 0;
	}
	if (!err)
		err = readonly_argument(a, &argument);
	if (!err)
		err = judge_all(a, calls, count, argument, &strangers);
	free(calls);
	if (err)
		return err;
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		if (!a->report->callers[i].is_present)
			set(a, i, false, H2D_PERMISSION_UNKNOWN,
			    missing(a, i, !strangers && !address_taken));
	return 0;
}
