/* SPDX-License-Identifier: Apache-2.0 */
/* The module as an ELF file: sections, symbols, relocations, jump labels. Nothing in it is
 * trusted; what points outside is left out or refused. */
#include <elf.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"

enum { SECTIONS_MAX = 65000, SYMBOLS_MAX = 4 << 20, RELOCS_MAX = 16 << 20, LABEL_BYTES = 16 };

/* No place in a module is further away; sums with it never overflow. */
static const int64_t addend_max = 1ll << 40;

static const char *string_at(const struct ins_section *strings, uint64_t offset)
{
	if (!strings || offset >= strings->size ||
	    !memchr(strings->data + offset, 0, strings->size - offset))
		return "";
	return (const char *)strings->data + offset;
}

/* A copy: in a hostile file the table need not be aligned. */
static bool section_header(Elf *elf, uint32_t index, GElf_Shdr *out)
{
	Elf_Scn *scn = elf_getscn(elf, index);

	return scn && gelf_getshdr(scn, out);
}

static int read_header(const char *name, const struct h2d_log *log, Elf *elf,
		       struct ins_image *image)
{
	Elf64_Ehdr *header = elf64_getehdr(elf);
	size_t sections;

	if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB)
		return h2d_fail(log, H2D_E_FORMAT, "%s: not a 64-bit little-endian ELF file",
				name);
	if (header->e_type != ET_REL)
		return h2d_fail(log, H2D_E_FORMAT, "%s: not a relocatable file, as modules are",
				name);
	if (elf_getshdrnum(elf, &sections) || sections < 2 || sections > SECTIONS_MAX)
		return h2d_fail(log, H2D_E_FORMAT, "%s: no table of sections", name);
	image->machine = header->e_machine;
	image->section_count = (uint32_t)sections;
	return 0;
}

static int read_sections(const char *name, const struct h2d_log *log, Elf *elf,
			 struct ins_image *image)
{
	GElf_Shdr header;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) || names >= image->section_count)
		return h2d_fail(log, H2D_E_FORMAT, "%s: no names of sections", name);
	image->sections = h2d_mem->calloc(image->section_count, sizeof(*image->sections));
	if (!image->sections)
		return h2d_fail(log, H2D_E_NOMEM, "%s: sections", name);
	for (uint32_t i = 1; i < image->section_count; i++) {
		struct ins_section *s = &image->sections[i];

		s->name = "";
		if (!section_header(elf, i, &header))
			return h2d_fail(log, H2D_E_FORMAT, "%s: section %u cannot be read",
					name, i);
		s->type = header.sh_type;
		s->is_code = header.sh_flags & SHF_EXECINSTR;
		if (header.sh_type == SHT_NOBITS || header.sh_type == SHT_NULL)
			continue;
		if (header.sh_offset > image->size ||
		    header.sh_size > image->size - header.sh_offset)
			return h2d_fail(log, H2D_E_FORMAT, "%s: section %u outside the file",
					name, i);
		s->data = image->bytes + header.sh_offset;
		s->size = header.sh_size;
	}
	image->sections[0].name = "";
	for (uint32_t i = 1; i < image->section_count; i++)
		if (section_header(elf, i, &header))
			image->sections[i].name =
				string_at(&image->sections[names], header.sh_name);
	return 0;
}

static uint32_t symbol_section(uint16_t index, uint32_t wide, uint32_t section_count)
{
	uint32_t section = index;

	if (index == SHN_XINDEX)
		section = wide;
	else if (index == SHN_UNDEF)
		return INS_UNDEFINED;
	else if (index >= SHN_LORESERVE)
		return INS_ABSOLUTE;
	return section < section_count ? section : INS_ABSOLUTE;
}

static int read_symbols(const char *name, const struct h2d_log *log, Elf *elf,
			struct ins_image *image)
{
	const struct ins_section *table = NULL, *strings = NULL, *wide = NULL;
	GElf_Shdr header;
	uint32_t at = 0;

	for (uint32_t i = 1; i < image->section_count; i++) {
		if (!section_header(elf, i, &header))
			continue;
		if (header.sh_type == SHT_SYMTAB && !table) {
			table = &image->sections[i];
			at = i;
			if (header.sh_link < image->section_count)
				strings = &image->sections[header.sh_link];
		}
	}
	for (uint32_t i = 1; table && i < image->section_count; i++) {
		if (section_header(elf, i, &header) && header.sh_type == SHT_SYMTAB_SHNDX &&
		    header.sh_link == at)
			wide = &image->sections[i];
	}
	if (!table || table->size / sizeof(Elf64_Sym) < 2)
		return 0;
	if (table->size / sizeof(Elf64_Sym) > SYMBOLS_MAX)
		return h2d_fail(log, H2D_E_FORMAT, "%s: too many symbols", name);
	image->symbol_count = (uint32_t)(table->size / sizeof(Elf64_Sym));
	image->symbols = h2d_mem->calloc(image->symbol_count, sizeof(*image->symbols));
	if (!image->symbols)
		return h2d_fail(log, H2D_E_NOMEM, "%s: symbols", name);
	for (uint32_t i = 0; i < image->symbol_count; i++) {
		struct ins_symbol *s = &image->symbols[i];
		uint32_t index = 0;
		Elf64_Sym raw;

		memcpy(&raw, table->data + i * sizeof(raw), sizeof(raw));
		if (wide && wide->size / 4 > i)
			memcpy(&index, wide->data + (size_t)i * 4, 4);
		s->name = string_at(strings, raw.st_name);
		s->value = raw.st_value;
		s->size = raw.st_size;
		s->type = ELF64_ST_TYPE(raw.st_info);
		s->bind = ELF64_ST_BIND(raw.st_info);
		s->section = symbol_section(raw.st_shndx, index, image->section_count);
		if (s->type == STT_SECTION && s->section && s->section != INS_ABSOLUTE)
			s->name = image->sections[s->section].name;
	}
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct ins_reloc *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int read_relocs(const char *name, const struct h2d_log *log, Elf *elf,
		       struct ins_image *image)
{
	for (uint32_t i = 1; i < image->section_count; i++) {
		const struct ins_section *table = &image->sections[i];
		size_t count = table->size / sizeof(Elf64_Rela), used = 0;
		struct ins_section *of;
		GElf_Shdr header;

		if (!section_header(elf, i, &header) || header.sh_type != SHT_RELA ||
		    !header.sh_info || !count || header.sh_info >= image->section_count)
			continue;
		of = &image->sections[header.sh_info];
		/* Of data only what is looked at. */
		if (!of->is_code && strcmp(of->name, "__jump_table") &&
		    strncmp(of->name, ".data", 5) && strncmp(of->name, ".rodata", 7))
			continue;
		if (of->relocs || count > RELOCS_MAX)
			return h2d_fail(log, H2D_E_FORMAT, "%s: relocations of section %u",
					name, header.sh_info);
		of->relocs = h2d_mem->malloc(count * sizeof(*of->relocs));
		if (!of->relocs)
			return h2d_fail(log, H2D_E_NOMEM, "%s: relocations", name);
		for (size_t r = 0; r < count; r++) {
			Elf64_Rela raw;

			memcpy(&raw, table->data + r * sizeof(raw), sizeof(raw));
			if (ELF64_R_SYM(raw.r_info) >= image->symbol_count ||
			    raw.r_offset >= of->size || raw.r_addend > addend_max ||
			    raw.r_addend < -addend_max)
				return h2d_fail(
					log, H2D_E_FORMAT,
					"%s: relocation %zu of section %u leads nowhere", name,
					r, header.sh_info);
			of->relocs[used++] =
				(struct ins_reloc){.offset = raw.r_offset,
						   .type = (uint32_t)ELF64_R_TYPE(raw.r_info),
						   .symbol = (uint32_t)ELF64_R_SYM(raw.r_info),
						   .addend = raw.r_addend};
		}
		of->reloc_count = used;
		qsort(of->relocs, used, sizeof(*of->relocs), by_offset);
	}
	return 0;
}

static int compare_places(struct ins_place a, struct ins_place b)
{
	if (a.section != b.section)
		return a.section < b.section ? -1 : 1;
	return a.address < b.address ? -1 : a.address > b.address;
}

static int by_place(const void *a, const void *b, void *symbols)
{
	const struct ins_symbol *table = symbols;
	const struct ins_symbol *x = &table[*(const uint32_t *)a];
	const struct ins_symbol *y = &table[*(const uint32_t *)b];
	int order = compare_places((struct ins_place){x->section, x->value},
				   (struct ins_place){y->section, y->value});

	return order ? order : (int)(x > y) - (int)(x < y);
}

static int list_functions(const char *name, const struct h2d_log *log, struct ins_image *image)
{
	image->functions =
		h2d_mem->malloc(((size_t)image->symbol_count + 1) * sizeof(*image->functions));
	if (!image->functions)
		return h2d_fail(log, H2D_E_NOMEM, "%s: functions", name);
	for (uint32_t i = 1; i < image->symbol_count; i++) {
		const struct ins_symbol *s = &image->symbols[i];

		if (s->type == STT_FUNC && s->section && s->section != INS_ABSOLUTE &&
		    image->sections[s->section].is_code &&
		    s->value < image->sections[s->section].size &&
		    strncmp(s->name, "__pfx_", 6))
			image->functions[image->function_count++] = i;
	}
	qsort_r(image->functions, image->function_count, sizeof(*image->functions), by_place,
		image->symbols);
	return 0;
}

static struct ins_place relative_place(const struct ins_image *image,
				       const struct ins_section *s, uint64_t offset)
{
	const struct ins_reloc *r = ins_reloc_from(s, offset);

	if (!r || r->offset != offset || r->type != R_X86_64_PC32)
		return (struct ins_place){0};
	return ins_symbol_place(image, r->symbol, r->addend);
}

static int by_code(const void *a, const void *b)
{
	const struct ins_label *x = a, *y = b;

	return compare_places(x->code, y->code);
}

/* struct jump_entry of include/linux/jump_label.h, relative since 4.20. */
static int read_labels(const char *name, const struct h2d_log *log, struct ins_image *image)
{
	const struct ins_section *s = ins_section_named(image, "__jump_table");
	size_t count = s ? s->size / LABEL_BYTES : 0;

	if (!count || !s->relocs)
		return 0;
	image->labels = h2d_mem->malloc(count * sizeof(*image->labels));
	if (!image->labels)
		return h2d_fail(log, H2D_E_NOMEM, "%s: jump labels", name);
	for (size_t i = 0; i < count; i++) {
		struct ins_label label = {relative_place(image, s, i * LABEL_BYTES),
					  relative_place(image, s, i * LABEL_BYTES + 4)};

		if (label.code.section && label.target.section)
			image->labels[image->label_count++] = label;
	}
	qsort(image->labels, image->label_count, sizeof(*image->labels), by_code);
	return 0;
}

int ins_image_open(const char *name, const void *data, size_t bytes, const struct h2d_log *log,
		   struct ins_image *image)
{
	Elf *elf = NULL;
	int err;

	*image = (struct ins_image){.bytes = data, .size = bytes};
	if (elf_version(EV_CURRENT) == EV_NONE)
		return h2d_fail(log, H2D_E_UNAVAILABLE, "libelf: %s", elf_errmsg(-1));
	elf = elf_memory((char *)(uintptr_t)data, bytes);
	if (!elf || elf_kind(elf) != ELF_K_ELF) {
		err = h2d_fail(log, H2D_E_FORMAT, "%s: not an ELF file", name);
		goto out;
	}
	err = read_header(name, log, elf, image);
	if (!err)
		err = read_sections(name, log, elf, image);
	if (!err)
		err = read_symbols(name, log, elf, image);
	if (!err)
		err = read_relocs(name, log, elf, image);
	if (!err)
		err = list_functions(name, log, image);
	if (!err)
		err = read_labels(name, log, image);
out:
	if (elf)
		elf_end(elf);
	if (err)
		ins_image_close(image);
	return err;
}

void ins_image_close(struct ins_image *image)
{
	for (uint32_t i = 0; image->sections && i < image->section_count; i++)
		free(image->sections[i].relocs);
	free(image->sections);
	free(image->symbols);
	free(image->functions);
	free(image->labels);
	*image = (struct ins_image){0};
}

const struct ins_section *ins_section_named(const struct ins_image *image, const char *name)
{
	for (uint32_t i = 1; i < image->section_count; i++)
		if (!strcmp(image->sections[i].name, name) && image->sections[i].data)
			return &image->sections[i];
	return NULL;
}

const struct ins_reloc *ins_reloc_from(const struct ins_section *section, uint64_t offset)
{
	size_t low = 0, high = section->reloc_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (section->relocs[mid].offset < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low < section->reloc_count ? &section->relocs[low] : NULL;
}

/* Index of the first function behind a place. */
static uint32_t functions_above(const struct ins_image *image, struct ins_place place)
{
	uint32_t low = 0, high = image->function_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct ins_symbol *s = &image->symbols[image->functions[mid]];

		if (compare_places((struct ins_place){s->section, s->value}, place) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

const struct ins_symbol *ins_function_at(const struct ins_image *image, struct ins_place place)
{
	uint32_t i = functions_above(image, place);
	const struct ins_symbol *s = i ? &image->symbols[image->functions[i - 1]] : NULL;

	if (!s || s->section != place.section || place.address - s->value >= s->size)
		return NULL;
	return s;
}

const struct ins_symbol *ins_function_begins(const struct ins_image *image,
					     struct ins_place place)
{
	uint32_t i = functions_above(image, place);
	const struct ins_symbol *s = i ? &image->symbols[image->functions[i - 1]] : NULL;

	return s && s->section == place.section && s->value == place.address ? s : NULL;
}

struct ins_place ins_symbol_place(const struct ins_image *image, uint32_t symbol,
				  int64_t addend)
{
	const struct ins_symbol *s = &image->symbols[symbol];

	if (!s->section || s->section == INS_ABSOLUTE)
		return (struct ins_place){0};
	return (struct ins_place){s->section, s->value + (uint64_t)addend};
}

const struct ins_label *ins_label_at(const struct ins_image *image, struct ins_place place)
{
	struct ins_label key = {.code = place};

	return image->label_count
		       ? bsearch(&key, image->labels, image->label_count, sizeof(key), by_code)
		       : NULL;
}

bool ins_name_is(const char *name, const char *base)
{
	size_t n = strlen(base);

	return !strncmp(name, base, n) && (!name[n] || name[n] == '.');
}

bool ins_name_is_cold(const char *name)
{
	return strstr(name, ".cold") != NULL;
}
