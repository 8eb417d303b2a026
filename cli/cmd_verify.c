/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "measure.h"

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct h2d_transfer_values *v = values;

	(void)count;
	v->verify = true;
	return h2d_measure_command(cli, v, words[0], "h2d.verify");
}

const struct h2d_command h2d_command_verify = {
	.name = "verify",
	.summary = "load a checkpoint, read it back and compare every byte",
	.arguments = "CHECKPOINT",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Loads a checkpoint as load does, reads every tensor back from the "
			"device "
			"and compares it with an independent read of the file.",
			"A difference is status 1, and the report names the tensor and its "
			"first "
			"wrong byte. The device null keeps nothing, so it is refused.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&h2d_transfer_options,
							    &h2d_split_options,
							    &h2d_selection_options, NULL},
	.values_bytes = sizeof(struct h2d_transfer_values),
	.examples =
		(const struct h2d_example[]){
			{"Does the way through O_DIRECT deliver the same bytes?",
			 "h2d verify --path direct model.gguf"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
