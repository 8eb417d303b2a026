/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_abi_files h2d_abi */
/* BTF out of an ELF file, packed or not, and out of a boot image around it. */
#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <unistd.h>

#include "abi/kernel_image.h"
#include "btf_data.h"
#include "test.h"

static struct btf_data kernel, module;
static char directory[] = "/tmp/h2d-test-XXXXXX";
static const struct h2d_log silent;

struct blob {
	uint8_t data[1 << 16];
	size_t size;
};

static void put(struct blob *b, const void *data, size_t size)
{
	memcpy(b->data + b->size, data, size);
	b->size += size;
}

static const char *save(const char *name, const struct blob *b)
{
	static char paths[4][128];
	static int next;
	char *path = paths[next++ % 4];
	FILE *f;

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	f = fopen(path, "wb");
	if (!f || fwrite(b->data, 1, b->size, f) != b->size || fclose(f))
		abort();
	return path;
}

/* A 64-bit ELF file with one section of content, called `name`. */
static void make_elf(struct blob *out, const char *name, const struct btf_data *btf)
{
	char names[64] = "\0.shstrtab\0";
	const size_t names_size = 11 + strlen(name) + 1;
	Elf64_Shdr sections[3] = {{0}};
	Elf64_Ehdr header = {
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_ehsize = sizeof(header),
		.e_shentsize = sizeof(sections[0]),
		.e_shnum = 3,
		.e_shstrndx = 1,
	};

	strcpy(names + 11, name);
	sections[1] = (Elf64_Shdr){.sh_name = 1,
				   .sh_type = SHT_STRTAB,
				   .sh_offset = sizeof(header),
				   .sh_size = names_size};
	sections[2] = (Elf64_Shdr){.sh_name = 11,
				   .sh_type = SHT_PROGBITS,
				   .sh_offset = sizeof(header) + 64,
				   .sh_size = btf->size,
				   .sh_addralign = 1};
	header.e_shoff = (sections[2].sh_offset + btf->size + 7) / 8 * 8;
	memset(out, 0, sizeof(*out));
	put(out, &header, sizeof(header));
	put(out, names, 64);
	put(out, btf->bytes, btf->size);
	out->size = header.e_shoff;
	put(out, sections, sizeof(sections));
}

static void pack(struct blob *out, const struct blob *in, int filter)
{
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();

	out->size = 0;
	archive_write_add_filter(a, filter);
	archive_write_set_format_raw(a);
	archive_write_set_bytes_in_last_block(a, 1);
	archive_entry_set_filetype(entry, AE_IFREG);
	if (archive_write_open_memory(a, out->data, sizeof(out->data), &out->size) ||
	    archive_write_header(a, entry) ||
	    archive_write_data(a, in->data, in->size) != (la_ssize_t)in->size ||
	    archive_write_close(a))
		abort();
	archive_entry_free(entry);
	archive_write_free(a);
}

/* An x86 boot image: set-up sectors, some loader, the packed kernel, its size. */
static void make_bzimage(struct blob *out, const struct blob *packed)
{
	static const uint8_t loader[300] = {0xeb, 0x1f, 0x8b, 0x08, 0x28, 0xb5, 0x2f, 0xfd};
	const uint32_t offset = sizeof(loader), length = (uint32_t)packed->size + 4;

	memset(out, 0, sizeof(*out));
	out->data[0x1f1] = 1;
	memcpy(out->data + 0x202, "HdrS\x0f\x02", 6);
	memcpy(out->data + 0x248, &offset, 4);
	memcpy(out->data + 0x24c, &length, 4);
	out->size = 2 * 512;
	put(out, loader, sizeof(loader));
	put(out, packed->data, packed->size);
	put(out, "\x00\x10\x00\x00", 4);
	put(out, loader, sizeof(loader));
}

/* A compressed EFI image of another architecture. */
static void make_zboot(struct blob *out, const struct blob *packed)
{
	const uint32_t offset = 512, length = (uint32_t)packed->size;

	memset(out, 0, sizeof(*out));
	memcpy(out->data, "MZ\0\0zimg", 8);
	memcpy(out->data + 8, &offset, 4);
	memcpy(out->data + 12, &length, 4);
	out->size = offset;
	put(out, packed->data, packed->size);
	put(out, "\0\0\0\0", 4);
}

static void check_btf(const char *path, const struct btf_data *expected)
{
	size_t bytes = 0;
	void *data = NULL;

	CHECK_EQ(h2d_kernel_image_btf(path, &silent, &data, &bytes), 0);
	CHECK_EQ(bytes, expected->size);
	CHECK(data && bytes == expected->size && !memcmp(data, expected->bytes, bytes));
	free(data);
}

static void plain(void)
{
	struct blob b = {.size = kernel.size};

	memcpy(b.data, kernel.bytes, kernel.size);
	check_btf(save("btf", &b), &kernel);
	make_elf(&b, ".BTF", &kernel);
	check_btf(save("vmlinux", &b), &kernel);
}

static void packed(void)
{
	static const int filters[] = {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ,
				      ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_LZ4};
	static struct blob elf, stream, image;

	make_elf(&elf, ".BTF", &kernel);
	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		pack(&stream, &elf, filters[i]);
		check_btf(save("vmlinux.packed", &stream), &kernel);
		make_bzimage(&image, &stream);
		check_btf(save("vmlinuz", &image), &kernel);
		make_zboot(&image, &stream);
		check_btf(save("Image", &image), &kernel);
	}
}

static void signature(void)
{
	static struct blob elf, stream, image;
	struct h2d_signature s;
	const char *ko, *vmlinuz;
	struct btf_ids k;

	btf_kernel(&kernel, &k);
	btf_begin(&module, &kernel);
	btf_function(&module, H2D_SIGNATURE_FUNCTION, k.s32,
		     (uint32_t[]){k.notifier_p, k.u64, k.u64, k.boolean, k.void_p, k.page_pp,
				  k.range_pp, UINT32_MAX});
	btf_finish(&module);
	make_elf(&elf, ".BTF", &kernel);
	pack(&stream, &elf, ARCHIVE_FILTER_ZSTD);
	make_bzimage(&image, &stream);
	vmlinuz = save("vmlinuz", &image);
	make_elf(&elf, ".BTF", &module);
	pack(&stream, &elf, ARCHIVE_FILTER_XZ);
	ko = save("amdgpu.ko.xz", &stream);
	CHECK_EQ(h2d_signature_from_files(ko, vmlinuz, &silent, &s), 0);
	CHECK_EQ(s.value, H2D_HMM_SIGNATURE_PAGES);
	CHECK_EQ(h2d_signature_from_files(vmlinuz, vmlinuz, &silent, &s), H2D_E_NOT_FOUND);
}

static void refused(void)
{
	static struct blob b, cut;
	size_t bytes;
	void *data;

	CHECK_EQ(h2d_kernel_image_btf("/nowhere/vmlinuz", &silent, &data, &bytes),
		 H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_kernel_image_btf(directory, &silent, &data, &bytes), H2D_E_FORMAT);
	b.size = 5000;
	CHECK_EQ(h2d_kernel_image_btf(save("zeros", &b), &silent, &data, &bytes), H2D_E_FORMAT);
	CHECK(data == NULL);
	make_elf(&b, ".BTG", &kernel);
	CHECK_EQ(h2d_kernel_image_btf(save("no-btf", &b), &silent, &data, &bytes),
		 H2D_E_NOT_FOUND);
	make_elf(&b, ".BTF", &kernel);
	for (size_t size = 1; size < b.size; size += 37) {
		cut = b;
		cut.size = size;
		CHECK(h2d_kernel_image_btf(save("cut", &cut), &silent, &data, &bytes) != 0);
	}
	/* A section that claims to reach behind the file. */
	memset(b.data + b.size - sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), 0x7f, 8);
	CHECK(h2d_kernel_image_btf(save("long", &b), &silent, &data, &bytes) != 0);
}

int main(void)
{
	struct btf_ids ids;
	int status;

	btf_kernel(&kernel, &ids);
	if (!mkdtemp(directory))
		abort();
	RUN(plain);
	RUN(packed);
	RUN(signature);
	RUN(refused);
	status = TEST_DONE();
	if (!chdir(directory))
		for (const char *const *name =
			     (const char *const[]){"btf", "vmlinux", "vmlinux.packed",
						   "vmlinuz", "Image", "amdgpu.ko.xz", "zeros",
						   "no-btf", "cut", "long", NULL};
		     *name; name++)
			unlink(*name);
	rmdir(directory);
	return status;
}
