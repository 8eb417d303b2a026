/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "commands.h"
#include "input.h"
#include "metadata.h"
#include "text.h"

struct ls_values {
	bool full;
};

static const struct h2d_option options[] = {
	{"full", 0, H2D_OPTION_FLAG, NULL,
	 "Show metadata arrays and texts whole. Otherwise arrays of more than 16 elements are "
	 "abbreviated.",
	 NULL, 0, offsetof(struct ls_values, full), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Listing options", options};

static int tensors_json(struct h2d_cli *cli, struct h2d_json *j, const struct h2d_input *in)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	int rc = 0;

	h2d_json_array_begin(j, "tensors");
	for (uint64_t i = 0; i < in->info.tensor_count; i++) {
		rc = h2d_signals_caught() ? H2D_E_CANCELLED
					  : h2d_checkpoint_tensor(in->ckpt, i, &t);
		if (rc)
			break;
		h2d_json_object_begin(j, NULL);
		h2d_name_json(j, t.name, t.name_bytes);
		h2d_json_string(j, "dtype", t.dtype);
		h2d_json_array_begin(j, "shape");
		for (uint32_t k = 0; k < t.rank; k++)
			h2d_json_u64(j, NULL, t.shape[k]);
		h2d_json_array_end(j);
		if (t.strides) {
			h2d_json_array_begin(j, "strides");
			for (uint32_t k = 0; k < t.rank; k++)
				h2d_json_i64(j, NULL, t.strides[k]);
			h2d_json_array_end(j);
		}
		h2d_json_string(j, "file",
				h2d_cli_path(cli, h2d_checkpoint_file(in->ckpt, t.file)));
		h2d_json_u64(j, "offset_bytes", t.offset_bytes);
		h2d_json_u64(j, "size_bytes", t.size_bytes);
		h2d_json_u64(j, "ordinal", t.ordinal);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	return rc;
}

static int document(struct h2d_cli *cli, const struct h2d_input *in, bool full)
{
	struct h2d_json j;
	int rc, exit;

	h2d_cli_document(cli, &j, "h2d.ls", 1, 0);
	h2d_input_json(cli, &j, in);
	rc = h2d_metadata_json(&j, in, full);
	if (!rc)
		rc = tensors_json(cli, &j, in);
	exit = h2d_cli_document_end(cli, &j);
	return rc ? h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", in->info.path) : exit;
}

static void shape_text(char *out, size_t cap, const struct h2d_tensor_info *t)
{
	size_t used = (size_t)snprintf(out, cap, "[");

	for (uint32_t k = 0; k < t->rank && used < cap; k++)
		used += (size_t)snprintf(out + used, cap - used, "%s%llu", k ? "," : "",
					 (unsigned long long)t->shape[k]);
	if (used + 1 < cap)
		snprintf(out + used, cap - used, "]");
	else if (cap > 5)
		memcpy(out + cap - 5, "...]", 5);
}

static int table_of_tensors(struct h2d_cli *cli, const struct h2d_input *in)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	FILE *out = cli->out;
	uint32_t file = UINT32_MAX;
	size_t dtype_width = 5, shape_width = 5;
	char shape[96], size[32];
	int rc;

	for (uint64_t i = 0; i < in->info.tensor_count; i++) {
		rc = h2d_checkpoint_tensor(in->ckpt, i, &t);
		if (rc)
			return rc;
		shape_text(shape, sizeof(shape), &t);
		dtype_width = strlen(t.dtype) > dtype_width ? strlen(t.dtype) : dtype_width;
		shape_width = strlen(shape) > shape_width ? strlen(shape) : shape_width;
	}
	fprintf(out, "\n%7s  %-*s  %-*s  %14s  %12s  %s\n", "#", (int)dtype_width, "dtype",
		(int)shape_width, "shape", "offset", "size", "name");
	for (uint64_t i = 0; i < in->info.tensor_count; i++) {
		if (h2d_signals_caught())
			return H2D_E_CANCELLED;
		rc = h2d_checkpoint_tensor(in->ckpt, i, &t);
		if (rc)
			return rc;
		if (t.file != file && in->info.file_count > 1) {
			const char *path =
				h2d_cli_path(cli, h2d_checkpoint_file(in->ckpt, t.file));

			h2d_text_safe(out, path, strlen(path));
			fputs(":\n", out);
		}
		file = t.file;
		shape_text(shape, sizeof(shape), &t);
		h2d_text_bytes(size, sizeof(size), t.size_bytes);
		fprintf(out, "%7llu  %-*s  %-*s  %14llu  %12s  ", (unsigned long long)i,
			(int)dtype_width, t.dtype, (int)shape_width, shape,
			(unsigned long long)t.offset_bytes, size);
		h2d_text_safe(out, t.name, t.name_bytes);
		fputs(t.strides ? "  (not in C order)\n" : "\n", out);
	}
	return 0;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct ls_values *v = values;
	struct h2d_input in;
	int exit = h2d_input_open(cli, words[0], &in), rc;

	(void)count;
	if (exit)
		return exit;
	if (cli->common.json) {
		exit = document(cli, &in, v->full);
	} else {
		h2d_input_print(cli, &in);
		rc = h2d_metadata_print(cli->out, &in, v->full);
		if (!rc && in.info.tensor_count)
			rc = table_of_tensors(cli, &in);
		if (in.info.ignored_count)
			h2d_cli_warn(cli,
				     "%llu tensors of the shards are not in the index and are "
				     "left out",
				     (unsigned long long)in.info.ignored_count);
		if (rc)
			exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", words[0]);
	}
	h2d_input_close(&in);
	return exit;
}

const struct h2d_command h2d_command_ls = {
	.name = "ls",
	.summary = "list the tensors and the metadata of a checkpoint",
	.arguments = "CHECKPOINT",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Lists what a checkpoint holds, in the order of the files. Only "
			"headers are "
			"read. The whole set is proven sound first, so a listing means that "
			"the "
			"checkpoint can be loaded.",
			"Offsets are absolute in the file. Shapes begin with the outermost "
			"dimension whatever the format. Names that could steer the terminal "
			"are "
			"shown with those bytes as \\xNN; with --json a name that is not UTF-8 "
			"also appears as name_hex.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct ls_values),
	.examples =
		(const struct h2d_example[]){
			{"Names of all tensors",
			 "h2d ls --json model.safetensors | jq -r '.tensors[].name'"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
