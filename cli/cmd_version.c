/* SPDX-License-Identifier: Apache-2.0 */
#include <hwloc.h>
#include <jansson.h>
#include <liburing.h>
#include <string.h>
#include <xxhash.h>

#include "build-info.h"
#include "commands.h"
#include "device/device.h"
#include "format/format.h"

/* A library this program was linked with: as its headers said, and as it is now. */
struct library {
	const char *name;
	char compiled[32], loaded[32];
};

enum { LIBRARY_COUNT = 4 };

static void fill_libraries(struct library *l)
{
	unsigned hwloc = hwloc_get_api_version(), xx = XXH_versionNumber();

	l[0].name = "liburing";
	snprintf(l[0].compiled, sizeof(l[0].compiled), "%s", H2D_LIBURING_VERSION);
	l[0].loaded[0] = 0; /* its io_uring_major_version() is newer than 2.3 */
	l[1].name = "hwloc";
	snprintf(l[1].compiled, sizeof(l[1].compiled), "%u.%u.%u", HWLOC_API_VERSION >> 16,
		 HWLOC_API_VERSION >> 8 & 0xff, HWLOC_API_VERSION & 0xff);
	snprintf(l[1].loaded, sizeof(l[1].loaded), "%u.%u.%u", hwloc >> 16, hwloc >> 8 & 0xff,
		 hwloc & 0xff);
	l[2].name = "jansson";
	snprintf(l[2].compiled, sizeof(l[2].compiled), "%s", JANSSON_VERSION);
	snprintf(l[2].loaded, sizeof(l[2].loaded), "%s", jansson_version_str());
	l[3].name = "xxHash";
	snprintf(l[3].compiled, sizeof(l[3].compiled), "%d.%d.%d", XXH_VERSION_MAJOR,
		 XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
	snprintf(l[3].loaded, sizeof(l[3].loaded), "%u.%u.%u", xx / 10000, xx / 100 % 100,
		 xx % 100);
}

typedef int (*describe_fn)(uint32_t, const char **, const char **);

static void described(struct h2d_json *j, const char *key, describe_fn describe)
{
	const char *name, *summary;

	h2d_json_array_begin(j, key);
	for (uint32_t i = 0; !describe(i, &name, &summary); i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", name);
		h2d_json_string(j, "summary", summary);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static int document(struct h2d_cli *cli, const struct library *libraries)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.version", 1, 0);
	h2d_json_stringf(&j, "version", "%d.%d.%d", H2D_VERSION_MAJOR, H2D_VERSION_MINOR,
			 H2D_VERSION_PATCH);
	h2d_json_array_begin(&j, "formats");
	for (const struct h2d_format *f = h2d_formats; f->name; f++)
		h2d_json_string(&j, NULL, f->name);
	h2d_json_array_end(&j);
	described(&j, "paths", h2d_path_describe);
	described(&j, "backends", h2d_backend_describe);
	h2d_json_array_begin(&j, "libraries");
	for (int i = 0; i < LIBRARY_COUNT; i++) {
		h2d_json_object_begin(&j, NULL);
		h2d_json_string(&j, "name", libraries[i].name);
		h2d_json_string(&j, "compiled_version", libraries[i].compiled);
		if (libraries[i].loaded[0])
			h2d_json_string(&j, "loaded_version", libraries[i].loaded);
		else
			h2d_cli_null(&j, "loaded_version", "the library does not tell");
		h2d_json_object_end(&j);
	}
	h2d_json_array_end(&j);
	return h2d_cli_document_end(cli, &j);
}

static void names(FILE *out, const char *title, const char *const *list)
{
	fprintf(out, "%-10s", title);
	for (size_t i = 0; list[i]; i++)
		fprintf(out, " %s", list[i]);
	fputc('\n', out);
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct library libraries[LIBRARY_COUNT];
	FILE *out = cli->out;

	(void)values;
	(void)count;
	(void)words;
	fill_libraries(libraries);
	if (cli->common.json)
		return document(cli, libraries);
	fprintf(out, "h2d %d.%d.%d", H2D_VERSION_MAJOR, H2D_VERSION_MINOR, H2D_VERSION_PATCH);
	if (cli->common.quiet) {
		fputc('\n', out);
		return H2D_EXIT_OK;
	}
	if (H2D_BUILD_GIT[0])
		fprintf(out, " (%s%s)", H2D_BUILD_GIT, H2D_BUILD_GIT_DIRTY ? ", changed" : "");
	fprintf(out, "\n%-10s %s, %s", "build", h2d_build_compiler(), h2d_build_type());
	if (h2d_build_sanitizers()[0])
		fprintf(out, ", sanitizers %s", h2d_build_sanitizers());
	fprintf(out, "\n%-10s", "formats");
	for (const struct h2d_format *f = h2d_formats; f->name; f++)
		fprintf(out, " %s", f->name);
	fputc('\n', out);
	names(out, "paths", h2d_path_names());
	names(out, "devices", h2d_backend_names());
	fprintf(out, "%-10s", "libraries");
	for (int i = 0; i < LIBRARY_COUNT; i++) {
		fprintf(out, "%s %s %s", i ? "," : "", libraries[i].name,
			libraries[i].compiled);
		if (libraries[i].loaded[0] &&
		    strcmp(libraries[i].compiled, libraries[i].loaded))
			fprintf(out, " (now %s)", libraries[i].loaded);
	}
	fputc('\n', out);
	return H2D_EXIT_OK;
}

const struct h2d_command h2d_command_version = {
	.name = "version",
	.summary = "print versions and what is built in",
	.arguments = "",
	.description =
		(const char *const[]){
			"Prints the version of h2d, how it was built, the formats, transfer "
			"paths "
			"and device back-ends it has, and the libraries it uses.",
			"With -q only the version is printed.",
			NULL,
		},
	.run = run,
};
