/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "commands.h"

struct help_values {
	bool man;
	const char *completion;
};

static const struct h2d_option options[] = {
	{"man", 0, H2D_OPTION_FLAG, NULL,
	 "Write the manual page as mdoc source. Without a command: that of h2d.", NULL, 0,
	 offsetof(struct help_values, man), 0, 0},
	{"completion", 0, H2D_OPTION_CHOICE, "SHELL", "Write the completion for a shell.",
	 (const char *const[]){"bash", NULL}, 0, offsetof(struct help_values, completion), 0,
	 0},
	{0},
};
static const struct h2d_option_table table = {"Help options", options};

static void option_document(struct h2d_json *j, const struct h2d_command *c,
			    const struct h2d_option_table *t)
{
	for (const struct h2d_option *o = t->options; o->name; o++) {
		const char *const *choices = h2d_option_choices(o);

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", o->name);
		if (o->letter)
			h2d_json_bytes(j, "letter", &o->letter, 1);
		if (o->argument)
			h2d_json_string(j, "argument", o->argument);
		h2d_json_string(j, "group", t->title);
		h2d_json_string(j, "help", h2d_option_help(c, o));
		if (choices) {
			h2d_json_array_begin(j, "choices");
			for (size_t i = 0; choices[i]; i++)
				h2d_json_string(j, NULL, choices[i]);
			h2d_json_array_end(j);
		}
		h2d_json_bool(j, "repeatable", o->kind == H2D_OPTION_TEXTS);
		h2d_json_object_end(j);
	}
}

static void command_document(struct h2d_json *j, const struct h2d_command *c)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", c->name);
	h2d_json_string(j, "summary", c->summary);
	h2d_json_string(j, "arguments", c->arguments);
	h2d_json_array_begin(j, "options");
	for (size_t i = 0; c->options && c->options[i]; i++)
		option_document(j, c, c->options[i]);
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "commands");
	for (size_t i = 0; c->commands && c->commands[i]; i++)
		command_document(j, c->commands[i]);
	h2d_json_array_end(j);
	h2d_json_object_end(j);
}

static int document(struct h2d_cli *cli, const struct h2d_command *only)
{
	struct h2d_json j;

	h2d_cli_document(cli, &j, "h2d.help", 1, 0);
	h2d_json_array_begin(&j, "common_options");
	option_document(&j, only, &h2d_common_options);
	h2d_json_array_end(&j);
	h2d_json_array_begin(&j, "commands");
	for (size_t i = 0; h2d_commands[i] && !only; i++)
		command_document(&j, h2d_commands[i]);
	if (only)
		command_document(&j, only);
	h2d_json_array_end(&j);
	h2d_json_array_begin(&j, "exit_statuses");
	for (int i = 0; i < 256; i++) {
		if (!h2d_exit_meaning(i))
			continue;
		h2d_json_object_begin(&j, NULL);
		h2d_json_i64(&j, "status", i);
		h2d_json_string(&j, "meaning", h2d_exit_meaning(i));
		h2d_json_object_end(&j);
	}
	h2d_json_array_end(&j);
	return h2d_cli_document_end(cli, &j);
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct help_values *v = values;
	const struct h2d_command *command = NULL;
	char name[64] = "";

	if (v->completion) {
		h2d_completion_print(cli->out);
		return H2D_EXIT_OK;
	}
	if (count) {
		command = h2d_command_find(cli, count, words);
		if (!command)
			return H2D_EXIT_USAGE;
	}
	for (int i = 0; i < count; i++)
		snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s%s", i ? " " : "",
			 words[i]);
	if (v->man) {
		h2d_manual_print(cli->out, command, name);
		return H2D_EXIT_OK;
	}
	if (cli->common.json)
		return document(cli, command);
	if (command)
		h2d_usage_print(cli->out, command, name);
	else
		h2d_usage_overview(cli->out);
	return H2D_EXIT_OK;
}

const struct h2d_command h2d_command_help = {
	.name = "help",
	.summary = "explain h2d or one of its commands",
	.arguments = "[COMMAND]",
	.word = H2D_WORD_COMMAND,
	.description =
		(const char *const[]){
			"Prints how to use h2d or one of its commands.",
			"The manual pages and the completion are written by this command too, "
			"so "
			"that they always fit the program. With --json every command, option "
			"and "
			"exit status is described for programs.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct help_values),
	.examples =
		(const struct h2d_example[]){
			{"Read the manual page of a command that is not installed",
			 "h2d help --man load | man -l -"},
			{"Use the completion in this shell",
			 "eval \"$(h2d help --completion bash)\""},
			{0},
		},
	.max_words = 2,
	.run = run,
};
