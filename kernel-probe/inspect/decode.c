/* SPDX-License-Identifier: Apache-2.0 */
/* One instruction of x86-64: Capstone reads it, relocations say what it means. */
#include <capstone/capstone.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"

struct ins_decoder {
	const struct ins_image *image;
	csh handle;
	cs_insn *insn;
};

int ins_decoder_open(const struct ins_image *image, struct ins_decoder **out)
{
	struct ins_decoder *d = h2d_mem->calloc(1, sizeof(*d));

	*out = NULL;
	if (!d)
		return H2D_E_NOMEM;
	d->image = image;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &d->handle) != CS_ERR_OK) {
		free(d);
		return H2D_E_NOMEM;
	}
	cs_option(d->handle, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = cs_malloc(d->handle);
	if (!d->insn) {
		cs_close(&d->handle);
		free(d);
		return H2D_E_NOMEM;
	}
	*out = d;
	return 0;
}

void ins_decoder_close(struct ins_decoder *d)
{
	if (!d)
		return;
	cs_free(d->insn, 1);
	cs_close(&d->handle);
	free(d);
}

static const struct {
	uint16_t id;
	uint8_t op;
} simple[] = {
	{X86_INS_NOP, INS_NOP},	    {X86_INS_MOV, INS_MOV},	{X86_INS_MOVABS, INS_MOV},
	{X86_INS_MOVZX, INS_MOVZX}, {X86_INS_MOVSX, INS_MOVSX}, {X86_INS_MOVSXD, INS_MOVSX},
	{X86_INS_LEA, INS_LEA},	    {X86_INS_ADD, INS_ADD},	{X86_INS_SUB, INS_SUB},
	{X86_INS_AND, INS_AND},	    {X86_INS_OR, INS_OR},	{X86_INS_XOR, INS_XOR},
	{X86_INS_SHL, INS_SHL},	    {X86_INS_SAL, INS_SHL},	{X86_INS_SHR, INS_SHR},
	{X86_INS_SAR, INS_SAR},	    {X86_INS_IMUL, INS_IMUL},	{X86_INS_SBB, INS_SBB},
	{X86_INS_BTS, INS_BTS},	    {X86_INS_BTR, INS_BTR},	{X86_INS_NOT, INS_NOT},
	{X86_INS_NEG, INS_NEG},	    {X86_INS_INC, INS_INC},	{X86_INS_DEC, INS_DEC},
	{X86_INS_TEST, INS_TEST},   {X86_INS_CMP, INS_CMP},	{X86_INS_BT, INS_BT},
	{X86_INS_JMP, INS_JMP},	    {X86_INS_CALL, INS_CALL},	{X86_INS_RET, INS_RET},
	{X86_INS_PUSH, INS_PUSH},   {X86_INS_POP, INS_POP},	{X86_INS_XCHG, INS_XCHG},
	{X86_INS_LEAVE, INS_LEAVE}, {X86_INS_HLT, INS_STOP},	{X86_INS_INT3, INS_STOP},
	{X86_INS_LFENCE, INS_NOP},  {X86_INS_PAUSE, INS_NOP},	{X86_INS_RETF, INS_STOP},
	{X86_INS_IRETQ, INS_STOP},  {X86_INS_LJMP, INS_STOP},	{X86_INS_LCALL, INS_STOP},
};

static const struct {
	uint16_t set, move, jump;
	uint8_t cond;
} conditional[] = {
	{X86_INS_SETO, X86_INS_CMOVO, X86_INS_JO, INS_O},
	{X86_INS_SETNO, X86_INS_CMOVNO, X86_INS_JNO, INS_NO},
	{X86_INS_SETB, X86_INS_CMOVB, X86_INS_JB, INS_B},
	{X86_INS_SETAE, X86_INS_CMOVAE, X86_INS_JAE, INS_AE},
	{X86_INS_SETE, X86_INS_CMOVE, X86_INS_JE, INS_E},
	{X86_INS_SETNE, X86_INS_CMOVNE, X86_INS_JNE, INS_NE},
	{X86_INS_SETBE, X86_INS_CMOVBE, X86_INS_JBE, INS_BE},
	{X86_INS_SETA, X86_INS_CMOVA, X86_INS_JA, INS_A},
	{X86_INS_SETS, X86_INS_CMOVS, X86_INS_JS, INS_S},
	{X86_INS_SETNS, X86_INS_CMOVNS, X86_INS_JNS, INS_NS},
	{X86_INS_SETP, X86_INS_CMOVP, X86_INS_JP, INS_P},
	{X86_INS_SETNP, X86_INS_CMOVNP, X86_INS_JNP, INS_NP},
	{X86_INS_SETL, X86_INS_CMOVL, X86_INS_JL, INS_L},
	{X86_INS_SETGE, X86_INS_CMOVGE, X86_INS_JGE, INS_GE},
	{X86_INS_SETLE, X86_INS_CMOVLE, X86_INS_JLE, INS_LE},
	{X86_INS_SETG, X86_INS_CMOVG, X86_INS_JG, INS_G},
};

/* Instructions that change nothing that is followed. Capstone 4 has no name for endbr64 of its
 * own in every build, so it is known by its bytes. */
static bool is_endbr(const cs_insn *i)
{
	return i->size == 4 && !memcmp(i->bytes, "\xf3\x0f\x1e\xfa", 4);
}

static void classify(const cs_insn *i, struct ins_insn *out)
{
	out->op = INS_OTHER;
	for (size_t k = 0; k < sizeof(simple) / sizeof(*simple); k++)
		if (i->id == simple[k].id)
			out->op = (enum ins_op)simple[k].op;
	for (size_t k = 0; k < sizeof(conditional) / sizeof(*conditional); k++) {
		enum ins_op op = i->id == conditional[k].set	? INS_SETCC
				 : i->id == conditional[k].move ? INS_CMOVCC
				 : i->id == conditional[k].jump ? INS_JCC
								: INS_OTHER;

		if (op == INS_OTHER)
			continue;
		out->op = op;
		out->cond = (enum ins_cond)conditional[k].cond;
	}
	if (is_endbr(i))
		out->op = INS_NOP;
}

/* 0…15, or INS_NO_REG. */
static uint8_t general(x86_reg reg, uint8_t *width, bool *high)
{
	static const struct {
		uint16_t id;
		uint8_t reg, width, high;
	} map[] = {
#define FOUR(n, q, d, w, b)                                                                    \
	{X86_REG_##q, n, 8, 0}, {X86_REG_##d, n, 4, 0}, {X86_REG_##w, n, 2, 0},                \
		{X86_REG_##b, n, 1, 0}
		FOUR(0, RAX, EAX, AX, AL),	 FOUR(1, RCX, ECX, CX, CL),
		FOUR(2, RDX, EDX, DX, DL),	 FOUR(3, RBX, EBX, BX, BL),
		FOUR(4, RSP, ESP, SP, SPL),	 FOUR(5, RBP, EBP, BP, BPL),
		FOUR(6, RSI, ESI, SI, SIL),	 FOUR(7, RDI, EDI, DI, DIL),
		FOUR(8, R8, R8D, R8W, R8B),	 FOUR(9, R9, R9D, R9W, R9B),
		FOUR(10, R10, R10D, R10W, R10B), FOUR(11, R11, R11D, R11W, R11B),
		FOUR(12, R12, R12D, R12W, R12B), FOUR(13, R13, R13D, R13W, R13B),
		FOUR(14, R14, R14D, R14W, R14B), FOUR(15, R15, R15D, R15W, R15B),
		{X86_REG_AH, 0, 1, 1},		 {X86_REG_CH, 1, 1, 1},
		{X86_REG_DH, 2, 1, 1},		 {X86_REG_BH, 3, 1, 1},
#undef FOUR
	};

	for (size_t i = 0; i < sizeof(map) / sizeof(*map); i++)
		if (map[i].id == (uint16_t)reg) {
			*width = map[i].width;
			*high = map[i].high;
			return map[i].reg;
		}
	*width = 8;
	*high = false;
	return INS_NO_REG;
}

/* The symbol of a relocation inside the bytes [begin, end) of the instruction. */
static const struct ins_reloc *reloc_in(const struct ins_section *s, uint64_t begin,
					uint64_t end)
{
	const struct ins_reloc *r = ins_reloc_from(s, begin);

	return r && r->offset < end && r->type != R_X86_64_NONE ? r : NULL;
}

static void read_memory(const struct ins_section *s, const cs_insn *i, const x86_op_mem *mem,
			struct ins_operand *out)
{
	const cs_x86_encoding *e = &i->detail->x86.encoding;
	uint8_t width;
	bool high;

	out->kind = INS_MEM;
	out->value = mem->disp;
	out->scale = (uint8_t)mem->scale;
	out->segment = mem->segment == X86_REG_GS || mem->segment == X86_REG_FS;
	out->relative = mem->base == X86_REG_RIP;
	out->reg = mem->base == X86_REG_INVALID || out->relative
			   ? INS_NO_REG
			   : general(mem->base, &width, &high);
	out->index =
		mem->index == X86_REG_INVALID ? INS_NO_REG : general(mem->index, &width, &high);
	/* A register that is not followed: the address means nothing to us. */
	if ((mem->base != X86_REG_INVALID && !out->relative && out->reg == INS_NO_REG) ||
	    (mem->index != X86_REG_INVALID && out->index == INS_NO_REG))
		out->segment = true;
	if (e->disp_offset && e->disp_size) {
		const struct ins_reloc *r = reloc_in(s, i->address + e->disp_offset,
						     i->address + e->disp_offset + 1);

		if (r) {
			out->symbol = r->symbol;
			out->addend = r->addend;
			if (out->relative)
				out->addend += i->size - e->disp_offset;
		}
	}
}

static void read_operand(const struct ins_section *s, const cs_insn *i, const cs_x86_op *op,
			 struct ins_operand *out)
{
	const cs_x86_encoding *e = &i->detail->x86.encoding;
	uint8_t width;

	*out = (struct ins_operand){.reg = INS_NO_REG, .index = INS_NO_REG, .width = op->size};
	switch ((int)op->type) {
	case X86_OP_REG:
		out->reg = general(op->reg, &width, &out->high);
		out->kind = out->reg == INS_NO_REG ? INS_FOREIGN : INS_REG;
		out->width = width;
		break;
	case X86_OP_IMM:
		out->kind = INS_IMM;
		out->value = op->imm;
		if (e->imm_offset && e->imm_size) {
			const struct ins_reloc *r = reloc_in(s, i->address + e->imm_offset,
							     i->address + e->imm_offset + 1);

			if (r) {
				out->symbol = r->symbol;
				out->addend = r->addend;
			}
		}
		break;
	case X86_OP_MEM:
		read_memory(s, i, &op->mem, out);
		break;
	default:
		out->kind = INS_FOREIGN;
	}
	if (!out->width)
		out->width = 8;
}

/* Where a direct jump or call goes. */
static void find_target(const struct ins_image *image, const struct ins_section *s,
			const cs_insn *i, struct ins_insn *out)
{
	const struct ins_reloc *r = reloc_in(s, i->address + 1, i->address + i->size);
	uint64_t to;

	if (out->operands[0].kind != INS_IMM) {
		out->indirect = true;
		return;
	}
	if (!r) {
		to = (uint64_t)out->operands[0].value;
		if (to < s->size)
			out->target = (struct ins_place){out->place.section, to};
		return;
	}
	if (r->type != R_X86_64_PLT32 && r->type != R_X86_64_PC32)
		return;
	out->target = ins_symbol_place(image, r->symbol,
				       r->addend + (int64_t)(i->address + i->size - r->offset));
	if (!out->target.section)
		out->external = r->symbol;
	else if (out->target.address >= image->sections[out->target.section].size ||
		 !image->sections[out->target.section].is_code)
		out->target = (struct ins_place){0};
}

static void read_writes(struct ins_decoder *d, const cs_insn *i, struct ins_insn *out)
{
	cs_regs read, written;
	uint8_t read_count, write_count, width;
	bool high;

	if (cs_regs_access(d->handle, i, read, &read_count, written, &write_count) !=
	    CS_ERR_OK) {
		out->writes = 0xffff & ~(1u << INS_RSP);
		out->writes_flags = true;
		return;
	}
	for (uint8_t k = 0; k < write_count; k++) {
		uint8_t reg = general((x86_reg)written[k], &width, &high);

		if (reg != INS_NO_REG)
			out->writes |= (uint16_t)(1u << reg);
		if (written[k] == X86_REG_EFLAGS)
			out->writes_flags = true;
	}
}

bool ins_decode(struct ins_decoder *d, struct ins_place place, struct ins_insn *out)
{
	const struct ins_section *s;
	const cs_x86 *x86;
	const uint8_t *code;
	uint64_t address;
	size_t left;

	*out = (struct ins_insn){.place = place};
	if (!place.section || place.section >= d->image->section_count)
		return false;
	s = &d->image->sections[place.section];
	if (!s->is_code || !s->data || place.address >= s->size)
		return false;
	code = s->data + place.address;
	left = s->size - place.address;
	address = place.address;
	if (!cs_disasm_iter(d->handle, &code, &left, &address, d->insn))
		return false;
	x86 = &d->insn->detail->x86;
	out->size = (uint8_t)d->insn->size;
	classify(d->insn, out);
	out->operand_count = x86->op_count < 3 ? x86->op_count : 3;
	for (uint8_t k = 0; k < out->operand_count; k++)
		read_operand(s, d->insn, &x86->operands[k], &out->operands[k]);
	/* A repeated one is more than its name says. */
	out->repeated = x86->prefix[0] == X86_PREFIX_REP || x86->prefix[0] == X86_PREFIX_REPNE;
	if (out->repeated && out->op > INS_NOP && out->op < INS_JCC)
		out->op = INS_OTHER;
	if (out->op == INS_JMP || out->op == INS_CALL || out->op == INS_JCC)
		find_target(d->image, s, d->insn, out);
	read_writes(d, d->insn, out);
	out->writes_memory = out->operand_count && out->operands[0].kind == INS_MEM &&
			     (x86->operands[0].access & CS_AC_WRITE);
	return true;
}
