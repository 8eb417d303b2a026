/* SPDX-License-Identifier: Apache-2.0 */
/* A module's bytes: from memory or a file, unpacked within bounds. */
#include <archive.h>
#include <archive_entry.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/whole_file.h"
#include "core/mem.h"
#include "file.h"

/* A module with debugging information has some 500 MiB; xz makes a seventh of one. */
static const size_t unpacked_max = 1u << 30, unpacked_base = 64u << 20;
enum { RATIO_MAX = 64, BLOCK_BYTES = 256 << 10 };

static const char *compression_of(const uint8_t *p, size_t bytes)
{
	if (bytes >= 6 && !memcmp(p,
				  "\xfd"
				  "7zXZ\0",
				  6))
		return "xz";
	if (bytes >= 4 && !memcmp(p, "\x28\xb5\x2f\xfd", 4))
		return "zstd";
	if (bytes >= 2 && !memcmp(p, "\x1f\x8b", 2))
		return "gzip";
	return NULL;
}

static int too_large(const struct h2d_log *log, const char *name, size_t limit)
{
	return h2d_fail(log, H2D_E_FORMAT,
			"%s: unpacks to more than %zu MiB, which no module of its size does",
			name, limit >> 20);
}

/* What so many packed bytes may unpack to. */
static size_t unpacked_limit(size_t packed_bytes)
{
	return packed_bytes < unpacked_max / RATIO_MAX
		       ? packed_bytes * RATIO_MAX + unpacked_base
		       : unpacked_max;
}

/* Appends what an opened archive gives, up to `limit` bytes. */
static int read_all(struct archive *a, const char *name, size_t limit,
		    const struct h2d_log *log, void **data, size_t *bytes)
{
	size_t capacity = BLOCK_BYTES, used = 0;
	uint8_t *buffer = h2d_mem->malloc(capacity);
	la_ssize_t n = 0;
	int err = 0;

	*data = NULL;
	*bytes = 0;
	while (buffer && (n = archive_read_data(a, buffer + used, capacity - used)) > 0) {
		uint8_t *grown;

		used += (size_t)n;
		if (used > limit) {
			err = too_large(log, name, limit);
			goto out;
		}
		if (used < capacity)
			continue;
		capacity = capacity * 2 > limit + 1 ? limit + 1 : capacity * 2;
		grown = h2d_mem->realloc(buffer, capacity);
		if (!grown) {
			err = h2d_fail(log, H2D_E_NOMEM, "%s: %zu bytes", name, capacity);
			goto out;
		}
		buffer = grown;
	}
	if (!buffer)
		err = h2d_fail(log, H2D_E_NOMEM, "%s: %zu bytes", name, capacity);
	else if (n < 0)
		err = h2d_fail(log, H2D_E_FORMAT, "%s: damaged: %s", name,
			       archive_error_string(a));
out:
	if (err) {
		free(buffer);
		return err;
	}
	*data = buffer;
	*bytes = used;
	return 0;
}

int ins_unpack(const char *name, const void *packed, size_t packed_bytes,
	       const struct h2d_log *log, void **data, size_t *bytes, const char **compression)
{
	struct archive_entry *entry;
	struct archive *a;
	int err;

	*data = NULL;
	*bytes = 0;
	*compression = compression_of(packed, packed_bytes);
	if (!*compression) {
		*compression = "none";
		return 0;
	}
	a = archive_read_new();
	if (!a)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", name);
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_raw(a);
	if (archive_read_open_memory(a, packed, packed_bytes) != ARCHIVE_OK ||
	    archive_read_next_header(a, &entry) != ARCHIVE_OK)
		err = h2d_fail(log, H2D_E_FORMAT, "%s: damaged: %s", name,
			       archive_error_string(a));
	else
		err = read_all(a, name, unpacked_limit(packed_bytes), log, data, bytes);
	archive_read_free(a);
	return err;
}

int ins_read_entry(struct archive *archive, size_t packed_bytes, const char *name,
		   const struct h2d_log *log, void **data, size_t *bytes)
{
	return read_all(archive, name, unpacked_limit(packed_bytes), log, data, bytes);
}

int ins_read_file(const char *path, const struct h2d_log *log, void **data, size_t *bytes)
{
	return h2d_whole_file_read(path, unpacked_max, log, data, bytes);
}
