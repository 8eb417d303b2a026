/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and decoding of the record stream, for host and guest alike. */
#include "stream.h"

#include <string.h>

static void put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void put64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32;
}

void lab_stream_head_encode(uint64_t key, uint8_t out[LAB_STREAM_HEAD_BYTES])
{
	memcpy(out, LAB_STREAM_MAGIC, 8);
	put64(out + 8, key);
}

void lab_record_head_encode(const struct lab_record *record, uint8_t out[LAB_RECORD_HEAD_BYTES])
{
	put32(out, LAB_RECORD_MAGIC);
	put32(out + 4, (uint32_t)record->type | (uint32_t)record->flags << 16);
	put32(out + 8, record->step);
	put32(out + 12, record->length);
}

int lab_cursor_open(struct lab_cursor *cursor, const void *data, size_t size, uint64_t key)
{
	const uint8_t *p = data;

	if (size < LAB_STREAM_HEAD_BYTES || memcmp(p, LAB_STREAM_MAGIC, 8) != 0 ||
	    get64(p + 8) != key)
		return -1;
	cursor->data = p;
	cursor->size = size;
	cursor->offset = LAB_STREAM_HEAD_BYTES;
	return 0;
}

int lab_cursor_next(struct lab_cursor *cursor, struct lab_record *record)
{
	const uint8_t *p = cursor->data + cursor->offset;
	size_t left = cursor->size - cursor->offset;
	uint32_t word, length;

	if (left == 0)
		return 0;
	if (left >= 8 && get64(p) == 0)
		return 0;
	if (left < LAB_RECORD_HEAD_BYTES || get32(p) != LAB_RECORD_MAGIC)
		return -1;
	length = get32(p + 12);
	if (length > LAB_RECORD_MAX_BYTES || lab_record_total(length) > left)
		return -1;
	word = get32(p + 4);
	record->type = (uint16_t)word;
	record->flags = (uint16_t)(word >> 16);
	record->step = get32(p + 8);
	record->length = length;
	record->payload = p + LAB_RECORD_HEAD_BYTES;
	cursor->offset += lab_record_total(length);
	return 1;
}

const char *lab_record_string(const struct lab_record *record, size_t *offset)
{
	const uint8_t *start, *nul;

	if (*offset >= record->length)
		return NULL;
	start = record->payload + *offset;
	nul = memchr(start, 0, record->length - *offset);
	if (!nul)
		return NULL;
	*offset += (size_t)(nul - start) + 1;
	return (const char *)start;
}

void lab_step_end_encode(const struct lab_step_end *end, uint8_t out[LAB_STEP_END_BYTES])
{
	put32(out, (uint32_t)end->status);
	put32(out + 4, end->flags);
	put64(out + 8, end->elapsed_ns);
	put64(out + 16, end->dropped_bytes);
	put32(out + 24, end->kmsg_lost);
}

int lab_step_end_decode(const struct lab_record *record, struct lab_step_end *end)
{
	if (record->length != LAB_STEP_END_BYTES)
		return -1;
	end->status = (int32_t)get32(record->payload);
	end->flags = get32(record->payload + 4);
	end->elapsed_ns = get64(record->payload + 8);
	end->dropped_bytes = get64(record->payload + 16);
	end->kmsg_lost = get32(record->payload + 24);
	return 0;
}
