/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts of ggml's gguf.cpp, except where that reader is lax in ways a loader cannot be: data
 * that the file does not hold, and products of dimensions that wrap.
 */
#include "verdict.h"

static unsigned char file[70000];
static size_t used;

static void bytes(const void *data, size_t n)
{
	memcpy(file + used, data, n);
	used += n;
}

static void number(uint64_t v, size_t n)
{
	bytes(&v, n);
}

static void text(const char *s)
{
	number(strlen(s), 8);
	bytes(s, strlen(s));
}

static void head(uint32_t version, uint64_t tensors, uint64_t keys)
{
	memset(file, 0, sizeof(file));
	used = 0;
	bytes("GGUF", 4);
	number(version, 4);
	number(tensors, 8);
	number(keys, 8);
}

static void tensor(const char *name, unsigned rank, const uint64_t *dims, uint32_t type,
		   uint64_t offset)
{
	text(name);
	number(rank, 4);
	for (unsigned i = 0; i < rank; i++)
		number(dims[i], 8);
	number(type, 4);
	number(offset, 8);
}

#define DIMS(...) ((const uint64_t[]){__VA_ARGS__})

/* Pad, add `data` zero bytes and judge. */
static void end(const char *name, enum verdict verdict, size_t align, size_t data)
{
	used = (used + align - 1) / align * align + data;
	judge(name, verdict, file, used);
}

enum { F32 = 0, F16 = 1, Q4_0 = 2 };

static void versions(void)
{
	head(3, 0, 0);
	end("nothing in it", ACCEPT, 32, 0);
	head(2, 0, 0);
	end("version 2", ACCEPT, 32, 0);
	head(1, 1, 0);
	tensor("a", 1, DIMS(8), F32, 0);
	end("version 1", REJECT, 32, 32);
	head(0, 0, 0);
	end("version 0", REJECT, 32, 0);
	head(4, 0, 0);
	end("version 4", REJECT, 32, 0);
	head(0x03000000, 0, 0);
	end("big-endian", REJECT, 32, 0);
	head(3, 0, 0);
	memcpy(file, "FUGG", 4);
	end("reversed magic", REJECT, 32, 0);
	judge("no file", REJECT, "", 0);
	head(3, 0, 0);
	judge("23 bytes", REJECT, file, 23);
	head(3, UINT64_MAX, 0);
	end("-1 tensors", REJECT, 32, 0);
	head(3, 0, 1ull << 60);
	end("2^60 keys", REJECT, 32, 0);
}

static void aligned(uint32_t align, size_t pad, enum verdict verdict)
{
	head(3, 1, 1);
	text("general.alignment");
	number(4, 4);
	number(align, 4);
	tensor("a", 1, DIMS(8), F32, 0);
	end("alignment", verdict, pad, 32);
}

static void alignments(void)
{
	aligned(0, 32, REJECT);
	aligned(3, 32, REJECT);
	aligned(4, 4, ACCEPT);
	aligned(4096, 4096, ACCEPT);
	aligned(1u << 31, 32, REJECT);
}

static void offsets(void)
{
	head(3, 2, 0);
	tensor("a", 1, DIMS(2), F32, 0);
	tensor("b", 1, DIMS(8), F32, 32);
	end("padded tensor", ACCEPT, 32, 64);
	head(3, 1, 0);
	tensor("a", 1, DIMS(8), F32, 0);
	end("no data", REJECT, 32, 0);
	head(3, 1, 0);
	tensor("a", 1, DIMS(8), F32, 0);
	end("trailing bytes", ACCEPT, 32, 35);
	head(3, 1, 0);
	tensor("a", 1, DIMS(8), F32, UINT64_MAX - 31);
	end("offset 2^64 - 32", REJECT, 32, 32);
	head(3, 2, 0);
	tensor("a", 1, DIMS(8), F32, 0);
	tensor("b", 1, DIMS(8), F32, 0);
	end("overlap", REJECT, 32, 64);
}

static void keys(void)
{
	char *long_key;

	head(3, 0, 2);
	for (unsigned i = 1; i <= 2; i++) {
		text("k");
		number(4, 4);
		number(i, 4);
	}
	end("duplicate key", REJECT, 32, 0);
	head(3, 0, 1);
	text("k");
	number(7, 4);
	number(2, 1);
	end("bool of 2", ACCEPT, 32, 0);
	head(3, 0, 1);
	text("k");
	number(9, 4);
	number(0, 4);
	number(3, 8);
	bytes("abc", 3);
	end("array of u8", ACCEPT, 32, 0);
	head(3, 0, 1);
	text("k");
	number(9, 4);
	number(0, 4);
	number(0, 8);
	end("empty array", ACCEPT, 32, 0);
	head(3, 0, 1);
	text("k");
	number(9, 4);
	number(10, 4);
	number(1000, 8);
	end("array longer than the file", REJECT, 32, 0);
	head(3, 0, 1);
	text("k");
	number(8, 4);
	number(3, 8);
	bytes("a\0b", 3);
	end("string with a NUL", ACCEPT, 32, 0);
	head(3, 0, 1);
	text("");
	number(4, 4);
	number(1, 4);
	end("empty key", REJECT, 32, 0);
	long_key = malloc(65537);
	REQUIRE(long_key);
	memset(long_key, 'k', 65536);
	long_key[65536] = 0;
	head(3, 0, 1);
	text(long_key);
	number(4, 4);
	number(1, 4);
	end("key of 65536 bytes", ACCEPT, 32, 0);
	free(long_key);
}

static void names_and_shapes(void)
{
	char name[65];

	memset(name, 'a', sizeof(name));
	name[64] = 0;
	head(3, 1, 0);
	tensor(name + 1, 1, DIMS(8), F32, 0);
	end("name of 63 bytes", ACCEPT, 32, 32);
	head(3, 1, 0);
	tensor("", 1, DIMS(8), F32, 0);
	end("empty name", ACCEPT, 32, 32);
	head(3, 2, 0);
	tensor("a", 1, DIMS(8), F32, 0);
	tensor("a", 1, DIMS(8), F32, 32);
	end("duplicate name", REJECT, 32, 64);
	head(3, 1, 0);
	tensor("a", 4, DIMS(2, 2, 2, 1), F32, 0);
	end("rank 4", ACCEPT, 32, 32);
	head(3, 1, 0);
	tensor("a", 5, DIMS(2, 2, 2, 1, 1), F32, 0);
	end("rank 5", REJECT, 32, 32);
	head(3, 1, 0);
	tensor("a", 1, DIMS(UINT64_MAX), F32, 0);
	end("dimension -1", REJECT, 32, 32);
	head(3, 2, 0);
	tensor("a", 2, DIMS(4, 0), F32, 0);
	tensor("b", 1, DIMS(8), F32, 0);
	end("second dimension 0", ACCEPT, 32, 32);
	head(3, 1, 0);
	tensor("a", 2, DIMS(1ull << 31, 1ull << 32), F32, 0);
	end("bytes wrap", REJECT, 32, 32);
	head(3, 1, 0);
	tensor("a", 2, DIMS(1ull << 32, 1ull << 32), F32, 0);
	end("elements wrap to zero", REJECT, 32, 32);
	head(3, 1, 0);
	tensor("a", 2, DIMS(5, 1ull << 62), F32, 0);
	end("elements wrap to more than zero", REJECT, 32, 32);
	head(3, 1, 0);
	tensor("a", 1, DIMS(1ull << 62), F32, 0);
	end("2^62 elements", REJECT, 32, 32);
	head(3, 1, 0);
	tensor("a", 1, DIMS(32), Q4_0, 0);
	end("one block of Q4_0", ACCEPT, 32, 18);
	head(3, 1, 0);
	tensor("a", 1, DIMS(33), Q4_0, 0);
	end("part of a block", REJECT, 32, 64);
}

static void types(void)
{
	static const struct {
		uint32_t id;
		enum verdict verdict;
	} all[] = {
		{0, ACCEPT},   {4, REJECT},  {5, REJECT},   {30, ACCEPT},  {31, REJECT},
		{32, REJECT},  {33, REJECT}, {34, ACCEPT},  {35, ACCEPT},  {36, REJECT},
		{37, REJECT},  {38, REJECT}, {39, ACCEPT},  {40, ACCEPT},  {41, ACCEPT},
		{42, ACCEPT},  {43, REJECT}, {133, REJECT}, {202, REJECT}, {0x7fffffff, REJECT},
		{~0u, REJECT},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char name[32];

		snprintf(name, sizeof(name), "type %u", all[i].id);
		head(3, 1, 0);
		tensor("a", 1, DIMS(256), all[i].id, 0);
		end(name, all[i].verdict, 32, 2048);
	}
}

int main(void)
{
	scratch_make();
	RUN(versions);
	RUN(alignments);
	RUN(offsets);
	RUN(keys);
	RUN(names_and_shapes);
	RUN(types);
	return TEST_DONE();
}
