/* SPDX-License-Identifier: Apache-2.0 */
/* What a module says about itself: .modinfo, build-id, compiler, signature, origin. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* scripts/sign-file.c: PKCS#7, struct module_signature (12 bytes), this text. */
static const char signature_text[] = "~Module signature appended~\n";

static void copy_text(char *out, size_t cap, const char *text, size_t bytes)
{
	size_t n = bytes < cap - 1 ? bytes : cap - 1;

	memcpy(out, text, n);
	out[n] = 0;
}

/* Value of "key=" in a section of strings; true when it is there. */
static bool modinfo(const struct ins_section *s, const char *key, char *out, size_t cap)
{
	size_t n = strlen(key);

	for (uint64_t at = 0; s && at < s->size;) {
		const char *text = (const char *)s->data + at;
		size_t length = strnlen(text, s->size - at);

		if (length > n && !memcmp(text, key, n) && text[n] == '=') {
			copy_text(out, cap, text + n + 1, length - n - 1);
			return true;
		}
		at += length + 1;
	}
	return false;
}

static void build_id(const struct ins_image *image, char *out, size_t cap)
{
	const struct ins_section *s = ins_section_named(image, ".note.gnu.build-id");
	Elf64_Nhdr note;
	size_t at;

	if (!s || s->size < sizeof(note))
		return;
	memcpy(&note, s->data, sizeof(note));
	at = sizeof(note) + (((size_t)note.n_namesz + 3) & ~(size_t)3);
	if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz > 16 || at > s->size ||
	    note.n_descsz > s->size - at || (size_t)note.n_descsz * 2 >= cap)
		return;
	for (uint32_t i = 0; i < note.n_descsz; i++)
		snprintf(out + (size_t)i * 2, 3, "%02x", s->data[at + i]);
}

/* Common name in the signature's issuer: OID 2.5.4.3 followed by a string. The last one is
 * that of the signer. This is for display; nothing is verified. */
static void read_signer(const uint8_t *data, size_t bytes, char *out, size_t cap)
{
	static const uint8_t oid[] = {0x06, 0x03, 0x55, 0x04, 0x03};

	for (size_t i = 0; i + sizeof(oid) + 2 < bytes; i++) {
		const uint8_t *p = data + i + sizeof(oid);

		if (memcmp(data + i, oid, sizeof(oid)) || p[1] >= 0x80 ||
		    (size_t)p[1] > bytes - i - sizeof(oid) - 2)
			continue;
		copy_text(out, cap, (const char *)p + 2, p[1]);
	}
}

static void signature(const struct ins_image *image, struct h2d_module_report *report)
{
	size_t end = sizeof(signature_text) - 1, length;
	const uint8_t *p;

	if (image->size < end + 12 ||
	    memcmp(image->bytes + image->size - end, signature_text, end))
		return;
	report->is_signed = true;
	p = image->bytes + image->size - end - 12;
	length = (size_t)p[8] << 24 | (size_t)p[9] << 16 | (size_t)p[10] << 8 | p[11];
	if (length <= image->size - end - 12)
		read_signer(p - length, length, report->signer, sizeof(report->signer));
}

enum h2d_module_origin ins_origin(const char *path, bool in_tree)
{
	if (strstr(path, "/updates/dkms/") || strstr(path, "/var/lib/dkms/") ||
	    strstr(path, "/extra/dkms/"))
		return H2D_ORIGIN_DKMS;
	if (strstr(path, "/updates/") || strstr(path, "/extra/") ||
	    strstr(path, "/weak-updates/"))
		return H2D_ORIGIN_UPDATES;
	if (strstr(path, "/kernel/drivers/"))
		return in_tree ? H2D_ORIGIN_IN_TREE : H2D_ORIGIN_REBUILT;
	return H2D_ORIGIN_UNKNOWN;
}

static const char *machine_name(unsigned machine, char *buf, size_t cap)
{
	switch (machine) {
	case EM_X86_64:
		return "x86_64";
	case EM_AARCH64:
		return "aarch64";
	case EM_RISCV:
		return "riscv64";
	case EM_PPC64:
		return "ppc64le";
	case EM_LOONGARCH:
		return "loongarch64";
	}
	snprintf(buf, cap, "machine-%u", machine);
	return buf;
}

static bool has_local_symbols(const struct ins_image *image)
{
	for (uint32_t i = 1; i < image->symbol_count; i++)
		if (image->symbols[i].type == STT_FUNC && image->symbols[i].bind == STB_LOCAL)
			return true;
	return false;
}

void ins_info_read(const struct ins_image *image, struct h2d_module_report *report)
{
	const struct ins_section *info = ins_section_named(image, ".modinfo");
	const struct ins_section *comment = ins_section_named(image, ".comment");
	char text[16] = "", machine[24];

	snprintf(report->machine, sizeof(report->machine), "%s",
		 machine_name(image->machine, machine, sizeof(machine)));
	modinfo(info, "name", report->name, sizeof(report->name));
	modinfo(info, "version", report->version, sizeof(report->version));
	modinfo(info, "srcversion", report->srcversion, sizeof(report->srcversion));
	modinfo(info, "vermagic", report->vermagic, sizeof(report->vermagic));
	report->in_tree = modinfo(info, "intree", text, sizeof(text)) && text[0] == 'Y';
	build_id(image, report->build_id, sizeof(report->build_id));
	if (comment && comment->size) {
		const char *c = (const char *)comment->data;
		size_t skip = c[0] ? 0 : 1;

		if (comment->size > skip)
			copy_text(report->compiler, sizeof(report->compiler), c + skip,
				  strnlen(c + skip, comment->size - skip));
	}
	signature(image, report);
	report->has_btf = ins_section_named(image, ".BTF") != NULL;
	report->has_symbols = has_local_symbols(image);
	report->origin = ins_origin(report->path, report->in_tree);
}
