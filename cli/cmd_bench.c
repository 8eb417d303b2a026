/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

const struct h2d_command h2d_command_bench = {
	.name = "bench",
	.summary = "measure loaders so that the numbers stand, and compare results",
	.arguments = "run|compare|limits|export|cell …",
	.description =
		(const char *const[]){
			"A campaign measures transfer paths and other loaders on the same "
			"files: a fresh process for every sample, an order that is shuffled "
			"block by block, a page cache that is brought into its state and "
			"proven to be, and every sample kept. Each sub-command has its own "
			"help.",
			NULL,
		},
	.commands = (const struct h2d_command *const[]){&h2d_command_bench_run,
							&h2d_command_bench_compare,
							&h2d_command_bench_limits,
							&h2d_command_bench_export,
							&h2d_command_bench_cell, NULL},
};
