/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few tags of an RPM header that say which package it is. Layout: a 96-byte lead, a
 * signature header padded to eight bytes, the header proper; each header is 16 bytes (magic,
 * version, four reserved, index count, store size), the index (tag, type, offset, count,
 * big-endian) and the store (rpm's docs/manual/format_v4.md).
 */
#include "package/pkgfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAD_BYTES  96
#define INTRO_BYTES 16
#define INDEX_BYTES 16
#define INDEX_MAX   65536u
#define STORE_MAX   (256u << 20)
#define TYPE_STRING 6u
#define TAG_NAME    1000u
#define TAG_VERSION 1001u
#define TAG_RELEASE 1002u
#define TAG_ARCH    1022u

struct header {
	const uint8_t *index, *store;
	uint32_t index_count, store_bytes;
	size_t end; /* offset of the first byte after it */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The store of the header proper may end beyond what was read: `need_store` says if it must
 * not. */
static int read_header(const uint8_t *data, size_t size, size_t at, bool need_store,
		       struct header *header)
{
	static const uint8_t magic[3] = {0x8e, 0xad, 0xe8};
	size_t index_bytes, left;

	if (at > size || size - at < INTRO_BYTES || memcmp(data + at, magic, 3) != 0)
		return -1;
	header->index_count = be32(data + at + 8);
	header->store_bytes = be32(data + at + 12);
	if (header->index_count > INDEX_MAX || header->store_bytes > STORE_MAX)
		return -1;
	index_bytes = (size_t)header->index_count * INDEX_BYTES;
	left = size - at - INTRO_BYTES;
	if (index_bytes > left)
		return -1;
	header->index = data + at + INTRO_BYTES;
	header->store = header->index + index_bytes;
	left -= index_bytes;
	if (header->store_bytes > left) {
		if (need_store)
			return -1;
		header->store_bytes = (uint32_t)left;
	}
	header->end = at + INTRO_BYTES + index_bytes + header->store_bytes;
	return 0;
}

static const char *string_tag(const struct header *header, uint32_t tag)
{
	for (uint32_t i = 0; i < header->index_count; i++) {
		const uint8_t *entry = header->index + (size_t)i * INDEX_BYTES;
		uint32_t offset = be32(entry + 8);

		if (be32(entry) != tag)
			continue;
		if (be32(entry + 4) != TYPE_STRING || offset >= header->store_bytes ||
		    !memchr(header->store + offset, 0, header->store_bytes - offset))
			return NULL;
		return (const char *)header->store + offset;
	}
	return NULL;
}

int lab_rpm_metadata(const struct h2d_log *log, const uint8_t *data, size_t size,
		     struct lab_package *package)
{
	struct header signature, header;
	const char *name, *version, *release, *arch;
	size_t length;

	if (size < LEAD_BYTES || read_header(data, size, LEAD_BYTES, true, &signature) != 0 ||
	    read_header(data, size, (signature.end + 7) & ~(size_t)7, false, &header) != 0)
		return h2d_fail(log, H2D_E_FORMAT, "%s: damaged: its RPM header cannot be read",
				package->path);
	name = string_tag(&header, TAG_NAME);
	version = string_tag(&header, TAG_VERSION);
	release = string_tag(&header, TAG_RELEASE);
	arch = string_tag(&header, TAG_ARCH);
	if (!name || !version || !release || !arch)
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: damaged: its RPM header names no package", package->path);
	length = strlen(version) + strlen(release) + 2;
	package->name = strdup(name);
	package->architecture = strdup(arch);
	package->version = malloc(length);
	if (!package->name || !package->architecture || !package->version)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", package->path);
	snprintf(package->version, length, "%s-%s", version, release);
	return 0;
}
