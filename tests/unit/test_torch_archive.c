/* SPDX-License-Identifier: Apache-2.0 */
/* The archive around the pickle, TorchScript, truncation and failing calls. */
#include "torch_fixture.h"

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
	RUN(archives);
	RUN(torchscript);
	RUN(whole);
	RUN(faults);
	return TEST_DONE();
}
