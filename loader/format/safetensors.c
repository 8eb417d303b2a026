/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: u64 header length, a JSON object, tensor bytes without gaps. The header is read
 * once and scanned once; names and metadata stay in its buffer.
 * Format: the safetensors README and safetensors/src/tensor.rs of its 0.8 line. We are stricter
 * than that reader in two places its README covers: duplicate names and entries written as
 * arrays are refused.
 */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"
#include "format/json_scan.h"
#include "format/order.h"

/* Limits of the reference reader. */
enum { HEADER_MAX_BYTES = 100000000, LENGTH_BYTES = 8 };

/* The shortest entry: "":{"dtype":"F4","shape":[],"data_offsets":[0,0]} and its comma. */
enum { ENTRY_MIN_BYTES = 51 };

static const struct dtype {
	char name[14];
	uint8_t bits;
} dtypes[] = {
	{"F32", 32},	{"BF16", 16},	{"F16", 16},	    {"BOOL", 8},	{"F4", 4},
	{"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},	    {"I8", 8},		{"F8_E5M2", 8},
	{"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
	{"U16", 16},	{"I32", 32},	{"U32", 32},	    {"C64", 64},	{"F64", 64},
	{"I64", 64},	{"U64", 64},
};

enum { DTYPE_COUNT = sizeof(dtypes) / sizeof(dtypes[0]) };

enum field { DTYPE = 1, SHAPE = 2, OFFSETS = 4, ALL_FIELDS = 7 };

struct reader {
	struct h2d_scan scan;
	struct h2d_parse *parse;
	struct h2d_catalogue *cat;
	uint64_t data_offset, data_bytes;
	const struct dtype *last_dtype;
	uint64_t *dims; /* of the entry at hand */
	size_t rank, dims_cap;
	uint64_t last_begin; /* of the tensor before */
	bool disordered;     /* begins do not ascend */
	bool metadata_seen;
};

/* One tensor's entry while it is being read. */
struct entry {
	const struct dtype *dtype;
	unsigned char *shape_at, *offsets_at;
	uint64_t begin, end;
	unsigned seen;
};

static int no_memory(const struct reader *r)
{
	return h2d_fail(r->parse->log, H2D_E_NOMEM, "%s: out of memory for the header",
			r->parse->file->path);
}

static bool is(const struct h2d_text *t, const char *word, size_t n)
{
	return t->bytes == n && !memcmp(t->data, word, n);
}

static int read_dtype(struct reader *r, struct entry *e)
{
	unsigned char *at = r->scan.p;
	struct h2d_text t;
	struct h2d_shown shown;
	int rc = h2d_scan_string(&r->scan, &t);

	if (rc)
		return rc;
	if (r->last_dtype && is(&t, r->last_dtype->name, strlen(r->last_dtype->name))) {
		e->dtype = r->last_dtype;
		return 0;
	}
	for (size_t i = 0; i < DTYPE_COUNT; i++) {
		if (is(&t, dtypes[i].name, strlen(dtypes[i].name))) {
			e->dtype = r->last_dtype = &dtypes[i];
			return 0;
		}
	}
	return h2d_scan_fail(&r->scan, at, "unknown dtype \"%s\"",
			     h2d_show_name(&shown, t.data, t.bytes));
}

static int grow_dims(struct reader *r)
{
	size_t cap = r->dims_cap ? r->dims_cap * 2 : 16, bytes;
	uint64_t *p;

	if (!h2d_mul_size(cap, sizeof(*p), &bytes))
		return no_memory(r);
	p = h2d_mem->realloc(r->dims, bytes);
	if (!p)
		return no_memory(r);
	r->dims = p;
	r->dims_cap = cap;
	return 0;
}

static int read_shape(struct reader *r, struct entry *e)
{
	struct h2d_scan *s = &r->scan;
	bool more;
	int rc;

	e->shape_at = s->p;
	r->rank = 0;
	rc = h2d_scan_expect(s, '[', "an array");
	if (rc)
		return rc;
	for (more = h2d_scan_first(s, ']'); more;) {
		if (r->rank == r->dims_cap) {
			rc = grow_dims(r);
			if (rc)
				return rc;
		}
		rc = h2d_scan_u64(s, &r->dims[r->rank++]);
		if (!rc)
			rc = h2d_scan_next(s, ']', &more);
		if (rc)
			return rc;
	}
	return 0;
}

static int read_offsets(struct reader *r, struct entry *e)
{
	struct h2d_scan *s = &r->scan;
	uint64_t v[2];
	bool more;
	int rc;

	e->offsets_at = s->p;
	rc = h2d_scan_expect(s, '[', "an array");
	if (rc)
		return rc;
	h2d_scan_space(s);
	for (int i = 0; i < 2; i++) {
		if (*s->p == ']')
			return h2d_scan_fail(s, e->offsets_at, "must be two numbers");
		rc = h2d_scan_u64(s, &v[i]);
		if (!rc)
			rc = h2d_scan_next(s, ']', &more);
		if (rc)
			return rc;
		if (more != (i == 0))
			return h2d_scan_fail(s, e->offsets_at, "must be two numbers");
	}
	e->begin = v[0];
	e->end = v[1];
	return 0;
}

static int read_field(struct reader *r, struct entry *e)
{
	struct h2d_scan *s = &r->scan;
	unsigned char *at = s->p;
	struct h2d_text key;
	unsigned bit;
	int rc;

	s->field = NULL;
	rc = h2d_scan_key(s, &key);
	if (rc)
		return rc;
	if (is(&key, "dtype", 5)) {
		bit = DTYPE;
		s->field = "dtype";
	} else if (is(&key, "shape", 5)) {
		bit = SHAPE;
		s->field = "shape";
	} else if (is(&key, "data_offsets", 12)) {
		bit = OFFSETS;
		s->field = "data_offsets";
	} else {
		return h2d_scan_skip(s);
	}
	if (e->seen & bit)
		return h2d_scan_fail(s, at, "field given twice");
	e->seen |= bit;
	return bit == DTYPE   ? read_dtype(r, e)
	       : bit == SHAPE ? read_shape(r, e)
			      : read_offsets(r, e);
}

/* Bytes of the shape: its product from left to right, times the bits of an element; each step
 * must fit 64 bits, even where a later dimension is zero. */
static int shape_bytes(struct reader *r, struct entry *e, uint64_t *bytes)
{
	struct h2d_scan *s = &r->scan;
	uint64_t n = 1;

	s->field = "shape";
	for (size_t i = 0; i < r->rank; i++)
		if (!h2d_mul_u64(n, r->dims[i], &n))
			return h2d_scan_fail(s, e->shape_at,
					     "number of elements passes 2^64 - 1");
	if (!h2d_mul_u64(n, e->dtype->bits, &n))
		return h2d_scan_fail(s, e->shape_at, "number of bits passes 2^64 - 1");
	if (n % 8)
		return h2d_scan_fail(s, e->shape_at,
				     "elements of %u bits do not fill whole bytes",
				     e->dtype->bits);
	*bytes = n / 8;
	return 0;
}

static int finish_entry(struct reader *r, struct entry *e, unsigned char *at)
{
	struct h2d_scan *s = &r->scan;
	uint64_t bytes = 0, *shape = NULL;
	struct h2d_tensor *t;
	int rc;

	s->field = NULL;
	if (e->seen != ALL_FIELDS)
		return h2d_scan_fail(s, at, "field \"%s\" is missing",
				     !(e->seen & DTYPE)	  ? "dtype"
				     : !(e->seen & SHAPE) ? "shape"
							  : "data_offsets");
	rc = shape_bytes(r, e, &bytes);
	if (rc)
		return rc;
	s->field = "data_offsets";
	if (e->end < e->begin)
		return h2d_scan_fail(s, e->offsets_at, "end %llu lies before begin %llu",
				     (unsigned long long)e->end, (unsigned long long)e->begin);
	if (e->end - e->begin != bytes)
		return h2d_scan_fail(
			s, e->offsets_at, "range of %llu bytes, but dtype and shape make %llu",
			(unsigned long long)(e->end - e->begin), (unsigned long long)bytes);
	if (e->end > r->data_bytes)
		return h2d_scan_fail(
			s, e->offsets_at,
			"end %llu passes the data, which the file has %llu bytes of",
			(unsigned long long)e->end, (unsigned long long)r->data_bytes);
	if (r->rank) {
		shape = h2d_arena_array(&r->cat->arena, r->rank, sizeof(*shape));
		if (!shape)
			return no_memory(r);
		memcpy(shape, r->dims, r->rank * sizeof(*shape));
	}
	t = h2d_catalogue_add_tensor(r->cat);
	if (!t)
		return no_memory(r);
	t->name = s->tensor.data;
	t->name_bytes = s->tensor.bytes;
	t->shape = shape;
	t->rank = (uint32_t)r->rank;
	t->dtype = e->dtype->name;
	t->offset_bytes = r->data_offset + e->begin;
	t->size_bytes = bytes;
	t->file = r->parse->file_index;
	t->name_hash = h2d_order_hash(r->cat, t->name, t->name_bytes);
	r->disordered |= e->begin < r->last_begin;
	r->last_begin = e->begin;
	t->entry_offset = s->base_offset + (uint64_t)(at - s->base);
	return 0;
}

/* `at`: the name's opening quote. */
static int read_entry(struct reader *r, const struct h2d_text *name, unsigned char *at)
{
	struct h2d_scan *s = &r->scan;
	struct entry e = {0};
	bool more;
	int rc;

	s->tensor = *name;
	rc = h2d_scan_expect(s, '{', "an object");
	if (rc)
		return rc;
	for (more = h2d_scan_first(s, '}'); more;) {
		rc = read_field(r, &e);
		if (!rc)
			rc = h2d_scan_next(s, '}', &more);
		if (rc)
			return rc;
	}
	rc = finish_entry(r, &e, at);
	s->tensor.data = NULL;
	s->field = NULL;
	return rc;
}

/* Of entries with the same key the last one's value stays, in the first one's place. */
static int unify_metadata(struct reader *r, uint64_t first)
{
	struct h2d_catalogue *cat = r->cat;
	uint64_t n = cat->metadata_count - first, slots = 16, kept = first, *table;

	if (n < 2)
		return 0;
	while (slots < 2 * n)
		slots *= 2;
	table = h2d_mem->calloc(slots, sizeof(*table));
	if (!table)
		return no_memory(r);
	for (uint64_t i = first; i < first + n; i++) {
		struct h2d_metadata m = cat->metadata[i];
		uint64_t slot = h2d_order_hash(cat, m.key, m.key_bytes) & (slots - 1);

		for (; table[slot]; slot = (slot + 1) & (slots - 1)) {
			const struct h2d_metadata *o = &cat->metadata[table[slot] - 1];

			if (o->key_bytes == m.key_bytes && !memcmp(o->key, m.key, m.key_bytes))
				break;
		}
		if (!table[slot])
			table[slot] = ++kept;
		cat->metadata[table[slot] - 1] = m;
	}
	cat->metadata_count = kept;
	free(table);
	return 0;
}

/* null, or an object of strings. */
static int read_metadata(struct reader *r, unsigned char *at)
{
	uint64_t first = r->cat->metadata_count;
	struct h2d_scan *s = &r->scan;
	struct h2d_text key, value;
	struct h2d_metadata *m;
	bool more;
	int rc;

	s->field = "__metadata__";
	if (r->metadata_seen)
		return h2d_scan_fail(s, at, "given twice");
	r->metadata_seen = true;
	if (*s->p == 'n') {
		rc = h2d_scan_skip(s);
		s->field = NULL;
		return rc;
	}
	rc = h2d_scan_expect(s, '{', "an object of strings");
	if (rc)
		return rc;
	for (more = h2d_scan_first(s, '}'); more;) {
		rc = h2d_scan_key(s, &key);
		if (!rc)
			rc = h2d_scan_string(s, &value);
		if (!rc)
			rc = h2d_scan_next(s, '}', &more);
		if (rc)
			return rc;
		m = h2d_catalogue_add_metadata(r->cat);
		if (!m)
			return no_memory(r);
		m->key = key.data;
		m->key_bytes = key.bytes;
		m->data = value.data;
		m->data_bytes = value.bytes;
		m->type = H2D_VALUE_STRING;
		m->count = 1;
	}
	s->field = NULL;
	return unify_metadata(r, first);
}

static int read_header(struct reader *r)
{
	uint64_t first = r->cat->tensor_count;
	struct h2d_scan *s = &r->scan;
	struct h2d_text key;
	bool more;
	int rc;

	rc = h2d_scan_expect(s, '{', "'{'");
	if (rc)
		return rc;
	for (more = h2d_scan_first(s, '}'); more;) {
		unsigned char *at = s->p;

		rc = h2d_scan_key(s, &key);
		if (rc)
			return rc;
		if (is(&key, "__metadata__", 12)) {
			rc = read_metadata(r, at);
		} else {
			rc = read_entry(r, &key, at);
			if (!rc)
				r->cat->tensors[r->cat->tensor_count - 1].ordinal =
					(uint32_t)(r->cat->tensor_count - 1 - first);
		}
		if (!rc)
			rc = h2d_scan_next(s, '}', &more);
		if (rc)
			return rc;
	}
	h2d_scan_space(s);
	if (s->p != s->end)
		return h2d_scan_fail(s, s->p, "byte 0x%02x behind the object", *s->p);
	return 0;
}

static int misplaced(const struct reader *r, const struct h2d_tensor *t, uint64_t cursor,
		     const struct h2d_tensor *before)
{
	unsigned long long begin = t->offset_bytes - r->data_offset;
	unsigned long long offset = t->entry_offset;
	struct h2d_shown a, b;

	h2d_show_name(&a, t->name, t->name_bytes);
	if (before && before->name_bytes == t->name_bytes &&
	    !memcmp(before->name, t->name, t->name_bytes))
		return h2d_fail(r->parse->log, H2D_E_FORMAT,
				"%s: tensor \"%s\": duplicate name at offset %llu, first at "
				"offset %llu",
				r->parse->file->path, a.text, offset,
				(unsigned long long)before->entry_offset);
	if (before && t->offset_bytes < cursor)
		return h2d_fail(r->parse->log, H2D_E_FORMAT,
				"%s: tensor \"%s\": data_offsets: begin %llu lies inside the "
				"data of tensor \"%s\" (entry at offset %llu)",
				r->parse->file->path, a.text, begin,
				h2d_show_name(&b, before->name, before->name_bytes), offset);
	return h2d_fail(r->parse->log, H2D_E_FORMAT,
			"%s: tensor \"%s\": data_offsets: begin %llu leaves a hole, the data "
			"before it end at %llu (entry at offset %llu)",
			r->parse->file->path, a.text, begin,
			(unsigned long long)(cursor - r->data_offset), offset);
}

/* In order of offsets each tensor must begin where the one before it ends, and the last end at
 * the end of the file. A tensor of no bytes may share its begin with one that has some. */
static int check_coverage(const struct reader *r, uint64_t first)
{
	const struct h2d_tensor *before = NULL;
	uint64_t cursor = r->data_offset, end = r->data_offset + r->data_bytes;

	for (uint64_t i = first; i < r->cat->tensor_count; i++) {
		const struct h2d_tensor *t = &r->cat->tensors[i];
		bool beside =
			before && !t->size_bytes && t->offset_bytes == before->offset_bytes;

		if (t->offset_bytes != cursor && !beside)
			return misplaced(r, t, cursor, before);
		if (t->size_bytes) {
			cursor += t->size_bytes;
			before = t;
		}
	}
	if (cursor != end)
		return h2d_fail(
			r->parse->log, H2D_E_FORMAT,
			"%s: file length: the last tensor ends at offset %llu, the file "
			"at %llu",
			r->parse->file->path, (unsigned long long)cursor,
			(unsigned long long)end);
	return 0;
}

static int read_length(struct h2d_parse *p, uint64_t *length)
{
	uint64_t size = p->file->id.size_bytes, n = 0;
	unsigned char raw[LENGTH_BYTES];
	int rc;

	if (size < LENGTH_BYTES)
		return h2d_fail(
			p->log, H2D_E_FORMAT,
			"%s: header length: the file has %llu bytes, a safetensors file "
			"at least 8 (offset 0)",
			p->file->path, (unsigned long long)size);
	rc = h2d_file_read(p->file, raw, sizeof(raw), 0, p->log);
	if (rc)
		return rc;
	for (int i = LENGTH_BYTES - 1; i >= 0; i--)
		n = n << 8 | raw[i];
	if (n > HEADER_MAX_BYTES)
		return h2d_fail(p->log, H2D_E_FORMAT,
				"%s: header length: %llu is over the limit of %d (offset 0)",
				p->file->path, (unsigned long long)n, HEADER_MAX_BYTES);
	if (n > size - LENGTH_BYTES)
		return h2d_fail(p->log, H2D_E_FORMAT,
				"%s: header length: %llu bytes at offset 8 pass the end of the "
				"file (%llu) (offset 0)",
				p->file->path, (unsigned long long)n, (unsigned long long)size);
	*length = n;
	return 0;
}

int h2d_safetensors_parse(struct h2d_parse *p)
{
	struct reader r = {.parse = p, .cat = p->cat};
	uint64_t length = 0, first = p->cat->tensor_count;
	unsigned char *header;
	int rc;

	rc = read_length(p, &length);
	if (rc)
		return rc;
	header = h2d_arena_alloc(&p->cat->arena, length + H2D_SCAN_PAD);
	if (!header)
		return no_memory(&r);
	h2d_advise_huge(header, length);
	if (!h2d_catalogue_reserve(p->cat, first + length / ENTRY_MIN_BYTES + 1))
		return no_memory(&r);
	rc = h2d_file_read(p->file, header, length, LENGTH_BYTES, p->log);
	if (rc)
		return rc;
	memset(header + length, 0, H2D_SCAN_PAD);
	r.data_offset = LENGTH_BYTES + length;
	r.data_bytes = p->file->id.size_bytes - r.data_offset;
	r.scan = (struct h2d_scan){
		.p = header,
		.base = header,
		.end = header + length,
		.base_offset = LENGTH_BYTES,
		.path = p->file->path,
		.log = p->log,
	};
	rc = read_header(&r);
	free(r.dims);
	if (!rc)
		rc = h2d_order_sort(p->cat, first, !r.disordered, p->log);
	if (!rc)
		rc = check_coverage(&r, first);
	if (!rc)
		p->cat->header_bytes += r.data_offset;
	return rc;
}
