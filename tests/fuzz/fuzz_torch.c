/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes given to the reader of PyTorch archives. Input that does not begin like a zip is
 * taken for a pickle and put into an archive with storages "0" to "7", since a mutated pickle
 * inside a mutated zip is rarely reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "walk.h"

enum { STORAGE_BYTES = 128, RECORDS = 10, ARCHIVE_MAX_BYTES = 4096 };

struct out {
	uint8_t *data;
	size_t n;
};

static void put(struct out *o, const void *data, size_t n)
{
	if (n)
		memcpy(o->data + o->n, data, n);
	o->n += n;
}

static void put_number(struct out *o, uint64_t v, size_t width)
{
	put(o, &v, width);
}

/* A local header with its bytes, or (directory) the entry that points to it. */
static void put_record(struct out *o, const char *name, const void *data, size_t n, size_t at,
		       int directory)
{
	size_t len = strlen(name);

	put(o, directory ? "PK\1\2\0\0" : "PK\3\4", directory ? 6 : 4);
	put_number(o, 0, 8);
	put_number(o, 0, 6);
	put_number(o, n, 4);
	put_number(o, n, 4);
	put_number(o, len, 2);
	put_number(o, 0, directory ? 8 : 2);
	if (directory) {
		put_number(o, 0, 4);
		put_number(o, at, 4);
	}
	put(o, name, len);
	if (!directory)
		put(o, data, n);
}

/* The pickle, storages "0" to "7" and, for odd lengths, what makes it TorchScript. */
static void put_archive(struct out *o, const uint8_t *pickle, size_t bytes)
{
	static const uint8_t zero[STORAGE_BYTES];
	char name[RECORDS][16];
	size_t at[RECORDS], count = bytes & 1 ? RECORDS : RECORDS - 1, directory, end;

	for (size_t i = 0; i < count; i++) {
		snprintf(name[i], sizeof(name[i]), "a/%s/%zu",
			 i == RECORDS - 1 ? "code" : "data", i - 1);
		at[i] = o->n;
		put_record(o, i ? name[i] : "a/data.pkl", i ? zero : pickle,
			   i ? STORAGE_BYTES : bytes, 0, 0);
	}
	directory = o->n;
	for (size_t i = 0; i < count; i++)
		put_record(o, i ? name[i] : "a/data.pkl", NULL, i ? STORAGE_BYTES : bytes,
			   at[i], 1);
	end = o->n;
	put(o, "PK\5\6\0\0\0", 8);
	put_number(o, count, 2);
	put_number(o, count, 2);
	put_number(o, end - directory, 4);
	put_number(o, directory, 4);
	put_number(o, 0, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct out o = {0};

	if (bytes >= 2 && data[0] == 'P' && data[1] == 'K') {
		walk_memory(data, bytes);
		return 0;
	}
	o.data = malloc(bytes + ARCHIVE_MAX_BYTES);
	if (!o.data)
		return 0;
	put_archive(&o, data, bytes);
	walk_memory(o.data, o.n);
	free(o.data);
	return 0;
}
