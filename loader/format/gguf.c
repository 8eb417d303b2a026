/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF v2 and v3, little-endian. The layout is that of ggml's gguf.cpp (d99724f2); where that
 * reader leaves a later stage to find data past the file's end or lets a product of dimensions
 * wrap, this one refuses at once.
 */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "format/gguf_types.h"
#include "format/order.h"
#include "format/reader.h"

enum {
	HEADER_BYTES = 24,
	DIMS_MAX = 4,
	NAME_MAX_BYTES = 63, /* ggml keeps names in 64 bytes with their NUL */
	ALIGNMENT_DEFAULT = 32,
	KEY_MIN_BYTES = 8 + 1 + 4 + 1, /* length, one byte, type, one-byte value */
	TENSOR_MIN_BYTES = 8 + 4 + 4 + 8,
};

/* Longest string and most array elements that ggml takes. */
#define LENGTH_MAX ((uint64_t)1 << 30)

/* The numbers of GGUF's value types are those of our enum. */
_Static_assert(H2D_VALUE_U8 == 0 && H2D_VALUE_F32 == 6 && H2D_VALUE_BOOL == 7 &&
		       H2D_VALUE_STRING == 8 && H2D_VALUE_ARRAY == 9 && H2D_VALUE_U64 == 10 &&
		       H2D_VALUE_F64 == 12,
	       "value types");

static const uint8_t value_bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct gguf {
	struct h2d_reader r;
	struct h2d_catalogue *cat;
	uint64_t tensor_count, key_count;
	uint64_t first_tensor, first_key; /* where this file's part of the catalogue begins */
	uint64_t alignment;
	uint64_t *slots; /* hash of the keys so far: index in the catalogue + 1 */
	uint64_t slot_count;
};

static uint64_t key_slot(const struct gguf *g, const char *key, size_t bytes)
{
	uint64_t i = h2d_order_hash(g->cat, key, bytes) & (g->slot_count - 1);

	for (; g->slots[i]; i = (i + 1) & (g->slot_count - 1)) {
		const struct h2d_metadata *m = &g->cat->metadata[g->slots[i] - 1];

		if (m->key_bytes == bytes && !memcmp(m->key, key, bytes))
			break;
	}
	return i;
}

/* Note the catalogue's newest key; sets *taken when it was there before. */
static int remember_key(struct gguf *g, const char *key, size_t bytes, bool *taken)
{
	uint64_t known = g->cat->metadata_count - g->first_key - 1, i;

	if (2 * known >= g->slot_count) {
		uint64_t count = g->slot_count ? g->slot_count * 2 : 64;
		uint64_t *slots = h2d_mem->calloc(count, sizeof(*slots));

		if (!slots)
			return h2d_reader_nomem(&g->r);
		free(g->slots);
		g->slots = slots;
		g->slot_count = count;
		for (i = g->first_key; i < g->first_key + known; i++) {
			const struct h2d_metadata *m = &g->cat->metadata[i];

			slots[key_slot(g, m->key, m->key_bytes)] = i + 1;
		}
	}
	i = key_slot(g, key, bytes);
	*taken = g->slots[i] != 0;
	if (!*taken)
		g->slots[i] = g->cat->metadata_count;
	return 0;
}

static int read_length(struct gguf *g, uint64_t *bytes, const char *what)
{
	uint64_t at = g->r.pos;
	int rc = h2d_reader_u64(&g->r, bytes, what);

	if (rc)
		return rc;
	if (*bytes > LENGTH_MAX)
		return h2d_reader_fail(&g->r, at, "%s is %llu bytes long, more than 1 GiB",
				       what, (unsigned long long)*bytes);
	if (*bytes > h2d_reader_left(&g->r))
		return h2d_reader_fail(&g->r, at, "%s of %llu bytes passes the end of the file",
				       what, (unsigned long long)*bytes);
	return 0;
}

/* A string into the arena, NUL-terminated there. */
static int read_string(struct gguf *g, const char **s, uint64_t *bytes, const char *what)
{
	char *p;
	int rc = read_length(g, bytes, what);

	if (rc)
		return rc;
	p = h2d_arena_alloc(&g->cat->arena, (size_t)*bytes + 1);
	if (!p)
		return h2d_reader_nomem(&g->r);
	p[*bytes] = 0;
	*s = p;
	return h2d_reader_read(&g->r, p, *bytes, what);
}

/* Any non-zero byte is true to ggml; a C bool holding another value than 0 or 1 is not safe. */
static void clean_bools(unsigned char *v, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		v[i] = v[i] != 0;
}

struct buffer {
	unsigned char *data;
	size_t bytes, cap;
};

static bool buffer_room(struct buffer *b, size_t more)
{
	size_t need, cap = b->cap ? b->cap : 4096;
	void *p;

	if (__builtin_add_overflow(b->bytes, more, &need))
		return false;
	if (need <= b->cap)
		return true;
	while (cap < need)
		if (!h2d_mul_size(cap, 2, &cap))
			return false;
	p = h2d_mem->realloc(b->data, cap);
	if (!p)
		return false;
	b->data = p;
	b->cap = cap;
	return true;
}

/* Kept as it lies in the file: a u64 length and the bytes of each string. */
static int read_string_array(struct gguf *g, struct h2d_metadata *m)
{
	struct buffer b = {0};
	int rc = 0;

	for (uint64_t i = 0; i < m->count; i++) {
		uint64_t bytes;

		rc = read_length(g, &bytes, "a string of the array");
		if (rc)
			goto out;
		if (!buffer_room(&b, sizeof(bytes) + (size_t)bytes)) {
			rc = h2d_reader_nomem(&g->r);
			goto out;
		}
		memcpy(b.data + b.bytes, &bytes, sizeof(bytes));
		b.bytes += sizeof(bytes);
		rc = h2d_reader_read(&g->r, b.data + b.bytes, bytes, "a string of the array");
		if (rc)
			goto out;
		b.bytes += (size_t)bytes;
	}
	m->data = h2d_arena_copy(&g->cat->arena, b.data, b.bytes);
	m->data_bytes = b.bytes;
	if (!m->data)
		rc = h2d_reader_nomem(&g->r);
out:
	free(b.data);
	return rc;
}

static int read_plain(struct gguf *g, struct h2d_metadata *m, enum h2d_value_type type)
{
	uint64_t bytes = m->count * value_bytes[type]; /* count is at most 2^30 */
	unsigned char *p;
	int rc;

	if (bytes > h2d_reader_left(&g->r))
		return h2d_reader_fail(&g->r, g->r.pos,
				       "a value of %llu bytes passes the end of the file",
				       (unsigned long long)bytes);
	p = h2d_arena_alloc(&g->cat->arena, (size_t)bytes);
	if (!p)
		return h2d_reader_nomem(&g->r);
	rc = h2d_reader_read(&g->r, p, bytes, "a value");
	if (rc)
		return rc;
	if (type == H2D_VALUE_BOOL)
		clean_bools(p, bytes);
	m->data = p;
	m->data_bytes = (size_t)bytes;
	return 0;
}

static int read_array(struct gguf *g, struct h2d_metadata *m)
{
	uint64_t at = g->r.pos;
	uint32_t type;
	int rc = h2d_reader_u32(&g->r, &type, "an array's element type");

	if (rc)
		return rc;
	if (type == H2D_VALUE_ARRAY)
		return h2d_reader_fail(&g->r, at, "an array of arrays is not supported");
	if (type > H2D_VALUE_F64)
		return h2d_reader_fail(&g->r, at, "unknown array element type %d", (int)type);
	m->element_type = (enum h2d_value_type)type;
	at = g->r.pos;
	rc = h2d_reader_u64(&g->r, &m->count, "an array's length");
	if (rc)
		return rc;
	if (m->count > LENGTH_MAX)
		return h2d_reader_fail(&g->r, at, "an array of %llu elements, more than 2^30",
				       (unsigned long long)m->count);
	if (type == H2D_VALUE_STRING) {
		if (m->count > h2d_reader_left(&g->r) / sizeof(uint64_t))
			return h2d_reader_fail(&g->r, at,
					       "an array of %llu strings passes the end of the "
					       "file",
					       (unsigned long long)m->count);
		return read_string_array(g, m);
	}
	return read_plain(g, m, m->element_type);
}

static int read_value(struct gguf *g, struct h2d_metadata *m, uint32_t type)
{
	const char *s = NULL;
	uint64_t bytes;
	int rc;

	m->type = (enum h2d_value_type)type;
	m->count = 1;
	if (type == H2D_VALUE_ARRAY)
		return read_array(g, m);
	if (type != H2D_VALUE_STRING)
		return read_plain(g, m, m->type);
	rc = read_string(g, &s, &bytes, "a string value");
	if (rc)
		return rc;
	m->data = s;
	m->data_bytes = (size_t)bytes;
	return 0;
}

static int take_alignment(struct gguf *g, const struct h2d_metadata *m, uint64_t at)
{
	uint32_t v;

	if (m->key_bytes != strlen("general.alignment") ||
	    memcmp(m->key, "general.alignment", m->key_bytes))
		return 0;
	if (m->type != H2D_VALUE_U32)
		return h2d_reader_fail(&g->r, at, "the alignment must be of type u32");
	memcpy(&v, m->data, sizeof(v));
	if (!v || (v & (v - 1)))
		return h2d_reader_fail(&g->r, at, "the alignment %u is not a power of two", v);
	g->alignment = v;
	return 0;
}

static int read_key(struct gguf *g)
{
	uint64_t at = g->r.pos, bytes;
	struct h2d_metadata *m;
	const char *key = NULL;
	uint32_t type;
	bool taken = false;
	int rc;

	h2d_reader_subject(&g->r, "metadata", NULL, 0);
	rc = read_string(g, &key, &bytes, "a key");
	if (rc)
		return rc;
	if (!bytes)
		return h2d_reader_fail(&g->r, at, "an empty key");
	h2d_reader_subject(&g->r, "key", key, (size_t)bytes);
	m = h2d_catalogue_add_metadata(g->cat);
	if (!m)
		return h2d_reader_nomem(&g->r);
	m->key = key;
	m->key_bytes = (size_t)bytes;
	rc = remember_key(g, key, (size_t)bytes, &taken);
	if (rc)
		return rc;
	if (taken)
		return h2d_reader_fail(&g->r, at, "the key is given twice");
	at = g->r.pos;
	rc = h2d_reader_u32(&g->r, &type, "a value's type");
	if (rc)
		return rc;
	if (type > H2D_VALUE_F64)
		return h2d_reader_fail(&g->r, at, "unknown value type %d", (int)type);
	rc = read_value(g, m, type);
	return rc ? rc : take_alignment(g, m, at);
}

static int take_type(struct gguf *g, uint32_t id, uint64_t at,
		     const struct h2d_gguf_type **type)
{
	*type = h2d_gguf_type(id);
	if (*type && (*type)->block_bytes)
		return 0;
	if (id == 36)
		return h2d_reader_fail(&g->r, at,
				       "type 36 was removed from ggml (IQ4_NL_4_4) and is "
				       "I2_S in ik_llama.cpp");
	if (*type)
		return h2d_reader_fail(&g->r, at, "type %u (%s) was removed from ggml", id,
				       (*type)->name);
	if (h2d_gguf_type_is_ik(id))
		return h2d_reader_fail(&g->r, at, "type %u is an ik_llama.cpp type", id);
	return h2d_reader_fail(&g->r, at, "unknown tensor type %d", (int)id);
}

/* Dimensions come fastest first; the shape is kept outermost first. */
static int read_shape(struct gguf *g, struct h2d_tensor *t, uint64_t *elements)
{
	uint64_t at = g->r.pos, dims[DIMS_MAX];
	uint64_t *shape;
	int rc = h2d_reader_u32(&g->r, &t->rank, "the number of dimensions");

	if (rc)
		return rc;
	if (t->rank > DIMS_MAX)
		return h2d_reader_fail(&g->r, at, "%u dimensions, at most %d are allowed",
				       t->rank, DIMS_MAX);
	shape = h2d_arena_array(&g->cat->arena, t->rank, sizeof(*shape));
	if (!shape)
		return h2d_reader_nomem(&g->r);
	at = g->r.pos;
	rc = h2d_reader_read(&g->r, dims, t->rank * sizeof(*dims), "the dimensions");
	if (rc)
		return rc;
	*elements = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		if (dims[i] > INT64_MAX)
			return h2d_reader_fail(&g->r, at + 8 * i, "dimension %u is negative",
					       i);
		if (!h2d_mul_u64(*elements, dims[i], elements) || *elements >= INT64_MAX)
			return h2d_reader_fail(&g->r, at + 8 * i,
					       "the number of elements passes 2^63-1");
		shape[t->rank - 1 - i] = dims[i];
	}
	t->shape = shape;
	return 0;
}

static int read_tensor(struct gguf *g, uint64_t ordinal)
{
	struct h2d_tensor *t = h2d_catalogue_add_tensor(g->cat);
	const struct h2d_gguf_type *type;
	uint64_t at = g->r.pos, bytes, elements = 0, row;
	const char *name = NULL;
	uint32_t id;
	int rc;

	h2d_reader_subject(&g->r, "tensor list", NULL, 0);
	if (!t)
		return h2d_reader_nomem(&g->r);
	t->file = g->r.p->file_index;
	t->ordinal = (uint32_t)ordinal;
	t->entry_offset = at;
	rc = read_string(g, &name, &bytes, "a tensor's name");
	if (rc)
		return rc;
	h2d_reader_subject(&g->r, "tensor", name, (size_t)bytes);
	if (bytes > NAME_MAX_BYTES)
		return h2d_reader_fail(&g->r, at,
				       "a name of %llu bytes, at most %d are allowed",
				       (unsigned long long)bytes, NAME_MAX_BYTES);
	t->name = name;
	t->name_bytes = (uint32_t)bytes;
	t->name_hash = h2d_order_hash(g->cat, name, (size_t)bytes);
	rc = read_shape(g, t, &elements);
	if (rc)
		return rc;
	at = g->r.pos;
	rc = h2d_reader_u32(&g->r, &id, "the type");
	if (!rc)
		rc = take_type(g, id, at, &type);
	if (rc)
		return rc;
	t->dtype = type->name;
	row = t->rank ? t->shape[t->rank - 1] : 1;
	if (row % type->block_elements)
		return h2d_reader_fail(
			&g->r, at, "rows of %llu elements are not whole blocks of %u (%s)",
			(unsigned long long)row, type->block_elements, type->name);
	if (!h2d_mul_u64(elements / type->block_elements, type->block_bytes, &t->size_bytes))
		return h2d_reader_fail(&g->r, at, "the size passes 2^64 bytes");
	at = g->r.pos;
	rc = h2d_reader_u64(&g->r, &t->offset_bytes, "the offset");
	if (rc)
		return rc;
	if (t->offset_bytes % g->alignment)
		return h2d_reader_fail(&g->r, at, "offset %llu is not a multiple of %llu",
				       (unsigned long long)t->offset_bytes,
				       (unsigned long long)g->alignment);
	return 0;
}

/* Offsets become absolute; every extent must lie in the file. */
static int place_tensors(struct gguf *g)
{
	uint64_t size = g->r.p->file->id.size_bytes, begin, expect = 0;
	bool canonical = true;

	if (!g->tensor_count)
		return 0;
	h2d_reader_subject(&g->r, "header", NULL, 0);
	if (!h2d_align_up_u64(g->r.pos, g->alignment, &begin) || begin > size)
		return h2d_reader_fail(&g->r, g->r.pos,
				       "the data, aligned to %llu, begins past the end of the "
				       "file",
				       (unsigned long long)g->alignment);
	for (uint64_t i = g->first_tensor; i < g->cat->tensor_count; i++) {
		struct h2d_tensor *t = &g->cat->tensors[i];
		uint64_t relative = t->offset_bytes;

		h2d_reader_subject(&g->r, "tensor", t->name, t->name_bytes);
		if (!h2d_add_u64(begin, relative, &t->offset_bytes) || t->offset_bytes > size ||
		    t->size_bytes > size - t->offset_bytes)
			return h2d_reader_fail(
				&g->r, begin,
				"its %llu bytes at %llu after the data's begin pass the end of "
				"the file (%llu)",
				(unsigned long long)t->size_bytes, (unsigned long long)relative,
				(unsigned long long)size);
		canonical = canonical && relative == expect;
		if (!h2d_align_up_u64(relative + t->size_bytes, g->alignment, &expect))
			canonical = false;
	}
	if (!canonical)
		h2d_log_line(g->r.p->log, H2D_LOG_INFO,
			     "%s: tensors do not follow each other in listing order: valid, "
			     "but llama.cpp refuses such a file",
			     g->r.p->file->path);
	return 0;
}

static int read_header(struct gguf *g)
{
	unsigned char magic[4];
	uint32_t version;
	uint64_t at;
	int rc;

	if (h2d_reader_left(&g->r) < HEADER_BYTES)
		return h2d_reader_fail(&g->r, 0,
				       "the file is shorter than the %d bytes of a "
				       "GGUF header",
				       HEADER_BYTES);
	rc = h2d_reader_read(&g->r, magic, sizeof(magic), "the magic");
	if (rc)
		return rc;
	if (memcmp(magic, "GGUF", 4))
		return h2d_reader_fail(&g->r, 0, "the magic is not GGUF");
	at = g->r.pos;
	rc = h2d_reader_u32(&g->r, &version, "the version");
	if (rc)
		return rc;
	if (version && !(version & 0xffff))
		return h2d_reader_fail(&g->r, at,
				       "a big-endian GGUF file (version bytes "
				       "%08x) is not supported",
				       version);
	if (version == 1)
		return h2d_reader_fail(&g->r, at,
				       "GGUF version 1 (32-bit lengths) is not "
				       "supported, as in llama.cpp");
	if (version != 2 && version != 3)
		return h2d_reader_fail(&g->r, at, "unknown GGUF version %u", version);
	at = g->r.pos;
	rc = h2d_reader_u64(&g->r, &g->tensor_count, "the tensor count");
	if (!rc)
		rc = h2d_reader_u64(&g->r, &g->key_count, "the key count");
	if (rc)
		return rc;
	if (g->tensor_count > INT64_MAX || g->key_count > INT64_MAX)
		return h2d_reader_fail(&g->r, at, "a negative count");
	if (g->key_count > h2d_reader_left(&g->r) / KEY_MIN_BYTES)
		return h2d_reader_fail(&g->r, at + 8, "%llu keys cannot fit in the file",
				       (unsigned long long)g->key_count);
	if (g->tensor_count > h2d_reader_left(&g->r) / TENSOR_MIN_BYTES)
		return h2d_reader_fail(&g->r, at, "%llu tensors cannot fit in the file",
				       (unsigned long long)g->tensor_count);
	return 0;
}

int h2d_gguf_parse(struct h2d_parse *p)
{
	struct gguf g = {
		.cat = p->cat,
		.first_tensor = p->cat->tensor_count,
		.first_key = p->cat->metadata_count,
		.alignment = ALIGNMENT_DEFAULT,
	};
	int rc;

	h2d_reader_init(&g.r, p, 0, p->file->id.size_bytes);
	rc = read_header(&g);
	for (uint64_t i = 0; !rc && i < g.key_count; i++)
		rc = read_key(&g);
	for (uint64_t i = 0; !rc && i < g.tensor_count; i++)
		rc = read_tensor(&g, i);
	if (!rc)
		rc = place_tensors(&g);
	if (!rc)
		p->cat->header_bytes += g.r.pos;
	free(g.slots);
	h2d_reader_free(&g.r);
	return rc;
}
