/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file ckpt.h
 * For tests of checkpoints: files made of a header text and counted data bytes, a log that is
 * kept, scratch folders, and memory and I/O tables that fail on demand.
 */
#ifndef H2D_TEST_CKPT_H
#define H2D_TEST_CKPT_H

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/io.h"
#include "h2d/h2d.h"
#include "test.h"

/* ---- the log */

struct lines {
	char error[1100], warning[1100]; /* the last of each */
	int errors, warnings;
};

static struct lines lines;

static inline void keep_line(void *user, enum h2d_log_level level, const char *line)
{
	struct lines *l = user;

	if (level == H2D_LOG_ERROR) {
		l->errors++;
		snprintf(l->error, sizeof(l->error), "%s", line);
	} else if (level == H2D_LOG_WARNING) {
		l->warnings++;
		snprintf(l->warning, sizeof(l->warning), "%s", line);
	}
}

static inline struct h2d_open_opts fresh_log(void)
{
	struct h2d_open_opts o = H2D_OPTS(o);

	memset(&lines, 0, sizeof(lines));
	o.log = keep_line;
	o.log_user = &lines;
	return o;
}

/* ---- bytes of a safetensors file: length, header, data of a known pattern */

static inline unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 131 + 7);
}

static inline unsigned char *st_file(const void *header, size_t header_bytes, size_t data_bytes,
				     size_t *bytes)
{
	unsigned char *p = malloc(8 + header_bytes + data_bytes + 1);

	if (!p)
		abort();
	for (int i = 0; i < 8; i++)
		p[i] = (unsigned char)((uint64_t)header_bytes >> 8 * i);
	memcpy(p + 8, header, header_bytes);
	for (size_t i = 0; i < data_bytes; i++)
		p[8 + header_bytes + i] = pattern(i);
	*bytes = 8 + header_bytes + data_bytes;
	return p;
}

/** Open such a file from memory; the bytes are kept until st_drop(). */
static unsigned char *st_bytes;
static struct h2d_checkpoint *st_ckpt;

static inline int st_open(const void *header, size_t header_bytes, size_t data_bytes)
{
	struct h2d_open_opts o = fresh_log();
	size_t bytes;

	st_bytes = st_file(header, header_bytes, data_bytes, &bytes);
	return h2d_checkpoint_open_memory(st_bytes, bytes, &o, &st_ckpt);
}

static inline void st_drop(void)
{
	h2d_checkpoint_close(st_ckpt);
	free(st_bytes);
	st_ckpt = NULL;
	st_bytes = NULL;
}

/* ---- folders */

static char scratch[] = "/tmp/h2d-test-XXXXXX";

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void scratch_remove(void)
{
	nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/** Make the folder of this test, removed at exit. */
static inline void scratch_make(void)
{
	if (!mkdtemp(scratch))
		abort();
	atexit(scratch_remove);
}

/** `name` in the test's folder; four results at a time. */
static inline const char *in_scratch(const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *p = paths[next++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", scratch, name);
	return p;
}

static inline void make_folder(const char *name)
{
	if (mkdir(in_scratch(name), 0755))
		abort();
}

static inline void make_link(const char *target, const char *name)
{
	if (symlink(target, in_scratch(name)))
		abort();
}

static inline void write_bytes(const char *name, const void *data, size_t bytes)
{
	FILE *f = fopen(in_scratch(name), "wb");

	if (!f || fwrite(data, 1, bytes, f) != bytes || fclose(f))
		abort();
}

static inline void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

/** A safetensors file of U8 tensors with these names, `each` bytes of data apiece; the list is
 *  ended by NULL. */
static inline void write_st(const char *name, size_t each, const char *const *tensors)
{
	char header[4096] = "{";
	size_t n = 0, bytes;
	unsigned char *p;

	for (; tensors[n]; n++)
		snprintf(header + strlen(header), sizeof(header) - strlen(header),
			 "%s\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]"
			 "}",
			 n ? "," : "", tensors[n], each, n * each, (n + 1) * each);
	snprintf(header + strlen(header), sizeof(header) - strlen(header), "}");
	p = st_file(header, strlen(header), n * each, &bytes);
	write_bytes(name, p, bytes);
	free(p);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- memory that fails */

static long mem_calls, mem_fail_at = -1; /* which call fails, from 0; -1: none */
static size_t mem_bytes;

static inline bool mem_fails(size_t bytes)
{
	mem_bytes += bytes;
	return mem_calls++ == mem_fail_at;
}

static inline void *failing_malloc(size_t bytes)
{
	return mem_fails(bytes) ? NULL : malloc(bytes);
}

static inline void *failing_calloc(size_t count, size_t size)
{
	return mem_fails(count * size) ? NULL : calloc(count, size);
}

static inline void *failing_realloc(void *p, size_t bytes)
{
	return mem_fails(bytes) ? NULL : realloc(p, bytes);
}

static const struct h2d_mem_ops mem_failing = {
	.malloc = failing_malloc,
	.calloc = failing_calloc,
	.realloc = failing_realloc,
};

/** Count calls and make number `fail_at` fail. */
static inline void mem_begin(long fail_at)
{
	mem_calls = 0;
	mem_bytes = 0;
	mem_fail_at = fail_at;
	h2d_mem = &mem_failing;
}

static inline void mem_end(void)
{
	h2d_mem = &h2d_mem_libc;
}

#endif
