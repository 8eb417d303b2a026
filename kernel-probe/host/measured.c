/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement, from the document that it left. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/whole_file.h"
#include "host/kernel_verdict.h"

enum { DOCUMENT_BYTES_MAX = 256 << 20 };

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	return value ? value : "";
}

static void take(const json_t *verdict, const char *who, struct h2d_kernel_measured *out)
{
	const json_t *evidence = json_object_get(verdict, "evidence");
	const char *first = json_string_value(json_array_get(evidence, 0));

	out->policy = h2d_retry_policy_from_name(text(verdict, "retry_policy"));
	out->affected = !strcmp(text(verdict, "value"), "affected");
	snprintf(out->statement, sizeof(out->statement), "%s says %s, retry policy %s%s%s", who,
		 text(verdict, "value"), h2d_retry_policy_name(out->policy), first ? ": " : "",
		 first ? first : "");
}

static bool take_lab(const json_t *root, const char *release, struct h2d_kernel_measured *out)
{
	const json_t *kernels = json_object_get(root, "kernels"), *k;

	for (size_t i = 0; (k = json_array_get(kernels, i)); i++) {
		if (strcmp(text(k, "driver"), "shipped") ||
		    (release ? strcmp(text(k, "release"), release) != 0
			     : json_array_size(kernels) != 1))
			continue;
		take(json_object_get(k, "verdict"), "h2d probe lab", out);
		return true;
	}
	return false;
}

int h2d_kernel_measured_read(const char *path, const char *release, const struct h2d_log *log,
			     struct h2d_kernel_measured *out)
{
	json_error_t error;
	json_t *root;
	size_t bytes;
	void *data;
	int err = h2d_whole_file_read(path, DOCUMENT_BYTES_MAX, log, &data, &bytes);

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	root = json_loadb(data, bytes, 0, &error);
	free(data);
	if (!root)
		return h2d_fail(log, H2D_E_FORMAT, "%s: line %d: %s", path, error.line,
				error.text);
	if (!strcmp(text(root, "schema"), "h2d.repro"))
		take(json_object_get(root, "verdict"), "h2d repro", out);
	else if (strcmp(text(root, "schema"), "h2d.lab"))
		err = h2d_fail(log, H2D_E_FORMAT, "%s: no document of h2d.repro or h2d.lab",
			       path);
	else if (!take_lab(root, release, out))
		err = h2d_fail(log, H2D_E_NOT_FOUND,
			       "%s: no measurement of the shipped driver of %s", path,
			       release ? release : "one kernel");
	json_decref(root);
	return err;
}
