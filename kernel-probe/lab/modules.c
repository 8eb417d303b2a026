/* SPDX-License-Identifier: Apache-2.0 */
/* Asks kmod which modules have to be loaded, in which order, for the unpacked kernel. */
#include "internal.h"
#include "spawn.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KMOD_TIMEOUT_MS	 120000u /* of processor time; they need a second or two */
#define KMOD_KEEP_BYTES	 (256u << 10)
#define MODULE_MAX_BYTES (512u << 20)

/* Runs a kmod tool; *text is its standard output, malloc'ed. */
static int run(struct lab *lab, const char *tool, const char *const *arguments, char **text,
	       int *status)
{
	char program[256];
	const char *argv[12] = {program};
	struct lab_command command = {
		.argv = argv,
		.environment = (const char *const[]){"LC_ALL=C", "MODPROBE_OPTIONS=", NULL},
		.timeout_ms = KMOD_TIMEOUT_MS,
		.timeout_is_cpu = true,
		.keep_bytes = KMOD_KEEP_BYTES,
		.cancel = &lab->cancel,
	};
	struct lab_outcome outcome;
	int err;

	for (size_t i = 0; i < 10 && arguments[i]; i++)
		argv[i + 1] = arguments[i];
	if (lab_find_program(tool, program, sizeof(program)) != 0)
		return h2d_fail(&lab->log, H2D_E_UNAVAILABLE,
				"%s is not installed (package kmod)", tool);
	err = lab_spawn(&command, &outcome);
	if (err)
		err = h2d_fail_errno(&lab->log, -err, "%s", program);
	else if (outcome.cancelled)
		err = h2d_fail(&lab->log, H2D_E_CANCELLED, "cancelled");
	else if (outcome.timed_out)
		err = h2d_fail(&lab->log, H2D_E_IO, "%s does not end", program);
	*status = outcome.status;
	if (!err && outcome.status != 0) {
		char *errors = lab_text_string(&outcome.err);

		h2d_log_line(&lab->log, H2D_LOG_DEBUG, "%s: status %d: %s", tool,
			     outcome.status, errors ? errors : "");
		free(errors);
	}
	if (!err && text) {
		*text = lab_text_string(&outcome.out);
		if (!*text)
			err = h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	}
	lab_outcome_free(&outcome);
	return err;
}

int lab_modules_index(struct lab *lab, const struct lab_root *root)
{
	const char *const arguments[] = {"-b", root->directory, root->release, NULL};
	int status, err = run(lab, "depmod", arguments, NULL, &status);

	if (!err && status != 0)
		err = h2d_fail(&lab->log, H2D_E_FORMAT, "depmod cannot read the modules of %s",
			       root->release);
	return err;
}

static int append(struct lab *lab, struct lab_modules *modules, const char *path)
{
	char **grown;

	for (size_t i = 0; i < modules->count; i++)
		if (strcmp(modules->paths[i], path) == 0)
			return 0;
	grown = realloc(modules->paths, (modules->count + 1) * sizeof(*grown));
	if (grown) {
		modules->paths = grown;
		grown[modules->count] = strdup(path);
		if (grown[modules->count]) {
			modules->count++;
			return 0;
		}
	}
	return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
}

/* Lines are "insmod PATH OPTIONS…" and "builtin NAME". */
static int take_lines(struct lab *lab, char *text, struct lab_modules *modules)
{
	char *save = NULL;
	int err = 0;

	for (char *line = strtok_r(text, "\n", &save); !err && line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *path;

		if (strncmp(line, "insmod ", 7) != 0)
			continue;
		path = line + 7 + strspn(line + 7, " ");
		path[strcspn(path, " ")] = 0;
		err = append(lab, modules, path);
	}
	return err;
}

int lab_modules_add(struct lab *lab, const struct lab_root *root, const char *name,
		    bool required, struct lab_modules *modules, bool *found)
{
	/* -C: the host's own options and blacklists have no say here. */
	const char *const arguments[] = {
		"-C", "/dev/null", "-d", root->directory, "-S", root->release, "--show-depends",
		name, NULL};
	char *text = NULL;
	int status, err = run(lab, "modprobe", arguments, &text, &status);

	if (found)
		*found = !err && status == 0;
	if (!err && status == 0)
		err = take_lines(lab, text, modules);
	else if (!err && required)
		err = h2d_fail(&lab->log, H2D_E_FORMAT,
			       "kernel %s has no module %s, nor is it built in", root->release,
			       name);
	free(text);
	return err;
}

void lab_modules_free(struct lab_modules *modules)
{
	for (size_t i = 0; i < modules->count; i++)
		free(modules->paths[i]);
	free(modules->paths);
	memset(modules, 0, sizeof(*modules));
}

int lab_module_read(const struct h2d_log *log, const char *path, void **data, size_t *size)
{
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	size_t capacity = 1 << 20, used = 0;
	char *buffer = malloc(capacity);
	la_ssize_t n;
	int err = 0;

	if (!a || !buffer) {
		err = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
		goto out;
	}
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_zstd(a);
	archive_read_support_format_raw(a);
	if (archive_read_open_filename(a, path, 256 << 10) != ARCHIVE_OK ||
	    archive_read_next_header(a, &entry) != ARCHIVE_OK) {
		err = lab_archive_fail(log, a, path);
		goto out;
	}
	while ((n = archive_read_data(a, buffer + used, capacity - used)) > 0) {
		char *grown;

		used += (size_t)n;
		if (used < capacity)
			continue;
		grown = capacity < MODULE_MAX_BYTES ? realloc(buffer, capacity * 2) : NULL;
		if (!grown) {
			err = h2d_fail(log, H2D_E_NOMEM, "%s: too large", path);
			goto out;
		}
		buffer = grown;
		capacity *= 2;
	}
	if (n < 0)
		err = lab_archive_fail(log, a, path);
out:
	archive_read_free(a);
	if (err) {
		free(buffer);
		return err;
	}
	*data = buffer;
	*size = used;
	return 0;
}
