/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file torch_fixture.h
 * Archives as torch.save writes them, made byte by byte: the pickle's opcodes, and the zip in
 * the style of PyTorch 1.13 (data descriptors, empty local sizes) and of newer ones.
 */
#ifndef H2D_TEST_TORCH_FIXTURE_H
#define H2D_TEST_TORCH_FIXTURE_H

#include "parse_fixture.h"

/* ---- opcodes */

static inline void pk_begin(struct bytes *b)
{
	put(b, "\x80\x02", 2);
}

static inline void pk_text(struct bytes *b, const char *s)
{
	put_u8(b, 'X');
	put_u32(b, (uint32_t)strlen(s));
	put_text(b, s);
}

static inline void pk_int(struct bytes *b, int32_t v)
{
	put_u8(b, 'J');
	put_u32(b, (uint32_t)v);
}

static inline void pk_global(struct bytes *b, const char *module, const char *name)
{
	put_u8(b, 'c');
	put_text(b, module);
	put_u8(b, '\n');
	put_text(b, name);
	put_u8(b, '\n');
}

static inline void pk_ops(struct bytes *b, const char *ops)
{
	put_text(b, ops);
}

static inline void pk_ints(struct bytes *b, unsigned n, const int32_t *v)
{
	put_u8(b, '(');
	for (unsigned i = 0; i < n; i++)
		pk_int(b, v[i]);
	put_u8(b, 't');
}

static inline void pk_storage(struct bytes *b, const char *type, const char *key, int32_t n)
{
	put_u8(b, '(');
	pk_text(b, "storage");
	pk_global(b, "torch", type);
	pk_text(b, key);
	pk_text(b, "cpu");
	pk_int(b, n);
	pk_ops(b, "tQ");
}

/* A call of torch._utils.`rebuild` on storage `key` of `n` elements. */
static inline void pk_view(struct bytes *b, const char *rebuild, const char *type,
			   const char *key, int32_t n, int32_t offset, unsigned rank,
			   const int32_t *size, const int32_t *stride)
{
	pk_global(b, "torch._utils", rebuild);
	put_u8(b, '(');
	pk_storage(b, type, key, n);
	pk_int(b, offset);
	pk_ints(b, rank, size);
	pk_ints(b, rank, stride);
	put_u8(b, 0x89);
	pk_global(b, "collections", "OrderedDict");
	pk_ops(b, ")RtR");
}

/* All of storage `key` as a vector. */
static inline void pk_vector(struct bytes *b, const char *type, const char *key, int32_t n)
{
	pk_view(b, "_rebuild_tensor_v2", type, key, n, 0, 1, &n, (const int32_t[]){1});
}

/* ---- archives */

enum zip_style { ZIP_NEW, ZIP_113 };

struct zip_file {
	const char *name;
	const void *data;
	size_t n;
	unsigned method, flags;
	/* Filled when written. */
	uint64_t header, begin;
};

struct zip_maker {
	struct zip_file file[64];
	unsigned count;
	enum zip_style style;
	const char *top; /* NULL: "archive/" */
	bool zip64;	 /* sizes and offsets in ZIP64 extra fields only */
	/* Damage. */
	unsigned local_method, local_flags;
	const char *local_name;	 /* of the last file */
	uint64_t directory, end; /* filled */
};

static inline struct zip_file *zip_add(struct zip_maker *z, const char *name, const void *data,
				       size_t n)
{
	struct zip_file *f = &z->file[z->count++];

	*f = (struct zip_file){.name = name, .data = data, .n = n};
	return f;
}

static inline const char *zip_name(const struct zip_maker *z, const struct zip_file *f,
				   char *name, size_t cap)
{
	snprintf(name, cap, "%s%s", z->top ? z->top : "archive/", f->name);
	return name;
}

static inline void zip_local(struct zip_maker *z, struct zip_file *f, struct bytes *b)
{
	bool last = f == &z->file[z->count - 1];
	bool described = z->style == ZIP_113 && f->n;
	char name[256];
	size_t n, extra;

	zip_name(z, f, name, sizeof(name));
	if (last && z->local_name)
		snprintf(name, sizeof(name), "%s", z->local_name);
	n = strlen(name);
	f->header = b->n;
	/* The extra field makes the bytes begin at a multiple of 64. */
	extra = 64 - (b->n + 30 + n + 4) % 64 + 4;
	put_text(b, "PK\3\4");
	put_u16(b, 0);
	put_u16(b, (described ? 0x808 : 0x800) | f->flags | (last ? z->local_flags : 0));
	put_u16(b, last && z->local_method ? z->local_method : f->method);
	put_u32(b, 0); /* time and date */
	put_u32(b, 0); /* CRC, not looked at */
	put_u32(b, described ? 0 : (uint32_t)f->n);
	put_u32(b, described ? 0 : (uint32_t)f->n);
	put_u16(b, (unsigned)n);
	put_u16(b, (unsigned)extra);
	put_text(b, name);
	put_text(b, "FB");
	put_u16(b, (unsigned)extra - 4);
	put_fill(b, 'Z', extra - 4);
	f->begin = b->n;
	put(b, f->data, f->n);
	if (described) {
		put_text(b, "PK\7\10");
		put_u32(b, 0);
		put_u32(b, (uint32_t)f->n);
		put_u32(b, (uint32_t)f->n);
	}
}

static inline void zip_central(const struct zip_maker *z, const struct zip_file *f,
			       struct bytes *b)
{
	char name[256];

	zip_name(z, f, name, sizeof(name));
	put_text(b, "PK\1\2");
	put_u32(b, 0); /* versions */
	put_u16(b, (z->style == ZIP_113 && f->n ? 0x808 : 0x800) | f->flags);
	put_u16(b, f->method);
	put_u32(b, 0);
	put_u32(b, 0);
	put_u32(b, z->zip64 ? UINT32_MAX : (uint32_t)f->n);
	put_u32(b, z->zip64 ? UINT32_MAX : (uint32_t)f->n);
	put_u16(b, (unsigned)strlen(name));
	put_u16(b, z->zip64 ? 28 : 0);
	put_u16(b, 0);
	put_u16(b, 0);
	put_u16(b, 0);
	put_u32(b, 0);
	put_u32(b, z->zip64 ? UINT32_MAX : (uint32_t)f->header);
	put_text(b, name);
	if (z->zip64) {
		put_u16(b, 1);
		put_u16(b, 24);
		put_u64(b, f->n);
		put_u64(b, f->n);
		put_u64(b, f->header);
	}
}

static inline void zip_end(struct zip_maker *z, struct bytes *b)
{
	uint64_t bytes = b->n - z->directory;

	z->end = b->n;
	put_text(b, "PK\6\6");
	put_u64(b, 44);
	put_u32(b, 0);
	put_u32(b, 0);
	put_u32(b, 0);
	put_u64(b, z->count);
	put_u64(b, z->count);
	put_u64(b, bytes);
	put_u64(b, z->directory);
	put_text(b, "PK\6\7");
	put_u32(b, 0);
	put_u64(b, z->end);
	put_u32(b, 1);
	put_text(b, "PK\5\6");
	put_u32(b, 0);
	put_u16(b, z->zip64 ? UINT16_MAX : z->count);
	put_u16(b, z->zip64 ? UINT16_MAX : z->count);
	put_u32(b, z->zip64 ? UINT32_MAX : (uint32_t)bytes);
	put_u32(b, z->zip64 ? UINT32_MAX : (uint32_t)z->directory);
	put_u16(b, 0);
}

static inline void zip_make(struct zip_maker *z, struct bytes *b)
{
	for (unsigned i = 0; i < z->count; i++)
		zip_local(z, &z->file[i], b);
	z->directory = b->n;
	for (unsigned i = 0; i < z->count; i++)
		zip_central(z, &z->file[i], b);
	zip_end(z, b);
}

/* ---- archives of one pickle */

#define DIMS(...) ((const int32_t[]){__VA_ARGS__})

/* An archive of one pickle and storages "0" (64 bytes) and "1" (8 bytes). */
static inline void archive(struct zip_maker *z, const struct bytes *pickle,
			   enum zip_style style)
{
	static const unsigned char data[64] = {1, 2, 3};

	*z = (struct zip_maker){.style = style};
	zip_add(z, "data.pkl", pickle->data, pickle->n);
	zip_add(z, "byteorder", "little", 6);
	zip_add(z, "data/0", data, 64);
	zip_add(z, "data/1", data, 8);
	zip_add(z, "version", "3\n", 2);
}

static inline void open_pickle(struct bytes *pickle, struct outcome *o)
{
	struct bytes b = {0};
	struct zip_maker z;

	archive(&z, pickle, ZIP_NEW);
	zip_make(&z, &b);
	parse(h2d_torch_parse, b.data, b.n, o);
	if (o->rc)
		fprintf(stderr, "  message: %s\n", o->error);
	bytes_free(&b);
	bytes_free(pickle);
}

static inline void reject_pickle(struct bytes *pickle, const char *part)
{
	struct bytes b = {0};
	struct zip_maker z;

	archive(&z, pickle, ZIP_NEW);
	zip_make(&z, &b);
	CHECK_REJECTED(h2d_torch_parse, &b, part);
	bytes_free(&b);
	bytes_free(pickle);
}

/* {"w": vector of storage 0, "n": {"b": vector of storage 1}, "epoch": 3} */
static inline void state(struct bytes *p)
{
	pk_begin(p);
	pk_ops(p, "}(");
	pk_text(p, "w");
	pk_vector(p, "FloatStorage", "0", 16);
	pk_text(p, "n");
	pk_ops(p, "}");
	pk_text(p, "b");
	pk_vector(p, "LongStorage", "1", 1);
	pk_ops(p, "s");
	pk_text(p, "epoch");
	pk_int(p, 3);
	pk_ops(p, "u.");
}

/* A dict of one entry "t", whose value follows. */
static inline void begin_t(struct bytes *p)
{
	pk_begin(p);
	pk_ops(p, "}");
	pk_text(p, "t");
}

static inline void end_t(struct bytes *p)
{
	pk_ops(p, "s.");
}

#endif
