/* SPDX-License-Identifier: Apache-2.0 */
/* File order, bounds, disjointness and unique names, on catalogues made by hand. */
#include "ckpt.h"
#include "format/order.h"

static struct h2d_catalogue cat;
static const struct h2d_log log_here = {keep_line, &lines};

static void begin(void)
{
	memset(&cat, 0, sizeof(cat));
	fresh_log();
}

static void add_file(uint64_t size)
{
	struct h2d_file *f = h2d_catalogue_add_file(&cat);
	char name[32];

	if (!f)
		abort();
	snprintf(name, sizeof(name), "f%u", cat.file_count - 1);
	f->path = strdup(name);
	f->id.size_bytes = size;
}

/* In the last file. */
static void add(const char *name, uint64_t offset, uint64_t size, uint32_t flags)
{
	struct h2d_tensor *t = h2d_catalogue_add_tensor(&cat);

	if (!t)
		abort();
	t->name = h2d_arena_copy(&cat.arena, name, strlen(name));
	t->name_bytes = (uint32_t)strlen(name);
	t->offset_bytes = offset;
	t->size_bytes = size;
	t->file = cat.file_count - 1;
	t->flags = flags;
	t->ordinal = (uint32_t)cat.tensor_count - 1;
}

static int finish(void)
{
	return h2d_order_finish(&cat, &log_here);
}

static void sorts_each_file(void)
{
	begin();
	add_file(1000);
	add("c", 30, 10, 0);
	add("z", 10, 0, 0);
	add("b", 10, 20, 0);
	add("y", 10, 0, 0);
	add("a", 0, 10, 0);
	add_file(50);
	add("e", 20, 10, 0);
	add("d", 0, 10, 0);
	REQUIRE(!finish());
	CHECK_STR(cat.tensors[0].name, "a");
	/* Equal offsets stay in listing order. */
	CHECK_STR(cat.tensors[1].name, "z");
	CHECK_STR(cat.tensors[2].name, "b");
	CHECK_STR(cat.tensors[3].name, "y");
	CHECK_STR(cat.tensors[4].name, "c");
	CHECK_STR(cat.tensors[5].name, "d");
	CHECK_STR(cat.tensors[6].name, "e");
	CHECK_EQ(cat.size_bytes, 60);
	CHECK_EQ(h2d_order_find(&cat, "e", 1), 6);
	CHECK_EQ(h2d_order_find(&cat, "f", 1), -1);
	h2d_catalogue_free(&cat);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Any offsets, with every digit of the sort in use, against the definition. */
static void sorts_anything(void)
{
	uint64_t state = 88172645463325252u;

	for (unsigned round = 0; round < 40; round++) {
		uint64_t n = next_random(&state) % 700;
		unsigned shift = (unsigned)(next_random(&state) % 64);
		char name[32];

		begin();
		add_file(UINT64_MAX);
		for (uint64_t i = 0; i < n; i++) {
			snprintf(name, sizeof(name), "t%llu", (unsigned long long)i);
			add(name, next_random(&state) >> shift, 0, 0);
		}
		REQUIRE(!finish());
		for (uint64_t i = 0; i < n; i++) {
			const struct h2d_tensor *t = &cat.tensors[i];

			snprintf(name, sizeof(name), "t%u", t->ordinal);
			REQUIRE(!strcmp(t->name, name));
			REQUIRE(h2d_order_find(&cat, name, strlen(name)) == i);
			REQUIRE(!i || t[-1].offset_bytes < t->offset_bytes ||
				(t[-1].offset_bytes == t->offset_bytes &&
				 t[-1].ordinal < t->ordinal));
		}
		h2d_catalogue_free(&cat);
	}
}

static void refused(const char *says)
{
	CHECK_EQ(finish(), H2D_E_FORMAT);
	CHECK_EQ(lines.errors, 1);
	CHECK_STR(lines.error, says);
	h2d_catalogue_free(&cat);
}

static void bounds(void)
{
	begin();
	add_file(100);
	add("a", 90, 10, 0);
	add("b", 100, 0, 0);
	CHECK_EQ(finish(), 0);
	h2d_catalogue_free(&cat);
	begin();
	add_file(100);
	add("a", 90, 11, 0);
	refused("f0: tensor \"a\": 11 bytes at offset 90 pass the end of the file (100)");
	begin();
	add_file(100);
	add("b", 101, 0, 0);
	refused("f0: tensor \"b\": 0 bytes at offset 101 pass the end of the file (100)");
	begin();
	add_file(100);
	add("a", UINT64_MAX, 2, 0);
	refused("f0: tensor \"a\": 2 bytes at offset 18446744073709551615 pass the end of the "
		"file "
		"(100)");
	/* Each file has its own size; shared extents may add up to more than any file. */
	begin();
	add_file(100);
	add("a", 0, 100, 0);
	add_file(10);
	add("b", 0, 11, 0);
	refused("f1: tensor \"b\": 11 bytes at offset 0 pass the end of the file (10)");
	begin();
	add_file(UINT64_MAX);
	add("a", 0, UINT64_MAX / 2 + 1, H2D_TENSOR_SHARED);
	add("b", 0, UINT64_MAX / 2 + 1, H2D_TENSOR_SHARED);
	refused("f0: sizes of all tensors together pass 2^64");
}

static void overlaps(void)
{
	const uint32_t shared = H2D_TENSOR_SHARED;

	begin();
	add_file(100);
	add("a", 0, 10, 0);
	add("b", 9, 10, 0);
	refused("f0: tensor \"b\": data [9, 19) overlaps that of tensor \"a\", [0, 10)");
	/* One inside another that is not its neighbour in order. */
	begin();
	add_file(100);
	add("a", 0, 50, 0);
	add("e", 20, 0, 0);
	add("b", 30, 10, 0);
	refused("f0: tensor \"b\": data [30, 40) overlaps that of tensor \"a\", [0, 50)");
	begin();
	add_file(100);
	add("a", 0, 50, shared);
	add("b", 10, 10, shared);
	add("c", 30, 40, shared);
	add("d", 70, 5, 0);
	CHECK_EQ(finish(), 0);
	h2d_catalogue_free(&cat);
	/* Sharing exempts only those that share. */
	begin();
	add_file(100);
	add("a", 0, 50, shared);
	add("b", 10, 10, shared);
	add("c", 49, 10, 0);
	refused("f0: tensor \"c\": data [49, 59) overlaps that of tensor \"a\", [0, 50)");
	begin();
	add_file(100);
	add("a", 0, 50, 0);
	add("b", 10, 10, shared);
	refused("f0: tensor \"b\": data [10, 20) overlaps that of tensor \"a\", [0, 50)");
	/* Another file begins anew. */
	begin();
	add_file(100);
	add("a", 0, 50, 0);
	add_file(100);
	add("b", 10, 10, 0);
	CHECK_EQ(finish(), 0);
	h2d_catalogue_free(&cat);
}

static void names(void)
{
	begin();
	add_file(100);
	add("a", 0, 1, 0);
	cat.tensors[0].entry_offset = 7;
	add_file(100);
	add("a", 0, 1, 0);
	cat.tensors[1].entry_offset = 9;
	refused("f1: tensor \"a\": name is not unique: the entry at offset 9 has it too in f0 "
		"at "
		"offset 7");
	/* In one file the later entry is the duplicate, wherever its data lie. */
	begin();
	add_file(100);
	add("a", 50, 1, 0);
	add("a", 0, 1, 0);
	cat.tensors[0].entry_offset = 7;
	cat.tensors[1].entry_offset = 9;
	refused("f0: tensor \"a\": duplicate name at offset 9, first at offset 7");
	begin();
	add_file(100);
	CHECK_EQ(finish(), 0);
	CHECK_EQ(h2d_order_find(&cat, "a", 1), -1);
	h2d_catalogue_free(&cat);
}

/* Names longer than a line of the log are cut at a character. */
static void shown_names(void)
{
	struct h2d_shown s;
	char name[300];

	CHECK_STR(h2d_show_name(&s, "", 0), "");
	CHECK_STR(h2d_show_name(&s, "a\0b", 3), "a\\x00b");
	for (size_t i = 0; i + 3 <= sizeof(name); i += 3)
		memcpy(name + i, "\xe2\x82\xac", 3);
	h2d_show_name(&s, name, sizeof(name));
	CHECK(strlen(s.text) < sizeof(s.text));
	CHECK_EQ(strlen(s.text) % 3, 0);
	CHECK_STR(s.text + strlen(s.text) - 6, "\xe2\x82\xac\xe2\x80\xa6");
	memset(name, 0, sizeof(name));
	h2d_show_name(&s, name, sizeof(name));
	CHECK(strlen(s.text) < sizeof(s.text));
	memset(name, 0xff, sizeof(name));
	h2d_show_name(&s, name, sizeof(name));
	CHECK(strlen(s.text) < sizeof(s.text));
}

int main(void)
{
	RUN(sorts_each_file);
	RUN(sorts_anything);
	RUN(bounds);
	RUN(overlaps);
	RUN(names);
	RUN(shown_names);
	return TEST_DONE();
}
