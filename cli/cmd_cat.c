/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "progress.h"
#include "text.h"
#include "transfer_options.h"

enum { PIECE_BYTES = 1 << 20 };

struct cat_values {
	struct h2d_transfer_values transfer; /* first: the shared table fills it */
	bool force;
};

static const struct h2d_option options[] = {
	{"force", 'f', H2D_OPTION_FLAG, NULL, "Write to a terminal too.", NULL, 0,
	 offsetof(struct cat_values, force), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Output options", options};

static int select_one(void *user, uint64_t index, const struct h2d_tensor_info *tensor)
{
	(void)tensor;
	return index == *(const uint64_t *)user;
}

static bool is_number(const char *word)
{
	return word[0] && word[strspn(word, "0123456789")] == 0;
}

/* A name, or #INDEX where no tensor has that very name. */
static int find(struct h2d_cli *cli, const struct h2d_input *in, const char *word,
		uint64_t *index)
{
	char *end, safe[256];

	if (!h2d_checkpoint_find(in->ckpt, word, strlen(word), index))
		return H2D_EXIT_OK;
	h2d_text_safe_copy(safe, sizeof(safe), word, strlen(word));
	if (word[0] != '#' || word[1] < '0' || word[1] > '9')
		return h2d_cli_usage(cli, "%s: there is no tensor '%s'%s%s%s", in->info.path, safe,
				     is_number(word) ? "; by its number it is '#" : "",
				     is_number(word) ? safe : "", is_number(word) ? "'" : "");
	*index = strtoull(word + 1, &end, 10);
	if (*end || *index >= in->info.tensor_count)
		return h2d_cli_usage(cli, "%s: there is no tensor %s; it has %llu",
				     in->info.path, safe,
				     (unsigned long long)in->info.tensor_count);
	return H2D_EXIT_OK;
}

static int write_out(struct h2d_cli *cli, const struct h2d_weights *weights)
{
	uint64_t size, done = 0;
	unsigned char *piece;
	int rc = h2d_weights_data(weights, 0, NULL, NULL, &size);

	if (rc)
		return rc;
	piece = malloc(PIECE_BYTES);
	if (!piece)
		return H2D_E_NOMEM;
	while (!rc && done < size) {
		uint64_t n = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;

		if (h2d_signals_caught())
			rc = H2D_E_CANCELLED;
		else
			rc = h2d_weights_read(weights, 0, done, piece, n);
		/* What went wrong with stdout is told at the end of the program. */
		if (!rc && fwrite(piece, 1, n, cli->out) != n)
			break;
		done += n;
	}
	free(piece);
	return rc;
}

static int cat(struct h2d_cli *cli, struct h2d_transfer_values *v, struct h2d_input *in,
	       uint64_t index)
{
	struct h2d_device *dev = NULL;
	struct h2d_device_info info;
	struct h2d_weights *weights = NULL;
	struct h2d_load_opts opts;
	struct h2d_progress progress;
	int exit = h2d_transfer_device(cli, v, true, &dev, &info), rc;

	if (exit)
		return exit;
	h2d_transfer_opts(cli, v, &opts);
	opts.select = select_one;
	opts.select_user = &index;
	h2d_progress_begin(&progress, cli, "load");
	opts.progress = h2d_progress_update;
	opts.progress_user = &progress;
	rc = h2d_load(in->ckpt, dev, &opts, &weights);
	h2d_progress_end(&progress, !rc);
	if (!rc)
		rc = write_out(cli, weights);
	if (rc)
		exit = h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "%s", in->info.path);
	h2d_weights_free(weights);
	h2d_device_close(dev);
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct cat_values *v = values;
	struct h2d_input in;
	uint64_t index;
	int exit;

	(void)count;
	if (cli->common.json)
		return h2d_cli_usage(cli, "cat writes raw bytes: there is no --json for it");
	if (!v->force && isatty(STDOUT_FILENO))
		return h2d_cli_usage(cli, "stdout is a terminal: not writing raw bytes to it "
					  "without --force");
	exit = h2d_input_open(cli, words[0], &in);
	if (exit)
		return exit;
	exit = find(cli, &in, words[1], &index);
	if (!exit)
		exit = cat(cli, &v->transfer, &in, index);
	h2d_input_close(&in);
	return exit;
}

const struct h2d_command h2d_command_cat = {
	.name = "cat",
	.summary = "write the raw bytes of one tensor to stdout",
	.arguments = "CHECKPOINT TENSOR|#INDEX",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Loads one tensor onto a device, reads it back and writes its bytes to "
			"stdout. What arrives has made the round trip through path and device.",
			"The tensor is given by name, or by the number that ls shows behind a #. A "
			"tensor whose name begins with # is found by that name first. Nothing else of "
			"the "
			"weights is read.",
			NULL,
		},
	.options =
		(const struct h2d_option_table *const[]){&table, &h2d_transfer_options, NULL},
	.values_bytes = sizeof(struct cat_values),
	.examples =
		(const struct h2d_example[]){
			{"Digest of the first tensor", "h2d cat model.gguf '#0' | sha256sum"},
			{0},
		},
	.min_words = 2,
	.max_words = 2,
	.run = run,
};
