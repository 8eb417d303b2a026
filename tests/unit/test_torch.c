/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_fixture.h"

#define DIMS(...) ((const int32_t[]){__VA_ARGS__})

/* An archive of one pickle and storages "0" (64 bytes) and "1" (8 bytes). */
static void archive(struct zip_maker *z, const struct bytes *pickle, enum zip_style style)
{
	static const unsigned char data[64] = {1, 2, 3};

	*z = (struct zip_maker){.style = style};
	zip_add(z, "data.pkl", pickle->data, pickle->n);
	zip_add(z, "byteorder", "little", 6);
	zip_add(z, "data/0", data, 64);
	zip_add(z, "data/1", data, 8);
	zip_add(z, "version", "3\n", 2);
}

static void open_pickle(struct bytes *pickle, struct outcome *o)
{
	struct bytes b = {0};
	struct zip_maker z;

	archive(&z, pickle, ZIP_NEW);
	zip_make(&z, &b);
	parse(h2d_torch_parse, b.data, b.n, o);
	if (o->rc)
		fprintf(stderr, "  message: %s\n", o->error);
	bytes_free(&b);
	bytes_free(pickle);
}

static void reject_pickle(struct bytes *pickle, const char *part)
{
	struct bytes b = {0};
	struct zip_maker z;

	archive(&z, pickle, ZIP_NEW);
	zip_make(&z, &b);
	CHECK_REJECTED(h2d_torch_parse, &b, part);
	bytes_free(&b);
	bytes_free(pickle);
}

/* {"w": vector of storage 0, "n": {"b": vector of storage 1}, "epoch": 3} */
static void state(struct bytes *p)
{
	pk_begin(p);
	pk_ops(p, "}(");
	pk_text(p, "w");
	pk_vector(p, "FloatStorage", "0", 16);
	pk_text(p, "n");
	pk_ops(p, "}");
	pk_text(p, "b");
	pk_vector(p, "LongStorage", "1", 1);
	pk_ops(p, "s");
	pk_text(p, "epoch");
	pk_int(p, 3);
	pk_ops(p, "u.");
}

/* A dict of one entry "t", whose value follows. */
static void begin_t(struct bytes *p)
{
	pk_begin(p);
	pk_ops(p, "}");
	pk_text(p, "t");
}

static void end_t(struct bytes *p)
{
	pk_ops(p, "s.");
}

/* ---- tests */

static void state_dict(void)
{
	struct bytes p = {0}, b = {0};
	const struct h2d_metadata *m;
	const struct h2d_tensor *t;
	struct zip_maker z;
	struct outcome o;

	for (int style = 0; style < 4; style++) {
		state(&p);
		archive(&z, &p, style & 1 ? ZIP_113 : ZIP_NEW);
		z.zip64 = style & 2;
		zip_make(&z, &b);
		parse(h2d_torch_parse, b.data, b.n, &o);
		REQUIRE(o.rc == 0);
		CHECK_EQ(o.error_count + o.warning_count + o.info_count, 0);
		CHECK_EQ(o.cat.tensor_count, 2);
		t = tensor_named(&o, "w");
		REQUIRE(t);
		CHECK_STR(t->dtype, "float32");
		CHECK(t->rank == 1 && t->shape[0] == 16 && !t->strides && !t->flags);
		CHECK_EQ(t->offset_bytes, z.file[2].begin);
		CHECK_EQ(t->size_bytes, 64);
		t = tensor_named(&o, "n.b");
		REQUIRE(t);
		CHECK_STR(t->dtype, "int64");
		CHECK_EQ(t->offset_bytes, z.file[3].begin);
		CHECK_EQ(t->ordinal, 1);
		m = metadata_named(&o, "epoch");
		REQUIRE(m && m->type == H2D_VALUE_I64);
		CHECK_EQ(*(const int64_t *)m->data, 3);
		m = metadata_named(&o, "archive.version");
		REQUIRE(m && m->type == H2D_VALUE_STRING);
		CHECK_STR((const char *)m->data, "3");
		CHECK(o.cat.header_bytes > p.n);
		outcome_free(&o);
		bytes_free(&b);
		bytes_free(&p);
	}
}

static void values(void)
{
	const struct h2d_metadata *m;
	struct bytes p = {0};
	struct outcome o;

	pk_begin(&p);
	pk_ops(&p, "}(");
	pk_text(&p, "list");
	pk_ops(&p, "](");
	pk_vector(&p, "FloatStorage", "0", 1);
	pk_ops(&p, "}");
	pk_int(&p, 5);
	pk_vector(&p, "ByteStorage", "1", 1);
	pk_ops(&p, "se");
	pk_text(&p, "ints");
	pk_ints(&p, 3, DIMS(1, -2, 3));
	pk_text(&p, "words");
	pk_ops(&p, "(");
	pk_text(&p, "ab");
	pk_text(&p, "");
	pk_ops(&p, "t");
	pk_text(&p, "mixed");
	pk_ops(&p, "(K\1\x88t");
	pk_text(&p, "none");
	pk_ops(&p, "N");
	pk_text(&p, "real");
	put(&p, "G\x3f\xf8\0\0\0\0\0\0", 9);
	pk_text(&p, "size");
	pk_global(&p, "torch", "Size");
	pk_ints(&p, 2, DIMS(4, 5));
	pk_ops(&p, "\x85R");
	pk_text(&p, "args");
	pk_global(&p, "argparse", "Namespace");
	pk_ops(&p, ")\x81}");
	pk_text(&p, "lr");
	pk_int(&p, 9);
	pk_ops(&p, "sb");
	pk_ops(&p, "u.");
	open_pickle(&p, &o);
	REQUIRE(o.rc == 0);
	CHECK(tensor_named(&o, "list.0") && tensor_named(&o, "list.1.5"));
	m = metadata_named(&o, "ints");
	REQUIRE(m && m->type == H2D_VALUE_ARRAY && m->element_type == H2D_VALUE_I64);
	CHECK(m->count == 3 && ((const int64_t *)m->data)[1] == -2);
	m = metadata_named(&o, "words");
	REQUIRE(m && m->element_type == H2D_VALUE_STRING && m->data_bytes == 18);
	CHECK(!memcmp(m->data, "\2\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0", 18));
	m = metadata_named(&o, "mixed.0");
	CHECK(m && m->type == H2D_VALUE_I64);
	m = metadata_named(&o, "mixed.1");
	CHECK(m && m->type == H2D_VALUE_BOOL && *(const char *)m->data == 1);
	m = metadata_named(&o, "none");
	CHECK(m && m->type == H2D_VALUE_NULL);
	m = metadata_named(&o, "real");
	CHECK(m && m->type == H2D_VALUE_F64 && *(const double *)m->data == 1.5);
	m = metadata_named(&o, "size");
	CHECK(m && m->count == 2);
	m = metadata_named(&o, "args.lr");
	CHECK(m && m->type == H2D_VALUE_I64);
	CHECK_EQ(o.warning_count, 1);
	CHECK(strstr(o.warning, "argparse.Namespace is not called") != NULL);
	outcome_free(&o);
}

static void views(void)
{
	const struct h2d_tensor *t;
	struct bytes p = {0};
	uint64_t begin;
	struct outcome o;

	pk_begin(&p);
	pk_ops(&p, "}(");
#define VIEW(name, offset, rank, size, stride)                                                 \
	do {                                                                                   \
		pk_text(&p, name);                                                             \
		pk_view(&p, "_rebuild_tensor_v2", "FloatStorage", "0", 16, offset, rank, size, \
			stride);                                                               \
	} while (0)
	VIEW("base", 0, 2, DIMS(4, 4), DIMS(4, 1));
	VIEW("transposed", 0, 2, DIMS(4, 4), DIMS(1, 4));
	VIEW("row", 4, 1, DIMS(4), DIMS(1));
	VIEW("column", 1, 1, DIMS(4), DIMS(4));
	VIEW("block", 5, 2, DIMS(2, 2), DIMS(4, 1));
	VIEW("expanded", 3, 2, DIMS(100, 4), DIMS(0, 1));
	VIEW("scalar", 15, 0, DIMS(0), DIMS(0));
	VIEW("empty", 16, 2, DIMS(0, 4), DIMS(4, 1));
	VIEW("ones", 0, 3, DIMS(1, 16, 1), DIMS(77, 1, 99));
	pk_text(&p, "alone");
	pk_vector(&p, "HalfStorage", "1", 4);
	pk_ops(&p, "u.");
	open_pickle(&p, &o);
	REQUIRE(o.rc == 0);
	t = tensor_named(&o, "base");
	REQUIRE(t);
	begin = t->offset_bytes;
	CHECK(!t->strides && t->size_bytes == 64 && t->flags == H2D_TENSOR_SHARED);
	t = tensor_named(&o, "transposed");
	REQUIRE(t && t->strides);
	CHECK(t->strides[0] == 1 && t->strides[1] == 4 && t->size_bytes == 64);
	CHECK(t->flags == H2D_TENSOR_SHARED);
	t = tensor_named(&o, "row");
	REQUIRE(t);
	CHECK(!t->strides && t->offset_bytes == begin + 16 && t->size_bytes == 16);
	t = tensor_named(&o, "column");
	REQUIRE(t && t->strides);
	CHECK(t->offset_bytes == begin + 4 && t->size_bytes == 13 * 4);
	t = tensor_named(&o, "block");
	REQUIRE(t && t->strides);
	CHECK(t->offset_bytes == begin + 20 && t->size_bytes == 6 * 4);
	t = tensor_named(&o, "expanded");
	REQUIRE(t && t->strides);
	CHECK(t->offset_bytes == begin + 12 && t->size_bytes == 16);
	t = tensor_named(&o, "scalar");
	REQUIRE(t);
	CHECK(t->rank == 0 && !t->strides && t->size_bytes == 4);
	t = tensor_named(&o, "empty");
	REQUIRE(t);
	CHECK(!t->strides && t->size_bytes == 0);
	t = tensor_named(&o, "ones");
	REQUIRE(t);
	CHECK(!t->strides && t->size_bytes == 64);
	t = tensor_named(&o, "alone");
	REQUIRE(t);
	CHECK_EQ(t->flags, 0);
	outcome_free(&o);
}

/* Begin a call of `name` in `module` whose first argument is a vector. */
static void wrap(struct bytes *p, const char *module, const char *name)
{
	pk_global(p, module, name);
	pk_ops(p, "(");
}

static void wrappers(void)
{
	const struct h2d_tensor *t;
	struct bytes p = {0};
	struct outcome o;

	pk_begin(&p);
	pk_ops(&p, "}(");
	pk_text(&p, "parameter");
	wrap(&p, "torch._utils", "_rebuild_parameter");
	pk_vector(&p, "BFloat16Storage", "0", 32);
	pk_ops(&p, "\x88}tR");
	pk_text(&p, "stateful");
	wrap(&p, "torch._utils", "_rebuild_parameter_with_state");
	pk_vector(&p, "DoubleStorage", "0", 8);
	pk_ops(&p, "\x88}}tR");
	/* A subclass: function, class, its arguments, state. */
	pk_text(&p, "subclass");
	wrap(&p, "torch._tensor", "_rebuild_from_type_v2");
	pk_global(&p, "torch._utils", "_rebuild_tensor_v2");
	pk_global(&p, "my", "Tensor");
	pk_ops(&p, "(");
	pk_storage(&p, "ShortStorage", "1", 4);
	pk_int(&p, 0);
	pk_ints(&p, 1, DIMS(4));
	pk_ints(&p, 1, DIMS(1));
	pk_ops(&p, "\x89}t}tR");
	/* Dtypes younger than typed storages. */
	pk_text(&p, "eight");
	wrap(&p, "torch._utils", "_rebuild_tensor_v3");
	pk_ops(&p, "(");
	pk_text(&p, "storage");
	pk_global(&p, "torch.storage", "UntypedStorage");
	pk_text(&p, "1");
	pk_text(&p, "cuda:0");
	pk_int(&p, 8);
	pk_ops(&p, "tQ");
	pk_int(&p, 2);
	pk_ints(&p, 1, DIMS(6));
	pk_ints(&p, 1, DIMS(1));
	pk_ops(&p, "\x89}");
	pk_global(&p, "torch", "float8_e4m3fn");
	pk_ops(&p, "}tR");
	pk_text(&p, "bare");
	pk_storage(&p, "CharStorage", "1", 8);
	pk_ops(&p, "u.");
	open_pickle(&p, &o);
	REQUIRE(o.rc == 0);
	CHECK_EQ(o.warning_count, 0);
	t = tensor_named(&o, "parameter");
	REQUIRE(t);
	CHECK_STR(t->dtype, "bfloat16");
	t = tensor_named(&o, "stateful");
	REQUIRE(t);
	CHECK_STR(t->dtype, "float64");
	t = tensor_named(&o, "subclass");
	REQUIRE(t);
	CHECK_STR(t->dtype, "int16");
	t = tensor_named(&o, "eight");
	REQUIRE(t);
	CHECK_STR(t->dtype, "float8_e4m3fn");
	CHECK_EQ(t->size_bytes, 6);
	t = tensor_named(&o, "bare");
	REQUIRE(t);
	CHECK_STR(t->dtype, "int8");
	CHECK(t->rank == 1 && t->shape[0] == 8);
	outcome_free(&o);
}

static void roots(void)
{
	struct bytes p = {0};
	struct outcome o;

	pk_begin(&p);
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, ".");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK(tensor_named(&o, "tensor") != NULL);
	CHECK_EQ(o.info_count, 1); /* storage "1" is used by nothing */
	outcome_free(&o);
	pk_begin(&p);
	pk_ops(&p, "]");
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, "a.");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK(tensor_named(&o, "0") != NULL);
	outcome_free(&o);
	pk_begin(&p);
	pk_ops(&p, "N.");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.cat.tensor_count, 0);
	CHECK(metadata_named(&o, "value") != NULL);
	outcome_free(&o);
	/* Bytes behind the end of the pickle are said and ignored. */
	pk_begin(&p);
	pk_ops(&p, "N.garbage");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 1);
	outcome_free(&o);
}

/* An OrderedDict with its items, also as older Pythons make one; a whole nn.Module. */
static void ordered_and_modules(void)
{
	struct bytes p = {0};
	struct outcome o;

	pk_begin(&p);
	pk_ops(&p, "}(");
	pk_text(&p, "new");
	pk_global(&p, "collections", "OrderedDict");
	pk_ops(&p, ")R(");
	pk_text(&p, "a.b");
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, "u}");
	pk_text(&p, "_metadata");
	pk_ops(&p, "}");
	pk_text(&p, "version");
	pk_int(&p, 1);
	pk_ops(&p, "ssb");
	pk_text(&p, "old");
	pk_global(&p, "collections", "OrderedDict");
	pk_ops(&p, "](](");
	pk_text(&p, "k");
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, "ee\x85R");
	pk_text(&p, "net");
	pk_global(&p, "my", "Net");
	pk_ops(&p, ")\x81}(");
	pk_text(&p, "training");
	pk_ops(&p, "\x88");
	pk_text(&p, "_parameters");
	pk_ops(&p, "}");
	pk_text(&p, "weight");
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, "s");
	pk_text(&p, "_modules");
	pk_ops(&p, "}");
	pk_text(&p, "inner");
	pk_global(&p, "torch.nn.modules.linear", "Linear");
	pk_ops(&p, ")\x81}(");
	pk_text(&p, "_parameters");
	pk_ops(&p, "}");
	pk_text(&p, "_buffers");
	pk_ops(&p, "}");
	pk_text(&p, "mean");
	pk_vector(&p, "FloatStorage", "1", 2);
	pk_ops(&p, "s");
	pk_text(&p, "_modules");
	pk_ops(&p, "}ubsub");
	pk_ops(&p, "u.");
	open_pickle(&p, &o);
	REQUIRE(o.rc == 0);
	CHECK_EQ(o.cat.tensor_count, 4);
	CHECK(tensor_named(&o, "new.a.b") != NULL);
	CHECK(tensor_named(&o, "old.k") != NULL);
	CHECK(tensor_named(&o, "net.weight") != NULL);
	CHECK(tensor_named(&o, "net.inner.mean") != NULL);
	CHECK_EQ(o.cat.metadata_count, 2); /* those of the archive */
	CHECK_EQ(o.warning_count, 1);	   /* my.Net; PyTorch's own classes are known */
	outcome_free(&o);
}

/* A pickle made to run a command: the archive opens, nothing runs. */
static void hostile_call(void)
{
	struct bytes p = {0};
	struct outcome o;

	unlink("h2d-test-was-here");
	begin_t(&p);
	pk_global(&p, "os", "system");
	pk_ops(&p, "(");
	pk_text(&p, "touch h2d-test-was-here");
	pk_ops(&p, "tR");
	end_t(&p);
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 1);
	CHECK(strstr(o.warning, "os.system is not called") != NULL);
	CHECK(access("h2d-test-was-here", F_OK) != 0);
	outcome_free(&o);
	/* Of many unknown classes only the first few are told. */
	pk_begin(&p);
	pk_ops(&p, "](");
	for (int i = 0; i < 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "C%d", i);
		pk_global(&p, "m", name);
		pk_ops(&p, ")R");
	}
	pk_ops(&p, "e.");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK_EQ(o.warning_count, 9);
	outcome_free(&o);
}

static void bad_tensors(void)
{
	struct bytes p = {0};

#define BAD(part, call)                                                                        \
	do {                                                                                   \
		begin_t(&p);                                                                   \
		call;                                                                          \
		end_t(&p);                                                                     \
		reject_pickle(&p, part);                                                       \
	} while (0)
#define V(type, key, n, offset, rank, size, stride)                                            \
	pk_view(&p, "_rebuild_tensor_v2", type, key, n, offset, rank, size, stride)
	BAD("tensor \"t\": its 17 elements (float32) from element 0 on pass the 64 bytes",
	    V("FloatStorage", "0", 16, 0, 1, DIMS(17), DIMS(1)));
	BAD("pass the 64 bytes", V("FloatStorage", "0", 16, 1, 1, DIMS(16), DIMS(1)));
	BAD("pass the 64 bytes", V("FloatStorage", "0", 16, 0, 2, DIMS(2, 2), DIMS(15, 1)));
	BAD("pass the 64 bytes", V("FloatStorage", "0", 16, 17, 1, DIMS(0), DIMS(1)));
	BAD("passes the 64 bytes of its record",
	    V("FloatStorage", "0", 17, 0, 1, DIMS(1), DIMS(1)));
	BAD("the archive has no record data/7",
	    V("FloatStorage", "7", 1, 0, 1, DIMS(1), DIMS(1)));
	BAD("the archive has no record data/../data.pkl",
	    V("FloatStorage", "../data.pkl", 1, 0, 1, DIMS(1), DIMS(1)));
	BAD("a storage of an unknown type", V("OddStorage", "0", 1, 0, 1, DIMS(1), DIMS(1)));
	BAD("a quantised storage (qint8)", V("QInt8Storage", "0", 1, 0, 1, DIMS(1), DIMS(1)));
	BAD("arguments are damaged", V("FloatStorage", "0", 1, -1, 1, DIMS(1), DIMS(1)));
	BAD("no count", V("FloatStorage", "0", 1, 0, 1, DIMS(-1), DIMS(1)));
	BAD("no count", V("FloatStorage", "0", 1, 0, 1, DIMS(1), DIMS(-1)));
	BAD("names no storage", V("FloatStorage", "0", -1, 0, 1, DIMS(1), DIMS(1)));
	BAD("tensor \"t\": a quantised, sparse or otherwise special tensor (_rebuild_qtensor)",
	    pk_view(&p, "_rebuild_qtensor", "FloatStorage", "0", 1, 0, 1, DIMS(1), DIMS(1)));
	BAD("(_rebuild_sparse_tensor) is not supported",
	    pk_view(&p, "_rebuild_sparse_tensor", "FloatStorage", "0", 1, 0, 1, DIMS(1),
		    DIMS(1)));
	BAD("(none)",
	    pk_view(&p, "_rebuild_tensor_v3", "FloatStorage", "0", 1, 0, 1, DIMS(1), DIMS(1)));
	/* Sizes whose product or reach wraps. */
	begin_t(&p);
	pk_global(&p, "torch._utils", "_rebuild_tensor_v2");
	pk_ops(&p, "(");
	pk_storage(&p, "FloatStorage", "0", 16);
	pk_int(&p, 0);
	put(&p,
	    "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
	    "\x86\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff"
	    "\x7f\x86",
	    42);
	pk_ops(&p, "\x89}tR");
	end_t(&p);
	reject_pickle(&p, "pass 2^64 elements");
	/* Sizes and strides of different number; a storage that is none. */
	begin_t(&p);
	pk_global(&p, "torch._utils", "_rebuild_tensor_v2");
	pk_ops(&p, "(");
	pk_storage(&p, "FloatStorage", "0", 16);
	pk_int(&p, 0);
	pk_ints(&p, 2, DIMS(1, 1));
	pk_ints(&p, 1, DIMS(1));
	pk_ops(&p, "\x89}tR");
	end_t(&p);
	reject_pickle(&p, "arguments are damaged");
	begin_t(&p);
	pk_global(&p, "torch._utils", "_rebuild_tensor_v2");
	pk_ops(&p, ")R");
	end_t(&p);
	reject_pickle(&p, "its storage is no persistent id");
	begin_t(&p);
	pk_ops(&p, "NQ");
	end_t(&p);
	reject_pickle(&p, "storage \"t\": a persistent id that names no storage");
	begin_t(&p);
	pk_global(&p, "torch._utils", "_rebuild_parameter");
	pk_ops(&p, ")R");
	end_t(&p);
	reject_pickle(&p, "special tensor (_rebuild_parameter)");
	begin_t(&p);
	pk_global(&p, "torch.storage", "_load_from_bytes");
	pk_ops(&p, ")R");
	end_t(&p);
	reject_pickle(&p, "_load_from_bytes");
	/* A conjugate that was never computed. */
	begin_t(&p);
	pk_global(&p, "torch._utils", "_rebuild_tensor_v2");
	pk_ops(&p, "(");
	pk_storage(&p, "ComplexFloatStorage", "0", 8);
	pk_int(&p, 0);
	pk_ints(&p, 1, DIMS(8));
	pk_ints(&p, 1, DIMS(1));
	pk_ops(&p, "\x89}}");
	pk_text(&p, "conj");
	pk_ops(&p, "\x88stR");
	end_t(&p);
	reject_pickle(&p, "a lazy operation");
}

static void bad_trees(void)
{
	struct bytes p = {0};
	struct outcome o;
	char *key = malloc(4098);

	REQUIRE(key);
	/* A list that contains itself adds nothing. */
	pk_begin(&p);
	pk_ops(&p, "]q");
	put_u8(&p, 0);
	pk_ops(&p, "(h");
	put_u8(&p, 0);
	pk_vector(&p, "FloatStorage", "0", 16);
	pk_ops(&p, "e.");
	open_pickle(&p, &o);
	CHECK_EQ(o.rc, 0);
	CHECK(o.cat.tensor_count == 1 && tensor_named(&o, "1"));
	outcome_free(&o);
	/* Each list holds the one before twice: 2^60 names. */
	pk_begin(&p);
	pk_ops(&p, "]N\x85");
	for (unsigned i = 0; i < 60; i++)
		pk_ops(&p, "2\x86");
	pk_ops(&p, "\x86.");
	reject_pickle(&p, "shared so often");
	/* As many tensors as a long name is repeated for. */
	memset(key, 'k', 4097);
	key[4097] = 0;
	pk_begin(&p);
	pk_ops(&p, "}");
	pk_text(&p, key + 2);
	pk_ops(&p, "(");
	pk_vector(&p, "FloatStorage", "0", 1);
	put_fill(&p, '2', 3000);
	pk_ops(&p, "ts.");
	reject_pickle(&p, "a name of more than 4096 bytes");
	pk_begin(&p);
	pk_ops(&p, "}");
	pk_text(&p, key + 20);
	pk_ops(&p, "(");
	pk_vector(&p, "FloatStorage", "0", 1);
	put_fill(&p, '2', 3000);
	pk_ops(&p, "ts.");
	reject_pickle(&p, "far more memory than the pickle");
	pk_begin(&p);
	pk_ops(&p, "N");
	put_fill(&p, 0x85, 250);
	pk_ops(&p, ".");
	reject_pickle(&p, "nested more than 200 deep");
	free(key);
}

static void archives(void)
{
	struct bytes p = {0}, b = {0};
	struct zip_maker z;

	state(&p);
#define ARCHIVE(part, change)                                                                  \
	do {                                                                                   \
		archive(&z, &p, ZIP_113);                                                      \
		change;                                                                        \
		zip_make(&z, &b);                                                              \
		CHECK_REJECTED(h2d_torch_parse, &b, part);                                     \
		bytes_free(&b);                                                                \
	} while (0)
	ARCHIVE("big-endian", (z.file[1].data = "big", z.file[1].n = 3));
	ARCHIVE("record \"byteorder\": it is no byte order",
		(z.file[1].data = "middle", z.file[1].n = 6));
	ARCHIVE("it is no byte order", (z.file[1].data = p.data, z.file[1].n = 65));
	ARCHIVE("record \"data/0\": it is compressed", z.file[2].method = 8);
	ARCHIVE("record \"data.pkl\": it is compressed", z.file[0].method = 8);
	ARCHIVE("no data.pkl", z.file[0].name = "other.pkl");
	ARCHIVE("no data.pkl", z.file[0].name = "deeper/data.pkl");
	ARCHIVE("record \"data.pkl\": the pickle ends inside its opcodes", z.file[0].n--);
	ARCHIVE("not a pickle", (z.file[0].data = "hello", z.file[0].n = 5));
	bytes_free(&p);
}

/* TorchScript: a class instance with attributes, source text that may be compressed, constants
 * in a pickle and folder of their own. */
static void script(struct zip_maker *z, struct bytes *p, struct bytes *constants,
		   const char *rebuild)
{
	pk_begin(p);
	pk_global(p, "__torch__", "Net");
	pk_ops(p, ")\x81}(");
	pk_text(p, "training");
	pk_ops(p, "\x89");
	pk_text(p, "inner");
	pk_global(p, "__torch__.torch.nn", "Linear");
	pk_ops(p, ")\x81}");
	pk_text(p, "weight");
	pk_view(p, rebuild, "FloatStorage", "0", 16, 0, 2, DIMS(4, 4), DIMS(4, 1));
	pk_ops(p, "sb");
	pk_text(p, "sizes");
	pk_global(p, "torch.jit._pickle", "build_intlist");
	pk_ops(p, "]K\1a\x85R");
	pk_ops(p, "ub.");
	pk_begin(constants);
	pk_vector(constants, "FloatStorage", "0", 1);
	pk_ops(constants, "\x85.");
	archive(z, p, ZIP_NEW);
	zip_add(z, "code/__torch__.py", "squeezed", 8)->method = 8;
	zip_add(z, "constants.pkl", constants->data, constants->n);
	zip_add(z, "constants/0", "four", 4);
}

static void torchscript(void)
{
	struct bytes p = {0}, constants = {0}, b = {0};
	const struct h2d_tensor *t;
	struct zip_maker z;
	struct outcome o;

	script(&z, &p, &constants, "_rebuild_tensor_v2");
	zip_make(&z, &b);
	parse(h2d_torch_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	CHECK_EQ(o.warning_count, 0);
	CHECK_EQ(o.cat.tensor_count, 2);
	CHECK_EQ(o.cat.metadata_count, 2);
	CHECK(tensor_named(&o, "inner.weight") != NULL);
	t = tensor_named(&o, "constants.0");
	REQUIRE(t);
	CHECK(!memcmp(b.data + t->offset_bytes, "four", 4));
	outcome_free(&o);
	bytes_free(&b);
	bytes_free(&p);
	bytes_free(&constants);
	/* What cannot be understood there is listed as storages. */
	script(&z, &p, &constants, "_rebuild_qtensor");
	zip_make(&z, &b);
	parse(h2d_torch_parse, b.data, b.n, &o);
	REQUIRE(o.rc == 0);
	CHECK_EQ(o.warning_count, 2);
	CHECK_EQ(o.cat.tensor_count, 3);
	t = tensor_named(&o, "data/0");
	REQUIRE(t);
	CHECK_STR(t->dtype, "uint8");
	CHECK(t->rank == 1 && t->shape[0] == 64 && t->size_bytes == 64);
	CHECK(tensor_named(&o, "data/1") && tensor_named(&o, "constants/0"));
	outcome_free(&o);
	bytes_free(&b);
	bytes_free(&p);
	bytes_free(&constants);
}

/* What is proven of all formats: shared storages may overlap, names may not repeat. */
static void whole(void)
{
	struct bytes p = {0}, b = {0};
	struct zip_maker z;

	for (int twice = 0; twice < 2; twice++) {
		pk_begin(&p);
		pk_ops(&p, "}(");
		pk_text(&p, "a.b");
		pk_vector(&p, "FloatStorage", "0", 16);
		pk_text(&p, "a");
		pk_ops(&p, "}");
		pk_text(&p, twice ? "b" : "c");
		pk_vector(&p, "FloatStorage", "0", 8);
		pk_ops(&p, "su.");
		archive(&z, &p, ZIP_113);
		zip_make(&z, &b);
		CHECK_OPEN(&b, twice ? H2D_E_FORMAT : 0, twice ? "a.b" : "");
		bytes_free(&b);
		bytes_free(&p);
	}
	put(&b, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
	CHECK_OPEN(&b, H2D_E_FORMAT, "legacy");
	bytes_free(&b);
}

static void faults(void)
{
	struct bytes p = {0}, constants = {0}, b = {0};
	struct zip_maker z;

	state(&p);
	archive(&z, &p, ZIP_113);
	zip_make(&z, &b);
	check_truncation(h2d_torch_parse, &b, b.n);
	check_allocations(h2d_torch_parse, &b);
	check_reads(h2d_torch_parse, &b);
	bytes_free(&b);
	bytes_free(&p);
	for (int i = 0; i < 2; i++) {
		script(&z, &p, &constants, i ? "_rebuild_qtensor" : "_rebuild_tensor_v2");
		zip_make(&z, &b);
		check_allocations(h2d_torch_parse, &b);
		bytes_free(&b);
		bytes_free(&p);
		bytes_free(&constants);
	}
}

int main(void)
{
	RUN(state_dict);
	RUN(values);
	RUN(views);
	RUN(wrappers);
	RUN(roots);
	RUN(ordered_and_modules);
	RUN(hostile_call);
	RUN(bad_tensors);
	RUN(bad_trees);
	RUN(archives);
	RUN(torchscript);
	RUN(whole);
	RUN(faults);
	return TEST_DONE();
}
