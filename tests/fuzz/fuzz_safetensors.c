/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is opened twice: as a file, and as the header text of a file with 16 bytes of data.
 * A header that we accept must be JSON to Jansson as well.
 */
#include <jansson.h>
#include <stdint.h>

#include "walk.h"

enum { DATA_BYTES = 16 };

static void must_be_json(const uint8_t *text, size_t bytes)
{
	json_error_t error;
	json_t *root = json_loadb((const char *)text, bytes, JSON_ALLOW_NUL, &error);

	if (!root)
		/* Limits that are Jansson's own. */
		PROMISE(json_error_code(&error) == json_error_null_byte_in_key ||
			json_error_code(&error) == json_error_numeric_overflow);
	json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	uint8_t *file;

	walk_memory(data, bytes);
	file = calloc(1, 8 + bytes + DATA_BYTES);
	if (!file)
		return 0;
	for (int i = 0; i < 8; i++)
		file[i] = (uint8_t)((uint64_t)bytes >> 8 * i);
	if (bytes)
		memcpy(file + 8, data, bytes);
	if (!walk_memory(file, 8 + bytes + DATA_BYTES))
		must_be_json(data, bytes);
	free(file);
	return 0;
}
