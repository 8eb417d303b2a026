/* SPDX-License-Identifier: Apache-2.0 */
#include "synthetic.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lab/internal.h"

enum { BUFFER_BYTES = 4 << 20 };

static char scratch_path[256];

static void remove_scratch(void)
{
	lab_remove_tree(scratch_path);
}

const char *scratch(void)
{
	const char *base = getenv("TMPDIR");
	char name[256];

	if (scratch_path[0])
		return scratch_path;
	snprintf(name, sizeof(name), "%s/h2d-test-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(name))
		abort();
	snprintf(scratch_path, sizeof(scratch_path), "%s", name);
	atexit(remove_scratch);
	return scratch_path;
}

const char *in_scratch(const char *name)
{
	static char buffers[16][512];
	static unsigned next;
	char *buffer = buffers[next++ % 16];

	snprintf(buffer, 512, "%s/%s", scratch(), name);
	return buffer;
}

int write_bytes(const char *path, const void *data, size_t size)
{
	return lab_write_file(path, data, size) ? -1 : 0;
}

static void put(struct archive *a, const struct entry *e)
{
	struct archive_entry *entry = archive_entry_new();
	size_t size = e->kind == ENTRY_FILE ? strlen(e->content) : 0;
	unsigned mode = e->mode ? e->mode : 0644;

	archive_entry_set_pathname(entry, e->name);
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_perm(entry, mode);
	archive_entry_set_filetype(entry, AE_IFREG);
	switch (e->kind) {
	case ENTRY_FILE:
		break;
	case ENTRY_DIR:
		archive_entry_set_filetype(entry, AE_IFDIR);
		archive_entry_set_perm(entry, 0755);
		break;
	case ENTRY_SYMLINK:
		archive_entry_set_filetype(entry, AE_IFLNK);
		archive_entry_set_symlink(entry, e->content);
		break;
	case ENTRY_HARDLINK:
		archive_entry_set_hardlink(entry, e->content);
		break;
	case ENTRY_DEVICE:
		archive_entry_set_filetype(entry, AE_IFCHR);
		archive_entry_set_rdevmajor(entry, 1);
		archive_entry_set_rdevminor(entry, 3);
		break;
	}
	archive_write_header(a, entry);
	if (size)
		archive_write_data(a, e->content, size);
	archive_entry_free(entry);
}

/* Writes an archive to memory; the caller frees *data. */
static int to_memory(struct archive *a, const struct entry *entries, char **data, size_t *size)
{
	*data = malloc(BUFFER_BYTES);
	if (!*data || archive_write_open_memory(a, *data, BUFFER_BYTES, size) != ARCHIVE_OK)
		return -1;
	for (; entries->name; entries++)
		put(a, entries);
	return archive_write_free(a) == ARCHIVE_OK ? 0 : -1;
}

static int make_tar(int (*filter)(struct archive *), const struct entry *entries, char **data,
		    size_t *size)
{
	struct archive *a = archive_write_new();

	archive_write_set_format_gnutar(a);
	filter(a);
	return to_memory(a, entries, data, size);
}

static void put_bytes(struct archive *a, const char *name, const char *data, size_t size)
{
	struct archive_entry *entry = archive_entry_new();

	archive_entry_set_pathname(entry, name);
	archive_entry_set_size(entry, (la_int64_t)size);
	archive_entry_set_mode(entry, AE_IFREG | 0644);
	archive_write_header(a, entry);
	archive_write_data(a, data, size);
	archive_entry_free(entry);
}

int make_deb(const char *path, const char *control, const struct entry *entries)
{
	const struct entry control_entries[] = {{ENTRY_FILE, "./control", control, 0}, {0}};
	char *control_tar = NULL, *data_tar = NULL;
	size_t control_size, data_size;
	struct archive *a;
	int err;

	if (make_tar(archive_write_add_filter_gzip, control_entries, &control_tar,
		     &control_size) ||
	    make_tar(archive_write_add_filter_xz, entries, &data_tar, &data_size))
		return -1;
	a = archive_write_new();
	archive_write_set_format_ar_svr4(a);
	archive_write_open_filename(a, path);
	put_bytes(a, "debian-binary", "2.0\n", 4);
	put_bytes(a, "control.tar.gz", control_tar, control_size);
	put_bytes(a, "data.tar.xz", data_tar, data_size);
	err = archive_write_free(a) == ARCHIVE_OK ? 0 : -1;
	free(control_tar);
	free(data_tar);
	return err;
}

int make_pacman(const char *path, const char *pkginfo, const struct entry *entries)
{
	struct entry all[32] = {{ENTRY_FILE, ".PKGINFO", pkginfo, 0}};
	char *tar = NULL;
	size_t size, n = 1;
	int err;

	while (entries->name && n < 31)
		all[n++] = *entries++;
	err = make_tar(archive_write_add_filter_zstd, all, &tar, &size);
	if (!err)
		err = write_bytes(path, tar, size);
	free(tar);
	return err;
}

static void be32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

/* A header structure of string tags; returns its length. */
static size_t rpm_header(uint8_t *out, const uint32_t *tags, const char *const *values,
			 uint32_t count)
{
	static const uint8_t magic[8] = {0x8e, 0xad, 0xe8, 1};
	uint32_t offset = 0;
	uint8_t *store = out + 16 + count * 16;

	memcpy(out, magic, sizeof(magic));
	be32(out + 8, count);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *index = out + 16 + i * 16;

		be32(index, tags[i]);
		be32(index + 4, 6);
		be32(index + 8, offset);
		be32(index + 12, 1);
		memcpy(store + offset, values[i], strlen(values[i]) + 1);
		offset += (uint32_t)strlen(values[i]) + 1;
	}
	be32(out + 12, offset);
	return 16 + count * 16 + offset;
}

int make_rpm(const char *path, const char *name, const char *version, const char *release,
	     const char *architecture, const struct entry *entries)
{
	static const uint8_t lead[10] = {0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1};
	const uint32_t tags[] = {1000, 1001, 1002, 1022};
	const char *const values[] = {name, version, release, architecture};
	const uint32_t signature_tags[] = {1004};
	const char *const signature_values[] = {"unsigned"};
	uint8_t *out = calloc(1, BUFFER_BYTES);
	struct archive *a = archive_write_new();
	char *cpio = NULL;
	size_t cpio_size, at = 96;
	int err;

	if (!out)
		return -1;
	memcpy(out, lead, sizeof(lead));
	at += rpm_header(out + at, signature_tags, signature_values, 1);
	at = (at + 7) & ~(size_t)7;
	at += rpm_header(out + at, tags, values, 4);
	archive_write_set_format_cpio_newc(a);
	archive_write_add_filter_gzip(a);
	err = to_memory(a, entries, &cpio, &cpio_size);
	if (!err) {
		memcpy(out + at, cpio, cpio_size);
		err = write_bytes(path, out, at + cpio_size);
	}
	free(cpio);
	free(out);
	return err;
}
