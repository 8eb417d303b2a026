/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "btf.h"
#include "core/mem.h"

enum {
	MAGIC = 0xeb9f,
	MAGIC_SWAPPED = 0x9feb,
	VERSION = 1,
	HEADER_BYTES = 24,
	TYPE_BYTES = 12, /* of the common part */
	CHAIN_MAX = 32,	 /* typedefs and qualifiers in a row */
	INT_SIGNED = 1,	 /* bits of an INT's encoding */
	INT_BOOL = 4,
};

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Bytes behind the common part of a type, or -1 for a kind that we do not know. */
static int64_t more_bytes(uint32_t kind, uint32_t vlen)
{
	switch (kind) {
	case H2D_BTF_PTR:
	case H2D_BTF_FWD:
	case H2D_BTF_TYPEDEF:
	case H2D_BTF_VOLATILE:
	case H2D_BTF_CONST:
	case H2D_BTF_RESTRICT:
	case H2D_BTF_FUNC:
	case H2D_BTF_FLOAT:
	case H2D_BTF_TYPE_TAG:
		return 0;
	case H2D_BTF_INT:
	case H2D_BTF_VAR:
	case H2D_BTF_DECL_TAG:
		return 4;
	case H2D_BTF_ARRAY:
		return 12;
	case H2D_BTF_ENUM:
	case H2D_BTF_FUNC_PROTO:
		return (int64_t)vlen * 8;
	case H2D_BTF_STRUCT:
	case H2D_BTF_UNION:
	case H2D_BTF_DATASEC:
	case H2D_BTF_ENUM64:
		return (int64_t)vlen * 12;
	default:
		return -1;
	}
}

static uint32_t kind_of(uint32_t info)
{
	return info >> 24 & 0x1f;
}

static uint32_t vlen_of(uint32_t info)
{
	return info & 0xffff;
}

/* Walk all types; with `offsets`, note where each begins. */
static int walk(const uint8_t *types, uint32_t bytes, const struct h2d_log *log,
		uint32_t *count, uint32_t *offsets)
{
	uint64_t at = 0;

	*count = 0;
	while (at < bytes) {
		uint32_t info;
		int64_t more;

		if (bytes - at < TYPE_BYTES)
			return h2d_fail(log, H2D_E_FORMAT, "BTF: type cut off at byte %llu",
					(unsigned long long)at);
		info = u32_at(types + at + 4);
		more = more_bytes(kind_of(info), vlen_of(info));
		if (more < 0)
			return h2d_fail(log, H2D_E_FORMAT, "BTF: unknown kind %u at byte %llu",
					kind_of(info), (unsigned long long)at);
		if ((uint64_t)more > bytes - at - TYPE_BYTES)
			return h2d_fail(log, H2D_E_FORMAT, "BTF: type cut off at byte %llu",
					(unsigned long long)at);
		if (offsets)
			offsets[*count] = (uint32_t)at;
		++*count;
		at += TYPE_BYTES + (uint64_t)more;
	}
	return 0;
}

/* A section named by the header, inside the data. */
static bool section(const uint8_t *data, size_t bytes, uint32_t field, uint32_t *begin,
		    uint32_t *length)
{
	const uint64_t header = u32_at(data + 4);
	const uint64_t offset = header + u32_at(data + field);

	*length = u32_at(data + field + 4);
	*begin = (uint32_t)offset;
	return offset <= bytes && *length <= bytes - offset;
}

int h2d_btf_open(const void *data, size_t bytes, const struct h2d_btf *base,
		 const struct h2d_log *log, struct h2d_btf *out)
{
	const uint8_t *p = data;
	uint32_t types, types_bytes, strings;
	uint16_t magic;
	int err;

	memset(out, 0, sizeof(*out));
	if (bytes < HEADER_BYTES || bytes > UINT32_MAX)
		return h2d_fail(log, H2D_E_FORMAT, "BTF: %zu bytes are no BTF", bytes);
	memcpy(&magic, p, sizeof(magic));
	if (magic == MAGIC_SWAPPED)
		return h2d_fail(log, H2D_E_UNSUPPORTED, "BTF: of the other byte order");
	if (magic != MAGIC)
		return h2d_fail(log, H2D_E_FORMAT, "BTF: no magic number");
	if (p[2] != VERSION)
		return h2d_fail(log, H2D_E_UNSUPPORTED, "BTF: version %u", p[2]);
	if (u32_at(p + 4) < HEADER_BYTES || u32_at(p + 4) > bytes)
		return h2d_fail(log, H2D_E_FORMAT, "BTF: header of %u bytes", u32_at(p + 4));
	if (!section(p, bytes, 8, &types, &types_bytes) ||
	    !section(p, bytes, 16, &strings, &out->strings_bytes))
		return h2d_fail(log, H2D_E_FORMAT, "BTF: section outside its %zu bytes", bytes);
	if (!out->strings_bytes || p[strings + out->strings_bytes - 1])
		return h2d_fail(log, H2D_E_FORMAT, "BTF: strings are not terminated");

	out->types = p + types;
	out->strings = (const char *)p + strings;
	out->base = base;
	out->first_id = base ? base->first_id + base->type_count : 1;
	out->first_string = base ? base->first_string + base->strings_bytes : 0;
	err = walk(out->types, types_bytes, log, &out->type_count, NULL);
	if (err)
		return err;
	out->offsets = h2d_mem->calloc(out->type_count + 1ULL, sizeof(*out->offsets));
	if (!out->offsets)
		return h2d_fail(log, H2D_E_NOMEM, "BTF: %u types", out->type_count);
	return walk(out->types, types_bytes, log, &out->type_count, out->offsets);
}

void h2d_btf_close(struct h2d_btf *btf)
{
	free(btf->offsets);
	memset(btf, 0, sizeof(*btf));
}

static const char *string_at(const struct h2d_btf *btf, uint32_t offset)
{
	while (btf && offset < btf->first_string)
		btf = btf->base;
	if (!btf || offset - btf->first_string >= btf->strings_bytes)
		return "";
	return btf->strings + (offset - btf->first_string);
}

int h2d_btf_type(const struct h2d_btf *btf, uint32_t id, struct h2d_btf_type *type)
{
	const struct h2d_btf *owner = btf;
	const uint8_t *p;
	uint32_t info;

	memset(type, 0, sizeof(*type));
	type->name = "";
	if (!id)
		return 0;
	while (owner && id < owner->first_id)
		owner = owner->base;
	if (!owner || id - owner->first_id >= owner->type_count)
		return H2D_E_NOT_FOUND;
	p = owner->types + owner->offsets[id - owner->first_id];
	info = u32_at(p + 4);
	type->name = string_at(btf, u32_at(p));
	type->kind = (enum h2d_btf_kind)kind_of(info);
	type->id = id;
	type->vlen = vlen_of(info);
	type->flag = info >> 31;
	type->size_type = u32_at(p + 8);
	type->more = p + TYPE_BYTES;
	return 0;
}

static bool is_transparent(enum h2d_btf_kind kind)
{
	return kind == H2D_BTF_TYPEDEF || kind == H2D_BTF_VOLATILE || kind == H2D_BTF_CONST ||
	       kind == H2D_BTF_RESTRICT || kind == H2D_BTF_TYPE_TAG;
}

int h2d_btf_resolve(const struct h2d_btf *btf, uint32_t id, struct h2d_btf_type *type)
{
	int err = h2d_btf_type(btf, id, type);

	for (int i = 0; !err && is_transparent(type->kind); i++) {
		if (i == CHAIN_MAX) /* a loop */
			return H2D_E_NOT_FOUND;
		err = h2d_btf_type(btf, type->size_type, type);
	}
	return err;
}

int h2d_btf_element(const struct h2d_btf *btf, const struct h2d_btf_type *type, uint32_t i,
		    const char **name, uint32_t *id, uint32_t *offset_bits)
{
	const bool member = type->kind == H2D_BTF_STRUCT || type->kind == H2D_BTF_UNION;
	const uint8_t *p;

	if ((!member && type->kind != H2D_BTF_FUNC_PROTO) || i >= type->vlen)
		return H2D_E_NOT_FOUND;
	p = type->more + (size_t)i * (member ? 12 : 8);
	*name = string_at(btf, u32_at(p));
	*id = u32_at(p + 4);
	if (offset_bits)
		*offset_bits = member ? u32_at(p + 8) & (type->flag ? 0xffffff : ~0U) : 0;
	return 0;
}

static uint32_t int_encoding(const struct h2d_btf_type *type)
{
	return type->kind == H2D_BTF_INT ? u32_at(type->more) >> 24 & 0xf : 0;
}

bool h2d_btf_is_unsigned(const struct h2d_btf_type *type)
{
	return type->kind == H2D_BTF_INT && !(int_encoding(type) & (INT_SIGNED | INT_BOOL));
}

bool h2d_btf_is_bool(const struct h2d_btf_type *type)
{
	return int_encoding(type) & INT_BOOL;
}

int h2d_btf_next_function(const struct h2d_btf *btf, const char *name, uint32_t *after,
			  struct h2d_btf_type *proto)
{
	const uint32_t end = btf->first_id + btf->type_count;
	uint32_t id = *after < btf->first_id ? btf->first_id : *after + 1;

	for (; id < end; id++) {
		struct h2d_btf_type function;

		if (h2d_btf_type(btf, id, &function) || function.kind != H2D_BTF_FUNC ||
		    strcmp(function.name, name))
			continue;
		*after = id;
		if (h2d_btf_type(btf, function.size_type, proto) ||
		    proto->kind != H2D_BTF_FUNC_PROTO)
			return H2D_E_NOT_FOUND;
		return 0;
	}
	return H2D_E_NOT_FOUND;
}

/* Text that grows into a buffer of fixed size. */
struct text {
	char *out;
	size_t bytes, used;
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->out + t->used, t->bytes - t->used, fmt, args);
	va_end(args);
	if (n > 0)
		t->used += (size_t)n < t->bytes - t->used ? (size_t)n : t->bytes - t->used - 1;
}

/* Left to right, as far as parameters of functions go: pointers to named types. */
static void put_type(struct text *t, const struct h2d_btf *btf, uint32_t id, int depth)
{
	struct h2d_btf_type type;

	if (depth > CHAIN_MAX || h2d_btf_type(btf, id, &type)) {
		put(t, "?");
		return;
	}
	switch (type.kind) {
	case H2D_BTF_VOID:
		put(t, "void");
		break;
	case H2D_BTF_PTR:
		put_type(t, btf, type.size_type, depth + 1);
		put(t, t->used && t->out[t->used - 1] == '*' ? "*" : " *");
		break;
	case H2D_BTF_CONST:
		put(t, "const ");
		put_type(t, btf, type.size_type, depth + 1);
		break;
	case H2D_BTF_VOLATILE:
	case H2D_BTF_RESTRICT:
	case H2D_BTF_TYPE_TAG:
		put_type(t, btf, type.size_type, depth + 1);
		break;
	case H2D_BTF_STRUCT:
		put(t, "struct %s", type.name);
		break;
	case H2D_BTF_UNION:
		put(t, "union %s", type.name);
		break;
	case H2D_BTF_FWD:
		put(t, "%s %s", type.flag ? "union" : "struct", type.name);
		break;
	case H2D_BTF_ENUM:
	case H2D_BTF_ENUM64:
		put(t, "enum %s", type.name);
		break;
	default:
		put(t, "%s", *type.name ? type.name : "?");
	}
}

void h2d_btf_print_prototype(const struct h2d_btf *btf, const char *name,
			     const struct h2d_btf_type *proto, char *out, size_t bytes)
{
	struct text t = {.out = out, .bytes = bytes};
	const char *parameter;
	uint32_t id;

	put_type(&t, btf, proto->size_type, 0);
	put(&t, " %s(", name);
	for (uint32_t i = 0; i < proto->vlen; i++) {
		if (h2d_btf_element(btf, proto, i, &parameter, &id, NULL))
			break;
		put(&t, "%s", i ? ", " : "");
		put_type(&t, btf, id, 0);
		if (*parameter)
			put(&t, "%s%s", t.used && out[t.used - 1] == '*' ? "" : " ", parameter);
	}
	put(&t, ")");
}
