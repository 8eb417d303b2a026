/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file json.h
 * A streaming JSON writer: no tree, knows commas and nesting, never writes an invalid document.
 *
 * Strings are bytes: valid UTF-8 is kept, anything else is replaced by U+FFFD (callers add a
 * `…_hex` key where the exact bytes matter). Integers whose magnitude passes 2^53 are written
 * as strings, non-finite doubles as the strings "NaN", "Infinity", "-Infinity". Write errors
 * are kept and returned by h2d_json_finish(). Not thread-safe.
 *
 * A call that does not fit the nesting (a value without key in an object, a wrong end, a second
 * root, too deep) is left out and makes h2d_json_finish() return H2D_E_INTERNAL; what was open
 * is closed there, so that even then the text is one valid document. @since 0.1
 */
#ifndef H2D_CORE_JSON_H
#define H2D_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct h2d_json {
	FILE *out; /**< NULL: into `buf` */
	char *buf;
	size_t len, cap;
	unsigned depth;
	unsigned skipped; /**< levels opened below a refused one */
	bool pretty;
	int error;	/**< first failure, a negative h2d_status */
	uint64_t first; /**< bit per level: nothing written there yet */
	uint64_t array; /**< bit per level: it is an array */
	bool after_key;
};

enum { H2D_JSON_DEPTH_MAX = 60 };

void h2d_json_init_file(struct h2d_json *j, FILE *out, bool pretty);
/** Write to memory; take the text with h2d_json_take(). */
void h2d_json_init_memory(struct h2d_json *j, bool pretty);
/** End the document (adds a newline, flushes) and return 0 or the first error. */
int h2d_json_finish(struct h2d_json *j);
/** The text (NUL-terminated, owned by the caller) of a finished memory document, or NULL. */
char *h2d_json_take(struct h2d_json *j);

void h2d_json_object_begin(struct h2d_json *j, const char *key); /**< key NULL inside arrays */
void h2d_json_object_end(struct h2d_json *j);
void h2d_json_array_begin(struct h2d_json *j, const char *key);
void h2d_json_array_end(struct h2d_json *j);
void h2d_json_string(struct h2d_json *j, const char *key,
		     const char *value); /**< NULL → null */
void h2d_json_bytes(struct h2d_json *j, const char *key, const void *data, size_t bytes);
void h2d_json_hex(struct h2d_json *j, const char *key, const void *data, size_t bytes);
void h2d_json_key_bytes(struct h2d_json *j, const void *key,
			size_t bytes); /**< then a value with key NULL */
void h2d_json_u64(struct h2d_json *j, const char *key, uint64_t value);
void h2d_json_i64(struct h2d_json *j, const char *key, int64_t value);
/** The shortest decimal that reads back as the same double. */
void h2d_json_double(struct h2d_json *j, const char *key, double value);
/** The shortest decimal that reads back as the same single-precision number. */
void h2d_json_float(struct h2d_json *j, const char *key, float value);
void h2d_json_bool(struct h2d_json *j, const char *key, bool value);
void h2d_json_null(struct h2d_json *j, const char *key);
void h2d_json_stringf(struct h2d_json *j, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/** Length of the valid UTF-8 sequence at `data` (RFC 3629), 0 when there is none. */
size_t h2d_utf8_length(const void *data, size_t bytes);
/** True when all `bytes` bytes are valid UTF-8 (RFC 3629). */
bool h2d_utf8_valid(const void *data, size_t bytes);

#endif
