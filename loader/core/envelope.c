/* SPDX-License-Identifier: Apache-2.0 */
#include "core/envelope.h"

#include <string.h>

#include "h2d/h2d.h"

const char *h2d_build_compiler(void)
{
#ifdef __clang__
	return __VERSION__;
#else
	return "GCC " __VERSION__;
#endif
}

const char *h2d_build_type(void)
{
	return H2D_BUILD_TYPE;
}

const char *h2d_build_sanitizers(void)
{
	return H2D_BUILD_SANITIZERS;
}

const char *h2d_redacted_path(const char *path, bool redact)
{
	const char *slash = redact && path ? strrchr(path, '/') : NULL;

	if (!slash)
		return path;
	return slash[1] ? slash + 1 : "(redacted)";
}

static void write_argument(struct h2d_json *j, const char *arg, bool redact)
{
	const char *value = strchr(arg, '=');

	if (redact && arg[0] == '-' && value && strchr(value, '/'))
		h2d_json_stringf(j, NULL, "%.*s=%s", (int)(value - arg), arg,
				 h2d_redacted_path(value + 1, true));
	else
		h2d_json_string(j, NULL, h2d_redacted_path(arg, redact));
}

static void write_sanitizers(struct h2d_json *j)
{
	const char *list = h2d_build_sanitizers();

	h2d_json_array_begin(j, "sanitizers");
	while (*list) {
		size_t n = strcspn(list, ",");

		h2d_json_bytes(j, NULL, list, n);
		list += n + (list[n] == ',');
	}
	h2d_json_array_end(j);
}

static void write_tool(struct h2d_json *j, const struct h2d_tool *tool)
{
	h2d_json_object_begin(j, "tool");
	h2d_json_string(j, "name", "h2d");
	h2d_json_stringf(j, "version", "%d.%d.%d", H2D_VERSION_MAJOR, H2D_VERSION_MINOR,
			 H2D_VERSION_PATCH);
	h2d_json_string(j, "command", tool->command);
	if (tool->git && tool->git[0]) {
		h2d_json_string(j, "git", tool->git);
		h2d_json_bool(j, "git_dirty", tool->git_dirty);
	} else {
		h2d_json_null(j, "git");
		h2d_json_string(j, "git_why", "not built from a git checkout");
	}
	h2d_json_string(j, "compiler", h2d_build_compiler());
	h2d_json_string(j, "build_type", h2d_build_type());
	write_sanitizers(j);
	h2d_json_array_begin(j, "argv");
	for (int i = 0; tool->argv && i < tool->argc; i++)
		write_argument(j, tool->argv[i], tool->redact);
	h2d_json_array_end(j);
	h2d_json_object_end(j);
}

void h2d_envelope_begin(struct h2d_json *j, const char *schema, unsigned major, unsigned minor,
			const struct h2d_tool *tool)
{
	struct h2d_environment env = {
		.root = tool->root, .file = tool->file, .redact = tool->redact};

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "schema", schema);
	h2d_json_object_begin(j, "schema_version");
	h2d_json_u64(j, "major", major);
	h2d_json_u64(j, "minor", minor);
	h2d_json_object_end(j);
	write_tool(j, tool);
	h2d_environment_write(j, "environment", &env);
}
