/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file value.h
 * JSON values that were read: checked access with the place named by its JSON pointer (RFC
 * 6901). Thread-safe on different values. Since 0.1.
 */
#ifndef H2D_BENCH_VALUE_H
#define H2D_BENCH_VALUE_H

#include "core/json_value.h"
#include "core/log.h"

/** A value and where it stands. `file` and `pointer` are for messages. */
struct h2d_value {
	const struct h2d_log *log;
	const char *file;
	char pointer[256];
	json_t *json; /**< borrowed; NULL when it is absent */
};

/** Read a file of one JSON value. Duplicate keys and what follows the value are errors.
 *  @param out  (out) owned by the caller @return 0, H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO
 *  or H2D_E_FORMAT with line and column in the message */
int h2d_value_load(const char *path, const struct h2d_log *log, json_t **out);
/** Log "FILE: POINTER: …". @return H2D_E_FORMAT */
int h2d_value_fail(const struct h2d_value *v, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Member of an object (absent: json NULL) and element of an array. */
struct h2d_value h2d_value_member(const struct h2d_value *v, const char *key);
struct h2d_value h2d_value_element(const struct h2d_value *v, size_t index);
/** Count of an array's elements; 0 when absent. */
size_t h2d_value_count(const struct h2d_value *v);

/** Fail unless it is an object all of whose members are in `keys` (ended by NULL). */
int h2d_value_object(const struct h2d_value *v, const char *const *keys);
/** Fail unless it is an array, or absent where `optional`. */
int h2d_value_array(const struct h2d_value *v, bool optional);
/** The value, or `otherwise` when absent; fail on another type. Numbers are checked against
 *  their bounds. A NULL `otherwise` makes a text required. */
int h2d_value_text(const struct h2d_value *v, const char *otherwise, const char **out);
int h2d_value_u64(const struct h2d_value *v, uint64_t min, uint64_t max, uint64_t otherwise,
		  uint64_t *out);
int h2d_value_double(const struct h2d_value *v, double min, double max, double otherwise,
		     double *out);
int h2d_value_bool(const struct h2d_value *v, bool otherwise, bool *out);

/** Check `schema` and the major version of a document. */
int h2d_value_schema(const struct h2d_value *v, const char *schema, unsigned major);

/** Member of a value that was checked before; convenience for reading our own documents: 0,
 *  NULL or 0.0 when absent or of another type. */
uint64_t h2d_get_u64(const json_t *object, const char *key);
const char *h2d_get_text(const json_t *object, const char *key);
double h2d_get_double(const json_t *object, const char *key);

#endif
