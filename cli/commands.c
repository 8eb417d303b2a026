/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: a new one is a line here and a file cmd_NAME.c. */
#include "commands.h"

#include <string.h>

/* clang-format off */
const struct h2d_command *const h2d_commands[] = {
	&h2d_command_ls,
	&h2d_command_load,
	&h2d_command_verify,
	&h2d_command_cat,
	&h2d_command_cache,
	&h2d_command_devices,
	&h2d_command_doctor,
	&h2d_command_probe,
	&h2d_command_repro,
	&h2d_command_run,
	&h2d_command_bench,
	&h2d_command_version,
	&h2d_command_help,
	NULL,
};
/* clang-format on */

static const struct h2d_command *
in_table(struct h2d_cli *cli, const struct h2d_command *const *table, const char *word)
{
	const char *names[64], *meant;
	size_t n = 0;

	for (; table[n] && n < 63; n++) {
		names[n] = table[n]->name;
		if (!strcmp(names[n], word))
			return table[n];
	}
	names[n] = NULL;
	meant = h2d_suggest(word, names);
	if (meant)
		h2d_cli_usage(cli, "there is no command '%s'; did you mean '%s'?", word, meant);
	else
		h2d_cli_usage(cli, "there is no command '%s'", word);
	return NULL;
}

const struct h2d_command *h2d_command_find(struct h2d_cli *cli, int count, char **words)
{
	const struct h2d_command *const *table = h2d_commands;
	const struct h2d_command *found = NULL;

	for (int i = 0; i < count; i++) {
		cli->help_on = found ? found->name : "";
		if (!table) {
			h2d_cli_usage(cli, "'%s' has no sub-commands", words[i - 1]);
			return NULL;
		}
		found = in_table(cli, table, words[i]);
		if (!found)
			return NULL;
		table = found->commands;
	}
	cli->help_on = NULL;
	return found;
}
