/* SPDX-License-Identifier: Apache-2.0 */
/* --help, from the tables. */
#include <string.h>

#include "cli.h"

enum { INDENT = 26, WIDTH = 80 };

static void wrapped(FILE *out, const char *text, int column, int indent)
{
	while (*text) {
		int word = (int)strcspn(text, " ");

		if (column > indent && column + 1 + word > WIDTH) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			fputc(' ', out);
			column++;
		}
		fprintf(out, "%.*s", word, text);
		column += word;
		text += word;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct h2d_command *command,
			 const struct h2d_option *o)
{
	const char *const *choices = h2d_option_choices(o);
	char left[128], list[256];
	int n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s", o->letter ? '-' : ' ',
			 o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name,
			 o->argument ? " " : "", o->argument ? o->argument : "");

	/* What stands at the second and later bytes of a character takes no column. */
	for (const char *p = left; *p; p++)
		n -= (*p & 0xc0) == 0x80;
	if (n < INDENT)
		fprintf(out, "%s%*s", left, INDENT - n, "");
	else
		fprintf(out, "%s\n%*s", left, INDENT, "");
	wrapped(out, h2d_option_help(command, o), INDENT, INDENT);
	if (choices) {
		snprintf(list, sizeof(list), "%s is one of ", o->argument);
		for (size_t i = 0; choices[i]; i++)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
				 i ? ", " : "", choices[i]);
		fprintf(out, "%*s", INDENT, "");
		wrapped(out, list, INDENT, INDENT);
	}
	if (o->kind == H2D_OPTION_TEXTS)
		fprintf(out, "%*sMay be given more than once\n", INDENT, "");
}

static void print_table(FILE *out, const struct h2d_command *command,
			const struct h2d_option_table *table)
{
	fprintf(out, "\n%s:\n", table->title);
	for (const struct h2d_option *o = table->options; o->name; o++)
		print_option(out, command, o);
}

static bool takes_sizes(const struct h2d_command *command)
{
	for (size_t i = 0; command->options && command->options[i]; i++)
		for (const struct h2d_option *o = command->options[i]->options; o->name; o++)
			if (o->kind == H2D_OPTION_SIZE)
				return true;
	return false;
}

void h2d_usage_print(FILE *out, const struct h2d_command *command, const char *name)
{
	fprintf(out, "Usage: h2d %s [OPTIONS]%s%s\n", name, command->arguments[0] ? " " : "",
		command->arguments);
	wrapped(out, command->summary, 0, 0);
	for (size_t i = 0; command->commands && command->commands[i]; i++)
		fprintf(out, "%s  %-10s %s\n", i ? "" : "\nCommands:\n",
			command->commands[i]->name, command->commands[i]->summary);
	for (size_t i = 0; command->options && command->options[i]; i++)
		print_table(out, command, command->options[i]);
	print_table(out, command, &h2d_common_options);
	if (takes_sizes(command))
		fputs("\nA SIZE is bytes, or a number with KiB, MiB, GiB or TiB right behind it.\n",
		      out);
	for (size_t i = 0; command->examples && command->examples[i].command; i++)
		fprintf(out, "%s  %s:\n    %s\n", i ? "" : "\nExamples:\n",
			command->examples[i].text, command->examples[i].command);
}

void h2d_usage_overview(FILE *out)
{
	fputs("Usage: h2d COMMAND [OPTIONS] [ARGUMENTS]\n"
	      "Moves model weights from storage to an accelerator and tells how it went.\n"
	      "\nCommands:\n",
	      out);
	for (size_t i = 0; h2d_commands[i]; i++)
		fprintf(out, "  %-10s %s\n", h2d_commands[i]->name, h2d_commands[i]->summary);
	print_table(out, NULL, &h2d_common_options);
	fputs("\nExit status:\n", out);
	for (int i = 0; i < 256; i++)
		if (h2d_exit_meaning(i))
			fprintf(out, "  %3d  %s\n", i, h2d_exit_meaning(i));
	fputs("\n'h2d help COMMAND' explains a command.\n", out);
}
