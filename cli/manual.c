/* SPDX-License-Identifier: Apache-2.0 */
/* The manual pages as mdoc(7), from the tables. */
#include <ctype.h>
#include <string.h>

#include "cli.h"

/* Day of the last change of what the pages say in words of their own. */
static const char manual_date[] = "November 29, 2026";

/* Text that troff must not interpret; `line` when it begins an input line. */
static void text(FILE *out, const char *s, bool line)
{
	if (line && (*s == '.' || *s == '\''))
		fputs("\\&", out);
	for (; *s; s++) {
		if (*s == '\\')
			fputs("\\e", out);
		else if (*s == '-')
			fputs("\\-", out);
		else
			fputc(*s, out);
	}
}

/* Words on lines of at most 78 columns. */
static void filled(FILE *out, const char *s, size_t bytes)
{
	size_t column = 0;

	while (bytes) {
		size_t n = strcspn(s, " ");
		char word[128];

		n = n < bytes ? n : bytes;
		if (column && column + 1 + n > 76) {
			fputc('\n', out);
			column = 0;
		} else if (column) {
			fputc(' ', out);
			column++;
		}
		snprintf(word, sizeof(word), "%.*s", (int)n, s);
		text(out, word, !column);
		column += n;
		s += n;
		bytes -= n;
		while (bytes && *s == ' ') {
			s++;
			bytes--;
		}
	}
	fputc('\n', out);
}

/* Every sentence begins a line, as mdoc wants it. */
static void sentences(FILE *out, const char *s)
{
	while (*s) {
		const char *end = strstr(s, ". ");
		size_t n;

		/* Our sentences begin with a capital; "e.g. " and numbers end none. */
		while (end && !isupper((unsigned char)end[2]))
			end = strstr(end + 1, ". ");
		n = end ? (size_t)(end - s) + 1 : strlen(s);
		filled(out, s, n);
		s += n + strspn(s + n, " ");
	}
}

/* An argument of a macro: words that look like macros or hold blanks are quoted. */
static void argument(FILE *out, const char *s)
{
	fputs("\"", out);
	if (strlen(s) <= 2)
		fputs("\\&", out);
	text(out, s, false);
	fputs("\"", out);
}

static void option(FILE *out, const struct h2d_command *c, const struct h2d_option *o)
{
	const char *const *choices = h2d_option_choices(o);

	fputs(".It ", out);
	if (o->letter)
		fprintf(out, "Fl %c , ", o->letter);
	fputs("Fl \\-", out);
	text(out, o->name, false);
	if (o->argument) {
		fputs(" Ar ", out);
		text(out, o->argument, false);
	}
	fputc('\n', out);
	sentences(out, h2d_option_help(c, o));
	if (choices) {
		fputs("The value is one of\n", out);
		for (size_t i = 0; choices[i]; i++)
			fprintf(out, ".Cm %s%s\n", choices[i], !choices[i + 1] ? " ." : " ,");
	}
	if (o->kind == H2D_OPTION_TEXTS)
		fputs("May be given more than once.\n", out);
}

static void table(FILE *out, const struct h2d_command *c, const struct h2d_option_table *t,
		  const char *heading)
{
	fprintf(out, "%s %s\n.Bl -tag -width Ds\n", heading, t->title);
	for (const struct h2d_option *o = t->options; o->name; o++)
		option(out, c, o);
	fputs(".El\n", out);
}

static void paragraphs(FILE *out, const char *const *list)
{
	for (size_t i = 0; list && list[i]; i++) {
		if (i)
			fputs(".Pp\n", out);
		sentences(out, list[i]);
	}
}

static void synopsis(FILE *out, const char *name, const char *arguments)
{
	fputs(".Nm h2d\n.Cm ", out);
	text(out, name, false);
	fputs("\n.Op Ar options\n", out);
	if (arguments[0]) {
		fputs(".Ar ", out);
		argument(out, arguments);
		fputc('\n', out);
	}
}

static void sub_commands(FILE *out, const struct h2d_command *command)
{
	fputs(".Sh COMMANDS\n.Bl -tag -width Ds\n", out);
	for (size_t i = 0; command->commands[i]; i++) {
		const struct h2d_command *sub = command->commands[i];

		fputs(".It Cm ", out);
		text(out, sub->name, false);
		if (sub->arguments[0]) {
			fputs(" Ar ", out);
			argument(out, sub->arguments);
		}
		fputc('\n', out);
		paragraphs(out, sub->description);
	}
	fputs(".El\n", out);
	for (size_t i = 0; command->commands[i]; i++) {
		const struct h2d_command *sub = command->commands[i];

		for (size_t k = 0; sub->options && sub->options[k]; k++) {
			fprintf(out, ".Sh OPTIONS OF %s\n", sub->name);
			table(out, sub, sub->options[k], ".Ss");
		}
	}
}

static void exit_status(FILE *out, const struct h2d_exit_note *own)
{
	fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n", out);
	for (; own && own->status; own++) {
		fputs(".It ", out);
		text(out, own->status, false);
		fputc('\n', out);
		sentences(out, own->meaning);
		if (!own[1].status) {
			fputs(".El\n", out);
			return;
		}
	}
	for (int i = 0; i < 256; i++)
		if (h2d_exit_meaning(i))
			fprintf(out, ".It %d\n%s\n", i, h2d_exit_meaning(i));
	fputs(".El\n", out);
}

static void examples(FILE *out, const struct h2d_example *list)
{
	if (!list)
		return;
	fputs(".Sh EXAMPLES\n", out);
	for (size_t i = 0; list[i].command; i++) {
		if (i)
			fputs(".Pp\n", out);
		text(out, list[i].text, true);
		fputs(":\n.Dl ", out);
		text(out, list[i].command, false);
		fputc('\n', out);
	}
}

typedef int (*describe_fn)(uint32_t, const char **, const char **);

static void described(FILE *out, const char *heading, describe_fn describe)
{
	const char *name, *summary;

	for (uint32_t i = 0; !describe(i, &name, &summary); i++) {
		fprintf(out, "%s.It Cm ", i ? "" : heading);
		text(out, name, false);
		fputc('\n', out);
		sentences(out, summary);
	}
	if (!describe(0, &name, &summary))
		fputs(".El\n", out);
}

static void paths_and_devices(FILE *out)
{
	described(out,
		  ".Sh TRANSFER PATHS\n"
		  "A path is how the bytes travel from the file to the device.\n"
		  "Every path delivers the same bytes.\n.Bl -tag -width Ds\n",
		  h2d_path_describe);
	described(out,
		  ".Sh DEVICES\n"
		  "A device owns the memory that the weights go to.\n.Bl -tag -width Ds\n",
		  h2d_backend_describe);
}

static void see_also(FILE *out, const struct h2d_command *self)
{
	const char *names[64];
	size_t n = 0;

	if (self)
		names[n++] = "";
	/* The section wants its pages in alphabetical order. */
	for (size_t i = 0; h2d_commands[i] && n < 63; i++) {
		size_t at = n;

		if (h2d_commands[i] == self)
			continue;
		while (at && strcmp(names[at - 1], h2d_commands[i]->name) > 0) {
			names[at] = names[at - 1];
			at--;
		}
		names[at] = h2d_commands[i]->name;
		n++;
	}
	fputs(".Sh SEE ALSO\n", out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, ".Xr h2d%s%s 1%s\n", names[i][0] ? "-" : "", names[i],
			i + 1 < n ? " ," : "");
}

static void page_of_command(FILE *out, const struct h2d_command *c, const char *full)
{
	char dashed[64], upper[64];
	size_t i;

	for (i = 0; full[i] && i < sizeof(upper) - 1; i++) {
		dashed[i] = full[i] == ' ' ? '-' : full[i];
		upper[i] = (char)toupper((unsigned char)dashed[i]);
	}
	dashed[i] = upper[i] = 0;
	fprintf(out, ".Dd %s\n.Dt H2D-%s 1\n.Os \"h2d %u.%u.%u\"\n.Sh NAME\n.Nm h2d-%s\n.Nd ",
		manual_date, upper, H2D_VERSION_MAJOR, H2D_VERSION_MINOR, H2D_VERSION_PATCH,
		dashed);
	text(out, c->summary, false);
	fputs("\n.Sh SYNOPSIS\n", out);
	if (c->commands)
		for (size_t k = 0; c->commands[k]; k++) {
			char name[64];

			snprintf(name, sizeof(name), "%s %s", c->name, c->commands[k]->name);
			synopsis(out, name, c->commands[k]->arguments);
		}
	else
		synopsis(out, full, c->arguments);
	fputs(".Sh DESCRIPTION\n", out);
	paragraphs(out, c->description);
	if (c->commands)
		sub_commands(out, c);
	fputs(".Sh OPTIONS\n", out);
	for (size_t k = 0; c->options && c->options[k]; k++)
		table(out, c, c->options[k], ".Ss");
	table(out, c, &h2d_common_options, ".Ss");
	fputs(".Pp\nSizes are bytes, or a number with\n"
	      ".Cm KiB , MiB , GiB\nor\n.Cm TiB\nright behind it.\n",
	      out);
	exit_status(out, c->exits);
	examples(out, c->examples);
	see_also(out, c);
}

static const char *const overview[] = {
	"h2d moves model weights from storage to an accelerator as fast as the machine allows, "
	"and "
	"finds out why a machine is slower than that.",
	"A checkpoint is a file, a folder, an index.json, or any member of a sharded or split "
	"set. "
	"Its format is decided by content: safetensors, GGUF, Cactus .cact and PyTorch "
	"archives "
	"are understood. Opening one reads its header only and proves it sound.",
	"Each command has a page of its own.",
	NULL,
};

static void page_of_program(FILE *out)
{
	fprintf(out,
		".Dd %s\n.Dt H2D 1\n.Os \"h2d %u.%u.%u\"\n.Sh NAME\n.Nm h2d\n"
		".Nd move model weights from storage to an accelerator\n"
		".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar options\n.Op Ar arguments\n"
		".Nm\n.Fl \\-version\n.Sh DESCRIPTION\n",
		manual_date, H2D_VERSION_MAJOR, H2D_VERSION_MINOR, H2D_VERSION_PATCH);
	paragraphs(out, overview);
	fputs(".Sh COMMANDS\n.Bl -tag -width Ds\n", out);
	for (size_t i = 0; h2d_commands[i]; i++) {
		fprintf(out, ".It Cm %s\n", h2d_commands[i]->name);
		text(out, h2d_commands[i]->summary, true);
		fputs(".\n", out);
	}
	fputs(".El\n.Sh OPTIONS\n", out);
	table(out, NULL, &h2d_common_options, ".Ss");
	paths_and_devices(out);
	exit_status(out, NULL);
	see_also(out, NULL);
}

void h2d_manual_print(FILE *out, const struct h2d_command *command, const char *name)
{
	fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n", out);
	if (command)
		page_of_command(out, command, name);
	else
		page_of_program(out);
}
