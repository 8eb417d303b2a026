/* SPDX-License-Identifier: Apache-2.0 */
/* A PyTorch zip archive of a flat state dict: every entry stored, every record at a multiple of
 * 64, as torch.save() lays it out. The pickle is protocol 2. */
#include <stdlib.h>
#include <string.h>

#include "mkckpt.h"

struct entry {
	char name[64];
	uint64_t bytes, header_offset;
	uint32_t crc;
};

/* The CRC of zip, a bit at a time: only small entries have one. */
static uint32_t crc32_of(const unsigned char *p, size_t n)
{
	uint32_t c = UINT32_MAX;

	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ UINT32_C(0xedb88320) : c >> 1;
	}
	return ~c;
}

static void put_unicode(struct bytes *b, const char *s, size_t bytes)
{
	put_bytes(b, "X", 1);
	put_le(b, bytes, 4);
	put_bytes(b, s, bytes);
}

static void put_text(struct bytes *b, const char *s)
{
	put_bytes(b, s, strlen(s));
}

static void put_int(struct bytes *b, uint64_t v)
{
	if (v < 256) {
		put_text(b, "K");
		put_le(b, v, 1);
	} else if (v <= INT32_MAX) {
		put_text(b, "J");
		put_le(b, v, 4);
	} else {
		put_bytes(b, "\x8a\x08", 2); /* LONG1; our sizes leave the sign bit clear */
		put_le(b, v, 8);
	}
}

static const char *storage_name(const char *dtype)
{
	static const char *const names[][2] = {
		{"F32", "FloatStorage"},    {"F64", "DoubleStorage"}, {"F16", "HalfStorage"},
		{"I64", "LongStorage"},	    {"I32", "IntStorage"},    {"I16", "ShortStorage"},
		{"I8", "CharStorage"},	    {"U8", "ByteStorage"},    {"BOOL", "BoolStorage"},
		{"BF16", "BFloat16Storage"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i][0], dtype))
			return names[i][1];
	die("%s has no storage type in torch", dtype);
}

static const char ordered_dict[] = "ccollections\nOrderedDict\n)R";

static void put_tensor(struct bytes *b, const struct tensor *t, size_t key)
{
	uint64_t elements = t->bytes / t->type->bytes, stride = elements;
	char text[128];

	put_unicode(b, t->name, t->name_bytes);
	put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
	put_unicode(b, "storage", 7);
	snprintf(text, sizeof(text), "ctorch\n%s\n", storage_name(t->type->name));
	put_text(b, text);
	snprintf(text, sizeof(text), "%zu", key);
	put_unicode(b, text, strlen(text));
	put_unicode(b, "cpu", 3);
	put_int(b, elements);
	put_text(b, "tQK");
	put_le(b, 0, 1);
	put_text(b, "(");
	for (unsigned k = 0; k < t->rank; k++)
		put_int(b, t->shape[k]);
	put_text(b, "t(");
	for (unsigned k = 0; k < t->rank; k++) {
		stride = t->shape[k] ? stride / t->shape[k] : 0;
		put_int(b, stride);
	}
	put_text(b, "t\x89");
	put_text(b, ordered_dict);
	put_text(b, "tR");
}

static struct bytes pickle(const struct maker *m)
{
	struct bytes b = {0};

	put_bytes(&b, "\x80\x02", 2);
	put_text(&b, ordered_dict);
	put_text(&b, "(");
	for (size_t i = 0; i < m->count; i++)
		put_tensor(&b, &m->tensors[i], i);
	put_text(&b, "u.");
	return b;
}

/* Local header, with an extra field that moves the record to a multiple of 64. */
static void begin_entry(struct output *o, struct entry *e)
{
	struct bytes b = {0};
	size_t name = strlen(e->name), extra;

	e->header_offset = o->written;
	if (e->bytes >= UINT32_MAX || o->written >= UINT32_MAX)
		die("torch archives of more than 4 GiB are not made here");
	extra = (64 - (o->written + 30 + name + 4) % 64) % 64 + 4;
	put_bytes(&b, "PK\3\4", 4);
	put_le(&b, 0, 2 + 2 + 2 + 2); /* version, flags, stored, time */
	put_le(&b, 0, 2);
	put_le(&b, e->crc, 4);
	put_le(&b, e->bytes, 4);
	put_le(&b, e->bytes, 4);
	put_le(&b, name, 2);
	put_le(&b, extra, 2);
	put_bytes(&b, e->name, name);
	put_bytes(&b, "FB", 2);
	put_le(&b, extra - 4, 2);
	for (size_t i = 4; i < extra; i++)
		put_bytes(&b, "Z", 1);
	output_put(o, b.data, b.len);
	free(b.data);
}

static void put_small(struct output *o, struct entry *e, const char *name, const void *data,
		      size_t bytes)
{
	snprintf(e->name, sizeof(e->name), "archive/%s", name);
	e->bytes = bytes;
	e->crc = crc32_of(data, bytes);
	begin_entry(o, e);
	output_put(o, data, bytes);
}

static void put_directory(struct output *o, const struct entry *entries, size_t count)
{
	struct bytes b = {0};
	uint64_t at = o->written, length;

	for (size_t i = 0; i < count; i++) {
		const struct entry *e = &entries[i];

		put_bytes(&b, "PK\1\2", 4);
		put_le(&b, 0, 8); /* versions, flags, stored */
		put_le(&b, 0, 4); /* time and date */
		put_le(&b, e->crc, 4);
		put_le(&b, e->bytes, 4);
		put_le(&b, e->bytes, 4);
		put_le(&b, strlen(e->name), 2);
		put_le(&b, 0, 8); /* extra, comment, disk, internal attributes */
		put_le(&b, 0, 4);
		put_le(&b, e->header_offset, 4);
		put_bytes(&b, e->name, strlen(e->name));
	}
	length = b.len;
	if (count > UINT16_MAX)
		die("torch archives of more than 65535 entries are not made here");
	put_bytes(&b, "PK\5\6", 4);
	put_le(&b, 0, 4);
	put_le(&b, count, 2);
	put_le(&b, count, 2);
	put_le(&b, length, 4);
	put_le(&b, at, 4);
	put_le(&b, 0, 2);
	output_put(o, b.data, b.len);
	free(b.data);
}

void write_torch(const struct maker *m)
{
	struct entry *entries = need(calloc(m->count + 3, sizeof(*entries)));
	struct bytes data = pickle(m);
	struct output o;
	size_t n = 0;

	output_open(&o, m->out, m->sync);
	put_small(&o, &entries[n++], "data.pkl", data.data, data.len);
	put_small(&o, &entries[n++], "byteorder", "little", 6);
	for (size_t i = 0; i < m->count; i++) {
		struct entry *e = &entries[n++];

		/* Newer writers of torch can leave the sum out as well. */
		snprintf(e->name, sizeof(e->name), "archive/data/%zu", i);
		e->bytes = m->tensors[i].bytes;
		begin_entry(&o, e);
		output_tensor(&o, m->seed, i, e->bytes);
	}
	put_small(&o, &entries[n++], "version", "3\n", 2);
	put_directory(&o, entries, n);
	output_close(&o);
	free(entries);
	free(data.data);
}
