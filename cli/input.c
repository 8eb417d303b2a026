/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"

#include <fnmatch.h>
#include <string.h>

#include "core/clock.h"
#include "text.h"

int h2d_input_open(struct h2d_cli *cli, const char *path, struct h2d_input *in)
{
	struct h2d_open_opts opts = H2D_OPTS(opts);
	uint64_t begin = h2d_now_ns();
	int rc;

	*in = (struct h2d_input){.info = H2D_OPTS(in->info)};
	cli->file = path;
	opts.log = h2d_cli_log;
	opts.log_user = cli;
	rc = h2d_checkpoint_open(path, &opts, &in->ckpt);
	in->open_ns = h2d_now_ns() - begin;
	if (!rc)
		rc = h2d_checkpoint_info(in->ckpt, &in->info);
	if (!rc)
		return H2D_EXIT_OK;
	h2d_input_close(in);
	return h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", path);
}

void h2d_input_close(struct h2d_input *in)
{
	h2d_checkpoint_close(in->ckpt);
	in->ckpt = NULL;
}

void h2d_input_json(const struct h2d_cli *cli, struct h2d_json *j, const struct h2d_input *in)
{
	h2d_json_object_begin(j, "checkpoint");
	h2d_json_string(j, "path", h2d_cli_path(cli, in->info.path));
	h2d_json_string(j, "format", in->info.format);
	h2d_json_u64(j, "file_count", in->info.file_count);
	h2d_json_u64(j, "tensor_count", in->info.tensor_count);
	h2d_json_u64(j, "size_bytes", in->info.size_bytes);
	h2d_json_u64(j, "header_bytes", in->info.header_bytes);
	h2d_json_u64(j, "ignored_tensor_count", in->info.ignored_count);
	h2d_json_object_end(j);
}

void h2d_input_print(const struct h2d_cli *cli, const struct h2d_input *in)
{
	const char *path = h2d_cli_path(cli, in->info.path);
	char size[32];

	h2d_text_bytes(size, sizeof(size), in->info.size_bytes);
	h2d_text_safe(cli->out, path, strlen(path));
	fprintf(cli->out, " (%s, %u file%s, %llu tensor%s, %s)\n", in->info.format,
		in->info.file_count, in->info.file_count == 1 ? "" : "s",
		(unsigned long long)in->info.tensor_count,
		in->info.tensor_count == 1 ? "" : "s", size);
}

const char *h2d_input_name(const struct h2d_input *in, uint64_t index, char *out, size_t cap)
{
	struct h2d_tensor_info t = H2D_OPTS(t);

	if (h2d_checkpoint_tensor(in->ckpt, index, &t))
		snprintf(out, cap, "#%llu", (unsigned long long)index);
	else
		h2d_text_safe_copy(out, cap, t.name, t.name_bytes);
	return out;
}

void h2d_name_json(struct h2d_json *j, const char *name, size_t bytes)
{
	h2d_json_bytes(j, "name", name, bytes);
	if (!h2d_utf8_valid(name, bytes))
		h2d_json_hex(j, "name_hex", name, bytes);
}

static bool matches_any(const struct h2d_texts *globs, const char *name)
{
	for (size_t i = 0; i < globs->count; i++)
		if (!fnmatch(globs->items[i], name, 0))
			return true;
	return false;
}

int h2d_selection_keeps(void *user, uint64_t index, const struct h2d_tensor_info *tensor)
{
	const struct h2d_selection *s = user;

	(void)index;
	if (s->include.count && !matches_any(&s->include, tensor->name))
		return 0;
	return !matches_any(&s->exclude, tensor->name);
}

int h2d_selection_check(struct h2d_cli *cli, const struct h2d_input *in,
			const struct h2d_selection *selection)
{
	struct h2d_tensor_info t = H2D_OPTS(t);

	if (!selection->include.count && !selection->exclude.count)
		return H2D_EXIT_OK;
	for (uint64_t i = 0; i < in->info.tensor_count; i++)
		if (!h2d_checkpoint_tensor(in->ckpt, i, &t) &&
		    h2d_selection_keeps((void *)(uintptr_t)selection, i, &t))
			return H2D_EXIT_OK;
	return h2d_cli_usage(cli, "--include and --exclude leave none of the %llu tensors",
			     (unsigned long long)in->info.tensor_count);
}

void h2d_input_cache(const struct h2d_input *in, uint32_t file, struct h2d_cache_state *state)
{
	const char *path = h2d_checkpoint_file(in->ckpt, file);
	struct h2d_log silent = {0};
	struct h2d_file f;

	*state = (struct h2d_cache_state){.why = "the file cannot be opened again"};
	if (!path || h2d_file_open(&f, path, &silent))
		return;
	h2d_cache_query(&f, 0, f.id.size_bytes, state);
	h2d_file_close(&f);
}

void h2d_input_cache_all(const struct h2d_input *in, struct h2d_cache_state *state)
{
	struct h2d_cache_state one;

	*state = (struct h2d_cache_state){0};
	for (uint32_t i = 0; i < in->info.file_count; i++) {
		h2d_input_cache(in, i, &one);
		if (one.method == H2D_CACHE_UNKNOWN) {
			*state = one;
			return;
		}
		state->method = one.method;
		state->total_bytes += one.total_bytes;
		state->cached_bytes += one.cached_bytes;
		state->dirty_bytes += one.dirty_bytes;
	}
}

const char *h2d_cache_method_name(enum h2d_cache_method method)
{
	switch (method) {
	case H2D_CACHE_CACHESTAT:
		return "cachestat";
	case H2D_CACHE_MINCORE:
		return "mincore";
	case H2D_CACHE_UNKNOWN:
		break;
	}
	return NULL;
}

double h2d_cache_pct(const struct h2d_cache_state *state)
{
	double pct = state->total_bytes
			     ? (double)state->cached_bytes * 100 / (double)state->total_bytes
			     : 100;

	/* Two digits are what one page in a small file is worth. */
	return (double)(uint64_t)(pct * 100 + 0.5) / 100;
}
