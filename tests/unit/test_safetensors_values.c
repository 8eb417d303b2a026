/* SPDX-License-Identifier: Apache-2.0 */
/* What an opened safetensors header answers, and what it takes to open one. */
#include "ckpt.h"

#define E4 "{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"

static void high_rank(void)
{
	char text[4096] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[";
	struct h2d_tensor_info t = H2D_OPTS(t);

	for (int i = 0; i < 300; i++)
		strcat(text, i == 299 ? "4" : i == 17 ? "3," : "1,");
	strcat(text, "],\"data_offsets\":[0,12]}}");
	REQUIRE(!st_open(text, strlen(text), 12));
	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 0, &t), 0);
	CHECK_EQ(t.rank, 300);
	CHECK_EQ(t.shape[17], 3);
	CHECK_EQ(t.shape[18], 1);
	CHECK_EQ(t.shape[299], 4);
	st_drop();
}

static void metadata_values(void)
{
	static const char text[] =
		"{\"__metadata__\":{\"format\":\"pt\",\"k\":\"1\",\"e\\n\":\"\\u00e9\\u0000\","
		"\"\\u006b\":\"2\",\"\":\"\"},\"a\":" E4 "}";
	struct h2d_metadata_info m = H2D_OPTS(m);
	struct h2d_checkpoint_info i = H2D_OPTS(i);

	REQUIRE(!st_open(text, sizeof(text) - 1, 4));
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &i), 0);
	CHECK_EQ(i.metadata_count, 4);
	CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, 0, &m), 0);
	CHECK_STR(m.key, "format");
	CHECK_EQ(m.type, H2D_VALUE_STRING);
	CHECK_EQ(m.count, 1);
	CHECK_EQ(m.data_bytes, 2);
	CHECK_STR((const char *)m.data, "pt");
	/* A repeated key keeps its first place and its last value. */
	CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, 1, &m), 0);
	CHECK_STR(m.key, "k");
	CHECK_STR((const char *)m.data, "2");
	CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, 2, &m), 0);
	CHECK_EQ(m.key_bytes, 2);
	CHECK_STR(m.key, "e\n");
	CHECK_EQ(m.data_bytes, 3);
	CHECK_EQ(memcmp(m.data, "\xc3\xa9\0", 4), 0);
	CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, 3, &m), 0);
	CHECK_EQ(m.key_bytes, 0);
	CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, 4, &m), H2D_E_NOT_FOUND);
	st_drop();
}

static void many_metadata(void)
{
	char text[4096] = "{\"__metadata__\":{";
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_metadata_info m = H2D_OPTS(m);

	for (int i = 0; i < 100; i++)
		sprintf(text + strlen(text), "%s\"k%d\":\"%d\"", i ? "," : "", i % 60, i);
	strcat(text, "}}");
	REQUIRE(!st_open(text, strlen(text), 0));
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &info), 0);
	CHECK_EQ(info.metadata_count, 60);
	for (int i = 0; i < 60; i++) {
		CHECK_EQ(h2d_checkpoint_metadata(st_ckpt, (uint64_t)i, &m), 0);
		CHECK_EQ(atoi(m.key + 1), i);
		CHECK_EQ(atoi(m.data), i < 40 ? i + 60 : i);
	}
	st_drop();
}

static void what_is_returned(void)
{
	static const char text[] =
		"{\"__metadata__\":{\"format\":\"pt\"},"
		"\"b\\u0000c\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
		"\"empty\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[8,8]},"
		"\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   ";
	const uint64_t data = 8 + sizeof(text) - 1;
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_tensor_info t = H2D_OPTS(t);
	uint64_t index = 99, size = 0;
	const void *view;

	REQUIRE(!st_open(text, sizeof(text) - 1, 20));
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &info), 0);
	CHECK_STR(info.path, "memory");
	CHECK_STR(info.format, "safetensors");
	CHECK_EQ(info.file_count, 1);
	CHECK_EQ(info.tensor_count, 3);
	CHECK_EQ(info.metadata_count, 1);
	CHECK_EQ(info.size_bytes, 20);
	CHECK_EQ(info.header_bytes, data);
	CHECK_EQ(info.ignored_count, 0);

	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 0, &t), 0);
	CHECK_STR(t.name, "a");
	CHECK_EQ(t.offset_bytes, data);
	CHECK_EQ(t.size_bytes, 8);
	CHECK_EQ(t.ordinal, 2);
	CHECK(t.strides == NULL);
	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 1, &t), 0);
	CHECK_EQ(t.name_bytes, 3);
	CHECK_EQ(memcmp(t.name, "b\0c", 4), 0);
	CHECK_STR(t.dtype, "BF16");
	CHECK_EQ(t.rank, 2);
	CHECK_EQ(t.shape[0], 2);
	CHECK_EQ(t.shape[1], 3);
	CHECK_EQ(t.offset_bytes, data + 8);
	CHECK_EQ(t.size_bytes, 12);
	CHECK_EQ(t.ordinal, 0);
	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 2, &t), 0);
	CHECK_STR(t.name, "empty");
	CHECK_EQ(t.size_bytes, 0);
	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 3, &t), H2D_E_NOT_FOUND);

	CHECK_EQ(h2d_checkpoint_find(st_ckpt, "b\0c", 3, &index), 0);
	CHECK_EQ(index, 1);
	CHECK_EQ(h2d_checkpoint_find(st_ckpt, "b", 1, &index), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_checkpoint_find(st_ckpt, "", 0, &index), H2D_E_NOT_FOUND);

	CHECK_EQ(h2d_checkpoint_view(st_ckpt, 1, &view, &size), 0);
	CHECK_EQ(size, 12);
	CHECK(view == st_bytes + data + 8);
	st_drop();
}

/* Every length of UTF-8 out of escapes, and a name that shrinks while its rest moves up. */
static void decoded_names(void)
{
	static const char text[] = "{\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00 and \\\"plain\\\" "
				   "\xc3\xa9 text\\/\":" E4 "}";
	static const char want[] =
		"A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 and \"plain\" \xc3\xa9 text/";
	struct h2d_tensor_info t = H2D_OPTS(t);

	REQUIRE(!st_open(text, sizeof(text) - 1, 4));
	CHECK_EQ(h2d_checkpoint_tensor(st_ckpt, 0, &t), 0);
	CHECK_STR(t.name, want);
	CHECK_EQ(t.name_bytes, sizeof(want) - 1);
	CHECK_EQ(h2d_checkpoint_find(st_ckpt, want, sizeof(want) - 1, NULL), 0);
	st_drop();
}

/* Names that hold what a terminal or a C string would trip over are shown escaped. */
static void hostile_names_in_messages(void)
{
	static const char text[] = "{\"a\\u001b[2J\\u0000b\":{\"dtype\":\"X\"}}";
	char name[600], header[800];

	CHECK_EQ(st_open(text, sizeof(text) - 1, 0), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "tensor \"a\\x1b[2J\\x00b\": dtype: unknown dtype \"X\"") !=
	      NULL);
	st_drop();
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	snprintf(header, sizeof(header), "{\"%s\":{\"dtype\":\"X\"}}", name);
	CHECK_EQ(st_open(header, strlen(header), 0), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "n\xe2\x80\xa6\": dtype: unknown dtype \"X\" (offset ") !=
	      NULL);
	st_drop();
}

static void every_allocation_fails(void)
{
	/* Unsorted, a long shape, metadata twice: every allocation of a parse is reached. */
	static const char text[] =
		"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"},"
		"\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,4],"
		"\"data_offsets\":[4,8]},\"a\":" E4 "}";
	long calls;
	int rc;

	for (long i = 0;; i++) {
		mem_begin(i);
		rc = st_open(text, sizeof(text) - 1, 8);
		mem_end();
		calls = mem_calls;
		if (!rc) {
			CHECK(calls <= i);
			CHECK_EQ(lines.errors, 0);
			st_drop();
			CHECK(i > 8);
			break;
		}
		CHECK_EQ(rc, H2D_E_NOMEM);
		CHECK_EQ(lines.errors, 1);
		CHECK(strstr(lines.error, "memory: ") == lines.error);
		CHECK(st_ckpt == NULL);
		st_drop();
		REQUIRE(i < 100);
	}
}

int main(void)
{
	RUN(high_rank);
	RUN(metadata_values);
	RUN(many_metadata);
	RUN(what_is_returned);
	RUN(decoded_names);
	RUN(hostile_names_in_messages);
	RUN(every_allocation_fails);
	return TEST_DONE();
}
