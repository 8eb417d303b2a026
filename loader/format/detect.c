/* SPDX-License-Identifier: Apache-2.0 */
#include "format/detect.h"

/* Limit of a safetensors header (decimal), as its reference reader and writer have it. */
#define SAFETENSORS_HEADER_MAX 100000000u

static bool starts(const unsigned char *head, size_t bytes, const char *magic, size_t n)
{
	if (bytes < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (head[i] != (unsigned char)magic[i])
			return false;
	return true;
}

static bool json_space(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(const unsigned char *head, size_t bytes, size_t i)
{
	while (i < bytes && json_space(head[i]))
		i++;
	return i;
}

/* An object as JSON begins one: a key or its end must follow. */
static bool object(const unsigned char *head, size_t bytes, size_t i)
{
	if (i >= bytes || head[i] != '{')
		return false;
	i = skip_space(head, bytes, i + 1);
	return i == bytes ? bytes == H2D_DETECT_BYTES : head[i] == '"' || head[i] == '}';
}

/* A length that fits the file, then an object (or white space to the end of what we see). */
static bool safetensors(const unsigned char *head, size_t bytes, uint64_t size_bytes)
{
	uint64_t length = 0;
	size_t i;

	if (bytes < 10 || size_bytes < 10)
		return false;
	for (i = 8; i > 0; i--)
		length = length << 8 | head[i - 1];
	if (length < 2 || length > SAFETENSORS_HEADER_MAX || length > size_bytes - 8)
		return false;
	i = skip_space(head, bytes, 8);
	return i == bytes ? bytes == H2D_DETECT_BYTES : head[i] == '{';
}

static bool cact(const unsigned char *head, size_t bytes)
{
	return bytes >= 4 && head[0] >= 0x82 && head[0] <= 0x84 && head[1] == 0x2a &&
	       head[2] == 0xe1 && head[3] == 0x05;
}

/* The stream of torch.save before its zip form: a pickle whose first object is a magic number
 * of ten bytes. And its prototype. */
static bool torch_legacy(const unsigned char *head, size_t bytes)
{
	return (bytes >= 14 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 &&
		starts(head + 2, bytes - 2, "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
		       12)) ||
	       starts(head, bytes, "PYTORCH1", 8);
}

enum h2d_format_id h2d_detect(const unsigned char *head, size_t bytes, uint64_t size_bytes)
{
	/* First, since a length may look like another format's magic; its upper half is then
	 * zero, which no other format has in bytes 4 to 7. */
	if (safetensors(head, bytes, size_bytes))
		return H2D_FORMAT_SAFETENSORS;
	if (starts(head, bytes, "GGUF", 4))
		return H2D_FORMAT_GGUF;
	if (cact(head, bytes))
		return H2D_FORMAT_CACT;
	if (starts(head, bytes, "PK\3\4", 4))
		return H2D_FORMAT_TORCH;
	if (torch_legacy(head, bytes))
		return H2D_FORMAT_TORCH_LEGACY;
	if (object(head, bytes, skip_space(head, bytes, 0)))
		return H2D_FORMAT_INDEX;
	/* An impossible length before an object: a file cut short or a lie, which the reader
	 * can tell apart in its message. */
	if (object(head, bytes, 8))
		return H2D_FORMAT_SAFETENSORS;
	return H2D_FORMAT_NONE;
}
