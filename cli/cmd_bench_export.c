/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/export.h"
#include "commands.h"

struct values {
	bool csv;
};

static const struct h2d_option options[] = {
	{"csv", 0, H2D_OPTION_FLAG, NULL, "Write comma-separated values, one line per sample.",
	 NULL, 0, offsetof(struct values, csv), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Export options", options};

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_log log = {h2d_cli_log, cli};
	int rc;

	(void)count;
	if (!v->csv)
		return h2d_cli_usage(cli, "bench export: say how: --csv");
	if (cli->common.json)
		return h2d_cli_usage(cli, "bench export: --csv and --json exclude each other");
	rc = h2d_export_csv(cli->out, words[0], &log);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", words[0]);
	return H2D_EXIT_OK;
}

const struct h2d_command h2d_command_bench_export = {
	.name = "export",
	.summary = "write the samples of a campaign as a table",
	.arguments = "RESULT.json",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Writes every sample of a result of h2d bench run to stdout, one line "
			"each, with the members of its cell's key. A cell without samples has "
			"one line. What is null is empty.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"For a spreadsheet", "h2d bench export --csv result.json >result.csv"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
