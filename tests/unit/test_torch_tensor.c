/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: views of storages, what wraps them, and what is refused. */
#include "torch_fixture.h"

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

int main(void)
{
	RUN(views);
	RUN(wrappers);
	RUN(bad_tensors);
	return TEST_DONE();
}
