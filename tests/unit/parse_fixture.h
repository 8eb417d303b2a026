/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file parse_fixture.h
 * Building small files byte by byte and giving them to a parser, also with allocations and
 * reads that fail.
 */
#ifndef H2D_TEST_PARSE_FIXTURE_H
#define H2D_TEST_PARSE_FIXTURE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/io.h"
#include "format/format.h"
#include "test.h"

/* ---- bytes */

struct bytes {
	unsigned char *data;
	size_t n, cap;
};

static inline void put(struct bytes *b, const void *data, size_t n)
{
	if (b->n + n > b->cap) {
		b->cap = (b->n + n) * 2;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			abort();
	}
	if (n)
		memcpy(b->data + b->n, data, n);
	b->n += n;
}

static inline void put_u8(struct bytes *b, unsigned v)
{
	unsigned char c = (unsigned char)v;

	put(b, &c, 1);
}

static inline void put_u16(struct bytes *b, unsigned v)
{
	uint16_t w = (uint16_t)v;

	put(b, &w, 2);
}

static inline void put_u32(struct bytes *b, uint32_t v)
{
	put(b, &v, 4);
}

static inline void put_u64(struct bytes *b, uint64_t v)
{
	put(b, &v, 8);
}

static inline void put_text(struct bytes *b, const char *s)
{
	put(b, s, strlen(s));
}

static inline void put_fill(struct bytes *b, unsigned char v, size_t n)
{
	while (n--)
		put(b, &v, 1);
}

static inline void pad_to(struct bytes *b, size_t align)
{
	while (b->n % align)
		put_u8(b, 0);
}

static inline void bytes_free(struct bytes *b)
{
	free(b->data);
	memset(b, 0, sizeof(*b));
}

/* ---- parsing */

struct outcome {
	int rc;
	unsigned error_count, warning_count, info_count;
	char error[1024], warning[1024];
	struct h2d_catalogue cat;
};

static inline void outcome_log(void *user, enum h2d_log_level level, const char *line)
{
	struct outcome *o = user;

	if (level == H2D_LOG_ERROR) {
		o->error_count++;
		snprintf(o->error, sizeof(o->error), "%s", line);
	} else if (level == H2D_LOG_WARNING) {
		o->warning_count++;
		snprintf(o->warning, sizeof(o->warning), "%s", line);
	} else {
		o->info_count++;
	}
}

typedef int (*parse_fn)(struct h2d_parse *p);

static inline void parse_file(parse_fn fn, const struct h2d_file *f, struct outcome *o)
{
	struct h2d_log log = {outcome_log, o};
	struct h2d_parse p = {.cat = &o->cat, .file = f, .log = &log};

	o->rc = fn(&p);
}

/* Parse `n` bytes of memory that ends where they end, so that a sanitizer sees any overrun. */
static inline void parse(parse_fn fn, const void *data, size_t n, struct outcome *o)
{
	struct h2d_log log = {outcome_log, o};
	unsigned char *copy = malloc(n ? n : 1);
	struct h2d_file f;

	memset(o, 0, sizeof(*o));
	if (!copy)
		abort();
	if (n)
		memcpy(copy, data, n);
	o->rc = h2d_file_open_memory(&f, copy, n, &log);
	if (!o->rc) {
		parse_file(fn, &f, o);
		h2d_file_close(&f);
	}
	free(copy);
}

static inline void outcome_free(struct outcome *o)
{
	h2d_catalogue_free(&o->cat);
}

static inline const struct h2d_tensor *tensor_named(const struct outcome *o, const char *name)
{
	for (uint64_t i = 0; i < o->cat.tensor_count; i++)
		if (o->cat.tensors[i].name_bytes == strlen(name) &&
		    !memcmp(o->cat.tensors[i].name, name, strlen(name)))
			return &o->cat.tensors[i];
	return NULL;
}

static inline const struct h2d_metadata *metadata_named(const struct outcome *o,
							const char *key)
{
	for (uint64_t i = 0; i < o->cat.metadata_count; i++)
		if (o->cat.metadata[i].key_bytes == strlen(key) &&
		    !memcmp(o->cat.metadata[i].key, key, strlen(key)))
			return &o->cat.metadata[i];
	return NULL;
}

/* One error line that holds `part`, and no tensor data touched by it. */
#define CHECK_REJECTED(fn, b, part)                                                            \
	do {                                                                                   \
		struct outcome test_o;                                                         \
		parse(fn, (b)->data, (b)->n, &test_o);                                         \
		CHECK_EQ(test_o.rc, H2D_E_FORMAT);                                             \
		CHECK_EQ(test_o.error_count, 1);                                               \
		CHECK(strstr(test_o.error, part) != NULL);                                     \
		if (!strstr(test_o.error, part))                                               \
			fprintf(stderr, "  message: %s\n", test_o.error);                      \
		outcome_free(&test_o);                                                         \
	} while (0)

#define CHECK_ACCEPTED(fn, b)                                                                  \
	do {                                                                                   \
		struct outcome test_o;                                                         \
		parse(fn, (b)->data, (b)->n, &test_o);                                         \
		CHECK_EQ(test_o.rc, 0);                                                        \
		if (test_o.rc)                                                                 \
			fprintf(stderr, "  message: %s\n", test_o.error);                      \
		outcome_free(&test_o);                                                         \
	} while (0)

/* Open `b` as a checkpoint, with what is proven about every format: rc and messages only. */
static inline void open_whole(const struct bytes *b, struct outcome *o)
{
	struct h2d_open_opts opts = H2D_OPTS(opts);
	struct h2d_checkpoint *ckpt = NULL;

	memset(o, 0, sizeof(*o));
	opts.log = outcome_log;
	opts.log_user = o;
	o->rc = h2d_checkpoint_open_memory(b->data, b->n, &opts, &ckpt);
	h2d_checkpoint_close(ckpt);
}

#define CHECK_OPEN(b, status, part)                                                            \
	do {                                                                                   \
		struct outcome test_o;                                                         \
		open_whole(b, &test_o);                                                        \
		CHECK_EQ(test_o.rc, status);                                                   \
		CHECK_EQ(test_o.error_count, test_o.rc ? 1 : 0);                               \
		CHECK(strstr(test_o.error, part) != NULL);                                     \
		if (!strstr(test_o.error, part))                                               \
			fprintf(stderr, "  message: %s\n", test_o.error);                      \
	} while (0)

/* ---- faults */

static unsigned mem_calls, mem_fail_at;

static inline bool mem_fails(void)
{
	return ++mem_calls == mem_fail_at;
}

static inline void *mem_malloc(size_t n)
{
	return mem_fails() ? NULL : malloc(n);
}

static inline void *mem_calloc(size_t count, size_t size)
{
	return mem_fails() ? NULL : calloc(count, size);
}

static inline void *mem_realloc(void *p, size_t n)
{
	return mem_fails() ? NULL : realloc(p, n);
}

/* Fail each allocation of parsing `b` in turn: H2D_E_NOMEM each time, nothing leaked. */
static inline void check_allocations(parse_fn fn, const struct bytes *b)
{
	struct h2d_mem_ops ops = h2d_mem_libc;
	struct outcome o;
	unsigned at = 1;

	ops.malloc = mem_malloc;
	ops.calloc = mem_calloc;
	ops.realloc = mem_realloc;
	for (;; at++) {
		mem_calls = 0;
		mem_fail_at = at;
		h2d_mem = &ops;
		parse(fn, b->data, b->n, &o);
		h2d_mem = &h2d_mem_libc;
		if (mem_calls < at)
			break;
		CHECK_EQ(o.rc, H2D_E_NOMEM);
		CHECK_EQ(o.error_count, 1);
		outcome_free(&o);
	}
	CHECK_EQ(o.rc, 0);
	CHECK(at > 2);
	outcome_free(&o);
}

/* Every proper prefix of `b` shorter than `needed` is refused with one message; from there on
 * it is accepted. */
static inline void check_truncation(parse_fn fn, const struct bytes *b, size_t needed)
{
	for (size_t n = 0; n <= b->n; n++) {
		struct outcome o;

		parse(fn, b->data, n, &o);
		CHECK_EQ(o.rc, n < needed ? H2D_E_FORMAT : 0);
		CHECK_EQ(o.error_count, n < needed ? 1 : 0);
		if ((o.rc != 0) != (n < needed))
			fprintf(stderr, "  at length %zu: %s\n", n, o.error);
		outcome_free(&o);
	}
}

static unsigned io_reads, io_fail_at;

static inline ssize_t io_pread(int fd, void *buf, size_t n, off_t offset)
{
	if (++io_reads == io_fail_at) {
		errno = EIO;
		return -1;
	}
	return pread(fd, buf, n, offset);
}

/* Short by half, but for single bytes. */
static inline ssize_t io_short_pread(int fd, void *buf, size_t n, off_t offset)
{
	return pread(fd, buf, n > 1 ? n / 2 : n, offset);
}

/* EIO at each read in turn, short reads, and a file that is shorter than it was. */
static inline void check_reads(parse_fn fn, const struct bytes *b)
{
	struct h2d_io_ops ops = h2d_io_system;
	struct h2d_log silent = {0};
	int fd = memfd_create("h2d-test", MFD_CLOEXEC);
	struct h2d_file f;
	struct outcome o;
	unsigned at = 1;

	REQUIRE(fd >= 0);
	REQUIRE(pwrite(fd, b->data, b->n, 0) == (ssize_t)b->n);
	REQUIRE(h2d_file_open_fd(&f, fd, "test", &silent) == 0);
	ops.pread = io_pread;
	for (;; at++) {
		memset(&o, 0, sizeof(o));
		io_reads = 0;
		io_fail_at = at;
		h2d_io = &ops;
		parse_file(fn, &f, &o);
		h2d_io = &h2d_io_system;
		if (io_reads < at)
			break;
		CHECK_EQ(o.rc, H2D_E_IO);
		CHECK_EQ(o.error_count, 1);
		outcome_free(&o);
	}
	CHECK_EQ(o.rc, 0);
	CHECK(at > 1);
	outcome_free(&o);
	ops.pread = io_short_pread;
	memset(&o, 0, sizeof(o));
	h2d_io = &ops;
	parse_file(fn, &f, &o);
	h2d_io = &h2d_io_system;
	CHECK_EQ(o.rc, 0);
	outcome_free(&o);
	REQUIRE(ftruncate(fd, 10) == 0);
	memset(&o, 0, sizeof(o));
	parse_file(fn, &f, &o);
	CHECK_EQ(o.rc, H2D_E_CHANGED);
	outcome_free(&o);
	h2d_file_close(&f);
	close(fd);
}

#endif
