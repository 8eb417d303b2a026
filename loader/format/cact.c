/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cactus .cact, Needle generations 2 and 3 (needle/model/export.py, 571fcd6). Header of 32-bit
 * words, codebook, directory of 44-byte records, blobs at multiples of 64.
 *
 * dtype names are ours, since the format has numbers only: FP16, FP32, RAW, and CQ1 … CQ5 by
 * the directory's `bits` (1 to 4 bits per weight; 5 stands for ternary, stored in two bits).
 * The size of a CQ blob is that of its packed indices and its norms.
 */
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "format/cact_names.h"
#include "format/reader.h"

enum {
	TAG_EARLY = 0x05e12a82,
	TAG_NEEDLE2 = 0x05e12a83,
	TAG_NEEDLE3 = 0x05e12a84,
	WORDS_MAX = 49,
	RECORD_BYTES = 44,
	DIMS_MAX = 4,
	BLOB_ALIGN = 64,
	TERNARY = 5,
};

enum { DTYPE_FP16 = 1, DTYPE_FP32, DTYPE_CQ, DTYPE_RAW };

/* Names of the header's words; an array is named at its first word. */
static const char *const words2[] = {
	"tag",
	"num_tensors",
	"codebook_len",
	"kv_window",
	"kv_bits",
	"vocab",
	"d_model",
	"num_heads",
	"num_kv_heads",
	"num_layers",
	"head_dim",
	"max_seq_len",
	"hada_n",
	"mhc_lanes",
	"engram_slots",
	"engram_sub_dim",
	"num_engram_tables",
	"engram_conv_taps",
	"engram_conv_dilation",
	"num_engram_orders",
	"engram_orders",
	NULL,
	NULL,
	NULL,
	"num_engram_sites",
	"engram_sites",
	NULL,
	NULL,
	NULL,
	"rope_theta",
};
static const char *const words3[] = {
	"tag",
	"num_tensors",
	"codebook_len",
	"kv_window",
	"kv_bits",
	"vocab",
	"out_vocab",
	"d_model",
	"num_heads",
	"num_kv_heads",
	"num_layers",
	"qk_head_dim",
	"v_head_dim",
	"max_seq_len",
	"hada_n",
	"mhc_lanes",
	"sliding_window",
	"global_mask_lo",
	"global_mask_hi",
	"qkv_conv_taps",
	"engram_slots",
	"engram_sub_dim",
	"num_engram_tables",
	"engram_conv_taps",
	"engram_conv_dilation",
	"engram_seed_heads",
	"num_engram_orders",
	"engram_orders",
	NULL,
	NULL,
	NULL,
	"num_engram_sites",
	"engram_sites",
	[48] = "rope_theta",
};
_Static_assert(sizeof(words2) / sizeof(words2[0]) == 30, "120 bytes");
_Static_assert(sizeof(words3) / sizeof(words3[0]) == WORDS_MAX, "196 bytes");

/* Where each generation keeps what the parser itself needs. */
static const struct generation {
	uint32_t tag;
	unsigned number;
	unsigned words; /* the last is a float */
	const char *const *names;
	unsigned layers, layers_max;
	unsigned taps; /* 0: the generation has none */
	unsigned orders, orders_max;
	unsigned sites, sites_max; /* the arrays follow their counts */
} generations[] = {
	{TAG_NEEDLE2, 2, 30, words2, 9, UINT32_MAX, 0, 19, 4, 24, 4},
	{TAG_NEEDLE3, 3, 49, words3, 10, 64, 19, 26, 4, 31, 16},
};

struct cact {
	struct h2d_reader r;
	struct h2d_catalogue *cat;
	const struct generation *gen;
	uint32_t word[WORDS_MAX];
	uint64_t first; /* first tensor of this file in the catalogue */
	uint64_t count;
	uint32_t *group; /* per tensor, kept as metadata */
	bool last_is_raw;
};

/* One directory record, unpacked. */
struct record {
	uint8_t dtype, ndim;
	uint16_t zero;
	uint32_t shape[DIMS_MAX];
	uint64_t offset, bytes;
	uint32_t group, bits;
};

static int add_metadata(struct cact *c, const char *key, enum h2d_value_type type,
			enum h2d_value_type element, uint64_t count, const void *data,
			size_t bytes)
{
	struct h2d_metadata *m = h2d_catalogue_add_metadata(c->cat);

	if (!m)
		return h2d_reader_nomem(&c->r);
	m->key = key;
	m->key_bytes = strlen(key);
	m->type = type;
	m->element_type = element;
	m->count = count;
	m->data = data;
	m->data_bytes = bytes;
	return 0;
}

/* The header's words under their names; the rows of a counted array only as far as it counts.
 */
static int add_words(struct cact *c)
{
	const struct generation *gen = c->gen;
	uint32_t *w = h2d_arena_array(&c->cat->arena, WORDS_MAX, sizeof(*w));
	int rc = 0;

	if (!w)
		return h2d_reader_nomem(&c->r);
	memcpy(w, c->word, sizeof(c->word));
	for (unsigned i = 0; i < gen->words && !rc; i++) {
		bool array = i == gen->orders + 1 || i == gen->sites + 1;
		uint32_t n = array ? w[i - 1] : 1;
		enum h2d_value_type type = i == gen->words - 1 ? H2D_VALUE_F32 : H2D_VALUE_U32;

		if (gen->names[i])
			rc = add_metadata(c, gen->names[i], array ? H2D_VALUE_ARRAY : type,
					  type, n, &w[i], n * sizeof(*w));
	}
	return rc;
}

static int read_codebook(struct cact *c)
{
	uint64_t bytes = (uint64_t)c->word[2] * sizeof(float);
	float *book;
	int rc;

	if (bytes > h2d_reader_left(&c->r))
		return h2d_reader_fail(&c->r, 8,
				       "a codebook of %u numbers passes the end of the file",
				       c->word[2]);
	book = h2d_arena_alloc(&c->cat->arena, (size_t)bytes);
	if (!book)
		return h2d_reader_nomem(&c->r);
	rc = h2d_reader_read(&c->r, book, bytes, "the codebook");
	if (rc)
		return rc;
	return add_metadata(c, "codebook", H2D_VALUE_ARRAY, H2D_VALUE_F32, c->word[2], book,
			    (size_t)bytes);
}

static int check_limit(struct cact *c, unsigned word, unsigned max)
{
	if (c->word[word] <= max)
		return 0;
	return h2d_reader_fail(&c->r, word * 4, "%s is %u, at most %u are allowed",
			       c->gen->names[word], c->word[word], max);
}

static int read_header(struct cact *c)
{
	uint32_t tag;
	int rc = h2d_reader_u32(&c->r, &tag, "the tag");

	if (rc)
		return rc;
	if (tag == TAG_EARLY)
		return h2d_reader_fail(&c->r, 0,
				       "an early .cact file (tag 0x%08x, before Needle 2): its "
				       "layout is not documented",
				       tag);
	for (unsigned i = 0; i < sizeof(generations) / sizeof(generations[0]); i++)
		if (generations[i].tag == tag)
			c->gen = &generations[i];
	if (!c->gen)
		return h2d_reader_fail(&c->r, 0, "unknown tag 0x%08x", tag);
	c->word[0] = tag;
	rc = h2d_reader_read(&c->r, c->word + 1, (c->gen->words - 1) * 4, "the header");
	if (!rc)
		rc = check_limit(c, c->gen->layers, c->gen->layers_max);
	if (!rc)
		rc = check_limit(c, c->gen->orders, c->gen->orders_max);
	if (!rc)
		rc = check_limit(c, c->gen->sites, c->gen->sites_max);
	if (!rc)
		rc = add_words(c);
	if (!rc)
		rc = read_codebook(c);
	if (rc)
		return rc;
	c->count = c->word[1];
	if (c->count > h2d_reader_left(&c->r) / RECORD_BYTES)
		return h2d_reader_fail(&c->r, 4,
				       "%llu directory records cannot fit in the file",
				       (unsigned long long)c->count);
	return 0;
}

static int read_record(struct cact *c, struct record *rec)
{
	unsigned char raw[RECORD_BYTES];
	int rc = h2d_reader_read(&c->r, raw, sizeof(raw), "a directory record");

	if (rc)
		return rc;
	rec->dtype = raw[0];
	rec->ndim = raw[1];
	memcpy(&rec->zero, raw + 2, 2);
	memcpy(rec->shape, raw + 4, sizeof(rec->shape));
	memcpy(&rec->offset, raw + 20, 8);
	memcpy(&rec->bytes, raw + 28, 8);
	memcpy(&rec->group, raw + 36, 4);
	memcpy(&rec->bits, raw + 40, 4);
	return 0;
}

/* Rows of packed indices, each padded to whole groups, then one FP16 norm per group. */
static int cq_bytes(struct cact *c, const struct record *rec, uint64_t at, uint64_t *bytes)
{
	unsigned bits = rec->bits == TERNARY ? 2 : rec->bits;
	uint64_t rows = 1, row, total, index_bits;

	if (rec->bits < 1 || rec->bits > 5)
		return h2d_reader_fail(&c->r, at + 40, "%u bits per weight, 1 to 5 are allowed",
				       rec->bits);
	if (!rec->group || (rec->group & (rec->group - 1)))
		return h2d_reader_fail(&c->r, at + 36, "group size %u is not a power of two",
				       rec->group);
	if (!rec->ndim)
		return h2d_reader_fail(&c->r, at + 1, "a quantised tensor without dimensions");
	for (unsigned i = 0; i + 1 < rec->ndim; i++)
		if (!h2d_mul_u64(rows, rec->shape[i], &rows))
			goto wraps;
	if (!h2d_align_up_u64(rec->shape[rec->ndim - 1], rec->group, &row) ||
	    !h2d_mul_u64(rows, row, &total) || !h2d_mul_u64(total, bits, &index_bits) ||
	    !h2d_mul_u64(total / rec->group, 2, bytes) ||
	    !h2d_add_u64(*bytes, index_bits / 8, bytes))
		goto wraps;
	if (index_bits % 8)
		return h2d_reader_fail(&c->r, at + 4, "its packed indices are not whole bytes");
	return 0;
wraps:
	return h2d_reader_fail(&c->r, at + 4, "its size passes 2^64 bytes");
}

/* Bytes that dtype and shape call for, and the dtype's name. RAW has any size. */
static int expected_bytes(struct cact *c, const struct record *rec, uint64_t at,
			  const char **dtype, uint64_t *bytes)
{
	static const char *const cq_names[] = {"CQ1", "CQ2", "CQ3", "CQ4", "CQ5"};
	int rc;

	switch (rec->dtype) {
	case DTYPE_CQ:
		rc = cq_bytes(c, rec, at, bytes);
		if (!rc)
			*dtype = cq_names[rec->bits - 1];
		return rc;
	case DTYPE_RAW:
		*dtype = "RAW";
		*bytes = rec->bytes;
		return 0;
	case DTYPE_FP16:
	case DTYPE_FP32:
		*dtype = rec->dtype == DTYPE_FP16 ? "FP16" : "FP32";
		*bytes = rec->dtype == DTYPE_FP16 ? 2 : 4;
		for (unsigned i = 0; i < rec->ndim; i++)
			if (!h2d_mul_u64(*bytes, rec->shape[i], bytes))
				return h2d_reader_fail(&c->r, at + 4,
						       "its size passes 2^64 bytes");
		return 0;
	default:
		return h2d_reader_fail(&c->r, at, "unknown dtype %u", rec->dtype);
	}
}

/* A RAW blob whose shape does not count its bytes is shown as a row of bytes. */
static int keep_shape(struct cact *c, struct h2d_tensor *t, const struct record *rec)
{
	uint64_t *shape = h2d_arena_array(&c->cat->arena, DIMS_MAX, sizeof(*shape));
	uint64_t product = 1;
	bool fits = true;

	if (!shape)
		return h2d_reader_nomem(&c->r);
	for (unsigned i = 0; i < rec->ndim; i++) {
		shape[i] = rec->shape[i];
		fits = fits && h2d_mul_u64(product, shape[i], &product);
	}
	t->rank = rec->ndim;
	t->shape = shape;
	if (rec->dtype == DTYPE_RAW && (!fits || product != rec->bytes)) {
		t->rank = 1;
		shape[0] = rec->bytes;
	}
	return 0;
}

static int check_extent(struct cact *c, const struct record *rec, uint64_t at, uint64_t begin)
{
	uint64_t size = c->r.p->file->id.size_bytes;

	if (rec->offset % BLOB_ALIGN)
		return h2d_reader_fail(&c->r, at + 20, "offset %llu is not a multiple of %d",
				       (unsigned long long)rec->offset, BLOB_ALIGN);
	if (rec->offset < begin)
		return h2d_reader_fail(
			&c->r, at + 20,
			"offset %llu lies before the end of what comes before it "
			"(%llu)",
			(unsigned long long)rec->offset, (unsigned long long)begin);
	if (rec->offset > size || rec->bytes > size - rec->offset)
		return h2d_reader_fail(&c->r, at + 20,
				       "its %llu bytes at %llu pass the end of the file (%llu)",
				       (unsigned long long)rec->bytes,
				       (unsigned long long)rec->offset,
				       (unsigned long long)size);
	return 0;
}

static int read_tensor(struct cact *c, uint64_t ordinal, uint64_t *end)
{
	struct h2d_tensor *t = h2d_catalogue_add_tensor(c->cat);
	uint64_t at = c->r.pos, bytes = 0;
	struct record rec;
	char label[24];
	int rc;

	snprintf(label, sizeof(label), "#%llu", (unsigned long long)ordinal);
	h2d_reader_subject(&c->r, "tensor", label, strlen(label));
	if (!t)
		return h2d_reader_nomem(&c->r);
	rc = read_record(c, &rec);
	if (rc)
		return rc;
	if (rec.ndim > DIMS_MAX)
		return h2d_reader_fail(&c->r, at + 1, "%u dimensions, at most %d are allowed",
				       rec.ndim, DIMS_MAX);
	if (rec.zero)
		return h2d_reader_fail(&c->r, at + 2, "the record's padding is not zero");
	rc = expected_bytes(c, &rec, at, &t->dtype, &bytes);
	if (!rc && bytes != rec.bytes)
		rc = h2d_reader_fail(&c->r, at + 28,
				     "its size is %llu bytes, its dtype and shape take %llu",
				     (unsigned long long)rec.bytes, (unsigned long long)bytes);
	if (!rc)
		rc = check_extent(c, &rec, at, *end);
	if (!rc)
		rc = keep_shape(c, t, &rec);
	if (rc)
		return rc;
	t->file = c->r.p->file_index;
	t->ordinal = (uint32_t)ordinal;
	t->entry_offset = at;
	t->offset_bytes = rec.offset;
	t->size_bytes = rec.bytes;
	c->group[ordinal] = rec.dtype == DTYPE_CQ ? rec.group : 0;
	c->last_is_raw = rec.dtype == DTYPE_RAW;
	/* All indices lie before all norms, and what a RAW blob holds is not told. */
	if (rec.dtype == DTYPE_CQ || rec.dtype == DTYPE_RAW)
		t->flags |= H2D_TENSOR_WHOLE;
	*end = rec.offset + rec.bytes;
	return 0;
}

static int read_directory(struct cact *c)
{
	uint64_t end = c->r.pos + c->count * RECORD_BYTES, size = c->r.p->file->id.size_bytes;
	int rc = 0;

	c->group = h2d_arena_array(&c->cat->arena, (size_t)c->count, sizeof(*c->group));
	if (!c->group)
		return h2d_reader_nomem(&c->r);
	for (uint64_t i = 0; i < c->count && !rc; i++)
		rc = read_tensor(c, i, &end);
	h2d_reader_subject(&c->r, "directory", NULL, 0);
	if (!rc && end < size)
		h2d_reader_warn(&c->r, end, "%llu bytes follow the last tensor",
				(unsigned long long)(size - end));
	return rc ? rc
		  : add_metadata(c, "group_size", H2D_VALUE_ARRAY, H2D_VALUE_U32, c->count,
				 c->group, (size_t)c->count * sizeof(*c->group));
}

/* Which heads there are stands in an FP16 tensor of at most three small whole numbers. Leaves
 * `manifest` false when `t` cannot be that. */
static int read_manifest(struct cact *c, const struct h2d_tensor *t,
			 struct h2d_cact_order *order)
{
	static const uint16_t ids[] = {0, 0x3c00, 0x4000, 0x4200}; /* 1.0, 2.0, 3.0 */
	unsigned seen = 0;
	uint16_t value[3];
	int rc;

	if (strcmp(t->dtype, "FP16") || t->size_bytes > sizeof(value))
		return 0;
	rc = h2d_file_read(c->r.p->file, value, t->size_bytes, t->offset_bytes, c->r.p->log);
	if (rc)
		return rc;
	for (unsigned i = 0; i < t->size_bytes / 2; i++) {
		unsigned char id = 1;

		while (id < 4 && ids[id] != value[i])
			id++;
		if (id == 4 || seen & 1u << id)
			return 0;
		seen |= 1u << id;
		order->heads[i] = id;
	}
	order->head_count = (unsigned)t->size_bytes / 2;
	order->manifest = true;
	return 0;
}

static int name_tensors(struct cact *c)
{
	struct h2d_cact_order order = {
		.generation = c->gen->number,
		.layer_count = c->word[c->gen->layers],
		.site_count = c->word[c->gen->sites],
		.conv_taps = c->gen->taps && c->word[c->gen->taps],
	};
	uint64_t fixed = h2d_cact_fixed_count(&order);
	bool known = false;
	int rc = 0;

	if (c->count > fixed + 1)
		rc = read_manifest(c, &c->cat->tensors[c->first + fixed], &order);
	if (rc)
		return rc;
	/* Exporters with and without the router's calibration are about. */
	for (int i = 0; i < 2 && !known; i++) {
		order.calibration = !i;
		known = c->last_is_raw && h2d_cact_count(&order) == c->count;
	}
	if (!known)
		h2d_reader_warn(&c->r, 4,
				"%llu tensors are not in the order that the header calls for "
				"(%llu without heads): they are named tensor.N",
				(unsigned long long)c->count, (unsigned long long)fixed + 1);
	for (uint64_t i = 0; i < c->count; i++) {
		struct h2d_tensor *t = &c->cat->tensors[c->first + i];
		char name[32];

		snprintf(name, sizeof(name), "tensor.%llu", (unsigned long long)i);
		if (known)
			t->name = h2d_cact_name(&order, i, &c->cat->arena);
		else if (c->last_is_raw && i + 1 == c->count)
			t->name = "tokenizer";
		else
			t->name = h2d_arena_copy(&c->cat->arena, name, strlen(name));
		if (!t->name)
			return h2d_reader_nomem(&c->r);
		t->name_bytes = (uint32_t)strlen(t->name);
	}
	return 0;
}

int h2d_cact_parse(struct h2d_parse *p)
{
	struct cact c = {.cat = p->cat, .first = p->cat->tensor_count};
	int rc;

	h2d_reader_init(&c.r, p, 0, p->file->id.size_bytes);
	rc = read_header(&c);
	if (!rc)
		rc = read_directory(&c);
	if (!rc)
		rc = name_tensors(&c);
	if (!rc)
		p->cat->header_bytes += c.r.pos;
	h2d_reader_free(&c.r);
	return rc;
}
