/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_INSPECT_INTERNAL_H
#define H2D_INSPECT_INTERNAL_H

/* Shared by the files of the inspector. */

#include "inspect.h"

/* ---- image.c: the module as an ELF file ---- */

struct ins_reloc {
	uint64_t offset;
	uint32_t type, symbol;
	int64_t addend;
};

struct ins_section {
	const char *name; /* into the bytes, always terminated */
	const uint8_t *data;
	uint64_t size;
	uint32_t type;
	bool is_code;
	struct ins_reloc *relocs; /* by offset */
	size_t reloc_count;
};

enum { INS_UNDEFINED = 0, INS_ABSOLUTE = 0xffffffff };

struct ins_symbol {
	const char *name;
	uint64_t value, size;
	uint32_t section; /* index, INS_UNDEFINED or INS_ABSOLUTE */
	uint8_t type, bind;
};

/* A place in the code: section 0 is nowhere. */
struct ins_place {
	uint32_t section;
	uint64_t address;
};

/* A patched branch of the kernel's jump labels (arch/x86/include/asm/jump_label.h). */
struct ins_label {
	struct ins_place code, target;
};

struct ins_image {
	const uint8_t *bytes;
	size_t size;
	unsigned machine;
	struct ins_section *sections;
	uint32_t section_count;
	struct ins_symbol *symbols;
	uint32_t symbol_count;
	uint32_t *functions; /* symbols of code, by place */
	uint32_t function_count;
	struct ins_label *labels; /* by place of their code */
	size_t label_count;
};

/* Opens ELF bytes, which stay the caller's. H2D_E_FORMAT, H2D_E_NOMEM. */
int ins_image_open(const char *name, const void *data, size_t bytes, const struct h2d_log *log,
		   struct ins_image *image);
void ins_image_close(struct ins_image *image);
const struct ins_section *ins_section_named(const struct ins_image *image, const char *name);
/* First relocation at or behind `offset`; NULL when there is none. */
const struct ins_reloc *ins_reloc_from(const struct ins_section *section, uint64_t offset);
/* The function symbol that covers a place, the nearest one at or before it; or NULL. Kernel
 * padding symbols (__pfx_) are none. */
const struct ins_symbol *ins_function_at(const struct ins_image *image, struct ins_place place);
/* Whether a function symbol begins exactly there. */
const struct ins_symbol *ins_function_begins(const struct ins_image *image,
					     struct ins_place place);
/* Where what a symbol with an addend names lies; section 0 for undefined ones. */
struct ins_place ins_symbol_place(const struct ins_image *image, uint32_t symbol,
				  int64_t addend);
const struct ins_label *ins_label_at(const struct ins_image *image, struct ins_place place);
/* "amdgpu_x.cold" and "amdgpu_x.constprop.0" are parts of "amdgpu_x". */
bool ins_name_is(const char *name, const char *base);
/* The part that the compiler moved away. */
bool ins_name_is_cold(const char *name);

/* ---- info.c: what the file says about itself ---- */

void ins_info_read(const struct ins_image *image, struct h2d_module_report *report);
enum h2d_module_origin ins_origin(const char *path, bool in_tree);

/* ---- decode.c: one instruction, by Capstone ---- */

enum ins_op {
	INS_OTHER = 0, /* changes `writes` and flags in ways that are not followed */
	INS_NOP,
	INS_MOV,
	INS_MOVZX,
	INS_MOVSX,
	INS_LEA,
	INS_ADD,
	INS_SUB,
	INS_AND,
	INS_OR,
	INS_XOR,
	INS_SHL,
	INS_SHR,
	INS_SAR,
	INS_IMUL,
	INS_SBB,
	INS_BTS,
	INS_BTR,
	INS_NOT,
	INS_NEG,
	INS_INC,
	INS_DEC,
	INS_TEST,
	INS_CMP,
	INS_BT,
	INS_SETCC,
	INS_CMOVCC,
	INS_JCC,
	INS_JMP,
	INS_CALL,
	INS_RET,
	INS_PUSH,
	INS_POP,
	INS_XCHG,
	INS_LEAVE,
	INS_STOP, /* hlt, int3 */
};

/* Conditions of x86 in encoding order: cc = opcode & 15. */
enum ins_cond {
	INS_O = 0,
	INS_NO,
	INS_B,
	INS_AE,
	INS_E,
	INS_NE,
	INS_BE,
	INS_A,
	INS_S,
	INS_NS,
	INS_P,
	INS_NP,
	INS_L,
	INS_GE,
	INS_LE,
	INS_G,
};

enum {
	INS_NO_REG = 255,
	INS_RAX = 0,
	INS_RCX,
	INS_RDX,
	INS_RBX,
	INS_RSP,
	INS_RBP,
	INS_RSI,
	INS_RDI,
	INS_R8,
	INS_R9,
	INS_R10,
	INS_R11,
	INS_REGS = 16
};

enum ins_operand_kind { INS_NONE = 0, INS_REG, INS_IMM, INS_MEM, INS_FOREIGN };

struct ins_operand {
	enum ins_operand_kind kind;
	uint8_t width; /* bytes */
	uint8_t reg;   /* of INS_REG; base of INS_MEM */
	uint8_t index, scale;
	bool high;	 /* ah, bh, ch, dh */
	bool segment;	 /* per-CPU or thread data */
	bool relative;	 /* to the instruction's end */
	int64_t value;	 /* immediate or displacement */
	uint32_t symbol; /* of a relocation in it, or 0 */
	int64_t addend;	 /* that goes with it, for the place meant */
};

struct ins_insn {
	struct ins_place place;
	uint8_t size;
	enum ins_op op;
	enum ins_cond cond;
	uint8_t operand_count;
	struct ins_operand operands[3];
	uint16_t writes; /* registers it writes, as bits, when INS_OTHER */
	bool writes_flags;
	bool writes_memory;	 /* first operand is a place in memory and is written */
	struct ins_place target; /* of direct jumps and calls into this module */
	uint32_t external;	 /* symbol of direct jumps and calls out of it, or 0 */
	bool repeated;		 /* rep, repne */
	bool indirect;		 /* jump or call by register or memory */
};

struct ins_decoder;
int ins_decoder_open(const struct ins_image *image, struct ins_decoder **decoder);
void ins_decoder_close(struct ins_decoder *decoder);
/* False where there is no instruction. */
bool ins_decode(struct ins_decoder *decoder, struct ins_place place, struct ins_insn *insn);

/* ---- value.c: what a register may hold ---- */

enum ins_value_kind {
	INS_V_UNKNOWN = 0,
	INS_V_CONST,
	INS_V_PAIR,   /* one of two constants */
	INS_V_ARG,    /* argument `k` of the function */
	INS_V_RETURN, /* what the call at node `k` returned */
	INS_V_FAULT,  /* what hmm_range_fault() returned */
	INS_V_LOAD,   /* read from value `a` plus `k` */
	INS_V_SYMBOL, /* address of symbol `a` plus `k` */
	INS_V_GLOBAL, /* read from symbol `a` plus `k` */
	INS_V_STACK,  /* address on the stack, relative to that of the return address */
	INS_V_OP,     /* op of a and b */
	INS_V_CHOICE, /* a or b */
};

struct ins_value {
	enum ins_value_kind kind;
	enum ins_op op;
	uint32_t a, b;
	uint64_t k, k2;
};

typedef uint32_t ins_id; /* 0 is unknown */

struct ins_values {
	struct ins_value *items;
	uint32_t count, capacity;
	uint32_t *table;
	uint32_t table_size;
	bool failed; /* out of memory */
};

int ins_values_open(struct ins_values *values);
void ins_values_close(struct ins_values *values);
const struct ins_value *ins_value(const struct ins_values *values, ins_id id);
ins_id ins_value_make(struct ins_values *values, const struct ins_value *value);
ins_id ins_const(struct ins_values *values, uint64_t k);
ins_id ins_pair(struct ins_values *values, uint64_t a, uint64_t b);
/* Constants that a value may be: 0 (any), 1 or 2 of them. */
unsigned ins_constants(const struct ins_values *values, ins_id id, uint64_t out[2]);
/* What holds for both. */
ins_id ins_join(struct ins_values *values, ins_id a, ins_id b);
/* Result of an operation on `width` bytes. */
ins_id ins_apply(struct ins_values *values, enum ins_op op, ins_id a, ins_id b, unsigned width);

/* ---- graph.c: the flow of control of one function, helpers spliced in ---- */

/* What is asked about calls: names outside the module, and at most one place inside it. */
struct ins_interest {
	const char *const *externals; /* ended by NULL */
	struct ins_place place;
	bool leaves; /* short functions that call nothing are spliced in too */
};

struct ins_node {
	struct ins_insn insn;
	uint32_t context;
	/* Successors, or 0. `fall`: what follows; `jump`: target; `label`: of a patched branch;
	 * `leave`: back to the caller of a spliced function. */
	uint32_t fall, jump, label, leave;
	bool is_end;	   /* leaves the function */
	bool is_tail_call; /* ... by a jump to another one */
	bool is_lost;	   /* control goes where it cannot be followed */
	bool is_spliced;   /* a call that is entered */
	bool is_target;	   /* a call of interest.place */
	uint32_t called;   /* symbol of what it calls outside, or 0 */
};

struct ins_context {
	uint32_t parent;
	struct ins_place back; /* where the spliced function returns to */
	struct ins_place entry;
	unsigned depth;
};

struct ins_graph {
	const struct ins_image *image;
	struct ins_decoder *decoder;
	struct ins_interest interest;
	struct ins_node *nodes; /* nodes[0] is unused */
	uint32_t count, capacity;
	struct ins_context *contexts;
	uint32_t context_count;
	uint32_t *table;
	uint32_t table_size;
	uint32_t entry;
	uint8_t *searched;    /* by symbol: how deep it was found not to matter, plus one */
	uint64_t search_left; /* bytes of helpers that may still be looked through */
	const char *why;      /* why it is not complete, or NULL; static */
};

/* 0, also for an incomplete graph (`why`), or H2D_E_NOMEM. */
int ins_graph_build(const struct ins_image *image, struct ins_decoder *decoder,
		    const struct ins_interest *interest, struct ins_place entry,
		    struct ins_graph *graph);
void ins_graph_close(struct ins_graph *graph);
/* Whether an external call or jump has this name. */
bool ins_calls(const struct ins_graph *graph, const struct ins_node *node, const char *name);
/* All code outside of data that refers to a place: direct calls, jumps and relocations. The
 * result is malloc'ed. */
int ins_references(const struct ins_image *image, struct ins_decoder *decoder,
		   struct ins_place place, struct ins_place **found, size_t *count,
		   bool *address_taken);

/* ---- state.c, step.c: what is known before an instruction ---- */

enum { INS_SLOTS = 48 };

struct ins_slot {
	int32_t offset;
	uint32_t width;
	ins_id value;
};

/* What set the flags: a comparison of a with b, a logical or other result a, bit b of a. */
enum ins_flags_kind { INS_F_UNKNOWN = 0, INS_F_CMP, INS_F_LOGIC, INS_F_ARITH, INS_F_BIT };

struct ins_state {
	ins_id reg[INS_REGS], low[INS_REGS]; /* low: the lowest byte where only it is known */
	struct {
		uint8_t kind, width;
		ins_id a, b;
	} flags;
	int32_t escaped; /* slots from here on may be changed by others */
	uint32_t slot_count;
	struct ins_slot slots[INS_SLOTS];
};

/* What is assumed, and what is to be told. */
struct ins_run {
	struct ins_graph *graph;
	struct ins_values *values;
	bool assume_fault;
	int32_t fault; /* what hmm_range_fault() returns */
	int argument;  /* which argument is assumed, or -1 */
	uint64_t argument_value;
	uint32_t load; /* node whose read of memory is assumed, or 0 */
	uint64_t load_value;
	/* Called for every write to memory that is not on the stack; may be NULL. */
	void (*stored)(void *user, uint32_t node, ins_id value, ins_id base, int64_t offset);
	void *user;
};

void ins_state_entry(struct ins_run *run, struct ins_state *state);
/* Joins `from` into `into`; true when that changed anything. */
bool ins_state_join(struct ins_run *run, struct ins_state *into, const struct ins_state *from);
ins_id ins_register(const struct ins_run *run, const struct ins_state *state, unsigned reg,
		    unsigned width);
ins_id ins_slot_read(const struct ins_run *run, const struct ins_state *state, int64_t offset,
		     unsigned width);
void ins_slot_write(struct ins_state *state, int64_t offset, unsigned width, ins_id value);
/* Forgets slots of [from, to). */
void ins_slots_forget(struct ins_state *state, int64_t from, int64_t to);
/* Argument `k` as it stands before the call at a node, its lowest byte. */
ins_id ins_call_argument(const struct ins_run *run, const struct ins_state *state, unsigned k);
/* What a memory operand means: a base and an offset from it. */
enum ins_where { INS_ELSEWHERE, INS_ON_STACK, INS_SOMEWHERE_ON_STACK };
enum ins_where ins_address(const struct ins_run *run, const struct ins_state *state,
			   const struct ins_operand *operand, ins_id *base, int64_t *offset);
/* Constants that a value may be, with what is assumed. */
unsigned ins_known(const struct ins_run *run, ins_id id, uint64_t out[2]);
/* Changes the state as the instruction does. */
void ins_step(struct ins_run *run, uint32_t node, struct ins_state *state);
/* Whether a condition holds: 1, 0, or -1 when it may be either. */
int ins_condition(const struct ins_run *run, const struct ins_state *state, enum ins_cond cond);

/* ---- flow.c: the fixed point ---- */

/* Layers split what happens before and behind a call of `divide`. */
struct ins_flow {
	struct ins_state *states; /* two layers of graph->count, before each node */
	uint8_t *reached;	  /* bit per layer */
	uint8_t *taken;		  /* of conditional jumps: 1 jumped, 2 fell through */
	uint32_t *work, work_count;
	uint64_t *steps_left;
	bool *queued;
	const char *divide; /* a call of this moves to the second layer; or NULL */
	const char *stop;   /* flow ends before calls of this; or NULL */
};

/* `steps_left` is shared by all flows of one module, so that a hostile one ends too. */
int ins_flow_open(const struct ins_graph *graph, uint64_t *steps_left, struct ins_flow *flow);
void ins_flow_close(struct ins_flow *flow);
/* Clears all and starts anew. */
void ins_flow_reset(const struct ins_graph *graph, struct ins_flow *flow);
/* Puts a state before a node. */
void ins_flow_seed(struct ins_run *run, struct ins_flow *flow, uint32_t node, unsigned layer,
		   const struct ins_state *state);
/* Runs to the end. False when the steps that were left did not suffice. */
bool ins_flow_run(struct ins_run *run, struct ins_flow *flow);
/* What holds before a node; NULL where it was not reached. */
const struct ins_state *ins_flow_state(const struct ins_flow *flow, uint32_t node,
				       unsigned layer);
/* Successors of a node that a finished flow took; returns their count. */
unsigned ins_flow_next(const struct ins_graph *graph, const struct ins_flow *flow,
		       uint32_t node, uint32_t next[4]);

/* ---- roots.c, policy.c, timeout.c, permission.c, evidence.c ---- */

/* A call of hmm_range_fault(), and whether a judged function has it. */
struct ins_site {
	struct ins_place place;
	bool is_covered;
};

struct ins_analysis {
	const struct ins_image *image;
	struct ins_decoder *decoder;
	const struct h2d_log *log;
	struct h2d_module_report *report;
	uint64_t steps_left;
	struct ins_site *sites; /* owned by whoever opened the analysis */
	size_t site_count;
	struct ins_place root; /* amdgpu_hmm_range_get_pages(), as far as it is known */
	bool have_root;
	bool root_named;
	bool has_copies; /* the root's code is in other functions too */
};

/* Both fill the report; 0 or H2D_E_NOMEM. */
int ins_policy(struct ins_analysis *analysis);
int ins_permission(struct ins_analysis *analysis);

/* Finds the timeout of a retry loop in a finished flow. `cycle`: nodes of it. */
void ins_timeout(struct ins_run *run, const struct ins_flow *flow, const bool *cycle,
		 struct h2d_inspect_timeout *timeout, struct ins_place *place);
/* Whether an instruction reads the kernel's clock. */
bool ins_reads_jiffies(const struct ins_graph *graph, const struct ins_node *node);

/* One line of evidence; place.section 0: none. */
int ins_evidence(struct ins_analysis *analysis, const char *kind, struct ins_place place,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
