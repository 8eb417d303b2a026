/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata.h"

#include <inttypes.h>
#include <string.h>

#include "text.h"

enum { SHORT_COUNT = 16, SHORT_BYTES = 60 };

static size_t value_bytes(enum h2d_value_type type)
{
	switch (type) {
	case H2D_VALUE_U8:
	case H2D_VALUE_I8:
	case H2D_VALUE_BOOL:
		return 1;
	case H2D_VALUE_U16:
	case H2D_VALUE_I16:
		return 2;
	case H2D_VALUE_U32:
	case H2D_VALUE_I32:
	case H2D_VALUE_F32:
		return 4;
	case H2D_VALUE_U64:
	case H2D_VALUE_I64:
	case H2D_VALUE_F64:
		return 8;
	case H2D_VALUE_STRING:
	case H2D_VALUE_ARRAY:
	case H2D_VALUE_NULL:
		break;
	}
	return 0;
}

static const char *type_name(enum h2d_value_type type)
{
	static const char *const names[] = {"u8",  "i8",  "u16",  "i16",    "u32",
					    "i32", "f32", "bool", "string", "array",
					    "u64", "i64", "f64",  "null"};

	return (size_t)type < sizeof(names) / sizeof(names[0]) ? names[type] : "unknown";
}

/* A number as the widest of its kind. */
struct number {
	enum { UNSIGNED, SIGNED, SINGLE, DOUBLE, BOOLEAN } kind;
	uint64_t u;
	int64_t i;
	float f;
	double d;
};

#define TAKE(kind_, member, type)                                                              \
	do {                                                                                   \
		type value_;                                                                   \
		memcpy(&value_, p, sizeof(value_));                                            \
		n.kind = kind_;                                                                \
		n.member = value_;                                                             \
	} while (0)

static struct number take_number(enum h2d_value_type type, const void *p)
{
	struct number n = {.kind = UNSIGNED};

	switch (type) {
	case H2D_VALUE_U8:
		TAKE(UNSIGNED, u, uint8_t);
		break;
	case H2D_VALUE_I8:
		TAKE(SIGNED, i, int8_t);
		break;
	case H2D_VALUE_U16:
		TAKE(UNSIGNED, u, uint16_t);
		break;
	case H2D_VALUE_I16:
		TAKE(SIGNED, i, int16_t);
		break;
	case H2D_VALUE_U32:
		TAKE(UNSIGNED, u, uint32_t);
		break;
	case H2D_VALUE_I32:
		TAKE(SIGNED, i, int32_t);
		break;
	case H2D_VALUE_U64:
		TAKE(UNSIGNED, u, uint64_t);
		break;
	case H2D_VALUE_I64:
		TAKE(SIGNED, i, int64_t);
		break;
	case H2D_VALUE_F32:
		TAKE(SINGLE, f, float);
		break;
	case H2D_VALUE_F64:
		TAKE(DOUBLE, d, double);
		break;
	case H2D_VALUE_BOOL:
		TAKE(BOOLEAN, u, uint8_t);
		break;
	case H2D_VALUE_STRING:
	case H2D_VALUE_ARRAY:
	case H2D_VALUE_NULL:
		break;
	}
	return n;
}

static void number_json(struct h2d_json *j, const char *key, enum h2d_value_type type,
			const void *p)
{
	struct number n = take_number(type, p);

	switch (n.kind) {
	case UNSIGNED:
		h2d_json_u64(j, key, n.u);
		break;
	case SIGNED:
		h2d_json_i64(j, key, n.i);
		break;
	case SINGLE:
		h2d_json_float(j, key, n.f);
		break;
	case DOUBLE:
		h2d_json_double(j, key, n.d);
		break;
	case BOOLEAN:
		h2d_json_bool(j, key, n.u);
		break;
	}
}

static void string_json(struct h2d_json *j, const void *data, size_t bytes)
{
	if (h2d_utf8_valid(data, bytes)) {
		h2d_json_bytes(j, NULL, data, bytes);
		return;
	}
	h2d_json_object_begin(j, NULL);
	h2d_json_hex(j, "bytes_hex", data, bytes);
	h2d_json_object_end(j);
}

/* Walks the elements of an array; strings carry their length in front. */
struct cursor {
	const unsigned char *at, *end;
	enum h2d_value_type type;
};

static bool next(struct cursor *c, const void **data, size_t *bytes)
{
	uint64_t n = value_bytes(c->type);

	if (c->type == H2D_VALUE_STRING) {
		if ((size_t)(c->end - c->at) < sizeof(n))
			return false;
		memcpy(&n, c->at, sizeof(n));
		c->at += sizeof(n);
	}
	if (n > (size_t)(c->end - c->at))
		return false;
	*data = c->at;
	*bytes = n;
	c->at += n;
	return true;
}

static struct cursor cursor_of(const struct h2d_metadata_info *m)
{
	const unsigned char *data = m->data;

	return (struct cursor){data, data + m->data_bytes, m->element_type};
}

static void elements_json(struct h2d_json *j, const char *key,
			  const struct h2d_metadata_info *m, uint64_t most)
{
	struct cursor c = cursor_of(m);
	const void *data;
	size_t bytes;

	h2d_json_array_begin(j, key);
	for (uint64_t i = 0; i < m->count && i < most && next(&c, &data, &bytes); i++) {
		if (m->element_type == H2D_VALUE_STRING)
			string_json(j, data, bytes);
		else
			number_json(j, NULL, m->element_type, data);
	}
	h2d_json_array_end(j);
}

static void value_json(struct h2d_json *j, const struct h2d_metadata_info *m, bool full)
{
	switch (m->type) {
	case H2D_VALUE_STRING:
		string_json(j, m->data, m->data_bytes);
		break;
	case H2D_VALUE_NULL:
		h2d_json_null(j, NULL);
		break;
	case H2D_VALUE_ARRAY:
		if (full || m->count <= SHORT_COUNT) {
			elements_json(j, NULL, m, UINT64_MAX);
			break;
		}
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "element_type", type_name(m->element_type));
		h2d_json_u64(j, "element_count", m->count);
		elements_json(j, "first", m, SHORT_COUNT);
		h2d_json_object_end(j);
		break;
	default:
		number_json(j, NULL, m->type, m->data);
		break;
	}
}

int h2d_metadata_json(struct h2d_json *j, const struct h2d_input *in, bool full)
{
	struct h2d_metadata_info m = H2D_OPTS(m);
	int rc = 0;

	h2d_json_object_begin(j, "metadata");
	for (uint64_t i = 0; i < in->info.metadata_count && !rc; i++) {
		rc = h2d_checkpoint_metadata(in->ckpt, i, &m);
		if (rc)
			break;
		if (h2d_utf8_valid(m.key, m.key_bytes)) {
			h2d_json_key_bytes(j, m.key, m.key_bytes);
		} else {
			char key[1024]; /* replaced bytes could make two keys the same */

			h2d_text_safe_copy(key, sizeof(key), m.key, m.key_bytes);
			h2d_json_key_bytes(j, key, strlen(key));
		}
		value_json(j, &m, full);
	}
	h2d_json_object_end(j);
	return rc;
}

static void number_print(FILE *out, enum h2d_value_type type, const void *p)
{
	struct number n = take_number(type, p);

	switch (n.kind) {
	case UNSIGNED:
		fprintf(out, "%" PRIu64, n.u);
		break;
	case SIGNED:
		fprintf(out, "%" PRId64, n.i);
		break;
	case SINGLE:
		fprintf(out, "%g", (double)n.f);
		break;
	case DOUBLE:
		fprintf(out, "%g", n.d);
		break;
	case BOOLEAN:
		fputs(n.u ? "true" : "false", out);
		break;
	}
}

static void string_print(FILE *out, const char *data, size_t bytes, bool full)
{
	size_t shown = full || bytes <= SHORT_BYTES ? bytes : SHORT_BYTES;

	/* Not in the middle of a character. */
	while (shown && shown < bytes && ((unsigned char)data[shown] & 0xc0) == 0x80)
		shown--;
	h2d_text_safe(out, data, shown);
	if (shown < bytes)
		fprintf(out, "... (%zu bytes)", bytes);
}

static void value_print(FILE *out, const struct h2d_metadata_info *m, bool full)
{
	uint64_t most = full ? UINT64_MAX : SHORT_COUNT;
	struct cursor c = cursor_of(m);
	const void *data;
	size_t bytes;

	switch (m->type) {
	case H2D_VALUE_STRING:
		string_print(out, m->data, m->data_bytes, full);
		return;
	case H2D_VALUE_NULL:
		fputs("null", out);
		return;
	case H2D_VALUE_ARRAY:
		break;
	default:
		number_print(out, m->type, m->data);
		return;
	}
	if (m->count > most)
		most = 4;
	fputc('[', out);
	for (uint64_t i = 0; i < m->count && i < most && next(&c, &data, &bytes); i++) {
		fputs(i ? ", " : "", out);
		if (m->element_type == H2D_VALUE_STRING)
			string_print(out, data, bytes, full);
		else
			number_print(out, m->element_type, data);
	}
	if (m->count > most)
		fprintf(out, ", ... (%" PRIu64 " x %s)", m->count, type_name(m->element_type));
	fputc(']', out);
}

int h2d_metadata_print(FILE *out, const struct h2d_input *in, bool full)
{
	struct h2d_metadata_info m = H2D_OPTS(m);

	if (in->info.metadata_count)
		fputc('\n', out);
	for (uint64_t i = 0; i < in->info.metadata_count; i++) {
		int rc = h2d_checkpoint_metadata(in->ckpt, i, &m);

		if (rc)
			return rc;
		h2d_text_safe(out, m.key, m.key_bytes);
		fputs(" = ", out);
		value_print(out, &m, full);
		fputc('\n', out);
	}
	return 0;
}
