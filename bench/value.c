/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/value.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int h2d_value_load(const char *path, const struct h2d_log *log, json_t **out)
{
	json_error_t error;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	FILE *in;

	*out = NULL;
	if (fd < 0)
		return h2d_fail_errno(log, errno, "%s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return h2d_fail(log, H2D_E_FORMAT, "%s: not a regular file", path);
	}
	in = fdopen(fd, "r");
	if (!in) {
		close(fd);
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	}
	*out = json_loadf(in, JSON_REJECT_DUPLICATES, &error);
	fclose(in);
	if (!*out)
		return h2d_fail(log, H2D_E_FORMAT, "%s: line %d, column %d: %s", path,
				error.line, error.column, error.text);
	return 0;
}

int h2d_value_fail(const struct h2d_value *v, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return h2d_fail(v->log, H2D_E_FORMAT, "%s: %s: %s", v->file,
			v->pointer[0] ? v->pointer : "the document", text);
}

static struct h2d_value below(const struct h2d_value *v, const char *name, json_t *json)
{
	struct h2d_value out = {.log = v->log, .file = v->file, .json = json};

	snprintf(out.pointer, sizeof(out.pointer), "%.190s/%.60s", v->pointer, name);
	return out;
}

struct h2d_value h2d_value_member(const struct h2d_value *v, const char *key)
{
	return below(v, key, json_object_get(v->json, key));
}

struct h2d_value h2d_value_element(const struct h2d_value *v, size_t index)
{
	char name[24];

	snprintf(name, sizeof(name), "%zu", index);
	return below(v, name, json_array_get(v->json, index));
}

size_t h2d_value_count(const struct h2d_value *v)
{
	return json_array_size(v->json);
}

int h2d_value_object(const struct h2d_value *v, const char *const *keys)
{
	const char *key;
	json_t *member;

	if (!json_is_object(v->json))
		return h2d_value_fail(v, "must be an object");
	json_object_foreach(v->json, key, member)
	{
		const struct h2d_value at = below(v, key, member);
		size_t i = 0;

		while (keys[i] && strcmp(keys[i], key))
			i++;
		if (!keys[i])
			return h2d_value_fail(&at, "unknown member");
	}
	return 0;
}

int h2d_value_array(const struct h2d_value *v, bool optional)
{
	if (!v->json && optional)
		return 0;
	if (!json_is_array(v->json))
		return h2d_value_fail(v, v->json ? "must be an array" : "is missing");
	return 0;
}

int h2d_value_text(const struct h2d_value *v, const char *otherwise, const char **out)
{
	*out = otherwise;
	if (!v->json)
		return otherwise ? 0 : h2d_value_fail(v, "is missing");
	*out = json_string_value(v->json);
	if (!*out)
		return h2d_value_fail(v, "must be a string");
	if (strlen(*out) != json_string_length(v->json))
		return h2d_value_fail(v, "holds a NUL");
	return 0;
}

int h2d_value_u64(const struct h2d_value *v, uint64_t min, uint64_t max, uint64_t otherwise,
		  uint64_t *out)
{
	json_int_t value;

	*out = otherwise;
	if (!v->json)
		return 0;
	if (!json_is_integer(v->json))
		return h2d_value_fail(v, "must be a whole number");
	value = json_integer_value(v->json);
	if (value < 0)
		return h2d_value_fail(v, "is negative");
	*out = (uint64_t)value;
	if (*out < min || *out > max)
		return h2d_value_fail(v, "must be between %llu and %llu",
				      (unsigned long long)min, (unsigned long long)max);
	return 0;
}

int h2d_value_double(const struct h2d_value *v, double min, double max, double otherwise,
		     double *out)
{
	*out = otherwise;
	if (!v->json)
		return 0;
	if (!json_is_number(v->json))
		return h2d_value_fail(v, "must be a number");
	*out = json_number_value(v->json);
	if (!(*out >= min && *out <= max))
		return h2d_value_fail(v, "must be between %g and %g", min, max);
	return 0;
}

int h2d_value_bool(const struct h2d_value *v, bool otherwise, bool *out)
{
	*out = otherwise;
	if (!v->json)
		return 0;
	if (!json_is_boolean(v->json))
		return h2d_value_fail(v, "must be true or false");
	*out = json_is_true(v->json);
	return 0;
}

int h2d_value_schema(const struct h2d_value *v, const char *schema, unsigned major)
{
	const struct h2d_value name = h2d_value_member(v, "schema");
	const struct h2d_value version = h2d_value_member(v, "schema_version");
	const struct h2d_value number = h2d_value_member(&version, "major");
	const char *is;
	int rc;

	if (!json_is_object(v->json))
		return h2d_value_fail(v, "must be an object");
	rc = h2d_value_text(&name, NULL, &is);
	if (rc)
		return rc;
	if (strcmp(is, schema))
		return h2d_value_fail(&name, "is '%.64s', not '%s'", is, schema);
	if (!json_is_integer(number.json))
		return h2d_value_fail(&number, "must be a whole number");
	if (json_integer_value(number.json) != (json_int_t)major)
		return h2d_value_fail(&number,
				      "version %lld is not known here (this program reads %u)",
				      (long long)json_integer_value(number.json), major);
	return 0;
}

uint64_t h2d_get_u64(const json_t *object, const char *key)
{
	const json_int_t value = json_integer_value(json_object_get(object, key));

	return value > 0 ? (uint64_t)value : 0;
}

const char *h2d_get_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

double h2d_get_double(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}
