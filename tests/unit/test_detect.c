/* SPDX-License-Identifier: Apache-2.0 */
/* Types are told by content: what is recognised, and what only looks like it. */
#include "format/detect.h"
#include "test.h"

struct sample {
	const char *bytes;
	size_t count;
	uint64_t size;
	enum h2d_format_id id;
};

#define S(text, size, id)                                                                      \
	{                                                                                      \
		text, sizeof(text) - 1, size, id                                               \
	}

static void samples(void)
{
	static const struct sample all[] = {
		/* safetensors: a length that fits the file, then an object */
		S("\2\0\0\0\0\0\0\0{}", 10, H2D_FORMAT_SAFETENSORS),
		S("\2\0\0\0\0\0\0\0{}", 1000000, H2D_FORMAT_SAFETENSORS),
		S("\6\0\0\0\0\0\0\0 \t\r\n{}", 14, H2D_FORMAT_SAFETENSORS),
		S("\x7b\0\0\0\0\0\0\0{\"a\":{}}", 131, H2D_FORMAT_SAFETENSORS),
		S("\2\0\0\0\0\0\0\0[]", 10, H2D_FORMAT_NONE),
		S("\0\0\0\0\0\0\0\0{}", 10, H2D_FORMAT_SAFETENSORS),
		S("\2\0\0\0\0\0\0\0\0\0", 10, H2D_FORMAT_NONE),
		S("\2\0\0\0\0\0\0\0{", 9, H2D_FORMAT_NONE),
		/* an impossible length before an object: refused later, with the reason */
		S("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, H2D_FORMAT_SAFETENSORS),
		S("\3\0\0\0\0\0\0\0{ \"a\"", 10, H2D_FORMAT_SAFETENSORS),
		S("\xff\xff\xff\xff\xff\xff\xff\xff{x", 10, H2D_FORMAT_NONE),
		/* GGUF, whatever its version */
		S("GGUF\3\0\0\0", 24, H2D_FORMAT_GGUF),
		S("GGUF\1\0\0\0", 24, H2D_FORMAT_GGUF),
		S("GGUF\0\0\0\3", 24, H2D_FORMAT_GGUF),
		S("GGUF", 4, H2D_FORMAT_GGUF),
		S("GGU", 3, H2D_FORMAT_NONE),
		S("FUGG\3\0\0\0", 24, H2D_FORMAT_NONE),
		/* .cact */
		S("\x82\x2a\xe1\x05\1\0\0\0", 400, H2D_FORMAT_CACT),
		S("\x83\x2a\xe1\x05\1\0\0\0", 400, H2D_FORMAT_CACT),
		S("\x84\x2a\xe1\x05\1\0\0\0", 400, H2D_FORMAT_CACT),
		S("\x85\x2a\xe1\x05\1\0\0\0", 400, H2D_FORMAT_NONE),
		S("\x81\x2a\xe1\x05\1\0\0\0", 400, H2D_FORMAT_NONE),
		S("\x84\x2a\xe1", 3, H2D_FORMAT_NONE),
		/* a safetensors length with the bytes of a tag, or of a zip */
		S("\x84\x2a\xe1\x05\0\0\0\0{}", 100000000, H2D_FORMAT_SAFETENSORS),
		S("PK\3\4\0\0\0\0{}", 100000000, H2D_FORMAT_SAFETENSORS),
		/* PyTorch */
		S("PK\3\4\0\0\10\10", 400, H2D_FORMAT_TORCH),
		S("PK\5\6\0\0\0\0", 22, H2D_FORMAT_NONE),
		S("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 400,
		  H2D_FORMAT_TORCH_LEGACY),
		S("\x80\4\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 400,
		  H2D_FORMAT_TORCH_LEGACY),
		S("\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x18.", 400,
		  H2D_FORMAT_NONE),
		S("PYTORCH1....", 400, H2D_FORMAT_TORCH_LEGACY),
		/* JSON */
		S("{\"weight_map\":{}}", 17, H2D_FORMAT_INDEX),
		S(" \n{ }", 5, H2D_FORMAT_INDEX),
		S("{1}", 3, H2D_FORMAT_NONE),
		S("{", 1, H2D_FORMAT_NONE),
		S("[\"weight_map\"]", 14, H2D_FORMAT_NONE),
		/* nothing */
		S("", 0, H2D_FORMAT_NONE),
		S("\x7f"
		  "ELF\2\1\1\0\0\0\0\0",
		  4000, H2D_FORMAT_NONE),
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		/* From the heap, so that a sanitizer sees a read past the end. */
		unsigned char *copy = malloc(all[i].count ? all[i].count : 1);
		enum h2d_format_id id;

		REQUIRE(copy);
		memcpy(copy, all[i].bytes, all[i].count);
		id = h2d_detect(copy, all[i].count, all[i].size);
		CHECK_EQ(id, all[i].id);
		if (id != all[i].id)
			fprintf(stderr, "  sample %zu\n", i);
		free(copy);
	}
}

/* White space beyond what detection sees must not hide a header from its reader. */
static void long_white_space(void)
{
	unsigned char head[H2D_DETECT_BYTES] = {200};

	memset(head + 8, ' ', sizeof(head) - 8);
	CHECK_EQ(h2d_detect(head, sizeof(head), 208), H2D_FORMAT_SAFETENSORS);
	CHECK_EQ(h2d_detect(head, 40, 40), H2D_FORMAT_NONE);
}

int main(void)
{
	RUN(samples);
	RUN(long_white_space);
	return TEST_DONE();
}
