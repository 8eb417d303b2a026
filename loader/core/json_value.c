/* SPDX-License-Identifier: Apache-2.0 */
#include "core/json_value.h"

static void write_object(struct h2d_json *j, const char *key, const json_t *value,
			 bool drop_nulls)
{
	const char *name;
	json_t *member;

	h2d_json_object_begin(j, key);
	json_object_foreach((json_t *)(uintptr_t)value, name, member)
	{
		if (!drop_nulls || !json_is_null(member))
			h2d_value_write(j, name, member, drop_nulls);
	}
	h2d_json_object_end(j);
}

void h2d_value_write(struct h2d_json *j, const char *key, const json_t *value, bool drop_nulls)
{
	if (j->depth >= H2D_JSON_DEPTH_MAX - 1) {
		h2d_json_null(j, key);
		return;
	}
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		write_object(j, key, value, drop_nulls);
		break;
	case JSON_ARRAY:
		h2d_json_array_begin(j, key);
		for (size_t i = 0; i < json_array_size(value); i++)
			h2d_value_write(j, NULL, json_array_get(value, i), drop_nulls);
		h2d_json_array_end(j);
		break;
	case JSON_STRING:
		h2d_json_bytes(j, key, json_string_value(value), json_string_length(value));
		break;
	case JSON_INTEGER:
		h2d_json_i64(j, key, json_integer_value(value));
		break;
	case JSON_REAL:
		h2d_json_double(j, key, json_real_value(value));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		h2d_json_bool(j, key, json_is_true(value));
		break;
	case JSON_NULL:
		h2d_json_null(j, key);
		break;
	}
}
