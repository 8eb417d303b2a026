/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds our kernel module against unpacked headers. Symbol versions differ between flavours of
 * one version, so what is built is kept under the full release and a hash of everything that
 * went into it.
 */
#include "internal.h"
#include "spawn.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define BUILD_TIMEOUT_MS     600000u
#define SOURCE_MAX_BYTES     (4u << 20)
#define BUILD_LOG_TAIL_BYTES 8192
#define MODULE_NAME	     "h2d_hmm"

/* Directories of the module's sources that belong to the build. */
static const char *const source_dirs[] = {"", "/uapi"};

static bool is_source(const char *name)
{
	size_t n = strlen(name);

	/* h2d_hmm.mod.c and the like are leftovers of a build in place. */
	if (strstr(name, ".mod"))
		return false;
	return (n > 2 &&
		(strcmp(name + n - 2, ".c") == 0 || strcmp(name + n - 2, ".h") == 0)) ||
	       strcmp(name, "Kbuild") == 0 || strcmp(name, "Makefile") == 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(char **names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(names[i]);
	free(names);
}

/* Relative names of all sources, sorted. */
static int list_sources(struct lab *lab, const char *from, char ***names, size_t *count)
{
	int err = 0;

	*names = NULL;
	*count = 0;
	for (size_t i = 0; !err && i < sizeof(source_dirs) / sizeof(source_dirs[0]); i++) {
		char *path = lab_format("%s%s", from, source_dirs[i]);
		DIR *dir = path ? opendir(path) : NULL;
		struct dirent *entry;

		if (!dir)
			err = h2d_fail_errno(&lab->log, errno, "module sources %s", from);
		free(path);
		while (!err && (entry = readdir(dir))) {
			char **grown;

			if (!is_source(entry->d_name))
				continue;
			grown = realloc(*names, (*count + 1) * sizeof(**names));
			if (grown) {
				*names = grown;
				grown[*count] =
					lab_format("%s/%s", source_dirs[i], entry->d_name);
			}
			if (!grown || !grown[*count])
				err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
			else
				++*count;
		}
		if (dir)
			closedir(dir);
	}
	if (!err)
		qsort(*names, *count, sizeof(**names), by_name);
	return err;
}

/* Hash of the sources and of what tells two builds of a kernel apart. */
static int hash_inputs(struct lab *lab, const struct lab_kernel *kernel, const char *from,
		       char *const *names, size_t count, char hex[33])
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_hash_t hash;
	int err = 0;

	if (!state)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	XXH3_128bits_reset(state);
	if (kernel && kernel->image.version)
		XXH3_128bits_update(state, kernel->image.version,
				    strlen(kernel->image.version) + 1);
	for (size_t i = 0; !err && i < count; i++) {
		char *path = lab_format("%s%s", from, names[i]), *text = NULL;
		size_t size = 0;

		err = path ? lab_read_file(path, SOURCE_MAX_BYTES, &text, &size) : -ENOMEM;
		if (err) {
			err = h2d_fail_errno(&lab->log, -err, "module sources %s", from);
		} else {
			XXH3_128bits_update(state, names[i], strlen(names[i]) + 1);
			XXH3_128bits_update(state, &size, sizeof(size));
			XXH3_128bits_update(state, text, size);
		}
		free(text);
		free(path);
	}
	hash = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	snprintf(hex, 33, "%016llx%016llx", (unsigned long long)hash.high64,
		 (unsigned long long)hash.low64);
	return err;
}

static int copy_sources(struct lab *lab, const char *from, const char *to, char *const *names,
			size_t count)
{
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(source_dirs) / sizeof(source_dirs[0]); i++) {
		char *path = lab_format("%s%s", to, source_dirs[i]);

		err = path ? lab_make_dirs(path) : -ENOMEM;
		free(path);
	}
	for (size_t i = 0; !err && i < count; i++) {
		char *source = lab_format("%s%s", from, names[i]);
		char *target = lab_format("%s%s", to, names[i]);

		err = source && target ? lab_copy_file(source, target) : -ENOMEM;
		free(source);
		free(target);
	}
	return err ? h2d_fail_errno(&lab->log, -err, "copying the module's sources to %s", to)
		   : 0;
}

/* The last line of a build's errors that says anything. */
static char *last_error(const struct lab_outcome *outcome)
{
	char *text = lab_text_string(outcome->err.total_bytes ? &outcome->err : &outcome->out);
	char *found = NULL, *save = NULL, *copy = NULL;

	if (!text)
		return NULL;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!found || (strstr(line, "rror") && !strstr(line, "***")) ||
		    strstr(line, "not found"))
			found = line;
	if (found)
		copy = strdup(found);
	free(text);
	return copy;
}

static int make(struct lab *lab, const struct lab_root *root, const char *sources, char **why)
{
	char program[256];
	char *m = lab_format("M=%s", sources);
	/* Debian's 6.12 headers carry a vmlinux and would ask for pahole, which nothing here
	 * uses. */
	const char *const argv[] = {
		program,   "-C", root->build, m, "CONFIG_DEBUG_INFO_BTF_MODULES=",
		"modules", NULL};
	struct lab_command command = {
		.argv = argv,
		.environment = (const char *const[]){"LC_ALL=C", "MAKEFLAGS=", "MFLAGS=",
						     "MAKELEVEL=", "KBUILD_OUTPUT=", NULL},
		.timeout_ms = BUILD_TIMEOUT_MS,
		.keep_bytes = BUILD_LOG_TAIL_BYTES,
		.cancel = &lab->cancel,
	};
	struct lab_outcome outcome = {0};
	int err = 0;

	if (!m)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	if (lab_find_program("make", program, sizeof(program)) != 0) {
		*why = strdup("make is not installed");
		err = H2D_E_UNAVAILABLE;
		goto out;
	}
	err = lab_spawn(&command, &outcome);
	if (err) {
		err = h2d_fail_errno(&lab->log, -err, "%s", program);
	} else if (outcome.cancelled) {
		err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
	} else if (outcome.timed_out || outcome.status != 0) {
		char *line = last_error(&outcome);

		*why = lab_format("building the module failed: %s", outcome.timed_out
									    ? "it does not end"
								    : line ? line
									   : "no reason given");
		free(line);
		err = H2D_E_UNAVAILABLE;
	}
out:
	lab_outcome_free(&outcome);
	free(m);
	return err;
}

static int build(struct lab *lab, const struct lab_kernel *kernel, struct lab_root *root,
		 const char *from, char *const *names, size_t count, char **path, char **why)
{
	char *to = lab_format("%s/module-%s", lab->tmp, root->release);
	int err = 0;

	if (!to)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	if (!root->build && kernel && kernel->headers_missing) {
		*why = lab_format("its headers cannot be had: %s", kernel->headers_missing);
		err = H2D_E_UNAVAILABLE;
	}
	if (!err && !root->build)
		err = lab_root_headers(lab, kernel, root);
	if (!err && !root->build) {
		*why = strdup("its header packages hold no build directory");
		err = H2D_E_UNAVAILABLE;
	}
	if (!err)
		err = copy_sources(lab, from, to, names, count);
	if (!err) {
		h2d_log_line(&lab->log, H2D_LOG_INFO, "building the module for %s",
			     root->release);
		err = make(lab, root, to, why);
	}
	if (!err) {
		*path = lab_format("%s/" MODULE_NAME ".ko", to);
		if (!*path)
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
		else if (!lab_is_file(*path)) {
			*why = strdup("the build made no module");
			err = H2D_E_UNAVAILABLE;
		}
	}
	free(to);
	return err;
}

int lab_module_get(struct lab *lab, const struct lab_kernel *kernel, struct lab_root *root,
		   char **path, char **why)
{
	char *from = lab_format("%s/module", lab->assets), *cached = NULL, *folder = NULL;
	char **names = NULL, hex[33];
	size_t count = 0;
	int err;

	*path = *why = NULL;
	if (!from)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	err = list_sources(lab, from, &names, &count);
	if (!err)
		err = hash_inputs(lab, kernel, from, names, count, hex);
	if (err)
		goto out;
	/* Headers that were given as a directory may change under one name: not cached. */
	if (lab->cache && kernel) {
		folder = lab_format("%s/modules", lab->cache);
		cached = lab_format("%s/%s-%s.ko", folder, root->release, hex);
	}
	if (cached && lab_is_file(cached)) {
		h2d_log_line(&lab->log, H2D_LOG_INFO, "module for %s: %s", root->release,
			     cached);
		*path = strdup(cached);
		goto out;
	}
	err = build(lab, kernel, root, from, names, count, path, why);
	/* A cache that cannot be written costs time, nothing else. */
	if (!err && cached && (lab_make_dirs(folder) != 0 || lab_copy_file(*path, cached) != 0))
		h2d_log_line(&lab->log, H2D_LOG_WARNING, "%s: not written", cached);
out:
	free_names(names, count);
	free(cached);
	free(folder);
	free(from);
	return err;
}
