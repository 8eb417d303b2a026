/* SPDX-License-Identifier: Apache-2.0 */
#include "format/gguf_types.h"
#include "parse_fixture.h"

/* ---- building */

static void head(struct bytes *b, uint32_t version, uint64_t tensors, uint64_t keys)
{
	put_text(b, "GGUF");
	put_u32(b, version);
	put_u64(b, tensors);
	put_u64(b, keys);
}

static void string(struct bytes *b, const char *s)
{
	put_u64(b, strlen(s));
	put_text(b, s);
}

static void key(struct bytes *b, const char *name, uint32_t type)
{
	string(b, name);
	put_u32(b, type);
}

static void tensor(struct bytes *b, const char *name, uint32_t rank, const uint64_t *dims,
		   uint32_t type, uint64_t offset)
{
	string(b, name);
	put_u32(b, rank);
	for (uint32_t i = 0; i < rank; i++)
		put_u64(b, dims[i]);
	put_u32(b, type);
	put_u64(b, offset);
}

/* One tensor "t" and `data` bytes behind the padding. */
static void one(struct bytes *b, uint32_t rank, const uint64_t *dims, uint32_t type,
		uint64_t offset, size_t data)
{
	head(b, 3, 1, 0);
	tensor(b, "t", rank, dims, type, offset);
	pad_to(b, 32);
	put_fill(b, 7, data);
}

#define DIMS(...) ((const uint64_t[]){__VA_ARGS__})

#define REJECT(part)                                                                           \
	do {                                                                                   \
		CHECK_REJECTED(h2d_gguf_parse, &b, part);                                      \
		bytes_free(&b);                                                                \
	} while (0)

#define ACCEPT()                                                                               \
	do {                                                                                   \
		CHECK_ACCEPTED(h2d_gguf_parse, &b);                                            \
		bytes_free(&b);                                                                \
	} while (0)

/* A file with most of what there is. */
static void rich(struct bytes *b)
{
	head(b, 3, 3, 7);
	key(b, "general.architecture", 8);
	string(b, "llama");
	key(b, "a.u16", 2);
	put_u16(b, 65535);
	key(b, "a.f64", 12);
	put_u64(b, 0x3ff8000000000000);
	key(b, "a.bool", 7);
	put_u8(b, 2);
	key(b, "a.ints", 9);
	put_u32(b, 5);
	put_u64(b, 3);
	put_u32(b, 1);
	put_u32(b, (uint32_t)-2);
	put_u32(b, 3);
	key(b, "a.words", 9);
	put_u32(b, 8);
	put_u64(b, 3);
	string(b, "one");
	string(b, "");
	string(b, "three");
	key(b, "general.alignment", 4);
	put_u32(b, 64);
	tensor(b, "embed", 2, DIMS(64, 3), 2, 0); /* 108 bytes */
	tensor(b, "norm", 1, DIMS(5), 0, 128);	  /* 20 bytes */
	tensor(b, "scalar", 0, DIMS(0), 30, 192); /* 2 bytes */
	pad_to(b, 64);
	put_fill(b, 1, 194);
}

/* ---- tests */

static void catalogue(void)
{
	static const int32_t ints[] = {1, -2, 3};
	const struct h2d_metadata *m;
	const struct h2d_tensor *t;
	struct bytes b = {0};
	struct outcome o;
	uint64_t data;

	rich(&b);
	data = b.n - 194;
	parse(h2d_gguf_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	CHECK_EQ(o.error_count + o.warning_count + o.info_count, 0);
	CHECK_EQ(o.cat.tensor_count, 3);
	CHECK_EQ(o.cat.metadata_count, 7);
	CHECK(o.cat.header_bytes > 0 && o.cat.header_bytes <= data);
	t = tensor_named(&o, "embed");
	REQUIRE(t);
	CHECK_STR(t->dtype, "Q4_0");
	CHECK_EQ(t->rank, 2);
	CHECK_EQ(t->shape[0], 3);
	CHECK_EQ(t->shape[1], 64);
	CHECK_EQ(t->offset_bytes, data);
	CHECK_EQ(t->size_bytes, 108);
	CHECK(!t->strides);
	t = tensor_named(&o, "norm");
	REQUIRE(t);
	CHECK_STR(t->dtype, "F32");
	CHECK_EQ(t->offset_bytes, data + 128);
	CHECK_EQ(t->size_bytes, 20);
	CHECK_EQ(t->ordinal, 1);
	t = tensor_named(&o, "scalar");
	REQUIRE(t);
	CHECK_EQ(t->rank, 0);
	CHECK_STR(t->dtype, "BF16");
	CHECK_EQ(t->size_bytes, 2);
	m = metadata_named(&o, "general.architecture");
	REQUIRE(m);
	CHECK_EQ(m->type, H2D_VALUE_STRING);
	CHECK_EQ(m->data_bytes, 5);
	CHECK_STR((const char *)m->data, "llama");
	m = metadata_named(&o, "a.u16");
	REQUIRE(m && m->data_bytes == 2);
	CHECK_EQ(*(const uint16_t *)m->data, 65535);
	m = metadata_named(&o, "a.f64");
	REQUIRE(m && m->type == H2D_VALUE_F64);
	CHECK(*(const double *)m->data == 1.5);
	m = metadata_named(&o, "a.bool");
	REQUIRE(m && m->type == H2D_VALUE_BOOL && m->data_bytes == 1);
	CHECK_EQ(*(const uint8_t *)m->data, 1);
	m = metadata_named(&o, "a.ints");
	REQUIRE(m && m->type == H2D_VALUE_ARRAY && m->element_type == H2D_VALUE_I32);
	CHECK_EQ(m->count, 3);
	REQUIRE(m->data_bytes == sizeof(ints));
	CHECK(!memcmp(m->data, ints, sizeof(ints)));
	m = metadata_named(&o, "a.words");
	REQUIRE(m && m->element_type == H2D_VALUE_STRING && m->count == 3);
	REQUIRE(m->data_bytes == 3 * 8 + 8);
	CHECK(!memcmp(m->data, "\3\0\0\0\0\0\0\0one\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0three", 32));
	outcome_free(&o);
	bytes_free(&b);
}

static void headers(void)
{
	struct bytes b = {0};

	head(&b, 3, 0, 0);
	ACCEPT();
	head(&b, 2, 0, 0);
	ACCEPT();
	head(&b, 1, 0, 0);
	REJECT("GGUF version 1");
	head(&b, 0, 0, 0);
	REJECT("unknown GGUF version 0");
	head(&b, 4, 0, 0);
	REJECT("unknown GGUF version 4, at offset 4");
	head(&b, 3u << 24, 0, 0);
	REJECT("big-endian");
	put_text(&b, "FUGG");
	put_fill(&b, 0, 28);
	REJECT("magic");
	REJECT("shorter"); /* empty */
	head(&b, 3, 0, 0);
	b.n = 23;
	REJECT("shorter");
	head(&b, 3, (uint64_t)-1, 0);
	put_fill(&b, 0, 64);
	REJECT("negative");
	head(&b, 3, 0, (uint64_t)INT64_MAX + 1);
	REJECT("negative");
	head(&b, 3, 0, INT64_MAX / 16);
	put_fill(&b, 0, 64);
	REJECT("keys cannot fit");
	head(&b, 3, 1000, 0);
	put_fill(&b, 0, 64);
	REJECT("tensors cannot fit");
}

static void alignment(uint32_t align, const char *part)
{
	struct bytes b = {0};

	head(&b, 3, 1, 1);
	key(&b, "general.alignment", 4);
	put_u32(&b, align);
	tensor(&b, "t", 1, DIMS(8), 0, 0);
	if (align && align <= 4096)
		pad_to(&b, align);
	put_fill(&b, 1, 32);
	if (part)
		REJECT(part);
	else
		ACCEPT();
}

static void alignments(void)
{
	struct bytes b = {0};

	alignment(1, NULL);
	alignment(4, NULL);
	alignment(32, NULL);
	alignment(4096, NULL);
	alignment(0, "not a power of two");
	alignment(24, "not a power of two");
	alignment(1u << 31, "begins past the end");
	head(&b, 3, 0, 1);
	key(&b, "general.alignment", 10);
	put_u64(&b, 32);
	REJECT("must be of type u32");
	/* Without tensors the data's begin does not matter. */
	head(&b, 3, 0, 1);
	key(&b, "general.alignment", 4);
	put_u32(&b, 1u << 31);
	ACCEPT();
}

static void keys(void)
{
	struct bytes b = {0};
	char *big = malloc(65537);

	REQUIRE(big);
	head(&b, 3, 0, 2);
	key(&b, "k", 0);
	put_u8(&b, 1);
	key(&b, "k", 4);
	put_u32(&b, 1);
	REJECT("key \"k\": the key is given twice, at offset 38");
	head(&b, 3, 0, 1);
	key(&b, "", 4);
	put_u32(&b, 1);
	put_u32(&b, 1);
	REJECT("empty key");
	memset(big, 'k', 65536);
	big[65536] = 0;
	head(&b, 3, 0, 1);
	key(&b, big, 4);
	put_u32(&b, 1);
	ACCEPT();
	head(&b, 3, 0, 1);
	key(&b, big, 13);
	REJECT("unknown value type 13");
	free(big);
	head(&b, 3, 0, 1);
	key(&b, "k", (uint32_t)-1);
	put_u8(&b, 1);
	REJECT("unknown value type -1, at offset 33");
	head(&b, 3, 0, 1);
	put_u64(&b, ((uint64_t)1 << 30) + 1);
	put_fill(&b, 'k', 64);
	REJECT("more than 1 GiB");
	head(&b, 3, 0, 1);
	put_u64(&b, 1 << 20);
	put_fill(&b, 'k', 64);
	REJECT("passes the end");
	head(&b, 3, 0, 1);
	key(&b, "k", 8);
	put_u64(&b, 3);
	put(&b, "\0\xff\0", 3);
	ACCEPT();
	head(&b, 3, 0, 1);
	key(&b, "k", 10);
	put_u32(&b, 0);
	REJECT("passes the end");
}

/* More keys than the first hash table holds, then one of them again. */
static void many_keys(void)
{
	struct bytes b = {0};
	char name[16];

	for (int repeat = 0; repeat < 2; repeat++) {
		head(&b, 3, 0, 500 + (unsigned)repeat);
		for (int i = 0; i < 500; i++) {
			snprintf(name, sizeof(name), "key.%d", i);
			key(&b, name, 0);
			put_u8(&b, 0);
		}
		if (repeat) {
			key(&b, "key.7", 1);
			put_u8(&b, 0);
			REJECT("key \"key.7\": the key is given twice");
		} else {
			ACCEPT();
		}
	}
}

static void arrays(void)
{
	struct bytes b = {0};

	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 0);
	put_u64(&b, 0);
	ACCEPT();
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 8);
	put_u64(&b, 0);
	ACCEPT();
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 9);
	put_u64(&b, 0);
	REJECT("array of arrays");
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 13);
	put_u64(&b, 0);
	REJECT("unknown array element type 13");
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 0);
	put_u64(&b, ((uint64_t)1 << 30) + 1);
	REJECT("more than 2^30");
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 12);
	put_u64(&b, 1 << 29);
	REJECT("passes the end");
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 8);
	put_u64(&b, 1 << 29);
	REJECT("strings passes the end");
	head(&b, 3, 0, 1);
	key(&b, "k", 9);
	put_u32(&b, 8);
	put_u64(&b, 2);
	string(&b, "a");
	put_u64(&b, 2);
	put_u8(&b, 'x');
	REJECT("passes the end");
}

static void names(void)
{
	struct bytes b = {0};
	char name[65];

	memset(name, 'n', sizeof(name));
	for (size_t n = 0; n <= 64; n += n ? 1 : 63) {
		name[n] = 0;
		head(&b, 3, 1, 0);
		tensor(&b, name, 1, DIMS(1), 0, 0);
		pad_to(&b, 32);
		put_u32(&b, 0);
		name[n] = 'n';
		if (n == 64)
			REJECT("a name of 64 bytes");
		else
			ACCEPT();
	}
}

static void shapes(void)
{
	struct bytes b = {0};
	struct outcome o;

	one(&b, 4, DIMS(1, 2, 3, 4), 24, 0, 24);
	parse(h2d_gguf_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(o.cat.tensors[0].shape[i], 4 - i);
	outcome_free(&o);
	bytes_free(&b);
	one(&b, 5, DIMS(1, 1, 1, 1, 1), 24, 0, 1);
	REJECT("5 dimensions");
	one(&b, 1, DIMS((uint64_t)-1), 24, 0, 1);
	REJECT("dimension 0 is negative");
	one(&b, 2, DIMS(4, 0), 0, 0, 0);
	ACCEPT();
	one(&b, 2, DIMS(0, 4), 2, 0, 0);
	ACCEPT();
	/* Products that wrap, to zero and to something small, and one that a zero would hide.
	 */
	one(&b, 2, DIMS((uint64_t)1 << 31, (uint64_t)1 << 33), 0, 0, 64);
	REJECT("tensor \"t\": the number of elements passes 2^63-1");
	one(&b, 2, DIMS((uint64_t)1 << 40, (uint64_t)1 << 40), 0, 0, 64);
	REJECT("the number of elements");
	one(&b, 2, DIMS(3, 0x5555555555555556 >> 1), 0, 0, 64);
	REJECT("the number of elements");
	one(&b, 3, DIMS((uint64_t)1 << 40, (uint64_t)1 << 40, 0), 0, 0, 64);
	REJECT("the number of elements");
	one(&b, 1, DIMS(INT64_MAX), 24, 0, 64);
	REJECT("the number of elements");
	one(&b, 1, DIMS(INT64_MAX - 1), 28, 0, 64);
	REJECT("the size passes 2^64");
	one(&b, 1, DIMS((uint64_t)1 << 60), 0, 0, 64);
	REJECT("pass the end of the file");
	one(&b, 1, DIMS(33), 2, 0, 64);
	REJECT("not whole blocks of 32 (Q4_0)");
	one(&b, 0, DIMS(0), 2, 0, 64);
	REJECT("not whole blocks");
}

/* The type table of ggml, written a second time so that a slip in either is seen. */
static void types(void)
{
	static const unsigned el_bytes[43][2] = {
		{1, 4},	    {1, 2},	{32, 18},   {32, 20},	{0, 0},	   {0, 0},
		{32, 22},   {32, 24},	{32, 34},   {32, 36},	{256, 84}, {256, 110},
		{256, 144}, {256, 176}, {256, 210}, {256, 292}, {256, 66}, {256, 74},
		{256, 98},  {256, 50},	{32, 18},   {256, 110}, {256, 82}, {256, 136},
		{1, 1},	    {1, 2},	{1, 4},	    {1, 8},	{1, 8},	   {256, 56},
		{1, 2},	    {0, 0},	{0, 0},	    {0, 0},	{256, 54}, {256, 66},
		{0, 0},	    {0, 0},	{0, 0},	    {32, 17},	{64, 36},  {128, 18},
		{64, 18},
	};
	struct bytes b = {0};
	struct outcome o;

	for (uint32_t id = 0; id < 43; id++) {
		one(&b, 2, DIMS(256, 2), id, 0, 4096);
		if (!el_bytes[id][0]) {
			REJECT("removed from ggml");
			continue;
		}
		parse(h2d_gguf_parse, b.data, b.n, &o);
		CHECK_EQ(o.rc, 0);
		if (!o.rc)
			CHECK_EQ(o.cat.tensors[0].size_bytes,
				 512 / el_bytes[id][0] * el_bytes[id][1]);
		outcome_free(&o);
		bytes_free(&b);
	}
	one(&b, 1, DIMS(256), 43, 0, 4096);
	REJECT("unknown tensor type 43");
	one(&b, 1, DIMS(256), INT32_MAX, 0, 4096);
	REJECT("unknown tensor type");
	one(&b, 1, DIMS(256), (uint32_t)-1, 0, 4096);
	REJECT("unknown tensor type -1");
	for (uint32_t id = 97; id < 400; id++) {
		if (!h2d_gguf_type_is_ik(id))
			continue;
		one(&b, 1, DIMS(256), id, 0, 4096);
		REJECT("ik_llama.cpp type");
	}
	one(&b, 1, DIMS(256), 36, 0, 4096);
	REJECT("I2_S");
}

static void two(struct bytes *b, uint64_t first, uint64_t second, size_t data)
{
	head(b, 3, 2, 0);
	tensor(b, "a", 1, DIMS(8), 0, first);
	tensor(b, "b", 1, DIMS(8), 0, second);
	pad_to(b, 32);
	put_fill(b, 1, data);
}

static void layouts(void)
{
	struct bytes b = {0};
	struct outcome o;

	two(&b, 0, 32, 64);
	ACCEPT();
	two(&b, 0, 32, 64 + 5); /* trailing bytes */
	ACCEPT();
	two(&b, 0, 32, 63);
	REJECT("tensor \"b\": its 32 bytes at 32 after the data's begin pass the end");
	two(&b, 0, 32, 0);
	REJECT("pass the end");
	two(&b, 0, 16, 64);
	REJECT("not a multiple of 32");
	two(&b, 0, (uint64_t)-32, 64);
	REJECT("pass the end");
	/* Valid by the specification though not as llama.cpp writes: taken, and said. */
	for (int i = 0; i < 2; i++) {
		two(&b, i ? 32 : 0, i ? 0 : 64, 96);
		parse(h2d_gguf_parse, b.data, b.n, &o);
		CHECK_EQ(o.rc, 0);
		CHECK_EQ(o.info_count, 1);
		outcome_free(&o);
		bytes_free(&b);
	}
}

/* What is proven of all formats, with this one's tensors. */
static void whole(void)
{
	struct bytes b = {0};

	rich(&b);
	CHECK_OPEN(&b, 0, "");
	bytes_free(&b);
	two(&b, 32, 0, 64);
	CHECK_OPEN(&b, 0, "");
	bytes_free(&b);
	two(&b, 0, 0, 64);
	CHECK_OPEN(&b, H2D_E_FORMAT, "overlap");
	bytes_free(&b);
	head(&b, 3, 2, 0);
	tensor(&b, "same", 1, DIMS(8), 0, 0);
	tensor(&b, "same", 1, DIMS(8), 0, 32);
	pad_to(&b, 32);
	put_fill(&b, 1, 64);
	CHECK_OPEN(&b, H2D_E_FORMAT, "same");
	bytes_free(&b);
}

static void faults(void)
{
	struct bytes b = {0};

	rich(&b);
	check_truncation(h2d_gguf_parse, &b, b.n);
	check_allocations(h2d_gguf_parse, &b);
	check_reads(h2d_gguf_parse, &b);
	bytes_free(&b);
}

/* Arrays larger than the read buffer, behind an odd offset. */
static void big_arrays(void)
{
	const struct h2d_metadata *m;
	struct bytes b = {0};
	struct outcome o;
	bool same = true;

	head(&b, 3, 0, 3);
	key(&b, "pad", 0);
	put_u8(&b, 0);
	key(&b, "bytes", 9);
	put_u32(&b, 4);
	put_u64(&b, 100000);
	for (uint32_t i = 0; i < 100000; i++)
		put_u32(&b, i);
	key(&b, "words", 9);
	put_u32(&b, 8);
	put_u64(&b, 20000);
	for (uint32_t i = 0; i < 20000; i++) {
		put_u64(&b, 4);
		put_u32(&b, i);
	}
	parse(h2d_gguf_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	m = metadata_named(&o, "bytes");
	REQUIRE(m && m->data_bytes == 400000);
	for (uint32_t i = 0; i < 100000; i++)
		same &= ((const uint32_t *)m->data)[i] == i;
	m = metadata_named(&o, "words");
	REQUIRE(m && m->data_bytes == 240000);
	for (uint32_t i = 0; i < 20000; i++)
		same &= !memcmp((const char *)m->data + 12 * i + 8, &i, 4);
	CHECK(same);
	CHECK_EQ(o.cat.header_bytes, b.n);
	outcome_free(&o);
	check_reads(h2d_gguf_parse, &b);
	bytes_free(&b);
}

int main(void)
{
	RUN(catalogue);
	RUN(headers);
	RUN(alignments);
	RUN(keys);
	RUN(many_keys);
	RUN(arrays);
	RUN(names);
	RUN(shapes);
	RUN(types);
	RUN(layouts);
	RUN(whole);
	RUN(faults);
	RUN(big_arrays);
	return TEST_DONE();
}
