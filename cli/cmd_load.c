/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "measure.h"

#define AT(member) offsetof(struct h2d_transfer_values, member)

static const struct h2d_option options[] = {
	{"verify", 0, H2D_OPTION_FLAG, NULL,
	 "Read the weights back and compare them with an independent read.", NULL, 0,
	 AT(verify), 0, 0},
	{"repeat", 0, H2D_OPTION_NUMBER, "N",
	 "Load N times in a row. The report speaks of the median one, and the document holds "
	 "every sample.",
	 NULL, 0, AT(repeat), 1, 1000000},
	{"per-tensor", 0, H2D_OPTION_FLAG, NULL,
	 "Load and time every tensor alone. Nothing is coalesced then, so the load as a whole "
	 "is slower.",
	 NULL, 0, AT(per_tensor), 0, 0},
	{"trace", 0, H2D_OPTION_TEXT, "FILE",
	 "Write a trace of readers, copies and waits. It is in the format of Chrome's trace "
	 "viewer and of Perfetto.",
	 NULL, H2D_WORD_FILE, AT(trace), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Load options", options};

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	(void)count;
	return h2d_measure_command(cli, values, words[0], "h2d.load");
}

const struct h2d_command h2d_command_load = {
	.name = "load",
	.summary = "load a checkpoint onto a device and report how it went",
	.arguments = "CHECKPOINT",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Moves the weights of a checkpoint to a device and reports path, "
			"times, throughput, memory, page cache and faults. The weights are "
			"released "
			"again: this command measures and proves, it does not serve.",
			"Everything that is not asked for is computed from the machine, and "
			"what "
			"was used is in the report. Throughput is tensor bytes over the time "
			"of "
			"the whole load, planning and allocating included. Memory peaks are of "
			"this "
			"process, read every 10 ms.",
			"Several devices, separated by commas, are filled in one go, and what "
			"several of them want of a file is read once. --split says who gets "
			"what. A GPU counts once; host and null may be named again, to try a "
			"split out. Paths view, register and gds fill one device at a time.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, &h2d_transfer_options,
							    &h2d_split_options,
							    &h2d_selection_options, NULL},
	.values_bytes = sizeof(struct h2d_transfer_values),
	.examples =
		(const struct h2d_example[]){
			{"Load on the best device and prove every byte",
			 "h2d load --verify model.safetensors"},
			{"Compare a path with the default, nine times each",
			 "h2d load --path mmap --repeat 9 --json model.gguf"},
			{"Half of the layers to each of two GPUs",
			 "h2d load --device cuda:0,cuda:1 --verify model.safetensors"},
			{"Tensor parallel: outputs cut in rows, inputs in columns, the rest "
			 "copied",
			 "h2d load --device cuda:0,1,2,3 --split copy --split "
			 "'*.[qkv]_proj.weight=rows' --split '*.o_proj.weight=columns' model"},
			{"Only the layers 0 to 9",
			 "h2d load --include '*layers.[0-9].*' model.safetensors.index.json"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
