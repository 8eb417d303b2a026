/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "input.h"
#include "progress.h"
#include "text.h"

/* Between two looks at whether the user wants to stop. */
static const uint64_t step_bytes = UINT64_C(64) << 20;

struct cache_file {
	struct h2d_cache_state before, after;
};

typedef int (*change_fn)(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
			 const struct h2d_log *log);

static int change_file(struct h2d_progress *p, const char *path, change_fn change,
		       const struct h2d_log *log)
{
	struct h2d_file f;
	int rc = h2d_file_open(&f, path, log);

	if (rc)
		return rc;
	for (uint64_t at = 0; at < f.id.size_bytes && !rc; at += step_bytes) {
		uint64_t left = f.id.size_bytes - at, n = left < step_bytes ? left : step_bytes;

		rc = change(&f, at, n, log);
		if (!rc && h2d_progress_update(p, p->done_bytes + n, p->total_bytes))
			rc = H2D_E_CANCELLED;
	}
	h2d_file_close(&f);
	return rc;
}

static int change_all(struct h2d_cli *cli, const struct h2d_input *in, change_fn change,
		      const char *phase, uint64_t total_bytes)
{
	struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_progress progress;
	int rc = 0;

	h2d_progress_begin(&progress, cli, phase);
	progress.total_bytes = total_bytes;
	for (uint32_t i = 0; i < in->info.file_count && !rc; i++)
		rc = change_file(&progress, h2d_checkpoint_file(in->ckpt, i), change, &log);
	h2d_progress_end(&progress, !rc);
	return rc;
}

static void state_json(struct h2d_json *j, const char *key, const struct h2d_cache_state *s)
{
	const char *why = s->why ? s->why : "unknown";

	h2d_json_object_begin(j, key);
	if (s->method == H2D_CACHE_UNKNOWN) {
		h2d_cli_null(j, "method", why);
		h2d_cli_null(j, "cached_bytes", why);
		h2d_cli_null(j, "dirty_bytes", why);
		h2d_cli_null(j, "cached_pct", why);
	} else {
		h2d_json_string(j, "method", h2d_cache_method_name(s->method));
		h2d_json_u64(j, "cached_bytes", s->cached_bytes);
		if (s->method == H2D_CACHE_CACHESTAT)
			h2d_json_u64(j, "dirty_bytes", s->dirty_bytes);
		else
			h2d_cli_null(j, "dirty_bytes", "mincore does not tell");
		h2d_json_double(j, "cached_pct", h2d_cache_pct(s));
	}
	h2d_json_object_end(j);
}

static int document(struct h2d_cli *cli, const struct h2d_input *in, const char *action,
		    const struct cache_file *files, const struct cache_file *all, bool changed)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.cache", 1, 0);
	h2d_input_json(cli, &j, in);
	h2d_json_string(&j, "action", action);
	h2d_json_array_begin(&j, "files");
	for (uint32_t i = 0; i < in->info.file_count; i++) {
		h2d_json_object_begin(&j, NULL);
		h2d_json_string(&j, "path",
				h2d_cli_path(cli, h2d_checkpoint_file(in->ckpt, i)));
		h2d_json_u64(&j, "size_bytes", files[i].before.total_bytes);
		state_json(&j, "before", &files[i].before);
		if (changed)
			state_json(&j, "after", &files[i].after);
		h2d_json_object_end(&j);
	}
	h2d_json_array_end(&j);
	h2d_json_object_begin(&j, "total");
	h2d_json_u64(&j, "size_bytes", all->before.total_bytes);
	state_json(&j, "before", &all->before);
	if (changed)
		state_json(&j, "after", &all->after);
	h2d_json_object_end(&j);
	return h2d_cli_document_end(cli, &j);
}

static void state_text(char *out, size_t cap, const struct h2d_cache_state *s)
{
	char cached[32];

	if (s->method == H2D_CACHE_UNKNOWN) {
		snprintf(out, cap, "unknown");
		return;
	}
	h2d_text_bytes(cached, sizeof(cached), s->cached_bytes);
	snprintf(out, cap, "%s, %.4g %%", cached, h2d_cache_pct(s));
}

static void print_line(FILE *out, const struct cache_file *f, bool changed, const char *name)
{
	char size[32], before[64], after[64];

	h2d_text_bytes(size, sizeof(size), f->before.total_bytes);
	state_text(before, sizeof(before), &f->before);
	state_text(after, sizeof(after), &f->after);
	fprintf(out, "%12s  %22s", size, before);
	if (changed)
		fprintf(out, "  %22s", after);
	fputs("  ", out);
	h2d_text_safe(out, name, strlen(name));
	fputc('\n', out);
}

static void print(struct h2d_cli *cli, const struct h2d_input *in,
		  const struct cache_file *files, const struct cache_file *all, bool changed)
{
	const char *method = h2d_cache_method_name(all->before.method);

	fprintf(cli->out, "%12s  %22s", "size", changed ? "cached before" : "cached");
	if (changed)
		fprintf(cli->out, "  %22s", "cached after");
	fputs("  file\n", cli->out);
	for (uint32_t i = 0; i < in->info.file_count; i++)
		print_line(cli->out, &files[i], changed,
			   h2d_cli_path(cli, h2d_checkpoint_file(in->ckpt, i)));
	if (in->info.file_count > 1)
		print_line(cli->out, all, changed, "total");
	if (method)
		fprintf(cli->out, "measured by %s\n", method);
}

/* The size of a file does not depend on whether its cache state is known. */
static void fill_size(const struct h2d_input *in, uint32_t file, struct h2d_cache_state *s)
{
	struct h2d_log silent = {0};
	struct h2d_file f;

	if (s->total_bytes || h2d_file_open(&f, h2d_checkpoint_file(in->ckpt, file), &silent))
		return;
	s->total_bytes = f.id.size_bytes;
	h2d_file_close(&f);
}

static int run_action(struct h2d_cli *cli, const char *path, const char *action,
		      change_fn change)
{
	struct h2d_input in;
	struct cache_file *files = NULL, all = {0};
	int exit = h2d_input_open(cli, path, &in), rc;

	if (exit)
		return exit;
	files = calloc(in.info.file_count + 1, sizeof(*files));
	if (!files) {
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
		goto out;
	}
	h2d_input_cache_all(&in, &all.before);
	all.before.total_bytes = 0;
	for (uint32_t i = 0; i < in.info.file_count; i++) {
		h2d_input_cache(&in, i, &files[i].before);
		fill_size(&in, i, &files[i].before);
		all.before.total_bytes += files[i].before.total_bytes;
	}
	if (change) {
		rc = change_all(cli, &in, change, action, all.before.total_bytes);
		if (rc) {
			exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", path);
			goto out;
		}
		for (uint32_t i = 0; i < in.info.file_count; i++)
			h2d_input_cache(&in, i, &files[i].after);
		h2d_input_cache_all(&in, &all.after);
	}
	if (cli->common.json)
		exit = document(cli, &in, action, files, &all, change);
	else if (!cli->common.quiet)
		print(cli, &in, files, &all, change);
	if (!exit && all.before.method == H2D_CACHE_UNKNOWN) {
		h2d_cli_warn(cli, "the state of the page cache is unknown: %s",
			     all.before.why ? all.before.why : "no reason is known");
		if (!change)
			exit = H2D_EXIT_UNKNOWN;
	}
out:
	free(files);
	h2d_input_close(&in);
	return exit;
}

static int run_show(struct h2d_cli *cli, void *values, int count, char **words)
{
	(void)values;
	(void)count;
	return run_action(cli, words[0], "show", NULL);
}

static int run_warm(struct h2d_cli *cli, void *values, int count, char **words)
{
	(void)values;
	(void)count;
	return run_action(cli, words[0], "warm", h2d_cache_warm);
}

static int run_evict(struct h2d_cli *cli, void *values, int count, char **words)
{
	(void)values;
	(void)count;
	return run_action(cli, words[0], "evict", h2d_cache_evict);
}

#define SUB(name_, run_, summary_, text_)                                                      \
	{                                                                                      \
		.name = name_, .summary = summary_, .arguments = "CHECKPOINT",                 \
		.word = H2D_WORD_FILE, .description = (const char *const[]){text_, NULL},      \
		.min_words = 1, .max_words = 1, .run = run_,                                   \
	}

static const struct h2d_command show =
	SUB("show", run_show, "how much of a checkpoint the page cache holds",
	    "Shows how much of each file the page cache holds, as it is measured. Where no "
	    "method can tell, the status is 77 and the reason is on stderr.");
static const struct h2d_command warm =
	SUB("warm", run_warm, "read a checkpoint into the page cache",
	    "Reads the files into the page cache and shows its state before and after.");
static const struct h2d_command evict =
	SUB("evict", run_evict, "drop a checkpoint from the page cache",
	    "Writes back what is dirty, asks the kernel to drop the files' pages, and shows "
	    "what remained. Pages that another process has mapped stay.");

const struct h2d_command h2d_command_cache = {
	.name = "cache",
	.summary = "show, warm or evict a checkpoint in the page cache",
	.arguments = "show|warm|evict CHECKPOINT",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Shows or changes how much of a checkpoint's files lies in the page "
			"cache.",
			"The state is measured by cachestat(2), or by mincore(2) on kernels "
			"that "
			"lack it. Without write access to a file the kernel does not tell; the "
			"state is then unknown, and never guessed.",
			NULL,
		},
	.commands = (const struct h2d_command *const[]){&show, &warm, &evict, NULL},
	.examples =
		(const struct h2d_example[]){
			{"A cold load on this machine",
			 "h2d cache evict model.gguf && h2d load model.gguf"},
			{0},
		},
};
