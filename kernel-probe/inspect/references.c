/* SPDX-License-Identifier: Apache-2.0 */
/* Who calls a function: relocations name it, or the assembler has resolved the call. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"

enum { FOUND_MAX = 64 };

struct list {
	struct ins_place *places;
	size_t count;
};

static int add(struct list *list, uint32_t section, uint64_t address)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->places[i].section == section && list->places[i].address == address)
			return 0;
	if (list->count == FOUND_MAX)
		return H2D_E_UNSUPPORTED;
	list->places[list->count++] = (struct ins_place){section, address};
	return 0;
}

/* Start of the call or jump whose displacement begins at `offset`; false when it is none. */
static bool begins_call(struct ins_decoder *decoder, uint32_t section, uint64_t offset,
			struct ins_place to, struct ins_place *at)
{
	/* e8/e9 rel32 or 0f 8x rel32 */
	for (uint64_t back = 1; back <= 2 && back <= offset; back++) {
		struct ins_insn insn;

		*at = (struct ins_place){section, offset - back};
		if (ins_decode(decoder, *at, &insn) &&
		    (insn.op == INS_CALL || insn.op == INS_JMP || insn.op == INS_JCC) &&
		    insn.size == back + 4 && insn.target.section == to.section &&
		    insn.target.address == to.address)
			return true;
	}
	return false;
}

static int by_relocation(const struct ins_image *image, struct ins_decoder *decoder,
			 struct ins_place place, struct list *list, bool *address_taken)
{
	for (uint32_t i = 1; i < image->section_count; i++) {
		const struct ins_section *s = &image->sections[i];

		for (size_t r = 0; r < s->reloc_count; r++) {
			const struct ins_reloc *reloc = &s->relocs[r];
			bool relative =
				reloc->type == R_X86_64_PLT32 || reloc->type == R_X86_64_PC32;
			struct ins_place to = ins_symbol_place(
				image, reloc->symbol, reloc->addend + (relative ? 4 : 0));
			struct ins_place at;
			int err;

			if (to.section != place.section || to.address != place.address ||
			    !strcmp(s->name, "__jump_table"))
				continue;
			if (!s->is_code || !relative ||
			    !begins_call(decoder, i, reloc->offset, place, &at)) {
				*address_taken = true;
				continue;
			}
			err = add(list, i, at.address);
			if (err)
				return err;
		}
	}
	return 0;
}

static int by_bytes(const struct ins_image *image, struct ins_decoder *decoder,
		    struct ins_place place, struct list *list)
{
	const struct ins_section *s = &image->sections[place.section];

	for (uint64_t at = 1; at + 4 <= s->size; at++) {
		const struct ins_reloc *r;
		struct ins_place found;
		int32_t distance;
		int err;

		/* Cheapest test first: this looks at every byte of the code. */
		memcpy(&distance, s->data + at, 4);
		if (at + 4 + (uint64_t)(int64_t)distance != place.address)
			continue;
		r = ins_reloc_from(s, at);
		if (r && r->offset < at + 4)
			continue;
		if (!begins_call(decoder, place.section, at, place, &found))
			continue;
		/* Between functions there is padding, which no call is. */
		if (image->function_count && !ins_function_at(image, found))
			continue;
		err = add(list, found.section, found.address);
		if (err)
			return err;
	}
	return 0;
}

int ins_references(const struct ins_image *image, struct ins_decoder *decoder,
		   struct ins_place place, struct ins_place **found, size_t *count,
		   bool *address_taken)
{
	struct list list = {.places = h2d_mem->calloc(FOUND_MAX, sizeof(*list.places))};
	int err = 0;

	*found = NULL;
	*count = 0;
	*address_taken = false;
	if (!list.places)
		return H2D_E_NOMEM;
	err = by_relocation(image, decoder, place, &list, address_taken);
	if (!err)
		err = by_bytes(image, decoder, place, &list);
	if (err) {
		free(list.places);
		return err;
	}
	*found = list.places;
	*count = list.count;
	return 0;
}
