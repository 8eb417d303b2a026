/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "mkckpt.h"

const struct type gguf_types[] = {
	{"F32", 0, 1, 4},	  {"F16", 1, 1, 2},	    {"Q4_0", 2, 32, 18},
	{"Q4_1", 3, 32, 20},	  {"Q5_0", 6, 32, 22},	    {"Q5_1", 7, 32, 24},
	{"Q8_0", 8, 32, 34},	  {"Q8_1", 9, 32, 36},	    {"Q2_K", 10, 256, 84},
	{"Q3_K", 11, 256, 110},	  {"Q4_K", 12, 256, 144},   {"Q5_K", 13, 256, 176},
	{"Q6_K", 14, 256, 210},	  {"Q8_K", 15, 256, 292},   {"IQ2_XXS", 16, 256, 66},
	{"IQ2_XS", 17, 256, 74},  {"IQ3_XXS", 18, 256, 98}, {"IQ1_S", 19, 256, 50},
	{"IQ4_NL", 20, 32, 18},	  {"IQ3_S", 21, 256, 110},  {"IQ2_S", 22, 256, 82},
	{"IQ4_XS", 23, 256, 136}, {"I8", 24, 1, 1},	    {"I16", 25, 1, 2},
	{"I32", 26, 1, 4},	  {"I64", 27, 1, 8},	    {"F64", 28, 1, 8},
	{"IQ1_M", 29, 256, 56},	  {"BF16", 30, 1, 2},	    {"TQ1_0", 34, 256, 54},
	{"TQ2_0", 35, 256, 66},	  {"MXFP4", 39, 32, 17},    {"NVFP4", 40, 64, 36},
	{"Q1_0", 41, 128, 18},	  {"Q2_0", 42, 64, 18},	    {0},
};

enum { KV_U16 = 2, KV_U32 = 4, KV_I32 = 5, KV_STRING = 8, KV_ARRAY = 9 };

static void put_string(struct bytes *b, const char *s, size_t bytes)
{
	put_le(b, bytes, 8);
	put_bytes(b, s, bytes);
}

static void put_kv(struct bytes *b, const char *key, unsigned type, uint64_t value,
		   unsigned bytes)
{
	put_string(b, key, strlen(key));
	put_le(b, type, 4);
	put_le(b, value, bytes);
}

static void put_text(struct bytes *b, const char *key, size_t key_bytes, const char *value)
{
	put_string(b, key, key_bytes);
	put_le(b, KV_STRING, 4);
	put_string(b, value, strlen(value));
}

static void put_array_head(struct bytes *b, const char *key, unsigned type, uint64_t count)
{
	put_string(b, key, strlen(key));
	put_le(b, KV_ARRAY, 4);
	put_le(b, type, 4);
	put_le(b, count, 8);
}

/* "key=3": key = [0, 1, 2] and key.text = ["t0", "t1", "t2"] */
static void put_arrays(struct bytes *b, const char *wish)
{
	uint64_t count = strtoull(strchr(wish, '=') + 1, NULL, 10);
	char key[256], text[32];

	snprintf(key, sizeof(key), "%.*s", (int)strcspn(wish, "="), wish);
	put_array_head(b, key, KV_I32, count);
	for (uint64_t i = 0; i < count; i++)
		put_le(b, i, 4);
	strncat(key, ".text", sizeof(key) - strlen(key) - 1);
	put_array_head(b, key, KV_STRING, count);
	for (uint64_t i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "t%llu", (unsigned long long)i);
		put_string(b, text, strlen(text));
	}
}

static uint64_t padded(uint64_t n, uint64_t alignment)
{
	return (n + alignment - 1) / alignment * alignment;
}

static struct bytes header(const struct maker *m, unsigned shard)
{
	struct bytes b = {0};
	uint64_t kvs = 2 + (m->alignment != 32), tensors = 0, offset = 0;

	for (size_t i = 0; i < m->count; i++)
		tensors += m->tensors[i].shard == shard;
	kvs += shard ? 0 : m->metadata_count + 2 * m->array_count;
	kvs += m->shards > 1 ? 3 : 0;
	put_bytes(&b, "GGUF", 4);
	put_le(&b, 3, 4);
	put_le(&b, tensors, 8);
	put_le(&b, kvs, 8);
	put_text(&b, "general.architecture", 20, "synthetic");
	put_text(&b, "general.name", 12, "made by h2d-mkckpt");
	if (m->alignment != 32)
		put_kv(&b, "general.alignment", KV_U32, m->alignment, 4);
	for (size_t i = 0; !shard && i < m->metadata_count; i++) {
		const char *eq = strchr(m->metadata[i], '=');

		put_text(&b, m->metadata[i], (size_t)(eq - m->metadata[i]), eq + 1);
	}
	for (size_t i = 0; !shard && i < m->array_count; i++)
		put_arrays(&b, m->arrays[i]);
	if (m->shards > 1) {
		put_kv(&b, "split.no", KV_U16, shard, 2);
		put_kv(&b, "split.count", KV_U16, m->shards, 2);
		put_kv(&b, "split.tensors.count", KV_I32, m->count, 4);
	}
	for (size_t i = 0; i < m->count; i++) {
		const struct tensor *t = &m->tensors[i];

		if (t->shard != shard)
			continue;
		put_string(&b, t->name, t->name_bytes);
		put_le(&b, t->rank, 4);
		for (unsigned k = t->rank; k > 0; k--)
			put_le(&b, t->shape[k - 1], 8);
		put_le(&b, t->type->id, 4);
		put_le(&b, offset, 8);
		offset += padded(t->bytes, m->alignment);
	}
	while (b.len % m->alignment)
		put_bytes(&b, "", 1);
	return b;
}

static void write_file(const struct maker *m, unsigned shard, const char *path)
{
	struct bytes head = header(m, shard);
	struct output o;

	output_open(&o, path, m->sync);
	output_put(&o, head.data, head.len);
	for (size_t i = 0; i < m->count; i++) {
		const struct tensor *t = &m->tensors[i];

		if (t->shard != shard)
			continue;
		output_tensor(&o, m->seed, i, t->bytes);
		output_zeros(&o, padded(t->bytes, m->alignment) - t->bytes);
	}
	output_close(&o);
	free(head.data);
}

void write_gguf(const struct maker *m)
{
	char path[TEXT_MAX];
	int stem = (int)strlen(m->out);

	for (size_t i = 0; i < m->count; i++)
		if (m->tensors[i].rank > 4)
			die("%s: GGUF has at most 4 dimensions", m->tensors[i].name);
	if (m->shards < 2) {
		write_file(m, 0, m->out);
		return;
	}
	if (stem > 5 && !strcmp(m->out + stem - 5, ".gguf"))
		stem -= 5;
	for (unsigned s = 0; s < m->shards; s++) {
		snprintf(path, sizeof(path), "%.*s-%05u-of-%05u.gguf", stem, m->out, s + 1,
			 m->shards);
		write_file(m, s, path);
	}
}
