/* SPDX-License-Identifier: Apache-2.0 */
#include "parse_fixture.h"

enum { FP16 = 1, FP32, CQ, RAW };

/* ---- building: a directory is collected first, blobs follow it */

struct entry {
	unsigned dtype, ndim, zero;
	uint32_t shape[4];
	uint64_t bytes;
	uint32_t group, bits;
	const void *data;
	int64_t shift; /* of the offset, to make it wrong */
};

struct maker {
	unsigned generation;
	uint32_t word[49];
	struct entry entry[600];
	unsigned count;
};

static void maker_init(struct maker *m, unsigned generation, uint32_t layers, uint32_t sites,
		       bool taps)
{
	memset(m, 0, sizeof(*m));
	m->generation = generation;
	m->word[0] = generation == 2 ? 0x05e12a83 : 0x05e12a84;
	m->word[2] = 28;
	m->word[generation == 2 ? 9 : 10] = layers;
	m->word[generation == 2 ? 24 : 31] = sites;
	if (generation == 3)
		m->word[19] = taps ? 4 : 0;
	m->word[generation == 2 ? 29 : 48] = 0x461c4000; /* 10000.0f */
}

static struct entry *add(struct maker *m, unsigned dtype, uint32_t elements)
{
	struct entry *e = &m->entry[m->count++];

	e->dtype = dtype;
	e->ndim = 1;
	e->shape[0] = elements;
	e->bytes = dtype == FP16 ? 2 * elements : dtype == FP32 ? 4 * elements : elements;
	return e;
}

static struct entry *add_cq(struct maker *m, uint32_t out, uint32_t in, uint32_t group,
			    uint32_t bits, uint64_t bytes)
{
	struct entry *e = add(m, CQ, 0);

	e->ndim = 2;
	e->shape[0] = out;
	e->shape[1] = in;
	e->bytes = bytes;
	e->group = group;
	e->bits = bits;
	return e;
}

static void make_file(const struct maker *m, struct bytes *b)
{
	unsigned words = m->generation == 2 ? 30 : 49;
	uint64_t at;

	for (unsigned i = 0; i < words; i++)
		put_u32(b, i == 1 && !m->word[1] ? m->count : m->word[i]);
	put_fill(b, 0, (size_t)m->word[2] * 4);
	at = b->n + m->count * 44ul;
	for (unsigned i = 0; i < m->count; i++) {
		const struct entry *e = &m->entry[i];

		at = (at + 63) & ~(uint64_t)63;
		put_u8(b, e->dtype);
		put_u8(b, e->ndim);
		put_u16(b, e->zero);
		put(b, e->shape, 16);
		put_u64(b, at + (uint64_t)e->shift);
		put_u64(b, e->bytes);
		put_u32(b, e->group);
		put_u32(b, e->bits);
		at += e->bytes;
	}
	for (unsigned i = 0; i < m->count; i++) {
		const struct entry *e = &m->entry[i];

		if (e->bytes > 1 << 20) /* a lie about the size, no data */
			continue;
		pad_to(b, 64);
		if (e->data)
			put(b, e->data, e->bytes);
		else
			put_fill(b, (unsigned char)i, e->bytes);
	}
}

/* A whole model: `heads` is the FP16 manifest's bytes. */
static void model(struct maker *m, const uint16_t *heads, unsigned head_count)
{
	uint32_t layers = m->word[m->generation == 2 ? 9 : 10];
	uint32_t sites = m->word[m->generation == 2 ? 24 : 31];
	unsigned per_layer = m->generation == 2 ? 14 : m->word[19] ? 27 : 24;
	unsigned n = layers * per_layer + 9 + (m->generation == 3 ? 2 : 0) + 4 * sites + 1;

	add_cq(m, 4, 100, 128, 4, 4 * 128 * 4 / 8 + 2 * 4);
	for (unsigned i = 0; i < n; i++)
		add(m, FP16, 3);
	if (heads) {
		struct entry *e = add(m, FP16, head_count);

		e->data = heads;
		for (unsigned i = 0; i < head_count; i++) {
			unsigned parts = m->generation == 2 ? 3 : heads[i] == 0x4200 ? 7 : 6;

			for (unsigned k = 0; k < parts; k++)
				add(m, FP16, 1);
		}
	}
	add(m, RAW, 50)->data = "tokenizer blob, tokenizer blob, tokenizer blob, to";
}

#define REJECT(part)                                                                           \
	do {                                                                                   \
		make_file(&m, &b);                                                             \
		CHECK_REJECTED(h2d_cact_parse, &b, part);                                      \
		bytes_free(&b);                                                                \
	} while (0)

#define NAMED(ordinal_, text)                                                                  \
	do {                                                                                   \
		REQUIRE((uint64_t)(ordinal_) < o.cat.tensor_count);                            \
		CHECK_STR(o.cat.tensors[ordinal_].name, text);                                 \
		CHECK_EQ(o.cat.tensors[ordinal_].ordinal, ordinal_);                           \
	} while (0)

static struct maker m;

/* ---- tests */

static void needle3_names(void)
{
	static const uint16_t heads[] = {0x3c00, 0x4200};
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 3, 2, 2, true);
	model(&m, heads, 2);
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 0);
	CHECK_EQ(o.cat.tensor_count, 1 + 54 + 11 + 8 + 1 + 1 + 6 + 7 + 1);
	NAMED(0, "embedding");
	NAMED(1, "layers.0.norm_in");
	NAMED(2, "layers.0.q_proj");
	NAMED(5, "layers.0.q_taps");
	NAMED(8, "layers.0.q_norm");
	NAMED(17, "layers.0.b2");
	NAMED(27, "layers.0.cond_u");
	NAMED(28, "layers.1.norm_in");
	NAMED(54, "layers.1.cond_u");
	NAMED(55, "mhc.a_pre");
	NAMED(63, "mhc.phi_res");
	NAMED(64, "hada_p1");
	NAMED(65, "hada_p2");
	NAMED(66, "engram.0.tables");
	NAMED(69, "engram.0.taps");
	NAMED(70, "engram.1.tables");
	NAMED(74, "final_norm");
	NAMED(75, "heads.manifest");
	NAMED(76, "heads.embedding.probes");
	NAMED(81, "heads.embedding.bias");
	NAMED(82, "heads.router.probes");
	NAMED(88, "heads.router.calibration");
	NAMED(89, "tokenizer");
	CHECK_STR(o.cat.tensors[89].dtype, "RAW");
	CHECK(!memcmp(b.data + o.cat.tensors[89].offset_bytes, "tokenizer blob", 14));
	outcome_free(&o);
	bytes_free(&b);
	/* The same without the router's calibration. */
	m.entry[88] = m.entry[89];
	m.count--;
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 0);
	NAMED(87, "heads.router.bias");
	NAMED(88, "tokenizer");
	outcome_free(&o);
	bytes_free(&b);
}

static void needle3_without(void)
{
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 3, 3, 0, false);
	model(&m, NULL, 0);
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 0);
	NAMED(4, "layers.0.v_proj");
	NAMED(5, "layers.0.q_norm");
	NAMED(24, "layers.0.cond_u");
	NAMED(25, "layers.1.norm_in");
	NAMED(72, "layers.2.cond_u");
	NAMED(84, "final_norm");
	NAMED(85, "tokenizer");
	outcome_free(&o);
	bytes_free(&b);
	/* An empty manifest is a manifest. */
	maker_init(&m, 3, 1, 0, false);
	model(&m, (const uint16_t[]){0}, 0);
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 0);
	NAMED(36, "final_norm");
	NAMED(37, "heads.manifest");
	NAMED(38, "tokenizer");
	outcome_free(&o);
	bytes_free(&b);
}

static void needle2_names(void)
{
	static const uint16_t heads[] = {0x4000};
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 2, 2, 1, false);
	model(&m, heads, 1);
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 0);
	NAMED(14, "layers.0.d3");
	NAMED(15, "layers.1.norm_in");
	NAMED(28, "layers.1.d3");
	NAMED(29, "mhc.a_pre");
	NAMED(37, "mhc.phi_res");
	NAMED(38, "engram.0.tables");
	NAMED(42, "final_norm");
	NAMED(43, "heads.manifest");
	NAMED(44, "heads.confidence.probes");
	NAMED(46, "heads.confidence.bias");
	NAMED(47, "tokenizer");
	outcome_free(&o);
	bytes_free(&b);
}

/* Places that cannot be told get numbers, but the file is read all the same. */
static void unnamed(void)
{
	static const uint16_t odd[] = {0x3c00, 0x3c00}, huge[] = {0x7c00};
	struct bytes b = {0};
	struct outcome o;

	for (unsigned i = 0; i < 4; i++) {
		maker_init(&m, 3, 1, 0, true);
		if (i < 3)
			model(&m, i == 0 ? NULL : i == 1 ? odd : huge, i < 2 ? 2 : 1);
		if (i == 0)
			add(&m, RAW, 3);
		if (i == 3)
			add(&m, FP32, 1);
		make_file(&m, &b);
		parse(h2d_cact_parse, b.data, b.n, &o);
		CHECK_EQ(o.rc, 0);
		CHECK_EQ(o.warning_count, 1);
		CHECK(strstr(o.warning, "named tensor.N") != NULL);
		NAMED(0, "tensor.0");
		if (i < 3)
			NAMED(m.count - 1, "tokenizer");
		outcome_free(&o);
		bytes_free(&b);
	}
}

static void sizes(void)
{
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 3, 0, 0, false);
	add(&m, FP16, 5);
	add(&m, FP32, 5);
	/* 100 columns are padded to one group of 128: 3 rows of 128 indices, one norm each. */
	add_cq(&m, 3, 100, 128, 1, 3 * 16 + 6);
	add_cq(&m, 3, 100, 128, 2, 3 * 32 + 6);
	add_cq(&m, 3, 100, 128, 3, 3 * 48 + 6);
	add_cq(&m, 3, 129, 128, 4, 3 * 128 + 12);
	add_cq(&m, 3, 100, 128, 5, 3 * 32 + 6);
	add(&m, RAW, 7)->ndim = 0;
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	REQUIRE(o.cat.tensor_count == 8);
	CHECK_STR(o.cat.tensors[0].dtype, "FP16");
	CHECK_EQ(o.cat.tensors[0].size_bytes, 10);
	CHECK_EQ(o.cat.tensors[0].offset_bytes % 64, 0);
	CHECK_STR(o.cat.tensors[1].dtype, "FP32");
	CHECK_STR(o.cat.tensors[2].dtype, "CQ1");
	CHECK_STR(o.cat.tensors[5].dtype, "CQ4");
	CHECK_STR(o.cat.tensors[6].dtype, "CQ5");
	CHECK_EQ(o.cat.tensors[6].rank, 2);
	CHECK_EQ(o.cat.tensors[6].shape[1], 100);
	/* Norms behind all the indices, and bytes of which nothing is known. */
	for (int i = 0; i < 8; i++)
		CHECK_EQ(o.cat.tensors[i].flags, i < 2 ? 0 : H2D_TENSOR_WHOLE);
	CHECK_EQ(o.cat.tensors[7].rank, 1);
	CHECK_EQ(o.cat.tensors[7].shape[0], 7);
	outcome_free(&o);
	bytes_free(&b);
}

static void header_as_metadata(void)
{
	const struct h2d_metadata *meta;
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 3, 0, 2, false);
	m.word[32] = 5;
	m.word[33] = 9;
	add_cq(&m, 1, 8, 8, 2, 2 + 2);
	make_file(&m, &b);
	parse(h2d_cact_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	meta = metadata_named(&o, "engram_sites");
	REQUIRE(meta && meta->type == H2D_VALUE_ARRAY && meta->count == 2);
	CHECK_EQ(((const uint32_t *)meta->data)[1], 9);
	meta = metadata_named(&o, "engram_orders");
	REQUIRE(meta && meta->count == 0);
	meta = metadata_named(&o, "rope_theta");
	REQUIRE(meta && meta->type == H2D_VALUE_F32);
	CHECK(*(const float *)meta->data == 10000.0f);
	meta = metadata_named(&o, "codebook");
	REQUIRE(meta && meta->count == 28 && meta->element_type == H2D_VALUE_F32);
	meta = metadata_named(&o, "group_size");
	REQUIRE(meta && meta->count == 1);
	CHECK_EQ(((const uint32_t *)meta->data)[0], 8);
	CHECK_EQ(o.cat.header_bytes, 196 + 112 + 44);
	outcome_free(&o);
	bytes_free(&b);
}

static void bad_headers(void)
{
	struct bytes b = {0};

	maker_init(&m, 3, 0, 0, false);
	m.word[0] = 0x05e12a82;
	REJECT("early .cact file");
	m.word[0] = 0x05e12a85;
	REJECT("unknown tag 0x05e12a85, at offset 0");
	maker_init(&m, 3, 65, 0, false);
	REJECT("num_layers is 65, at most 64 are allowed, at offset 40");
	maker_init(&m, 3, 0, 17, false);
	REJECT("num_engram_sites is 17");
	maker_init(&m, 2, 0, 5, false);
	REJECT("num_engram_sites is 5");
	maker_init(&m, 3, 0, 0, false);
	m.word[26] = 5;
	REJECT("num_engram_orders is 5");
	maker_init(&m, 3, 0, 0, false);
	make_file(&m, &b);
	b.data[8] = 29; /* the codebook's length */
	CHECK_REJECTED(h2d_cact_parse, &b, "codebook");
	bytes_free(&b);
	maker_init(&m, 3, 0, 0, false);
	m.word[1] = UINT32_MAX;
	REJECT("4294967295 directory records cannot fit in the file, at offset 4");
	/* Any number of layers in generation 2: only the names suffer. */
	maker_init(&m, 2, UINT32_MAX, 0, false);
	make_file(&m, &b);
	CHECK_ACCEPTED(h2d_cact_parse, &b);
	bytes_free(&b);
}

static struct entry *pair(void)
{
	maker_init(&m, 3, 0, 0, false);
	add(&m, FP16, 100);
	return add(&m, FP16, 100);
}

static struct entry *quantised(void)
{
	maker_init(&m, 3, 0, 0, false);
	return add_cq(&m, 2, 64, 64, 2, 2 * 16 + 4);
}

static void bad_records(void)
{
	struct bytes b = {0};

	pair()->dtype = 0;
	REJECT("tensor \"#1\": unknown dtype 0, at offset 352");
	pair()->dtype = 5;
	REJECT("unknown dtype 5");
	pair()->ndim = 5;
	REJECT("5 dimensions");
	pair()->zero = 1;
	REJECT("padding is not zero");
	pair()->bytes = 202;
	REJECT("its size is 202 bytes, its dtype and shape take 200");
	pair()->shift = 32;
	REJECT("not a multiple of 64");
	pair()->shift = -256;
	REJECT("lies before the end of what comes before it");
	pair()->shift = -192;
	REJECT("lies before the end");
	pair()->shift = 64;
	REJECT("pass the end of the file");
	pair()->shift = -1024;
	REJECT("pass the end of the file"); /* an offset near 2^64 */
	*pair() = (struct entry){
		.dtype = FP32, .ndim = 4, .shape = {1u << 31, 1u << 31, 1, 1}, .bytes = 0};
	REJECT("passes 2^64");
	pair()->shape[0] = 1u << 31;
	m.entry[1].bytes = (uint64_t)1 << 32;
	REJECT("pass the end of the file");
	quantised()->bits = 0;
	REJECT("0 bits per weight");
	quantised()->bits = 6;
	REJECT("6 bits per weight");
	quantised()->group = 48;
	REJECT("group size 48 is not a power of two");
	quantised()->group = 0;
	REJECT("group size 0");
	quantised()->ndim = 0;
	REJECT("without dimensions");
	quantised()->bytes = 35;
	REJECT("its dtype and shape take 36");
	*quantised() = (struct entry){
		.dtype = CQ, .ndim = 2, .shape = {1, 1}, .group = 1, .bits = 2, .bytes = 2};
	REJECT("not whole bytes");
	*quantised() = (struct entry){.dtype = CQ,
				      .ndim = 3,
				      .shape = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
				      .group = 128,
				      .bits = 2};
	REJECT("passes 2^64");
}

static void trailing(void)
{
	struct bytes b = {0};
	struct outcome o;

	maker_init(&m, 2, 1, 0, false);
	model(&m, NULL, 0);
	make_file(&m, &b);
	put_fill(&b, 0, 9);
	parse(h2d_cact_parse, b.data, b.n, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 1);
	CHECK(strstr(o.warning, "9 bytes follow the last tensor") != NULL);
	outcome_free(&o);
	bytes_free(&b);
}

static void faults(void)
{
	static const uint16_t heads[] = {0x3c00};
	struct bytes b = {0};

	maker_init(&m, 2, 1, 1, false);
	model(&m, heads, 1);
	make_file(&m, &b);
	CHECK_OPEN(&b, 0, "");
	check_truncation(h2d_cact_parse, &b, b.n);
	check_allocations(h2d_cact_parse, &b);
	check_reads(h2d_cact_parse, &b);
	bytes_free(&b);
}

int main(void)
{
	RUN(needle3_names);
	RUN(needle3_without);
	RUN(needle2_names);
	RUN(unnamed);
	RUN(sizes);
	RUN(header_as_metadata);
	RUN(bad_headers);
	RUN(bad_records);
	RUN(trailing);
	RUN(faults);
	return TEST_DONE();
}
