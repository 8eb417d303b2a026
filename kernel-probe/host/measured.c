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

/* Copies to the GPU by HIP go through amdgpu, those of hmm:shipped through its function; those
 * of other devices, and of an emulated driver, say nothing about it. */
static bool reaches_driver(const json_t *device)
{
	static const char shipped[] = "hmm:shipped";
	const char *backend = text(device, "backend");

	return !strcmp(backend, "hip") ||
	       (!strcmp(backend, "hmm") &&
		!strncmp(text(device, "name"), shipped, sizeof(shipped) - 1));
}

static int take_repro(const char *path, const json_t *root, const char *release,
		      const struct h2d_log *log, struct h2d_kernel_measured *out)
{
	const json_t *environment = json_object_get(root, "environment");
	const json_t *device = json_object_get(root, "device");
	const char *of = text(json_object_get(environment, "kernel"), "release");

	if (!release)
		return h2d_fail(log, H2D_E_NOT_FOUND,
				"%s: it is not known which kernel is judged", path);
	if (strcmp(of, release) != 0)
		return h2d_fail(log, H2D_E_NOT_FOUND,
				"%s: it was measured on the kernel %s, not on %s", path,
				of[0] ? of : "(not told)", release);
	if (!reaches_driver(device))
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: copies of the device %s do not go through the kernel's "
				"amdgpu driver; those of hip and hmm:shipped do",
				path, text(device, "name")[0] ? text(device, "name") : "?");
	take(json_object_get(root, "verdict"), "h2d repro", out);
	return 0;
}

/* A version with another meaning is refused, results/schema/README.md. */
static bool version_is_known(const json_t *root)
{
	const json_t *version = json_object_get(root, "schema_version");

	return json_integer_value(json_object_get(version, "major")) == 1;
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
	if (strcmp(text(root, "schema"), "h2d.repro") &&
	    strcmp(text(root, "schema"), "h2d.lab"))
		err = h2d_fail(log, H2D_E_FORMAT, "%s: no document of h2d.repro or h2d.lab",
			       path);
	else if (!version_is_known(root))
		err = h2d_fail(log, H2D_E_FORMAT,
			       "%s: a version of the document that this h2d does not know",
			       path);
	else if (!strcmp(text(root, "schema"), "h2d.repro"))
		err = take_repro(path, root, release, log, out);
	else if (!take_lab(root, release, out))
		err = h2d_fail(log, H2D_E_NOT_FOUND,
			       "%s: no measurement of the shipped driver of %s", path,
			       release ? release : "one kernel");
	json_decref(root);
	return err;
}
