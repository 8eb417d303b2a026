/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file load_fixture.h
 * Checkpoints made by hand for tests of the engine: a file of known bytes and a catalogue of
 * extents in it, of any shape, with no format in between.
 */
#ifndef H2D_LOAD_FIXTURE_H
#define H2D_LOAD_FIXTURE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/checkpoint.h"
#include "test.h"

struct extent {
	uint64_t offset, bytes;
};

struct fixture {
	char path[128];
	uint64_t file_bytes;
	struct h2d_checkpoint *ckpt;
	char last_error[1024]; /* of the log */
	unsigned error_count;
};

/* The byte of every fixture file at an offset: never periodic in a power of two. */
static inline unsigned char fixture_byte(uint64_t offset)
{
	uint64_t x = (offset >> 3) * UINT64_C(0x9e3779b97f4a7c15) + 0x1234567;

	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return (unsigned char)(x >> (offset & 7) * 8);
}

static inline void fixture_fill(unsigned char *p, uint64_t bytes, uint64_t offset)
{
	for (uint64_t i = 0; i < bytes; i++)
		p[i] = fixture_byte(offset + i);
}

/* Offset of the first byte that is not the file's, or UINT64_MAX. */
static inline uint64_t fixture_differs(const unsigned char *p, uint64_t bytes, uint64_t offset)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (p[i] != fixture_byte(offset + i))
			return i;
	return UINT64_MAX;
}

static inline void fixture_log(void *user, enum h2d_log_level level, const char *line)
{
	struct fixture *f = user;

	if (getenv("H2D_TEST_VERBOSE"))
		fprintf(stderr, "log %d: %s\n", level, line);
	if (level != H2D_LOG_ERROR)
		return;
	f->error_count++;
	snprintf(f->last_error, sizeof(f->last_error), "%s", line);
}

static inline int fixture_write(const char *path, uint64_t bytes)
{
	enum { BLOCK = 1 << 16 };
	static unsigned char block[BLOCK];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return -1;
	for (uint64_t at = 0; at < bytes; at += BLOCK) {
		uint64_t n = bytes - at < BLOCK ? bytes - at : BLOCK;

		fixture_fill(block, n, at);
		if (write(fd, block, n) != (ssize_t)n) {
			close(fd);
			return -1;
		}
	}
	return close(fd);
}

static inline int fixture_add(struct h2d_catalogue *cat, uint32_t file,
			      const struct extent *extents, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct h2d_tensor *t = h2d_catalogue_add_tensor(cat);
		char name[32];

		if (!t)
			return -1;
		t->name_bytes = (uint32_t)snprintf(name, sizeof(name), "t%u.%zu", file, i);
		t->name = h2d_arena_copy(&cat->arena, name, t->name_bytes);
		t->shape =
			(uint64_t *)(void *)h2d_arena_copy(&cat->arena, &extents[i].bytes, 8);
		t->dtype = "U8";
		t->rank = 1;
		t->file = file;
		t->offset_bytes = extents[i].offset;
		t->size_bytes = extents[i].bytes;
		t->ordinal = cat->tensor_count - 1;
		cat->size_bytes += extents[i].bytes;
	}
	return 0;
}

/* A checkpoint without files. */
static inline struct h2d_checkpoint *fixture_checkpoint(struct fixture *f)
{
	struct h2d_checkpoint *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->path = strdup("made by hand");
	c->log = (struct h2d_log){fixture_log, f};
	c->cat.format = "safetensors";
	pthread_mutex_init(&c->views_lock, NULL);
	return c;
}

/* A file of `file_bytes` in a temporary place (where O_DIRECT works, if it can be) and a
 * checkpoint whose tensors are `extents`, which must be in file order. */
static inline int fixture_open(struct fixture *f, uint64_t file_bytes,
			       const struct extent *extents, size_t count)
{
	struct h2d_file *file;

	memset(f, 0, sizeof(*f));
	snprintf(f->path, sizeof(f->path), "/var/tmp/h2d-test-%d-XXXXXX", getpid());
	f->file_bytes = file_bytes;
	if (close(mkstemp(f->path)) || fixture_write(f->path, file_bytes))
		return -1;
	f->ckpt = fixture_checkpoint(f);
	file = f->ckpt ? h2d_catalogue_add_file(&f->ckpt->cat) : NULL;
	if (!file || h2d_file_open(file, f->path, &f->ckpt->log))
		return -1;
	return fixture_add(&f->ckpt->cat, 0, extents, count);
}

static inline void fixture_close(struct fixture *f)
{
	h2d_checkpoint_close(f->ckpt);
	if (f->path[0])
		unlink(f->path);
	memset(f, 0, sizeof(*f));
}

/* Extents one behind the other from `offset` on, `gap` bytes between them. */
static inline uint64_t fixture_row(struct extent *out, const uint64_t *sizes, size_t count,
				   uint64_t offset, uint64_t gap)
{
	for (size_t i = 0; i < count; i++) {
		out[i] = (struct extent){offset, sizes[i]};
		offset += sizes[i] + gap;
	}
	return offset;
}

#endif
