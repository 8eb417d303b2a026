/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mkckpt.h"

const struct type safetensors_types[] = {
	{"BOOL", 0, 1, 1},
	{"F4", 0, 2, 1},
	{"F6_E2M3", 0, 4, 3},
	{"F6_E3M2", 0, 4, 3},
	{"U8", 0, 1, 1},
	{"I8", 0, 1, 1},
	{"F8_E5M2", 0, 1, 1},
	{"F8_E4M3", 0, 1, 1},
	{"F8_E8M0", 0, 1, 1},
	{"F8_E4M3FNUZ", 0, 1, 1},
	{"F8_E5M2FNUZ", 0, 1, 1},
	{"I16", 0, 1, 2},
	{"U16", 0, 1, 2},
	{"F16", 0, 1, 2},
	{"BF16", 0, 1, 2},
	{"I32", 0, 1, 4},
	{"U32", 0, 1, 4},
	{"F32", 0, 1, 4},
	{"C64", 0, 1, 8},
	{"F64", 0, 1, 8},
	{"I64", 0, 1, 8},
	{"U64", 0, 1, 8},
	{0},
};

static void putf(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void putf(struct bytes *b, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_bytes(b, text, strlen(text));
}

static void put_json(struct bytes *b, const char *s, size_t bytes)
{
	put_bytes(b, "\"", 1);
	for (size_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\' || c < 0x20)
			putf(b, "\\u%04x", c);
		else
			put_bytes(b, &c, 1);
	}
	put_bytes(b, "\"", 1);
}

static void put_metadata(struct bytes *b, const struct maker *m)
{
	put_bytes(b, "\"__metadata__\":{", 16);
	for (size_t i = 0; i < m->metadata_count; i++) {
		const char *eq = strchr(m->metadata[i], '=');

		if (i)
			put_bytes(b, ",", 1);
		put_json(b, m->metadata[i], (size_t)(eq - m->metadata[i]));
		put_bytes(b, ":", 1);
		put_json(b, eq + 1, strlen(eq + 1));
	}
	put_bytes(b, "}", 1);
}

static struct bytes header(const struct maker *m, unsigned shard)
{
	struct bytes b = {0};
	uint64_t offset = 0;
	bool first = !m->metadata_count;

	put_bytes(&b, "{", 1);
	if (m->metadata_count)
		put_metadata(&b, m);
	for (size_t i = 0; i < m->count; i++) {
		const struct tensor *t = &m->tensors[i];

		if (t->shard != shard)
			continue;
		if (!first)
			put_bytes(&b, ",", 1);
		first = false;
		put_json(&b, t->name, t->name_bytes);
		putf(&b, ":{\"dtype\":\"%s\",\"shape\":[", t->type->name);
		for (unsigned k = 0; k < t->rank; k++)
			putf(&b, "%s%" PRIu64, k ? "," : "", t->shape[k]);
		putf(&b, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset,
		     offset + t->bytes);
		offset += t->bytes;
	}
	put_bytes(&b, "}", 1);
	/* Writers pad to 8; readers must not count on it. */
	while (m->unaligned ? b.len % 8 != 5 : b.len % 8 != 0)
		put_bytes(&b, " ", 1);
	return b;
}

static void write_file(const struct maker *m, unsigned shard, const char *path)
{
	struct bytes head = header(m, shard), length = {0};
	struct output o;

	put_le(&length, head.len, 8);
	output_open(&o, path, m->sync);
	output_put(&o, length.data, length.len);
	output_put(&o, head.data, head.len);
	for (size_t i = 0; i < m->count; i++)
		if (m->tensors[i].shard == shard)
			output_tensor(&o, m->seed, i, m->tensors[i].bytes);
	output_close(&o);
	free(head.data);
	free(length.data);
}

static void write_index(const struct maker *m, const char *path)
{
	struct bytes b = {0};
	struct output o;
	uint64_t total = 0;

	for (size_t i = 0; i < m->count; i++)
		total += m->tensors[i].bytes;
	putf(&b, "{\"metadata\":{\"total_size\":%" PRIu64 "},\"weight_map\":{", total);
	for (size_t i = 0; i < m->count; i++) {
		if (i)
			put_bytes(&b, ",", 1);
		put_json(&b, m->tensors[i].name, m->tensors[i].name_bytes);
		putf(&b, ":\"model-%05u-of-%05u.safetensors\"", m->tensors[i].shard + 1,
		     m->shards);
	}
	put_bytes(&b, "}}\n", 3);
	output_open(&o, path, m->sync);
	output_put(&o, b.data, b.len);
	output_close(&o);
	free(b.data);
}

void write_safetensors(const struct maker *m)
{
	char path[TEXT_MAX];

	if (m->shards < 2) {
		write_file(m, 0, m->out);
		return;
	}
	if (mkdir(m->out, 0777) && errno != EEXIST)
		die("%s: %s", m->out, strerror(errno));
	for (unsigned s = 0; s < m->shards; s++) {
		snprintf(path, sizeof(path), "%s/model-%05u-of-%05u.safetensors", m->out, s + 1,
			 m->shards);
		write_file(m, s, path);
	}
	snprintf(path, sizeof(path), "%s/model.safetensors.index.json", m->out);
	write_index(m, path);
}
