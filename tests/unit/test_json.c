/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming writer, read back with jansson: whatever the calls, the text must parse. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>

#include "core/json.h"
#include "core/json_value.h"
#include "core/mem.h"
#include "h2d/h2d.h"
#include "test.h"

static struct h2d_json j;

static char *finished(int expect)
{
	int rc = h2d_json_finish(&j);
	char *text;

	CHECK_EQ(rc, expect);
	j.error = 0; /* also a refused call must leave a valid document */
	text = h2d_json_take(&j);
	CHECK(text != NULL);
	return text;
}

static json_t *parsed(int expect)
{
	char *text = finished(expect);
	json_error_t e;
	json_t *v =
		text ? json_loads(text,
				  JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e)
		     : NULL;

	if (!v)
		fprintf(stderr, "not JSON (%s): %s\n", e.text, text);
	CHECK(v != NULL);
	free(text);
	return v;
}

static void begin(bool pretty)
{
	h2d_json_init_memory(&j, pretty);
}

static void compact_text(void)
{
	char *text;

	begin(false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_string(&j, "a", "x");
	h2d_json_null(&j, "n");
	h2d_json_array_begin(&j, "l");
	h2d_json_u64(&j, NULL, 1);
	h2d_json_i64(&j, NULL, -2);
	h2d_json_bool(&j, NULL, true);
	h2d_json_object_begin(&j, NULL);
	h2d_json_object_end(&j);
	h2d_json_array_end(&j);
	h2d_json_string(&j, "none", NULL);
	h2d_json_hex(&j, "h", "\x00\xff\x1a", 3);
	h2d_json_stringf(&j, "f", "%d-%s", 7, "y");
	h2d_json_key_bytes(&j, "k\0", 2);
	h2d_json_bool(&j, NULL, false);
	h2d_json_object_end(&j);
	text = finished(0);
	CHECK_STR(text, "{\"a\":\"x\",\"n\":null,\"l\":[1,-2,true,{}],\"none\":null,"
			"\"h\":\"00ff1a\",\"f\":\"7-y\",\"k\\u0000\":false}\n");
	free(text);
}

static void pretty_text(void)
{
	char *text;

	begin(true);
	h2d_json_object_begin(&j, NULL);
	h2d_json_array_begin(&j, "e");
	h2d_json_array_end(&j);
	h2d_json_array_begin(&j, "l");
	h2d_json_u64(&j, NULL, 1);
	h2d_json_u64(&j, NULL, 2);
	h2d_json_array_end(&j);
	h2d_json_object_end(&j);
	text = finished(0);
	CHECK_STR(text, "{\n  \"e\": [],\n  \"l\": [\n    1,\n    2\n  ]\n}\n");
	free(text);
}

static void every_byte_is_escaped(void)
{
	json_t *v;

	for (unsigned c = 0; c < 256; c++) {
		char s[3] = {'<', (char)c, '>'};

		begin(false);
		h2d_json_bytes(&j, NULL, s, 3);
		v = parsed(0);
		if (c < 0x80) {
			CHECK_EQ(json_string_length(v), 3);
			CHECK_EQ(memcmp(json_string_value(v), s, 3), 0);
		} else {
			CHECK_STR(json_string_value(v), "<\xef\xbf\xbd>");
		}
		json_decref(v);
	}
}

static void invalid_utf8_is_replaced(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
		 "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},		  /* overlong */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
		{"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"}, /* cut off */
		{"a\xff"
		 "b",
		 "a\xef\xbf\xbd"
		 "b"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *v;

		begin(false);
		h2d_json_string(&j, NULL, cases[i].in);
		v = parsed(0);
		CHECK_STR(json_string_value(v), cases[i].out);
		json_decref(v);
		CHECK_EQ(h2d_utf8_valid(cases[i].in, strlen(cases[i].in)), i == 0);
	}
	CHECK(h2d_utf8_valid("", 0));
}

static void integers_past_2_to_53_are_strings(void)
{
	char *text;

	begin(false);
	h2d_json_array_begin(&j, NULL);
	h2d_json_u64(&j, NULL, UINT64_C(9007199254740992));
	h2d_json_u64(&j, NULL, UINT64_C(9007199254740993));
	h2d_json_u64(&j, NULL, UINT64_MAX);
	h2d_json_i64(&j, NULL, -INT64_C(9007199254740992));
	h2d_json_i64(&j, NULL, -INT64_C(9007199254740993));
	h2d_json_i64(&j, NULL, INT64_MIN);
	h2d_json_array_end(&j);
	text = finished(0);
	CHECK_STR(text, "[9007199254740992,\"9007199254740993\",\"18446744073709551615\","
			"-9007199254740992,\"-9007199254740993\",\"-9223372036854775808\"]\n");
	free(text);
}

static void floats(void)
{
	static const double values[] = {0.1, 1.0 / 3, DBL_MAX, DBL_MIN, 5e-324, -2.5, 1e21, 0};
	char *text;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		begin(false);
		h2d_json_double(&j, NULL, values[i]);
		text = finished(0);
		CHECK(strtod(text, NULL) == values[i]);
		free(text);
	}
	begin(false);
	h2d_json_array_begin(&j, NULL);
	h2d_json_double(&j, NULL, NAN);
	h2d_json_double(&j, NULL, INFINITY);
	h2d_json_double(&j, NULL, -INFINITY);
	h2d_json_float(&j, NULL, -INFINITY);
	h2d_json_float(&j, NULL, 1e-6f);
	h2d_json_float(&j, NULL, FLT_MAX);
	h2d_json_double(&j, NULL, 0.1);
	h2d_json_array_end(&j);
	text = finished(0);
	CHECK_STR(text, "[\"NaN\",\"Infinity\",\"-Infinity\",\"-Infinity\",1e-06,"
			"3.4028235e+38,0.1]\n");
	free(text);
}

/* Every wrong order of calls must be told and must still leave one valid document. */
static void misuse_is_told(void)
{
	json_t *v;

	begin(false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_u64(&j, NULL, 1); /* no key */
	h2d_json_array_end(&j);	   /* not an array */
	h2d_json_u64(&j, "ok", 2);
	h2d_json_object_end(&j);
	v = parsed(H2D_E_INTERNAL);
	CHECK_EQ(json_object_size(v), 1);
	json_decref(v);

	begin(false);
	h2d_json_array_begin(&j, NULL);
	h2d_json_u64(&j, "key", 1);
	h2d_json_object_begin(&j, "key"); /* with what lies in it */
	h2d_json_u64(&j, "inner", 1);
	h2d_json_array_begin(&j, "deeper");
	h2d_json_array_end(&j);
	h2d_json_object_end(&j);
	h2d_json_u64(&j, NULL, 3);
	h2d_json_array_end(&j);
	v = parsed(H2D_E_INTERNAL);
	CHECK_EQ(json_array_size(v), 1);
	json_decref(v);

	begin(false);
	h2d_json_u64(&j, NULL, 1);
	h2d_json_u64(&j, NULL, 2); /* a second root */
	h2d_json_object_begin(&j, NULL);
	h2d_json_object_end(&j);
	json_decref(parsed(H2D_E_INTERNAL));

	begin(true);
	h2d_json_object_begin(&j, NULL);
	h2d_json_key_bytes(&j, "a", 1);
	h2d_json_key_bytes(&j, "b", 1);
	h2d_json_array_begin(&j, NULL);
	json_decref(parsed(H2D_E_INTERNAL)); /* never ended */

	begin(true);
	h2d_json_object_begin(&j, NULL);
	h2d_json_key_bytes(&j, "a", 1);
	h2d_json_object_end(&j); /* key without value */
	json_decref(parsed(H2D_E_INTERNAL));

	begin(false);
	h2d_json_object_end(&j);
	json_decref(parsed(H2D_E_INTERNAL)); /* nothing at all */
}

static void depth_is_bounded(void)
{
	json_t *v;

	for (int extra = 0; extra < 3; extra++) {
		int depth = H2D_JSON_DEPTH_MAX + extra;

		begin(false);
		for (int i = 0; i < depth; i++)
			h2d_json_array_begin(&j, NULL);
		for (int i = 0; i < depth; i++)
			h2d_json_array_end(&j);
		v = parsed(extra ? H2D_E_INTERNAL : 0);
		json_decref(v);
	}
}

static void write_errors_are_kept(void)
{
	FILE *f = fopen("/dev/full", "w");

	REQUIRE(f);
	h2d_json_init_file(&j, f, false);
	h2d_json_object_begin(&j, NULL);
	h2d_json_object_end(&j);
	CHECK_EQ(h2d_json_finish(&j), H2D_E_IO);
	fclose(f);

	f = fopen("/dev/full", "w");
	REQUIRE(f);
	h2d_json_init_file(&j, f, false);
	h2d_json_array_begin(&j, NULL);
	for (int i = 0; i < 100000; i++)
		h2d_json_u64(&j, NULL, 12345);
	h2d_json_array_end(&j);
	CHECK_EQ(h2d_json_finish(&j), H2D_E_IO);
	fclose(f);
}

static int allocations_left;

static void *failing_realloc(void *p, size_t bytes)
{
	return allocations_left-- > 0 ? realloc(p, bytes) : NULL;
}

static void no_memory_is_told(void)
{
	struct h2d_mem_ops ops = h2d_mem_libc;

	ops.realloc = failing_realloc;
	h2d_mem = &ops;
	for (int n = 0; n < 3; n++) {
		allocations_left = n;
		begin(false);
		h2d_json_array_begin(&j, NULL);
		for (int i = 0; i < 2000; i++)
			h2d_json_u64(&j, NULL, 1);
		h2d_json_array_end(&j);
		CHECK_EQ(h2d_json_finish(&j), H2D_E_NOMEM);
		CHECK(h2d_json_take(&j) == NULL);
	}
	h2d_mem = &h2d_mem_libc;
}

static void long_formatted_strings(void)
{
	char big[1000];
	json_t *v;

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	begin(false);
	h2d_json_stringf(&j, NULL, "%s%s", big, big);
	v = parsed(0);
	CHECK_EQ(json_string_length(v), 2 * (sizeof(big) - 1));
	json_decref(v);
}

/* What Jansson read comes out equal; what the writer cannot nest becomes null. */
static void values_again(void)
{
	static const char text[] =
		"{\"a\":[1,-2,1.5,true,false,null,\"x\\u0000y\",{}],\"n\":null,"
		"\"o\":{\"n\":null,\"k\":\"\\u00e9\"}}";
	json_t *in = json_loads(text, JSON_ALLOW_NUL, NULL), *out, *deep, *level;
	char nested[2 * 200 + 1];

	REQUIRE(in);
	for (int drop = 0; drop < 2; drop++) {
		begin(false);
		h2d_value_write(&j, NULL, in, drop);
		out = parsed(0);
		if (drop) {
			CHECK(!json_object_get(out, "n"));
			CHECK_EQ(json_object_size(json_object_get(out, "o")), 1);
			CHECK_EQ(json_array_size(json_object_get(out, "a")), 8);
		} else {
			CHECK(json_equal(in, out));
		}
		json_decref(out);
	}
	json_decref(in);
	memset(nested, '[', 200);
	memset(nested + 200, ']', 200);
	nested[400] = 0;
	deep = json_loads(nested, 0, NULL);
	REQUIRE(deep);
	begin(false);
	h2d_value_write(&j, NULL, deep, false);
	out = parsed(0);
	level = out;
	for (int i = 1; i < H2D_JSON_DEPTH_MAX - 1; i++)
		level = json_array_get(level, 0);
	CHECK(json_is_null(json_array_get(level, 0)));
	json_decref(out);
	json_decref(deep);
}

int main(void)
{
	RUN(compact_text);
	RUN(pretty_text);
	RUN(every_byte_is_escaped);
	RUN(invalid_utf8_is_replaced);
	RUN(integers_past_2_to_53_are_strings);
	RUN(floats);
	RUN(misuse_is_told);
	RUN(depth_is_bounded);
	RUN(write_errors_are_kept);
	RUN(no_memory_is_told);
	RUN(long_formatted_strings);
	RUN(values_again);
	return TEST_DONE();
}
