/* SPDX-License-Identifier: Apache-2.0 */
/* A .cact of Needle 2. Its tensors have no names and their order is fixed, so what is asked for
 * is taken as a number of layers and a size; the weights are FP16, the five projections of a
 * layer quantised, each in another way. */
#include <stdlib.h>
#include <string.h>

#include "mkckpt.h"

enum { TAG = 0x05e12a83, WORDS = 30, CODEBOOK = 28, RECORD_BYTES = 44, ALIGN = 64 };
enum { FP16 = 1, FP32, CQ, RAW };
enum { LAYER_TENSORS = 14, MIDDLE_TENSORS = 9, GROUP = 128, TERNARY = 5, PIECES = 3 };

struct blob {
	unsigned dtype, rank, bits;
	uint32_t shape[2];
	uint64_t offset, bytes;
};

static uint64_t aligned(uint64_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static struct bytes tokenizer(void)
{
	static const char *const pieces[PIECES] = {"<unk>", "a", "b"};
	struct bytes b = {0};

	put_le(&b, PIECES, 4);
	for (int i = 0; i < 4; i++)
		put_le(&b, 0, 4); /* pad, eos, bos, unk */
	put_le(&b, 1, 1);
	put_le(&b, 0, 1);
	put_le(&b, 0, 2);
	for (int i = 0; i < PIECES; i++) {
		put_le(&b, 0, 4);
		put_le(&b, i ? 0 : 1, 1);
		put_le(&b, strlen(pieces[i]), 2);
		put_bytes(&b, pieces[i], strlen(pieces[i]));
	}
	return b;
}

static struct bytes header(const struct maker *m, size_t count)
{
	uint32_t words[WORDS] = {TAG, (uint32_t)count,	  CODEBOOK, 0,	 4,  PIECES, 64, 1,
				 1,   (uint32_t)m->count, 64,	    512, 64, 4};
	struct bytes b = {0};

	words[WORDS - 1] = 0x461c4000; /* rope_theta, 10000.0f */
	for (int i = 0; i < WORDS; i++)
		put_le(&b, words[i], 4);
	for (int i = 0; i < CODEBOOK; i++)
		put_le(&b, 0, 4);
	return b;
}

/* What the directory calls the bits of q, k, v, gate and out projections; 0: not quantised. */
static unsigned bits_of(size_t place, size_t layers)
{
	static const unsigned char bits[LAYER_TENSORS] = {
		[1] = 1, [2] = 2, [3] = 3, [6] = 4, [7] = TERNARY};

	return place >= 1 && place <= layers ? bits[(place - 1) % LAYER_TENSORS] : 0;
}

static void shape_blob(struct blob *b, unsigned bits, uint64_t wish)
{
	uint64_t per_row = GROUP * (bits == TERNARY ? 2 : bits) / 8 + 2;

	if (bits) {
		b->dtype = CQ;
		b->rank = 2;
		b->bits = bits;
		b->shape[0] = (uint32_t)(wish / per_row ? wish / per_row : 1);
		b->shape[1] = GROUP;
		b->bytes = b->shape[0] * per_row;
	} else {
		b->dtype = FP16;
		b->rank = 1;
		b->shape[0] = (uint32_t)(wish / 2 ? wish / 2 : 1);
		b->bytes = b->shape[0] * UINT64_C(2);
	}
}

void write_cact(const struct maker *m)
{
	size_t layers = m->count * LAYER_TENSORS;
	size_t count = 1 + layers + MIDDLE_TENSORS + 1 + 1;
	struct blob *blobs = need(calloc(count, sizeof(*blobs)));
	struct bytes head = header(m, count), pieces = tokenizer();
	struct output o;
	uint64_t total = 0, at;

	for (size_t i = 0; i < m->count; i++)
		total += m->tensors[i].bytes;
	at = aligned(head.len + count * RECORD_BYTES);
	for (size_t i = 0; i < count; i++) {
		struct blob *b = &blobs[i];

		shape_blob(b, bits_of(i, layers), total / (count - 1));
		if (i + 1 == count)
			*b = (struct blob){.dtype = RAW,
					   .rank = 1,
					   .bytes = pieces.len,
					   .shape = {(uint32_t)pieces.len}};
		b->offset = at;
		at = aligned(at + b->bytes);
		put_le(&head, b->dtype, 1);
		put_le(&head, b->rank, 1);
		put_le(&head, 0, 2);
		put_le(&head, b->shape[0], 4);
		put_le(&head, b->shape[1], 4);
		put_le(&head, 0, 8);
		put_le(&head, b->offset, 8);
		put_le(&head, b->bytes, 8);
		put_le(&head, b->dtype == CQ ? GROUP : 0, 4);
		put_le(&head, b->bits, 4);
	}
	output_open(&o, m->out, m->sync);
	output_put(&o, head.data, head.len);
	for (size_t i = 0; i < count; i++) {
		output_zeros(&o, blobs[i].offset - o.written);
		if (i + 1 == count)
			output_put(&o, pieces.data, pieces.len);
		else
			output_tensor(&o, m->seed, i, blobs[i].bytes);
	}
	output_close(&o);
	free(blobs);
	free(head.data);
	free(pieces.data);
}
