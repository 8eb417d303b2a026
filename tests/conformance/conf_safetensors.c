/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts of the reference reader (the safetensors Rust crate of the 0.8 line), except where
 * its own specification is stricter: duplicate names, entries written as arrays.
 */
#include "verdict.h"

struct st_case {
	const char *name;
	enum verdict verdict;
	const char *header;
	size_t header_bytes, data_bytes;
};

#define CASE(name, verdict, header, data)                                                      \
	{                                                                                      \
		name, verdict, header, sizeof(header) - 1, data                                \
	}
#define ENTRY(dtype, shape, offsets)                                                           \
	"{\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\": " ENTRY(dtype, shape, offsets) "}"
#define DTYPE(name, verdict, offsets, data)                                                    \
	CASE("dtype " name, verdict, ONE(name, "[1]", offsets), data)
#define A4 ENTRY("U8", "[4]", "[0, 4]")

static const struct st_case cases[] = {
	CASE("empty object", ACCEPT, "{}", 0),
	CASE("only metadata", ACCEPT, "{\"__metadata__\": {\"k\": \"v\"}}", 0),
	CASE("metadata null", ACCEPT, "{\"__metadata__\": null}", 0),
	CASE("white space around", ACCEPT, "\t\n{}\r ", 0),
	CASE("trailing NULs", REJECT, "{}\0", 0),
	CASE("byte order mark", REJECT, "\xef\xbb\xbf{}", 0),
	CASE("first begin not zero", REJECT, ONE("U8", "[4]", "[4, 8]"), 8),
	CASE("two names on one range", REJECT, "{\"a\": " A4 ", \"b\": " A4 "}", 4),
	CASE("missing byte", REJECT, ONE("U8", "[4]", "[0, 4]"), 3),
	CASE("trailing byte", REJECT, ONE("U8", "[4]", "[0, 4]"), 5),
	CASE("zero size first", ACCEPT,
	     "{\"z\": " ENTRY("F32", "[0, 3]", "[0, 0]") ", \"a\": " A4 "}", 4),
	CASE("zero size in the middle", ACCEPT,
	     "{\"a\": " A4 ", \"z\": " ENTRY("F32", "[0]", "[4, 4]") ", \"b\": " ENTRY(
		     "U8", "[4]", "[4, 8]") "}",
	     8),
	CASE("zero size listed after its neighbour", ACCEPT,
	     "{\"a\": " A4 ", \"z\": " ENTRY("F32", "[0]", "[0, 0]") "}", 4),
	CASE("order of the text is not that of the data", ACCEPT,
	     "{\"b\": " ENTRY("U8", "[4]", "[4, 8]") ", \"a\": " A4 "}", 8),
	CASE("hole", REJECT, "{\"a\": " A4 ", \"b\": " ENTRY("U8", "[4]", "[5, 9]") "}", 9),
	CASE("overlap", REJECT, "{\"a\": " A4 ", \"b\": " ENTRY("U8", "[4]", "[3, 7]") "}", 7),
	CASE("rank 0", ACCEPT, ONE("F32", "[]", "[0, 4]"), 4),
	CASE("negative dimension", REJECT, ONE("U8", "[-1]", "[0, 4]"), 4),
	CASE("minus zero", REJECT, ONE("U8", "[-0]", "[0, 0]"), 0),
	CASE("dimension as fraction", REJECT, ONE("U8", "[4.0]", "[0, 4]"), 4),
	CASE("dimension with exponent", REJECT, ONE("U8", "[4e0]", "[0, 4]"), 4),
	CASE("dimension as string", REJECT, ONE("U8", "[\"4\"]", "[0, 4]"), 4),
	CASE("dimension with leading zero", REJECT, ONE("U8", "[04]", "[0, 4]"), 4),
	CASE("overflow, then zero", REJECT, ONE("U8", "[9223372036854775808, 4, 0]", "[0, 0]"),
	     0),
	CASE("zero, then large", ACCEPT, ONE("U8", "[0, 9223372036854775808, 4]", "[0, 0]"), 0),
	CASE("overflow of bits", REJECT,
	     ONE("F32", "[1152921504606846976]", "[0, 4611686018427387904]"), 0),
	CASE("offset over 64 bits", REJECT, ONE("U8", "[4]", "[0, 18446744073709551616]"), 4),
	CASE("one offset", REJECT, ONE("U8", "[4]", "[4]"), 4),
	CASE("three offsets", REJECT, ONE("U8", "[4]", "[0, 4, 4]"), 4),
	CASE("dtype missing", REJECT, "{\"a\": {\"shape\": [4], \"data_offsets\": [0, 4]}}", 4),
	CASE("lower-case dtype", REJECT, ONE("f32", "[1]", "[0, 4]"), 4),
	CASE("entry as array", REJECT, "{\"a\":[\"U8\",[4],[0,4]]}", 4),
	CASE("duplicate name, same range", REJECT, "{\"a\": " A4 ", \"a\": " A4 "}", 4),
	CASE("duplicate name, other range", REJECT,
	     "{\"a\": " A4 ", \"a\": " ENTRY("U8", "[4]", "[4, 8]") "}", 8),
	CASE("duplicate name after decoding", REJECT,
	     "{\"a\": " A4 ", \"\\u0061\": " ENTRY("U8", "[4]", "[4, 8]") "}", 8),
	CASE("duplicate field", REJECT,
	     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
	     4),
	CASE("unknown field", ACCEPT,
	     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4),
	CASE("duplicate metadata key", ACCEPT, "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}",
	     0),
	CASE("repeated metadata", REJECT, "{\"__metadata__\":{},\"__metadata__\":{}}", 0),
	CASE("metadata of numbers", REJECT, "{\"__metadata__\":{\"a\":1}}", 0),
	CASE("metadata nested", REJECT, "{\"__metadata__\":{\"a\":{}}}", 0),
	CASE("metadata as a tensor", REJECT, "{\"__metadata__\": " A4 "}", 4),
	CASE("a name that begins like it", ACCEPT, "{\"__metadata__x\": " A4 "}", 4),
	CASE("NUL in a name", ACCEPT, "{\"a\\u0000b\": " A4 "}", 4),
	CASE("empty name", ACCEPT, "{\"\": " A4 "}", 4),
	CASE("surrogate pair", ACCEPT, "{\"\\ud83d\\ude00\": " A4 "}", 4),
	CASE("lone surrogate", REJECT, "{\"\\ud800\": " A4 "}", 4),
	CASE("raw control character in a name", REJECT, "{\"a\nb\": " A4 "}", 4),
	CASE("not UTF-8", REJECT, "{\"\xff\": " A4 "}", 4),
	CASE("trailing comma", REJECT, "{\"a\": " A4 ",}", 4),
	CASE("second document", REJECT, "{}{}", 0),
	CASE("empty header", REJECT, "", 0),
	CASE("header of spaces", REJECT, "        ", 0),
	CASE("F4, odd count", REJECT, ONE("F4", "[3]", "[0, 2]"), 2),
	CASE("F6_E3M2, three of them", REJECT, ONE("F6_E3M2", "[3]", "[0, 3]"), 3),
	CASE("F4, even count", ACCEPT, ONE("F4", "[4]", "[0, 2]"), 2),
	CASE("F6_E2M3, four of them", ACCEPT, ONE("F6_E2M3", "[4]", "[0, 3]"), 3),
	CASE("F6_E3M2, four of them", ACCEPT, ONE("F6_E3M2", "[4]", "[0, 3]"), 3),
	DTYPE("BOOL", ACCEPT, "[0, 1]", 1),
	DTYPE("U8", ACCEPT, "[0, 1]", 1),
	DTYPE("I8", ACCEPT, "[0, 1]", 1),
	DTYPE("F8_E5M2", ACCEPT, "[0, 1]", 1),
	DTYPE("F8_E4M3", ACCEPT, "[0, 1]", 1),
	DTYPE("F8_E8M0", ACCEPT, "[0, 1]", 1),
	DTYPE("F8_E4M3FNUZ", ACCEPT, "[0, 1]", 1),
	DTYPE("F8_E5M2FNUZ", ACCEPT, "[0, 1]", 1),
	DTYPE("I16", ACCEPT, "[0, 2]", 2),
	DTYPE("U16", ACCEPT, "[0, 2]", 2),
	DTYPE("F16", ACCEPT, "[0, 2]", 2),
	DTYPE("BF16", ACCEPT, "[0, 2]", 2),
	DTYPE("I32", ACCEPT, "[0, 4]", 4),
	DTYPE("U32", ACCEPT, "[0, 4]", 4),
	DTYPE("F32", ACCEPT, "[0, 4]", 4),
	DTYPE("C64", ACCEPT, "[0, 8]", 8),
	DTYPE("F64", ACCEPT, "[0, 8]", 8),
	DTYPE("I64", ACCEPT, "[0, 8]", 8),
	DTYPE("U64", ACCEPT, "[0, 8]", 8),
	DTYPE("I4", REJECT, "[0, 1]", 1),
	DTYPE("C128", REJECT, "[0, 16]", 16),
	DTYPE("F4_E2M1", REJECT, "[0, 1]", 1),
	DTYPE("F8_E4M3FN", REJECT, "[0, 1]", 1),
	DTYPE("E8M0", REJECT, "[0, 1]", 1),
	/* The data byte is the pattern's first, 7: values are not looked at. */
	CASE("a BOOL that is neither 0 nor 1", ACCEPT, ONE("BOOL", "[1]", "[0, 1]"), 1),
	CASE("header length not a multiple of 8, F64", ACCEPT,
	     "{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8),
	CASE("entry null", REJECT, "{\"a\": null}", 0),
	CASE("comment", REJECT, "{}/*x*/", 0),
	CASE("vertical tab behind", REJECT, "{}\v", 0),
	CASE("size and shape differ", REJECT, ONE("F32", "[2]", "[0, 4]"), 4),
};

static void table(void)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t bytes;
		unsigned char *file = st_file(cases[i].header, cases[i].header_bytes,
					      cases[i].data_bytes, &bytes);

		judge(cases[i].name, cases[i].verdict, file, bytes);
		free(file);
	}
}

static void lengths(void)
{
	judge("no file", REJECT, "", 0);
	judge("7 bytes", REJECT, "\0\0\0\0\0\0\0", 7);
	judge("length 100000001", REJECT, "\x01\xe1\xf5\x05\0\0\0\0{}", 10);
	judge("length 100000000 in a short file", REJECT, "\x00\xe1\xf5\x05\0\0\0\0{}", 10);
	judge("length 2^64 - 1", REJECT, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
	judge("length over the file", REJECT, "\3\0\0\0\0\0\0\0{}", 10);
}

static void nested(unsigned depth, enum verdict verdict)
{
	char text[1024];
	size_t n = 0, bytes;
	unsigned char *file;

	n += (size_t)sprintf(text,
			     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],"
			     "\"x\":");
	for (unsigned i = 0; i < depth; i++)
		text[n++] = '[';
	for (unsigned i = 0; i < depth; i++)
		text[n++] = ']';
	n += (size_t)sprintf(text + n, "}}");
	file = st_file(text, n, 4, &bytes);
	judge("nesting", verdict, file, bytes);
	free(file);
}

static void nesting(void)
{
	nested(100, ACCEPT);
	nested(200, REJECT);
}

/* Ten tensors that all claim the same bytes. */
static void attack(void)
{
	char text[2048] = "{";
	unsigned char *file;
	size_t bytes;

	for (int i = 0; i < 10; i++)
		sprintf(text + strlen(text),
			"%s\"weight_%d\": " ENTRY("F32", "[2, 2]", "[0, 16]"), i ? ", " : "",
			i);
	strcat(text, "}");
	file = st_file(text, strlen(text), 16, &bytes);
	judge("ten tensors on one range", REJECT, file, bytes);
	free(file);
}

int main(void)
{
	scratch_make();
	RUN(table);
	RUN(lengths);
	RUN(nesting);
	RUN(attack);
	return TEST_DONE();
}
