/* SPDX-License-Identifier: Apache-2.0 */
/* What the tree of a pickle becomes: names, metadata, and what is never called. */
#include "torch_fixture.h"

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

int main(void)
{
	RUN(state_dict);
	RUN(values);
	RUN(roots);
	RUN(ordered_and_modules);
	RUN(hostile_call);
	RUN(bad_trees);
	return TEST_DONE();
}
