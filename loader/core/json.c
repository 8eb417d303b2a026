/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "h2d/h2d.h"

#define EXACT_MAX (UINT64_C(1) << 53)

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static void keep_error(struct h2d_json *j, int error)
{
	if (!j->error)
		j->error = error;
}

static void put(struct h2d_json *j, const void *data, size_t bytes)
{
	if (j->out) {
		if (fwrite(data, 1, bytes, j->out) != bytes)
			keep_error(j, H2D_E_IO);
		return;
	}
	if (bytes >= j->cap - j->len) {
		size_t want, room = j->cap ? j->cap : 256;
		char *p;

		if (__builtin_add_overflow(j->len + 1, bytes, &want))
			goto no_memory;
		while (room < want)
			if (__builtin_mul_overflow(room, (size_t)2, &room))
				goto no_memory;
		p = h2d_mem->realloc(j->buf, room);
		if (!p)
			goto no_memory;
		j->buf = p;
		j->cap = room;
	}
	memcpy(j->buf + j->len, data, bytes);
	j->len += bytes;
	j->buf[j->len] = 0;
	return;
no_memory:
	keep_error(j, H2D_E_NOMEM);
}

static void put_string(struct h2d_json *j, const char *s)
{
	put(j, s, strlen(s));
}

static uint64_t level_bit(const struct h2d_json *j)
{
	return UINT64_C(1) << j->depth;
}

static bool in_array(const struct h2d_json *j)
{
	return j->depth && (j->array & level_bit(j));
}

static bool refuse(struct h2d_json *j)
{
	keep_error(j, H2D_E_INTERNAL);
	return false;
}

static void new_line(struct h2d_json *j)
{
	if (!j->pretty)
		return;
	put(j, "\n", 1);
	for (unsigned i = 0; i < j->depth; i++)
		put(j, "  ", 2);
}

/* The comma and line break before the next element of the current level. */
static void separate(struct h2d_json *j)
{
	if (j->first & level_bit(j))
		j->first &= ~level_bit(j);
	else
		put(j, ",", 1);
	if (j->depth)
		new_line(j);
}

size_t h2d_utf8_length(const void *data, size_t bytes)
{
	const unsigned char *s = data;
	size_t n;

	if (!bytes)
		return 0;
	if (s[0] < 0x80)
		return 1;
	n = s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
	if (!n || n > bytes)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates and what lies past U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

bool h2d_utf8_valid(const void *data, size_t bytes)
{
	const unsigned char *s = data;

	for (size_t i = 0, n; i < bytes; i += n) {
		n = h2d_utf8_length(s + i, bytes - i);
		if (!n)
			return false;
	}
	return true;
}

static void put_escape(struct h2d_json *j, unsigned char c)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *at = c ? strchr(from, c) : NULL;
	char text[8];

	if (at)
		snprintf(text, sizeof(text), "\\%c", to[at - from]);
	else
		snprintf(text, sizeof(text), "\\u%04x", c);
	put_string(j, text);
}

static void put_quoted(struct h2d_json *j, const void *data, size_t bytes)
{
	const unsigned char *s = data;
	size_t begin = 0, i = 0;

	put(j, "\"", 1);
	while (i < bytes) {
		size_t n = h2d_utf8_length(s + i, bytes - i);

		if (n && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' && s[i] != 0x7f) {
			i += n;
			continue;
		}
		put(j, s + begin, i - begin);
		if (n)
			put_escape(j, s[i]);
		else
			put_string(j, replacement);
		begin = ++i;
	}
	put(j, s + begin, i - begin);
	put(j, "\"", 1);
}

static bool write_key(struct h2d_json *j, const void *key, size_t bytes)
{
	if (j->skipped)
		return false;
	if (!j->depth || in_array(j) || j->after_key)
		return refuse(j);
	separate(j);
	put_quoted(j, key, bytes);
	put_string(j, j->pretty ? ": " : ":");
	j->after_key = true;
	return true;
}

/* Everything before a value: false when the value has no place here. */
static bool before_value(struct h2d_json *j, const char *key)
{
	if (j->skipped)
		return false;
	if (key)
		if (!write_key(j, key, strlen(key)))
			return false;
	if (j->after_key) {
		j->after_key = false;
		return true;
	}
	if (j->depth ? !in_array(j) : !(j->first & 1))
		return refuse(j);
	separate(j);
	return true;
}

void h2d_json_init_file(struct h2d_json *j, FILE *out, bool pretty)
{
	*j = (struct h2d_json){.out = out, .pretty = pretty, .first = 1};
}

void h2d_json_init_memory(struct h2d_json *j, bool pretty)
{
	h2d_json_init_file(j, NULL, pretty);
}

static void open_level(struct h2d_json *j, const char *key, bool array)
{
	if (j->skipped || j->depth >= H2D_JSON_DEPTH_MAX) {
		refuse(j);
		j->skipped++;
		return;
	}
	if (!before_value(j, key)) {
		j->skipped++;
		return;
	}
	put(j, array ? "[" : "{", 1);
	j->depth++;
	j->first |= level_bit(j);
	if (array)
		j->array |= level_bit(j);
	else
		j->array &= ~level_bit(j);
}

static void close_level(struct h2d_json *j, bool array)
{
	bool empty;

	if (j->skipped) {
		j->skipped--;
		return;
	}
	if (!j->depth || in_array(j) != array) {
		refuse(j);
		return;
	}
	if (j->after_key) {
		refuse(j);
		put_string(j, "null");
		j->after_key = false;
	}
	empty = j->first & level_bit(j);
	j->depth--;
	if (!empty)
		new_line(j);
	put(j, array ? "]" : "}", 1);
}

void h2d_json_object_begin(struct h2d_json *j, const char *key)
{
	open_level(j, key, false);
}

void h2d_json_object_end(struct h2d_json *j)
{
	close_level(j, false);
}

void h2d_json_array_begin(struct h2d_json *j, const char *key)
{
	open_level(j, key, true);
}

void h2d_json_array_end(struct h2d_json *j)
{
	close_level(j, true);
}

int h2d_json_finish(struct h2d_json *j)
{
	if (j->depth || j->skipped || (j->first & 1))
		refuse(j);
	j->skipped = 0;
	while (j->depth)
		close_level(j, in_array(j));
	if (j->first & 1)
		h2d_json_null(j, NULL);
	put(j, "\n", 1);
	if (j->out && fflush(j->out))
		keep_error(j, H2D_E_IO);
	return j->error;
}

char *h2d_json_take(struct h2d_json *j)
{
	char *text = j->buf;

	if (j->error) {
		free(text);
		text = NULL;
	}
	j->buf = NULL;
	j->len = j->cap = 0;
	return text;
}

void h2d_json_key_bytes(struct h2d_json *j, const void *key, size_t bytes)
{
	write_key(j, key, bytes);
}

void h2d_json_bytes(struct h2d_json *j, const char *key, const void *data, size_t bytes)
{
	if (before_value(j, key))
		put_quoted(j, data, bytes);
}

void h2d_json_string(struct h2d_json *j, const char *key, const char *value)
{
	if (value)
		h2d_json_bytes(j, key, value, strlen(value));
	else
		h2d_json_null(j, key);
}

void h2d_json_stringf(struct h2d_json *j, const char *key, const char *fmt, ...)
{
	char small[256], *text = small;
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(small)) {
		text = h2d_mem->malloc((size_t)n + 1);
		if (text)
			vsnprintf(text, (size_t)n + 1, fmt, again);
	}
	va_end(again);
	if (n < 0 || !text) {
		keep_error(j, n < 0 ? H2D_E_INTERNAL : H2D_E_NOMEM);
		h2d_json_null(j, key);
		return;
	}
	h2d_json_bytes(j, key, text, (size_t)n);
	if (text != small)
		free(text);
}

void h2d_json_hex(struct h2d_json *j, const char *key, const void *data, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *s = data;

	if (!before_value(j, key))
		return;
	put(j, "\"", 1);
	for (size_t i = 0; i < bytes; i++) {
		char pair[2] = {digits[s[i] >> 4], digits[s[i] & 15]};

		put(j, pair, 2);
	}
	put(j, "\"", 1);
}

static void put_number(struct h2d_json *j, const char *key, const char *text, bool exact)
{
	if (!before_value(j, key))
		return;
	if (!exact)
		put(j, "\"", 1);
	put_string(j, text);
	if (!exact)
		put(j, "\"", 1);
}

void h2d_json_u64(struct h2d_json *j, const char *key, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	put_number(j, key, text, value <= EXACT_MAX);
}

void h2d_json_i64(struct h2d_json *j, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, value);
	put_number(j, key, text, value <= (int64_t)EXACT_MAX && value >= -(int64_t)EXACT_MAX);
}

/* The program around us may have set a locale whose decimal point is a comma. */
static void plain_point(char *text)
{
	for (; *text; text++)
		if (!strchr("0123456789+-eE", *text))
			*text = '.';
}

static const char *non_finite(double value)
{
	return isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
}

void h2d_json_double(struct h2d_json *j, const char *key, double value)
{
	char text[40];

	if (!isfinite(value)) {
		put_number(j, key, non_finite(value), false);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	plain_point(text);
	put_number(j, key, text, true);
}

void h2d_json_float(struct h2d_json *j, const char *key, float value)
{
	char text[40];

	if (!isfinite(value)) {
		put_number(j, key, non_finite((double)value), false);
		return;
	}
	for (int digits = 6; digits <= 9; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, (double)value);
		if (strtof(text, NULL) == value)
			break;
	}
	plain_point(text);
	put_number(j, key, text, true);
}

void h2d_json_bool(struct h2d_json *j, const char *key, bool value)
{
	if (before_value(j, key))
		put_string(j, value ? "true" : "false");
}

void h2d_json_null(struct h2d_json *j, const char *key)
{
	if (before_value(j, key))
		put_string(j, "null");
}
