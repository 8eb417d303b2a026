/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: options that come before the command, the command's own, and the last look at
 * whether everything that was written has arrived. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"

static const struct h2d_option main_options[] = {
	{"version", 0, H2D_OPTION_FLAG, NULL, "Print the version and exit.", NULL, 0,
	 offsetof(struct h2d_common, version), 0, 0},
	{0},
};
static const struct h2d_option_table main_table = {"", main_options};

/* A closed descriptor would be the number that the next opened file gets. */
static void keep_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(H2D_EXIT_SYSTEM);
}

/* Errors of the command line itself are documents too, so the wish is looked for first. */
static bool wants_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--json"))
			return true;
	return false;
}

static int run_command(struct h2d_cli *cli, const struct h2d_command *command, int index)
{
	struct h2d_parser parser = {.cli = cli, .stop_at_word = command->takes_command};
	void *values = calloc(1, command->values_bytes + 1);
	int words, exit = h2d_cli_failure(cli, H2D_EXIT_USAGE);

	if (!values)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; command->options && command->options[i]; i++)
		parser.sets[parser.set_count++] =
			(struct h2d_parse_set){command->options[i], values};
	parser.sets[parser.set_count++] =
		(struct h2d_parse_set){&h2d_common_options, &cli->common};
	words = h2d_options_parse(&parser, cli->word_count, cli->words, &index);
	if (words < 0)
		goto out;
	if (command->takes_command) {
		words = cli->word_count - index;
		/* A --json further on is the other program's. */
		cli->common.json = wants_json(index, cli->argv);
	}
	/* `h2d help load --help` asks twice for the help of load. */
	if (cli->common.help && !(command == &h2d_command_help && words)) {
		h2d_usage_print(cli->out, command, cli->command_name);
		exit = H2D_EXIT_OK;
	} else if (words < command->min_words) {
		h2d_cli_usage(cli, "%s needs %s", cli->command_name, command->arguments);
	} else if (command->max_words >= 0 && words > command->max_words) {
		h2d_cli_usage(cli, "%s: '%s' is one argument too many", cli->command_name,
			      cli->words[index + command->max_words]);
	} else {
		exit = command->run(cli, values, words, cli->words + index);
	}
out:
	for (size_t i = 0; command->options && command->options[i]; i++)
		h2d_options_release(command->options[i], values);
	free(values);
	return exit;
}

static int no_sub_command(struct h2d_cli *cli, const char *word, const char *const *names)
{
	const char *meant = h2d_suggest(word, names);
	char list[128] = "";

	if (meant)
		return h2d_cli_usage(cli, "%s: there is no '%s'; did you mean '%s'?",
				     cli->command_name, word, meant);
	for (size_t i = 0; names[i]; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
			 i ? ", " : "", names[i]);
	return h2d_cli_usage(cli, "%s: '%s' is none of %s", cli->command_name, word, list);
}

/* A command that only has sub-commands: the next word names one. */
static int enter(struct h2d_cli *cli, const struct h2d_command *command, int index)
{
	while (command->commands) {
		struct h2d_parser parser = {
			.cli = cli,
			.sets = {{&h2d_common_options, &cli->common}},
			.set_count = 1,
			.stop_at_word = true,
		};
		const char *names[16];
		size_t n = 0;
		const struct h2d_command *next = NULL;

		if (h2d_options_parse(&parser, cli->word_count, cli->words, &index) < 0)
			return H2D_EXIT_USAGE;
		if (cli->common.help) {
			h2d_usage_print(cli->out, command, cli->command_name);
			return H2D_EXIT_OK;
		}
		for (; command->commands[n] && n < 15; n++) {
			names[n] = command->commands[n]->name;
			if (index < cli->word_count && !strcmp(names[n], cli->words[index]))
				next = command->commands[n];
		}
		names[n] = NULL;
		if (index >= cli->word_count)
			return h2d_cli_usage(cli, "%s needs %s", cli->command_name,
					     command->arguments);
		if (!next) {
			return no_sub_command(cli, cli->words[index], names);
		}
		index++;
		snprintf(cli->command_name + strlen(cli->command_name),
			 sizeof(cli->command_name) - strlen(cli->command_name), " %s",
			 next->name);
		command = next;
	}
	cli->command = command;
	return run_command(cli, command, index);
}

static int dispatch(struct h2d_cli *cli)
{
	struct h2d_parser parser = {
		.cli = cli,
		.sets = {{&h2d_common_options, &cli->common}, {&main_table, &cli->common}},
		.set_count = 2,
		.stop_at_word = true,
	};
	char help_word[] = "help", version_word[] = "version";
	char *name;
	const struct h2d_command *command;
	int index = 1;

	if (h2d_options_parse(&parser, cli->word_count, cli->words, &index) < 0)
		return H2D_EXIT_USAGE;
	if (index >= cli->word_count && !cli->common.help && !cli->common.version) {
		if (!cli->common.json)
			h2d_usage_overview(stderr);
		return h2d_cli_usage(cli, "no command");
	}
	if (cli->common.version)
		name = version_word;
	else if (index >= cli->word_count)
		name = help_word;
	else
		name = cli->words[index++];
	/* `h2d --help load` asks for the command's help, `h2d --help` for all. */
	if (index >= cli->word_count && !strcmp(name, "help"))
		cli->common.help = false;
	command = h2d_command_find(cli, 1, &name);
	if (!command)
		return H2D_EXIT_USAGE;
	cli->command = command;
	snprintf(cli->command_name, sizeof(cli->command_name), "%s", command->name);
	return enter(cli, command, index);
}

int main(int argc, char **argv)
{
	struct h2d_cli cli = {
		.argc = argc,
		.argv = argv,
		.word_count = argc,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	int exit;

	keep_standard_descriptors();
	h2d_signals_install();
	cli.common.json = wants_json(argc, argv);
	/* Parsing puts the words in front; what documents show is the line as it was given. */
	cli.words = calloc((size_t)argc + 1, sizeof(*cli.words));
	if (!cli.words || h2d_cli_open_out(&cli)) {
		fputs("h2d: out of memory\n", stderr);
		return H2D_EXIT_SYSTEM;
	}
	memcpy(cli.words, argv, (size_t)argc * sizeof(*argv));
	exit = h2d_cli_close_out(&cli, dispatch(&cli));
	free(cli.words);
	return exit;
}
