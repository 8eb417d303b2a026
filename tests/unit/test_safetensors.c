/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of a safetensors header, kept and broken; and what the message says. */
#include <stdbool.h>
#include <sys/mman.h>

#include "ckpt.h"

struct rule {
	const char *header;
	size_t header_bytes, data_bytes;
	const char *says; /* NULL: accepted; else a part of the error line */
};

#define ACCEPT(text, data)                                                                     \
	{                                                                                      \
		text, sizeof(text) - 1, data, NULL                                             \
	}
#define REJECT(text, data, says)                                                               \
	{                                                                                      \
		text, sizeof(text) - 1, data, says                                             \
	}

/* An entry of four bytes with everything in order. */
#define E4 "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define ENTRY(dtype, shape, offsets)                                                           \
	"{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define IGNORED(value)                                                                         \
	"{\"a\":{\"x\":" value ",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

static void check(const struct rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct rule *r = &rules[i];
		int before = test_failures;
		int rc = st_open(r->header, r->header_bytes, r->data_bytes);

		if (r->says) {
			CHECK_EQ(rc, H2D_E_FORMAT);
			CHECK(st_ckpt == NULL);
			CHECK_EQ(lines.errors, 1);
			CHECK(!strncmp(lines.error, "memory: ", 8));
			CHECK(strstr(lines.error, r->says) != NULL);
		} else {
			CHECK_EQ(rc, 0);
			CHECK_EQ(lines.errors, 0);
			CHECK(st_ckpt != NULL);
		}
		CHECK_EQ(lines.warnings, 0);
		if (test_failures != before)
			fprintf(stderr, "  case %zu: %.*s\n  said: %s\n", i,
				(int)r->header_bytes, r->header, lines.error);
		st_drop();
	}
}

#define CHECK_RULES(rules) check(rules, sizeof(rules) / sizeof((rules)[0]))

static void documents(void)
{
	static const struct rule rules[] = {
		ACCEPT("{}", 0),
		ACCEPT("{ }", 0),
		ACCEPT(" \t\r\n{}", 0),
		ACCEPT("{} \t\r\n", 0),
		ACCEPT("{\"a\":" E4 "}      ", 4),
		ACCEPT("{ \"a\" : { \"dtype\" : \"U8\" , \"shape\" : [ 4 ] ,\n"
		       "\"data_offsets\" : [ 0 , 4 ] } }",
		       4),
		REJECT("{}\0", 0, "header: byte 0x00 behind the object (offset 10)"),
		REJECT("{}\v", 0, "byte 0x0b behind the object (offset 10)"),
		REJECT("{}{}", 0, "behind the object (offset 10)"),
		REJECT("{}/**/", 0, "behind the object (offset 10)"),
		REJECT("{\f}", 0, "byte 0x0c where a string was expected (offset 9)"),
		REJECT("{/**/}", 0, "'/' where a string was expected (offset 9)"),
		REJECT("{", 0, "no format"),
		REJECT("{ ", 0, "the header ends where a string was expected (offset 10)"),
		REJECT("{\"a\":" E4, 4, "the header ends where ',' or '}' was expected"),
		REJECT("{\"a\":" E4 ",}", 4, "'}' where a string was expected"),
		REJECT("{,\"a\":" E4 "}", 4, "',' where a string was expected (offset 9)"),
		REJECT("{\"a\":" E4 " \"b\":" E4 "}", 4, "'\"' where ',' or '}' was expected"),
		REJECT("{\"a\" " E4 "}", 4, "'{' where ':' was expected (offset 13)"),
		REJECT("{\"a\":" E4 "]", 4, "']' where ',' or '}' was expected"),
		REJECT("{'a':" E4 "}", 4, "''' where a string was expected"),
		REJECT("{1:" E4 "}", 4, "'1' where a string was expected"),
		REJECT("{\"a", 0, "the header ends inside a string (offset 11)"),
		REJECT("{\"a\":{\"dtype\":\"U8", 0, "ends inside a string"),
		REJECT("[]", 0, "no format"),
		REJECT("\xef\xbb\xbf{}", 0, "no format"),
		REJECT("  ", 0, "no format"),
	};

	CHECK_RULES(rules);
}

static void strings(void)
{
	static const struct rule rules[] = {
		ACCEPT("{\"\":" E4 "}", 4),
		ACCEPT("{\"\\u0000\":" E4 "}", 4),
		ACCEPT("{\"\\\"\\\\\\/\\b\\f\\n\\r\\t\":" E4 "}", 4),
		ACCEPT("{\"\\ud83d\\uDE00\":" E4 "}", 4),
		ACCEPT("{\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\":" E4 "}",
		       4),
		ACCEPT("{\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\":" E4 "}", 4),
		REJECT("{\"\\x\":" E4 "}", 4, "unknown escape in a string (offset 10)"),
		REJECT("{\"\\\":" E4 "}", 4, "'d' where ':' was expected (offset 15)"),
		REJECT("{\"ab\\", 0, "unknown escape in a string (offset 12)"),
		REJECT("{\"\\u12g4\":" E4 "}", 4, "four hexadecimal digits (offset 10)"),
		REJECT("{\"\\u12", 0, "four hexadecimal digits"),
		REJECT("{\"\\ud800\":" E4 "}", 4, "lone surrogate in a string (offset 10)"),
		REJECT("{\"\\udc00\":" E4 "}", 4, "lone surrogate"),
		REJECT("{\"\\ud800x\":" E4 "}", 4, "lone surrogate"),
		REJECT("{\"\\ud800\\n\":" E4 "}", 4, "lone surrogate"),
		REJECT("{\"\\ud800\\u0041\":" E4 "}", 4, "lone surrogate"),
		REJECT("{\"\\ud800\\ud800\":" E4 "}", 4, "lone surrogate"),
		REJECT("{\"a\nb\":" E4 "}", 4,
		       "raw control character 0x0a in a string (offset 11)"),
		REJECT("{\"abcdefghij\x1f\":" E4 "}", 4, "raw control character 0x1f"),
		REJECT("{\"a\0b\":" E4 "}", 4,
		       "raw control character 0x00 in a string (offset 11)"),
		REJECT("{\"\x80\":" E4 "}", 4, "not valid UTF-8 (offset 10)"),
		REJECT("{\"abcdefgh\xc0\x80\":" E4 "}", 4, "not valid UTF-8 (offset 18)"),
		REJECT("{\"\xe0\x9f\xbf\":" E4 "}", 4, "not valid UTF-8"),
		REJECT("{\"\xed\xa0\x80\":" E4 "}", 4, "not valid UTF-8"),
		REJECT("{\"\xf4\x90\x80\x80\":" E4 "}", 4, "not valid UTF-8"),
		REJECT("{\"\xf5\x80\x80\x80\":" E4 "}", 4, "not valid UTF-8"),
		REJECT("{\"\xc2\":" E4 "}", 4, "not valid UTF-8"),
		REJECT("{\"\xe2\x82", 0, "not valid UTF-8"),
		REJECT(IGNORED("\"\xff\""), 4, "not valid UTF-8"),
		REJECT("{\"__metadata__\":{\"k\":\"\xff\"}}", 0,
		       "__metadata__: string is not valid"),
		/* The same name in two spellings. */
		REJECT("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		       "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
		       8, "tensor \"a\": duplicate name at offset 61, first at offset 9"),
		REJECT("{\"a\":" E4 ",\"a\":" E4 "}", 4,
		       "tensor \"a\": duplicate name at offset"),
		/* An empty tensor and one with data: both are in place, only the names clash.
		 */
		REJECT("{\"a\":" E4 ",\"a\":{\"dtype\":\"U8\",\"shape\":[0],"
		       "\"data_offsets\":[4,4]}}",
		       4, "duplicate name at offset 61, first at offset 9"),
	};

	CHECK_RULES(rules);
}

static void fields(void)
{
	static const struct rule rules[] = {
		ACCEPT("{\"a\":{\"data_offsets\":[0,4],\"shape\":[4],\"dtype\":\"U8\"}}", 4),
		ACCEPT("{\"a\":{\"d\\u0074ype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
		       4),
		REJECT("{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
		       "tensor \"a\": field \"dtype\" is missing (offset 9)"),
		REJECT("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4,
		       "tensor \"a\": field \"shape\" is missing"),
		REJECT("{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4,
		       "tensor \"a\": field \"data_offsets\" is missing"),
		REJECT("{\"a\":{}}", 0, "field \"dtype\" is missing"),
		REJECT("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],"
		       "\"data_offsets\":[0,4]}}",
		       4, "tensor \"a\": dtype: field given twice (offset 27)"),
		REJECT("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"\\u0073hape\":[4],"
		       "\"data_offsets\":[0,4]}}",
		       4, "shape: field given twice"),
		REJECT("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],"
		       "\"data_offsets\":[0,4]}}",
		       4, "data_offsets: field given twice"),
		REJECT("{\"a\":[\"U8\",[4],[0,4]]}", 4, "'[' where an object was expected"),
		REJECT("{\"a\":null}", 0, "'n' where an object was expected (offset 13)"),
		REJECT("{\"a\":\"U8\"}", 0, "'\"' where an object was expected"),
		REJECT("{\"a\":7}", 0, "'7' where an object was expected"),
		/* Unknown fields are passed over, but must be JSON. */
		ACCEPT(IGNORED("null"), 4),
		ACCEPT(IGNORED("[true,false,null,{},[],{\"k\":[1]},\"s\"]"), 4),
		ACCEPT(IGNORED("[0,-0,10,-1.5,1e5,1E-5,0.0e+0,1e999]"), 4),
		ACCEPT(IGNORED("1,\"x\":2"), 4),
		REJECT(IGNORED("01"), 4, "malformed number"),
		REJECT(IGNORED("1."), 4, "malformed number"),
		REJECT(IGNORED("1.e5"), 4, "malformed number"),
		REJECT(IGNORED("1e"), 4, "malformed number"),
		REJECT(IGNORED("1e+"), 4, "malformed number"),
		REJECT(IGNORED("-"), 4, "malformed number"),
		REJECT(IGNORED("+1"), 4, "'+' where a value was expected"),
		REJECT(IGNORED(".5"), 4, "'.' where a value was expected"),
		REJECT(IGNORED("NaN"), 4, "'N' where a value was expected"),
		REJECT(IGNORED("tru"), 4, "'t' where a value was expected"),
		REJECT(IGNORED("nullx"), 4, "'x' where ',' or '}' was expected"),
		REJECT(IGNORED("[1,]"), 4, "']' where a value was expected"),
		REJECT(IGNORED("[1 2]"), 4, "'2' where ',' or ']' was expected"),
		REJECT(IGNORED("{\"k\" 1}"), 4, "'1' where ':' was expected"),
		REJECT(IGNORED("{1:1}"), 4, "'1' where a string was expected"),
		REJECT(IGNORED("[}"), 4, "'}' where a value was expected"),
		REJECT(IGNORED("[1}"), 4, "'}' where ',' or ']' was expected"),
		REJECT(IGNORED("\"\\ud800\""), 4, "lone surrogate"),
		REJECT("{\"a\":{\"x\":[", 0, "the header ends where a value was expected"),
		REJECT("{\"a\":{\"x\":tr", 0, "where a value was expected"),
	};

	CHECK_RULES(rules);
}

static int open_nested(unsigned depth, char open, char close, const char *inner)
{
	char text[2048] = "{\"a\":{\"x\":";
	size_t n;

	for (unsigned i = 0; i < depth; i++) {
		n = strlen(text);
		text[n] = open;
		text[n + 1] = 0;
		if (open == '{' && i + 1 < depth)
			strcat(text, "\"k\":");
	}
	strcat(text, inner);
	for (unsigned i = 0; i < depth; i++) {
		n = strlen(text);
		text[n] = close;
		text[n + 1] = 0;
	}
	strcat(text, ",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}");
	return st_open(text, strlen(text), 4);
}

static void nesting(void)
{
	CHECK_EQ(open_nested(100, '[', ']', ""), 0);
	st_drop();
	CHECK_EQ(open_nested(128, '[', ']', "1"), 0);
	st_drop();
	CHECK_EQ(open_nested(128, '{', '}', ""), 0);
	st_drop();
	CHECK_EQ(open_nested(129, '[', ']', ""), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "tensor \"a\": nested more than 128 deep (offset 146)") !=
	      NULL);
	st_drop();
	CHECK_EQ(open_nested(129, '{', '}', ""), H2D_E_FORMAT);
	st_drop();
}

static void shapes_and_offsets(void)
{
	static const struct rule rules[] = {
		ACCEPT(ENTRY("F32", "[]", "[0,4]"), 4),
		ACCEPT(ENTRY("U8", "[18446744073709551615,0]", "[0,0]"), 0),
		ACCEPT(ENTRY("U8", "[0,9223372036854775808,4]", "[0,0]"), 0),
		ACCEPT(ENTRY("F4", "[4]", "[0,2]"), 2),
		ACCEPT(ENTRY("F6_E2M3", "[4]", "[0,3]"), 3),
		ACCEPT(ENTRY("BOOL", "[1]", "[0,1]"), 1),
		REJECT(ENTRY("U8", "[-1]", "[0,4]"), 4,
		       "\"a\": shape: negative number (offset 36)"),
		REJECT(ENTRY("U8", "[-0]", "[0,0]"), 0, "shape: negative number"),
		REJECT(ENTRY("U8", "[4.0]", "[0,4]"), 4,
		       "shape: number is not written as an integer"),
		REJECT(ENTRY("U8", "[4e0]", "[0,4]"), 4,
		       "shape: number is not written as an integer"),
		REJECT(ENTRY("U8", "[\"4\"]", "[0,4]"), 4,
		       "where an unsigned integer was expected"),
		REJECT(ENTRY("U8", "[04]", "[0,4]"), 4, "shape: number with a leading zero"),
		REJECT(ENTRY("U8", "[+4]", "[0,4]"), 4, "'+' where an unsigned integer"),
		REJECT(ENTRY("U8", "[null]", "[0,4]"), 4, "'n' where an unsigned integer"),
		REJECT(ENTRY("U8", "[4,]", "[0,4]"), 4, "']' where an unsigned integer"),
		REJECT(ENTRY("U8", "[4", "[0,4]"), 4, "shape: "),
		REJECT(ENTRY("U8", "4", "[0,4]"), 4, "shape: '4' where an array was expected"),
		REJECT(ENTRY("U8", "null", "[0,4]"), 4,
		       "shape: 'n' where an array was expected"),
		REJECT(ENTRY("U8", "[18446744073709551616]", "[0,4]"), 4,
		       "shape: number passes 2^64 - 1"),
		REJECT(ENTRY("U8", "[99999999999999999999999]", "[0,4]"), 4, "passes 2^64 - 1"),
		REJECT(ENTRY("U8", "[9223372036854775808,4,0]", "[0,0]"), 0,
		       "\"a\": shape: number of elements passes 2^64 - 1 (offset 35)"),
		REJECT(ENTRY("U8", "[2,18446744073709551614]", "[0,4]"), 4,
		       "number of elements"),
		REJECT(ENTRY("U8", "[2,9223372036854775807]", "[0,4]"), 4,
		       "number of bits passes"),
		REJECT(ENTRY("F64", "[288230376151711744]", "[0,4]"), 4,
		       "shape: number of bits passes 2^64 - 1"),
		REJECT(ENTRY("F4", "[3]", "[0,2]"), 2,
		       "elements of 4 bits do not fill whole bytes"),
		REJECT(ENTRY("F6_E2M3", "[3]", "[0,3]"), 3, "elements of 6 bits do not fill"),
		REJECT(ENTRY("F6_E3M2", "[2]", "[0,2]"), 2, "elements of 6 bits do not fill"),
		REJECT(ENTRY("U8", "[4]", "[]"), 4, "data_offsets: must be two numbers"),
		REJECT(ENTRY("U8", "[4]", "[0]"), 4, "data_offsets: must be two numbers"),
		REJECT(ENTRY("U8", "[4]", "[0,4,4]"), 4, "data_offsets: must be two numbers"),
		REJECT(ENTRY("U8", "[4]", "[0,]"), 4, "data_offsets: must be two numbers"),
		REJECT(ENTRY("U8", "[4]", "[0,4.0]"), 4, "data_offsets: number is not written"),
		REJECT(ENTRY("U8", "[4]", "[-0,4]"), 4, "data_offsets: negative number"),
		REJECT(ENTRY("U8", "[4]", "[00,4]"), 4,
		       "data_offsets: number with a leading zero"),
		REJECT(ENTRY("U8", "[4]", "[0,18446744073709551620]"), 4,
		       "data_offsets: number passes 2^64 - 1"),
		REJECT(ENTRY("U8", "[4]", "{}"), 4, "data_offsets: '{' where an array"),
		REJECT(ENTRY("U8", "[4]", "[4,0]"), 4,
		       "data_offsets: end 0 lies before begin 4"),
		REJECT(ENTRY("U8", "[4]", "[0,3]"), 4,
		       "range of 3 bytes, but dtype and shape make 4"),
		REJECT(ENTRY("F32", "[2]", "[0,4]"), 4,
		       "range of 4 bytes, but dtype and shape make 8"),
		REJECT(ENTRY("U8", "[4]", "[0,4]"), 3,
		       "data_offsets: end 4 passes the data, which the file has 3 bytes of"),
		REJECT(ENTRY("U8", "[4]", "[18446744073709551608,18446744073709551612]"), 4,
		       "passes the data"),
	};

	CHECK_RULES(rules);
}

static void dtypes(void)
{
	static const struct {
		const char *name;
		unsigned bits;
	} all[] = {
		{"BOOL", 8},	{"F4", 4},	    {"F6_E2M3", 6},	{"F6_E3M2", 6},
		{"U8", 8},	{"I8", 8},	    {"F8_E5M2", 8},	{"F8_E4M3", 8},
		{"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
		{"U16", 16},	{"F16", 16},	    {"BF16", 16},	{"I32", 32},
		{"U32", 32},	{"F32", 32},	    {"C64", 64},	{"F64", 64},
		{"I64", 64},	{"U64", 64},
	};
	static const char *const none[] = {"f32",	"I4",	"U4",	     "I2",   "C128",
					   "F8_E4M3FN", "E8M0", "F4_E2M1",   "FP16", "F32 ",
					   "F3",	"",	"F32\\u0000"};
	char text[256];

	CHECK_EQ(sizeof(all) / sizeof(all[0]), 22);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct h2d_tensor_info t = H2D_OPTS(t);

		snprintf(text, sizeof(text),
			 "{\"a\":{\"dtype\":\"%s\",\"shape\":[4,5],\"data_offsets\":[0,%u]}}",
			 all[i].name, 20 * all[i].bits / 8);
		CHECK_EQ(st_open(text, strlen(text), 20 * all[i].bits / 8), 0);
		CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 0, &t), 0);
		CHECK_STR(t.dtype, all[i].name);
		CHECK_EQ(t.size_bytes, 20 * all[i].bits / 8);
		st_drop();
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		snprintf(text, sizeof(text), ENTRY("%s", "[4]", "[0,4]"), none[i]);
		CHECK_EQ(st_open(text, strlen(text), 4), H2D_E_FORMAT);
		CHECK(strstr(lines.error, "tensor \"a\": dtype: unknown dtype \"") != NULL);
		st_drop();
	}
	CHECK_EQ(st_open("{\"a\":{\"dtype\":8}}", 17, 0), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "dtype: '8' where a string was expected") != NULL);
	st_drop();
}

#define T(name, size, begin, end)                                                              \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" begin "," end \
	"]}"

static void coverage(void)
{
	static const struct rule rules[] = {
		ACCEPT("{" T("b", "4", "4", "8") "," T("a", "4", "0", "4") "}", 8),
		ACCEPT("{" T("z", "0", "0", "0") "," T("a", "4", "0", "4") "}", 4),
		ACCEPT("{" T("a", "4", "0", "4") "," T("z", "0", "0", "0") "}", 4),
		ACCEPT("{" T("a", "4", "0", "4") "," T("z", "0", "4", "4") "}", 4),
		ACCEPT("{" T("a", "4", "0", "4") "," T("b", "4", "4", "8") "," T(
			       "z", "0", "4", "4") "," T("y", "0", "4", "4") "}",
		       8),
		ACCEPT("{" T("z", "0", "0", "0") "}", 0),
		REJECT("{" T("a", "4", "4", "8") "}", 8,
		       "tensor \"a\": data_offsets: begin 4 leaves a hole, the data before it "
		       "end at 0"),
		REJECT("{" T("a", "4", "0", "4") "," T("b", "4", "5", "9") "}", 9,
		       "tensor \"b\": data_offsets: begin 5 leaves a hole, the data before it "
		       "end at 4"),
		REJECT("{" T("a", "4", "0", "4") "," T("b", "4", "3", "7") "}", 7,
		       "tensor \"b\": data_offsets: begin 3 lies inside the data of tensor "
		       "\"a\""),
		REJECT("{" T("a", "4", "0", "4") "," T("b", "4", "0", "4") "}", 4,
		       "tensor \"b\": data_offsets: begin 0 lies inside the data of tensor "
		       "\"a\""),
		REJECT("{" T("a", "4", "0", "4") "," T("z", "0", "2", "2") "}", 4,
		       "tensor \"z\": data_offsets: begin 2 lies inside the data of tensor "
		       "\"a\""),
		REJECT("{" T("a", "4", "0", "4") "," T("z", "0", "5", "5") "}", 4,
		       "tensor \"z\": data_offsets: end 5 passes the data"),
		REJECT("{" T("a", "4", "0", "4") "}", 5,
		       "file length: the last tensor ends at offset"),
		REJECT("{}", 1,
		       "file length: the last tensor ends at offset 10, the file at 11"),
		REJECT("{" T("z", "0", "0", "0") "}", 1, "file length"),
	};

	CHECK_RULES(rules);
}

static void metadata(void)
{
	static const struct rule rules[] = {
		ACCEPT("{\"__metadata__\":null}", 0),
		ACCEPT("{\"__metadata__\":{}}", 0),
		ACCEPT("{\"__metadata__x\":" E4 "}", 4),
		REJECT("{\"__metadata__\":" E4 "}", 4, "__metadata__: '[' where a string"),
		REJECT("{\"__metadata__\":{\"k\":1}}", 0, "__metadata__: '1' where a string"),
		REJECT("{\"__metadata__\":{\"k\":null}}", 0,
		       "__metadata__: 'n' where a string"),
		REJECT("{\"__metadata__\":{\"k\":{}}}", 0, "__metadata__: '{' where a string"),
		REJECT("{\"__metadata__\":[]}", 0,
		       "'[' where an object of strings was expected"),
		REJECT("{\"__metadata__\":\"x\"}", 0,
		       "where an object of strings was expected"),
		REJECT("{\"__metadata__\":nul}", 0, "__metadata__: "),
		REJECT("{\"__metadata__\":{},\"__metadata__\":{}}", 0,
		       "__metadata__: given twice (offset 27)"),
		REJECT("{\"__metadata__\":null,\"\\u005f_metadata__\":null}", 0, "given twice"),
	};

	CHECK_RULES(rules);
}

/* A file of a header length and `{}` padded with spaces to it, without storing it. */
static uint64_t padded_bytes;

static ssize_t padded_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	unsigned char *p = buf;

	(void)fd;
	memset(p, ' ', bytes);
	for (int i = 0; i < 10; i++) {
		unsigned char c = i == 8   ? '{'
				  : i == 9 ? '}'
					   : (unsigned char)(padded_bytes >> 8 * i);

		if (i >= offset && (size_t)(i - offset) < bytes)
			p[i - offset] = c;
	}
	return (ssize_t)bytes;
}

static int open_padded(uint64_t header_bytes)
{
	struct h2d_io_ops io = h2d_io_system;
	struct h2d_open_opts o = fresh_log();
	int fd = memfd_create("padded", 0), rc = H2D_E_INTERNAL;

	padded_bytes = header_bytes;
	io.pread = padded_pread;
	h2d_io = &io;
	if (fd >= 0 && !ftruncate(fd, (off_t)(8 + header_bytes)))
		rc = h2d_checkpoint_open_fd(fd, "padded", &o, &st_ckpt);
	h2d_io = &h2d_io_system;
	close(fd);
	st_drop();
	return rc;
}

static void lengths(void)
{
	static const struct {
		unsigned char bytes[16];
		size_t count;
		const char *says;
	} cases[] = {
		{{0}, 0, "no format"},
		{{2, 0, 0, 0, 0, 0, 0}, 7, "no format"},
		{{2, 0, 0, 0, 0, 0, 0, 0}, 8, "no format"},
		{{1, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{', '}'},
		 10,
		 "header length: 100000001 is over the limit of 100000000 (offset 0)"},
		{{255, 255, 255, 255, 255, 255, 255, 255, '{', '}'},
		 10,
		 "header length: 18446744073709551615 is over the limit"},
		{{3, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
		 10,
		 "header length: 3 bytes at offset 8 pass the end of the file (10) (offset 0)"},
		{{0, 0xe1, 0xf5, 5, 0, 0, 0, 0, '{', '}'}, 10, "pass the end of the file"},
	};
	char spaces[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct h2d_open_opts o = fresh_log();

		CHECK_EQ(h2d_checkpoint_open_memory(cases[i].bytes, cases[i].count, &o,
						    &st_ckpt),
			 H2D_E_FORMAT);
		CHECK_EQ(lines.errors, 1);
		CHECK(strstr(lines.error, cases[i].says) != NULL);
	}
	/* The longest header that is allowed, and one byte more. */
	CHECK_EQ(open_padded(100000000), 0);
	CHECK_EQ(lines.errors, 0);
	CHECK_EQ(open_padded(100000001), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "over the limit") != NULL);
	memset(spaces, ' ', sizeof(spaces));
	CHECK_EQ(st_open(spaces, sizeof(spaces), 0), H2D_E_FORMAT);
	CHECK_STR(lines.error,
		  "memory: header: the header ends where '{' was expected (offset 208)");
	st_drop();
}

int main(void)
{
	RUN(documents);
	RUN(strings);
	RUN(fields);
	RUN(nesting);
	RUN(shapes_and_offsets);
	RUN(dtypes);
	RUN(coverage);
	RUN(metadata);
	RUN(lengths);
	return TEST_DONE();
}
