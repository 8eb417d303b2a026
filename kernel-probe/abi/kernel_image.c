/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "kernel_image.h"
#include "whole_file.h"

enum {
	/* Documentation/arch/x86/boot.rst: fields of the setup header. */
	SETUP_SECTORS = 0x1f1,
	SETUP_MAGIC = 0x202, /* "HdrS" */
	SETUP_VERSION = 0x206,
	SETUP_PAYLOAD_OFFSET = 0x248,
	SETUP_PAYLOAD_LENGTH = 0x24c,
	SETUP_VERSION_PAYLOAD = 0x208, /* since protocol 2.08 */
	SECTOR_BYTES = 512,
	SETUP_SECTORS_DEFAULT = 4,
	ZBOOT_MAGIC = 4, /* "zimg" */
	ZBOOT_OFFSET = 8,
	ZBOOT_LENGTH = 12,
	ZBOOT_HEADER_BYTES = 64,
};

static const size_t file_max = 512u << 20, unpacked_max = 1u << 30;

struct bytes {
	uint8_t *data;
	size_t size;
};

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int read_file(const char *path, const struct h2d_log *log, struct bytes *out)
{
	void *data;
	int err = h2d_whole_file_read(path, file_max, log, &data, &out->size);

	out->data = data;
	return err;
}

static bool is_elf(const struct bytes *b)
{
	return b->size > SELFMAG && !memcmp(b->data, ELFMAG, SELFMAG);
}

static bool is_btf(const struct bytes *b)
{
	return b->size > 2 && b->data[0] == 0x9f && b->data[1] == 0xeb;
}

/* Append one block; false when memory or the bound is met. */
static bool append(struct bytes *out, size_t *capacity, const void *block, size_t size)
{
	if (size > unpacked_max - out->size)
		return false;
	if (out->size + size > *capacity) {
		size_t wanted = (out->size + size) * 2;
		uint8_t *grown = h2d_mem->realloc(out->data, wanted);

		if (!grown)
			return false;
		out->data = grown;
		*capacity = wanted;
	}
	memcpy(out->data + out->size, block, size);
	out->size += size;
	return true;
}

/* Unpack a stream of any kind that libarchive knows; its end must be that of the bytes. */
static bool unpack(const uint8_t *data, size_t size, struct bytes *out)
{
	struct archive *archive = archive_read_new();
	int status = ARCHIVE_FATAL;
	struct archive_entry *entry;
	const void *block;
	size_t block_size, capacity = 0;
	int64_t offset;

	*out = (struct bytes){0};
	if (!archive)
		return false;
	archive_read_support_filter_all(archive);
	archive_read_support_format_raw(archive);
	if (archive_read_open_memory(archive, data, size) == ARCHIVE_OK &&
	    archive_read_next_header(archive, &entry) == ARCHIVE_OK &&
	    archive_filter_count(archive) > 1)
		while ((status = archive_read_data_block(archive, &block, &block_size,
							 &offset)) == ARCHIVE_OK)
			if (!append(out, &capacity, block, block_size))
				break;
	archive_read_free(archive);
	return status == ARCHIVE_EOF;
}

/* Unpack into *out if that gives an ELF file. */
static bool unpack_elf(const uint8_t *data, size_t size, struct bytes *out)
{
	if (unpack(data, size, out) && is_elf(out))
		return true;
	free(out->data);
	*out = (struct bytes){0};
	return false;
}

/* The compressed vmlinux inside an x86 boot image. */
static bool bzimage_payload(const struct bytes *file, size_t *offset, size_t *length)
{
	const uint8_t *p = file->data;
	uint64_t sectors, at;

	if (file->size < SETUP_PAYLOAD_LENGTH + 4 || memcmp(p + SETUP_MAGIC, "HdrS", 4) ||
	    (p[SETUP_VERSION] | p[SETUP_VERSION + 1] << 8) < SETUP_VERSION_PAYLOAD)
		return false;
	sectors = p[SETUP_SECTORS] ? p[SETUP_SECTORS] : SETUP_SECTORS_DEFAULT;
	at = (sectors + 1) * SECTOR_BYTES + u32_at(p + SETUP_PAYLOAD_OFFSET);
	*length = u32_at(p + SETUP_PAYLOAD_LENGTH);
	*offset = at;
	return at < file->size && *length <= file->size - at;
}

/* The payload of a compressed EFI image (drivers/firmware/efi/libstub/zboot-header.S). */
static bool zboot_payload(const struct bytes *file, size_t *offset, size_t *length)
{
	if (file->size < ZBOOT_HEADER_BYTES || memcmp(file->data, "MZ", 2) ||
	    memcmp(file->data + ZBOOT_MAGIC, "zimg", 4))
		return false;
	*offset = u32_at(file->data + ZBOOT_OFFSET);
	*length = u32_at(file->data + ZBOOT_LENGTH);
	return *offset < file->size && *length <= file->size - *offset;
}

/* Replace a file's bytes by those of the ELF file that it holds. */
static bool find_elf(struct bytes *file)
{
	struct bytes unpacked;
	size_t offset, length;

	if (is_elf(file))
		return true;
	if (bzimage_payload(file, &offset, &length) || zboot_payload(file, &offset, &length)) {
		/* The kernel's build appends the unpacked size to most kinds of stream. */
		if (!unpack_elf(file->data + offset, length, &unpacked) &&
		    (length < 4 || !unpack_elf(file->data + offset, length - 4, &unpacked)))
			return false;
	} else if (!unpack_elf(file->data, file->size, &unpacked)) {
		return false;
	}
	free(file->data);
	*file = unpacked;
	return true;
}

/* The section's bytes moved to the front. */
static int take_section(struct bytes *elf, const char *name, const char *path,
			const struct h2d_log *log)
{
	int err = H2D_E_NOT_FOUND;
	Elf_Scn *section = NULL;
	size_t names;
	Elf *e;

	if (elf_version(EV_CURRENT) == EV_NONE)
		return h2d_fail(log, H2D_E_UNAVAILABLE, "libelf: %s", elf_errmsg(-1));
	e = elf_memory((char *)elf->data, elf->size);
	if (!e || elf_getshdrstrndx(e, &names)) {
		err = h2d_fail(log, H2D_E_FORMAT, "%s: %s", path, elf_errmsg(-1));
		goto out;
	}
	while (err == H2D_E_NOT_FOUND && (section = elf_nextscn(e, section))) {
		/* A copy: in a hostile file the table need not be aligned. */
		const char *found = NULL;
		GElf_Shdr header;

		if (gelf_getshdr(section, &header))
			found = elf_strptr(e, names, header.sh_name);
		if (!found || strcmp(found, name) || header.sh_type == SHT_NOBITS)
			continue;
		if (header.sh_offset > elf->size ||
		    header.sh_size > elf->size - header.sh_offset) {
			err = h2d_fail(log, H2D_E_FORMAT, "%s: section %s outside the file",
				       path, name);
			break;
		}
		memmove(elf->data, elf->data + header.sh_offset, header.sh_size);
		elf->size = header.sh_size;
		err = 0;
	}
	if (err == H2D_E_NOT_FOUND)
		h2d_fail(log, err, "%s: no section %s", path, name);
out:
	if (e)
		elf_end(e);
	return err;
}

static int give(int err, struct bytes *bytes, void **data, size_t *size)
{
	if (err) {
		free(bytes->data);
		*bytes = (struct bytes){0};
	}
	*data = bytes->data;
	*size = bytes->size;
	return err;
}

int h2d_kernel_image_elf(const char *path, const struct h2d_log *log, void **data,
			 size_t *bytes)
{
	struct bytes file = {0};
	int err = read_file(path, log, &file);

	if (!err && !find_elf(&file))
		err = h2d_fail(log, H2D_E_FORMAT, "%s: holds no ELF file that can be unpacked",
			       path);
	return give(err, &file, data, bytes);
}

int h2d_kernel_image_btf(const char *path, const struct h2d_log *log, void **data,
			 size_t *bytes)
{
	struct bytes file = {0};
	int err = read_file(path, log, &file);

	if (err || is_btf(&file))
		return give(err, &file, data, bytes);
	if (!find_elf(&file))
		err = h2d_fail(log, H2D_E_FORMAT, "%s: holds no ELF file that can be unpacked",
			       path);
	else
		err = take_section(&file, ".BTF", path, log);
	return give(err, &file, data, bytes);
}

int h2d_signature_from_files(const char *module_path, const char *kernel_path,
			     const struct h2d_log *log, struct h2d_signature *out)
{
	void *kernel = NULL, *module = NULL;
	size_t kernel_bytes, module_bytes;
	int err;

	h2d_signature_init(out);
	err = h2d_kernel_image_btf(kernel_path, log, &kernel, &kernel_bytes);
	if (!err)
		err = h2d_kernel_image_btf(module_path, log, &module, &module_bytes);
	if (!err)
		err = h2d_signature_from_bytes(module, module_bytes, kernel, kernel_bytes, log,
					       out);
	free(module);
	free(kernel);
	return err;
}
