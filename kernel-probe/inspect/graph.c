/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow of control of one function, found by following it from its entry: into the part that
 * the compiler moved away (.cold), over the branches that the kernel patches (jump labels), and
 * into those helpers of the module that have to do with what is asked. A helper is spliced in
 * once per call, so that the paths of two calls never mix.
 */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"

enum {
	NODES_FIRST = 512,
	NODES_MAX = 16384,
	CONTEXTS_MAX = 64,
	DEPTH_MAX = 4,
	TABLE_SLOTS = 1 << 16,
	HELPER_BYTES_MAX = 64 << 10, /* of a helper that is looked through */
	SMALL_BYTES = 512,	     /* that reads the clock for its caller */
	LEAF_BYTES_MAX = 128,
	SEARCH_DEPTH = 3,
	SEARCH_BYTES_MAX = 16 << 20,
};

/* A call of these does not come back (tools/objtool/noreturns.h has them all). */
static const char *const never_return[] = {
	"__stack_chk_fail",
	"panic",
	"do_exit",
	"make_task_dead",
	"__fortify_panic",
	"fortify_panic",
	"__ubsan_handle_builtin_unreachable",
	"kthread_exit",
	"kthread_complete_and_exit",
	"stop_this_cpu",
	NULL,
};

static bool word_in(const char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static const char *external_name(const struct ins_image *image, uint32_t symbol)
{
	return symbol ? image->symbols[symbol].name : "";
}

bool ins_calls(const struct ins_graph *graph, const struct ins_node *node, const char *name)
{
	return node->called && !strcmp(external_name(graph->image, node->called), name);
}

static bool same_place(struct ins_place a, struct ins_place b)
{
	return a.section == b.section && a.address == b.address;
}

/* ---- which helpers matter ---- */

static uint64_t function_end(const struct ins_image *image, struct ins_place entry)
{
	const struct ins_symbol *s = ins_function_begins(image, entry);
	const struct ins_section *section = &image->sections[entry.section];
	uint64_t end = s ? s->size : 0;

	if (!end || end > section->size - entry.address)
		end = section->size - entry.address;
	if (end > HELPER_BYTES_MAX)
		end = HELPER_BYTES_MAX;
	return entry.address + end;
}

static int32_t rel32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, 4);
	return v;
}

static bool matters(struct ins_graph *g, struct ins_place entry, unsigned depth);

/* A call inside the section that the assembler has resolved already: bytes e8 or e9. Bytes that
 * only look like one make a helper matter that does not, which costs time and nothing else. */
static bool calls_what_matters(struct ins_graph *g, struct ins_place entry, uint64_t end,
			       unsigned depth)
{
	const struct ins_section *s = &g->image->sections[entry.section];

	for (uint64_t at = entry.address; at + 5 <= end; at++) {
		struct ins_place to = {entry.section, 0};

		if (s->data[at] != 0xe8 && s->data[at] != 0xe9)
			continue;
		to.address = at + 5 + (uint64_t)(int64_t)rel32(s->data + at + 1);
		if (to.address >= s->size || !ins_function_begins(g->image, to))
			continue;
		if (same_place(to, g->interest.place) || (depth && matters(g, to, depth - 1)))
			return true;
	}
	return false;
}

static bool looks_relevant(struct ins_graph *g, struct ins_place entry, unsigned depth)
{
	const struct ins_section *s = &g->image->sections[entry.section];
	uint64_t end = function_end(g->image, entry);
	const struct ins_reloc *r = ins_reloc_from(s, entry.address);

	for (; r && r < s->relocs + s->reloc_count && r->offset < end; r++) {
		const char *name = external_name(g->image, r->symbol);
		struct ins_place to = ins_symbol_place(g->image, r->symbol, r->addend + 4);

		if (word_in(g->interest.externals, name))
			return true;
		if (g->interest.externals && end - entry.address <= SMALL_BYTES &&
		    (!strcmp(name, "jiffies") || !strcmp(name, "jiffies_64")))
			return true;
		if (!to.section)
			continue;
		if (same_place(to, g->interest.place))
			return true;
		if (depth && to.address < g->image->sections[to.section].size &&
		    g->image->sections[to.section].is_code && !same_place(to, entry) &&
		    ins_function_begins(g->image, to) && matters(g, to, depth - 1))
			return true;
	}
	return calls_what_matters(g, entry, end, depth);
}

/* Each function is looked through once per depth, and all of them together only so far. */
static bool matters(struct ins_graph *g, struct ins_place entry, unsigned depth)
{
	const struct ins_symbol *s = ins_function_begins(g->image, entry);
	uint8_t *seen = s ? &g->searched[s - g->image->symbols] : NULL;
	uint64_t bytes = function_end(g->image, entry) - entry.address;

	if (seen && *seen > depth)
		return false;
	if (bytes > g->search_left) {
		g->why = "too much code is called from it";
		return false;
	}
	g->search_left -= bytes;
	/* Set beforehand: functions that call each other would else be searched for ever. */
	if (seen)
		*seen = (uint8_t)(depth + 1);
	if (!looks_relevant(g, entry, depth))
		return false;
	if (seen)
		*seen = 0;
	return true;
}

/* A short function that calls nothing, such as one that reads a flag. */
static bool is_small_leaf(const struct ins_graph *g, struct ins_place entry)
{
	const struct ins_symbol *s = ins_function_begins(g->image, entry);
	const struct ins_section *section = &g->image->sections[entry.section];
	const struct ins_reloc *r = ins_reloc_from(section, entry.address);

	if (!s || !s->size || s->size > LEAF_BYTES_MAX)
		return false;
	for (; r && r < section->relocs + section->reloc_count &&
	       r->offset < entry.address + s->size;
	     r++) {
		const char *name = external_name(g->image, r->symbol);

		if (strcmp(name, "__x86_return_thunk") && strcmp(name, "__fentry__"))
			return false;
	}
	return true;
}

/* ---- nodes ---- */

static uint32_t slot_of(const struct ins_graph *g, struct ins_place place, uint32_t context)
{
	uint64_t h = (place.address ^ (uint64_t)place.section << 40 ^ (uint64_t)context << 52) *
		     0x9e3779b97f4a7c15ull;
	uint32_t mask = g->table_size - 1, at = (uint32_t)(h >> 40) & mask;

	for (; g->table[at]; at = (at + 1) & mask) {
		const struct ins_node *n = &g->nodes[g->table[at]];

		if (same_place(n->insn.place, place) && n->context == context)
			break;
	}
	return at;
}

static bool grow(struct ins_graph *g)
{
	uint32_t capacity = g->capacity ? g->capacity * 2 : NODES_FIRST;
	struct ins_node *grown;

	if (g->count >= NODES_MAX) {
		g->why = "the function is too large";
		return false;
	}
	grown = h2d_mem->realloc(g->nodes, capacity * sizeof(*grown));
	if (!grown) {
		g->why = "out of memory";
		return false;
	}
	g->nodes = grown;
	g->capacity = capacity;
	return true;
}

/* The node of a place, made if it is new. It moves the others. 0 where there is no instruction
 * or no room. */
static uint32_t node_at(struct ins_graph *g, struct ins_place place, uint32_t context)
{
	uint32_t at = slot_of(g, place, context);
	struct ins_node *n;

	if (g->table[at])
		return g->table[at];
	if (g->count == g->capacity && !grow(g))
		return 0;
	n = &g->nodes[g->count];
	*n = (struct ins_node){.context = context};
	if (!ins_decode(g->decoder, place, &n->insn)) {
		g->why = "bytes that are no instruction are reached";
		return 0;
	}
	g->table[at] = g->count;
	return g->count++;
}

static bool recursive(const struct ins_graph *g, uint32_t context, struct ins_place entry)
{
	for (uint32_t c = context;; c = g->contexts[c].parent) {
		if (same_place(g->contexts[c].entry, entry))
			return true;
		if (!c)
			return false;
	}
}

/* Enters a helper. Returns its context, or 0. */
static uint32_t enter(struct ins_graph *g, uint32_t parent, struct ins_place entry,
		      struct ins_place back)
{
	struct ins_context c = {parent, back, entry, g->contexts[parent].depth + 1};

	if (c.depth > DEPTH_MAX || g->context_count == CONTEXTS_MAX ||
	    recursive(g, parent, entry)) {
		g->why = "its helpers call each other too deeply";
		return 0;
	}
	g->contexts[g->context_count] = c;
	return g->context_count++;
}

static void leave(struct ins_graph *g, uint32_t at)
{
	uint32_t context = g->nodes[at].context, back;

	if (!context) {
		g->nodes[at].is_end = true;
		return;
	}
	back = node_at(g, g->contexts[context].back, g->contexts[context].parent);
	g->nodes[at].leave = back;
}

/* A jump or call that leaves the module's code. */
static void goes_outside(struct ins_graph *g, uint32_t at)
{
	struct ins_node *n = &g->nodes[at];
	const char *name = external_name(g->image, n->insn.external);

	if (n->insn.op == INS_JMP && !strcmp(name, "__x86_return_thunk")) {
		leave(g, at);
		return;
	}
	if (n->insn.op == INS_JCC ||
	    (n->insn.op == INS_JMP && !strncmp(name, "__x86_indirect_thunk_", 21))) {
		n->is_lost = true;
		return;
	}
	n->called = n->insn.external;
	if (n->insn.op == INS_JMP) {
		n->is_tail_call = true;
		leave(g, at);
	}
}

/* Whether a jump goes to another function, not to a part of this one. */
static bool is_tail_call(const struct ins_graph *g, const struct ins_node *n)
{
	const struct ins_symbol *to = ins_function_begins(g->image, n->insn.target);
	const struct ins_symbol *from = ins_function_at(g->image, n->insn.place);

	if (!to || ins_name_is_cold(to->name))
		return false;
	if (from && ins_name_is_cold(from->name))
		return false;
	return !same_place(g->contexts[n->context].entry, n->insn.target);
}

static void call_inside(struct ins_graph *g, uint32_t at)
{
	struct ins_place target = g->nodes[at].insn.target, back = g->nodes[at].insn.place;
	uint32_t context, entry;

	back.address += g->nodes[at].insn.size;
	if (same_place(target, g->interest.place)) {
		g->nodes[at].is_target = true;
		return;
	}
	if (!matters(g, target, SEARCH_DEPTH) &&
	    (!g->interest.leaves || g->context_count > CONTEXTS_MAX / 2 ||
	     !is_small_leaf(g, target)))
		return;
	context = enter(g, g->nodes[at].context, target, back);
	if (!context)
		return;
	entry = node_at(g, target, context);
	g->nodes[at].is_spliced = true;
	g->nodes[at].jump = entry;
}

static void jump_inside(struct ins_graph *g, uint32_t at)
{
	struct ins_node *n = &g->nodes[at];
	struct ins_place target = n->insn.target;
	uint32_t to;

	if (n->insn.op == INS_JMP && same_place(target, g->interest.place)) {
		n->is_target = n->is_tail_call = true;
		leave(g, at);
		return;
	}
	if (n->insn.op == INS_JMP && is_tail_call(g, n) && !matters(g, target, SEARCH_DEPTH)) {
		n->is_tail_call = true;
		leave(g, at);
		return;
	}
	to = node_at(g, target, n->context);
	g->nodes[at].jump = to;
}

static bool may_fall(const struct ins_graph *g, const struct ins_node *n)
{
	struct ins_place next = n->insn.place;
	const struct ins_symbol *s;

	if (n->insn.op == INS_JMP || n->insn.op == INS_RET || n->insn.op == INS_STOP ||
	    n->is_spliced)
		return false;
	if (n->insn.op == INS_CALL && word_in(never_return, external_name(g->image, n->called)))
		return false;
	next.address += n->insn.size;
	if (next.address >= g->image->sections[next.section].size)
		return n->insn.op != INS_CALL && n->insn.op != INS_OTHER;
	/* Code never runs on into the next function: what stands before it does not return. */
	s = ins_function_begins(g->image, next);
	return !s || same_place(next, g->contexts[n->context].entry);
}

static void expand(struct ins_graph *g, uint32_t at)
{
	enum ins_op op = g->nodes[at].insn.op;
	const struct ins_label *label = ins_label_at(g->image, g->nodes[at].insn.place);
	struct ins_place next = g->nodes[at].insn.place;
	uint32_t to;

	next.address += g->nodes[at].insn.size;
	if (op == INS_RET) {
		leave(g, at);
	} else if (op == INS_CALL || op == INS_JMP || op == INS_JCC) {
		if (g->nodes[at].insn.external)
			goes_outside(g, at);
		else if (g->nodes[at].insn.target.section && op == INS_CALL)
			call_inside(g, at);
		else if (g->nodes[at].insn.target.section)
			jump_inside(g, at);
		else if (op != INS_CALL)
			g->nodes[at].is_lost = true;
	}
	if (may_fall(g, &g->nodes[at])) {
		to = node_at(g, next, g->nodes[at].context);
		g->nodes[at].fall = to;
	}
	if (label && (op == INS_NOP || op == INS_XCHG || op == INS_JMP)) {
		to = node_at(g, op == INS_JMP ? next : label->target, g->nodes[at].context);
		g->nodes[at].label = to;
	}
}

int ins_graph_build(const struct ins_image *image, struct ins_decoder *decoder,
		    const struct ins_interest *interest, struct ins_place entry,
		    struct ins_graph *g)
{
	*g = (struct ins_graph){.image = image,
				.decoder = decoder,
				.interest = *interest,
				.count = 1,
				.context_count = 1,
				.search_left = SEARCH_BYTES_MAX,
				.table_size = TABLE_SLOTS};
	g->contexts = h2d_mem->calloc(CONTEXTS_MAX, sizeof(*g->contexts));
	g->table = h2d_mem->calloc(TABLE_SLOTS, sizeof(*g->table));
	g->searched = h2d_mem->calloc((size_t)image->symbol_count + 1, 1);
	if (!g->contexts || !g->table || !g->searched || !grow(g)) {
		ins_graph_close(g);
		return H2D_E_NOMEM;
	}
	g->nodes[0] = (struct ins_node){0};
	g->contexts[0].entry = entry;
	g->entry = node_at(g, entry, 0);
	/* Nodes are only ever added, so that their order is a list of what is left to do. */
	for (uint32_t at = 1; at < g->count && !g->why; at++)
		expand(g, at);
	return 0;
}

void ins_graph_close(struct ins_graph *g)
{
	free(g->nodes);
	free(g->contexts);
	free(g->table);
	free(g->searched);
	*g = (struct ins_graph){0};
}
