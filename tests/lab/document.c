/* SPDX-License-Identifier: Apache-2.0 */
#include "document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char last_error[1024];

static void keep_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	if (level == H2D_LOG_ERROR)
		snprintf(last_error, sizeof(last_error), "%s", line);
	if (level != H2D_LOG_DEBUG)
		fprintf(stderr, "# %s\n", line);
}

const char *test_kernel(void)
{
	const char *name = getenv("H2D_TEST_KERNEL");

	return name ? name : "6.12.115+deb12-amd64";
}

json_t *run_laboratory_plain(struct h2d_lab_options *options, int *status)
{
	struct h2d_lab_result *result;
	json_error_t error;
	json_t *document;
	struct h2d_json json;
	char *text;

	options->size = sizeof(*options);
	options->log = keep_line;
	last_error[0] = 0;
	*status = h2d_lab_run(options, &result);
	if (*status)
		return NULL;
	h2d_json_init_memory(&json, true);
	h2d_json_object_begin(&json, NULL);
	h2d_lab_result_write(&json, result);
	h2d_json_object_end(&json);
	h2d_lab_result_print(stderr, result);
	h2d_lab_result_free(result);
	if (h2d_json_finish(&json) || !(text = h2d_json_take(&json)))
		return NULL;
	document = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	free(text);
	return document;
}

static void skip(const char *why)
{
	printf("skipped: %s\n", why);
	exit(77);
}

json_t *run_laboratory(struct h2d_lab_options *options, int *status)
{
	json_t *document = run_laboratory_plain(options, status);
	json_t *kernel = first_kernel(document);

	if (*status == H2D_E_UNAVAILABLE)
		skip(last_error);
	if (kernel && json_is_null(json_object_get(kernel, "guest")) &&
	    strcmp(verdict_of(kernel, "value"), "not_verified") == 0)
		skip(json_string_value(json_array_get(
			json_object_get(json_object_get(kernel, "verdict"), "reasons"), 0)));
	return document;
}

json_t *first_kernel(json_t *document)
{
	return json_array_get(json_object_get(document, "kernels"), 0);
}

const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

long long number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_integer_value(value) : -1;
}

const char *verdict_of(const json_t *kernel, const char *key)
{
	return text_of(json_object_get(kernel, "verdict"), key);
}

json_t *find_cell(json_t *kernel, const char *filesystem, const char *policy,
		  const char *permission, const char *state)
{
	json_t *cell;
	size_t i;

	json_array_foreach(json_object_get(kernel, "cells"), i,
			   cell) if (strcmp(text_of(cell, "filesystem"), filesystem) == 0 &&
				     strcmp(text_of(cell, "policy"), policy ? policy : "") ==
					     0 &&
				     strcmp(text_of(cell, "permission"), permission) == 0 &&
				     strcmp(text_of(cell, "state"), state) == 0) return cell;
	return NULL;
}
