/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file mkckpt.h
 * The checkpoint maker: synthetic checkpoints of any shape for tests and measurements. It
 * shares no code with the library, so that a misreading of a format cannot hide on both sides.
 */
#ifndef H2D_MKCKPT_H
#define H2D_MKCKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RANK_MAX = 8, TEXT_MAX = 4096 };

struct type {
	const char *name;
	uint32_t id;		  /* of GGUF */
	uint32_t elements, bytes; /* of a block; safetensors: sub-byte types as whole bytes */
};

struct tensor {
	char *name; /* bytes, also NUL-terminated */
	size_t name_bytes;
	const struct type *type;
	uint64_t shape[RANK_MAX]; /* outermost first */
	unsigned rank;
	uint64_t bytes;
	unsigned shard;
};

struct maker {
	const char *format, *out;
	struct tensor *tensors;
	size_t count;
	unsigned shards;
	uint64_t seed, alignment;
	bool unaligned, sync;
	char **metadata; /* KEY=VALUE */
	size_t metadata_count;
	char **arrays; /* KEY=COUNT */
	size_t array_count;
};

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *need(void *p);

/* content.c: an output file, and the bytes of a tensor, incompressible and the same for the
 * same seed and place in the list */
struct output {
	int fd;
	const char *path;
	unsigned char *buf;
	size_t used;
	uint64_t written;
	bool sync;
};
void output_open(struct output *o, const char *path, bool sync);
void output_put(struct output *o, const void *data, size_t bytes);
void output_zeros(struct output *o, uint64_t bytes);
void output_tensor(struct output *o, uint64_t seed, uint64_t ordinal, uint64_t bytes);
void output_close(struct output *o);

extern const struct type safetensors_types[], gguf_types[]; /* ended by one without name */
void write_safetensors(const struct maker *m);
void write_gguf(const struct maker *m);
void write_torch(const struct maker *m);
void write_cact(const struct maker *m);

/* Little-endian numbers into a growing buffer. */
struct bytes {
	unsigned char *data;
	size_t len, cap;
};
void put_bytes(struct bytes *b, const void *data, size_t bytes);
void put_le(struct bytes *b, uint64_t value, unsigned bytes);

#endif
