/* SPDX-License-Identifier: Apache-2.0 */
/* Completion for bash, from the tables. Words that depend on what is built (paths, devices) are
 * written out, so that completing never runs the program. */
#include <string.h>

#include "cli.h"
#include "split.h"

static void words(FILE *out, const char *const *list)
{
	for (size_t i = 0; list[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", list[i]);
}

static void option_names(FILE *out, const struct h2d_option_table *t)
{
	for (const struct h2d_option *o = t->options; o->name; o++) {
		fprintf(out, " --%s", o->name);
		if (o->letter)
			fprintf(out, " -%c", o->letter);
	}
}

/* What may follow an option; nothing is printed for flags. */
static void option_values(FILE *out, const char *command, const struct h2d_option_table *t)
{
	for (const struct h2d_option *o = t->options; o->name; o++) {
		const char *const *choices = h2d_option_choices(o);

		if (!o->argument)
			continue;
		fprintf(out, "\t'%s --%s'", command, o->name);
		if (o->letter)
			fprintf(out, " | '%s -%c'", command, o->letter);
		fputs(") ", out);
		if (choices || o->word == H2D_WORD_DEVICE || o->word == H2D_WORD_SHARE) {
			fputs("mapfile -t COMPREPLY < <(compgen -W '", out);
			words(out, choices		       ? choices
				   : o->word == H2D_WORD_SHARE ? h2d_share_names
							       : h2d_backend_names());
			fputs("' -- \"$cur\")", out);
		} else if (o->word == H2D_WORD_FILE) {
			fputs("_h2d_files", out);
		} else {
			fputs("COMPREPLY=()", out);
		}
		fputs("; return ;;\n", out);
	}
}

typedef void (*visit_fn)(FILE *out, const struct h2d_command *c, const char *name);

static void each_command(FILE *out, visit_fn visit)
{
	char name[64];

	for (size_t i = 0; h2d_commands[i]; i++) {
		const struct h2d_command *c = h2d_commands[i];

		visit(out, c, c->name);
		for (size_t k = 0; c->commands && c->commands[k]; k++) {
			snprintf(name, sizeof(name), "%s %s", c->name, c->commands[k]->name);
			visit(out, c->commands[k], name);
		}
	}
}

static void visit_values(FILE *out, const struct h2d_command *c, const char *name)
{
	for (size_t i = 0; c->options && c->options[i]; i++)
		option_values(out, name, c->options[i]);
	option_values(out, name, &h2d_common_options);
}

static void visit_words(FILE *out, const struct h2d_command *c, const char *name)
{
	fprintf(out, "\t'%s') options='", name);
	for (size_t i = 0; c->options && c->options[i]; i++)
		option_names(out, c->options[i]);
	option_names(out, &h2d_common_options);
	fputs("' words='", out);
	if (c->commands)
		for (size_t i = 0; c->commands[i]; i++)
			fprintf(out, " %s", c->commands[i]->name);
	else if (c->word == H2D_WORD_COMMAND)
		for (size_t i = 0; h2d_commands[i]; i++)
			fprintf(out, " %s", h2d_commands[i]->name);
	fprintf(out, "' files=%d ;;\n", c->word == H2D_WORD_FILE && !c->commands);
}

void h2d_completion_print(FILE *out)
{
	fputs("# SPDX-License-Identifier: Apache-2.0\n"
	      "# bash completion for h2d, generated from its option tables\n\n"
	      "_h2d_files() {\n"
	      "\tcompopt -o filenames 2>/dev/null\n"
	      "\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	      "}\n\n"
	      "# The rest of the line is another program's.\n"
	      "_h2d_command() {\n"
	      "\tif declare -F _command_offset >/dev/null; then\n"
	      "\t\t_command_offset \"$1\"\n"
	      "\telif ((COMP_CWORD == $1)); then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	      "\telse\n"
	      "\t\t_h2d_files\n"
	      "\tfi\n"
	      "}\n\n"
	      "_h2d() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev= command= word i\n"
	      "\tlocal options= words= files=0\n"
	      "\tCOMPREPLY=()\n"
	      "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	      "\t\tword=${COMP_WORDS[i]}\n"
	      "\t\tcase \"$command $word\" in\n",
	      out);
	for (size_t i = 0; h2d_commands[i]; i++)
		if (h2d_commands[i]->takes_command)
			fprintf(out, "\t\t'%s --') _h2d_command $((i + 1)); return ;;\n",
				h2d_commands[i]->name);
	fputs("\t\tesac\n"
	      "\t\tcase $word in -*) continue ;; esac\n"
	      "\t\tcase \"$command $word\" in\n",
	      out);
	for (size_t i = 0; h2d_commands[i]; i++) {
		const struct h2d_command *c = h2d_commands[i];

		fprintf(out, "\t\t' %s') command='%s' ;;\n", c->name, c->name);
		for (size_t k = 0; c->commands && c->commands[k]; k++)
			fprintf(out, "\t\t'%s %s') command='%s %s' ;;\n", c->name,
				c->commands[k]->name, c->name, c->commands[k]->name);
	}
	fputs("\t\tesac\n"
	      "\tdone\n"
	      "\tprev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\tcase \"$command $prev\" in\n",
	      out);
	option_values(out, "", &h2d_common_options);
	each_command(out, visit_values);
	fputs("\tesac\n"
	      "\tcase $command in\n"
	      "\t'') options='",
	      out);
	option_names(out, &h2d_common_options);
	fputs(" --version' words='", out);
	for (size_t i = 0; h2d_commands[i]; i++)
		fprintf(out, " %s", h2d_commands[i]->name);
	fputs("' ;;\n", out);
	each_command(out, visit_words);
	fputs("\tesac\n"
	      "\tif [[ $cur == -* ]]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	      "\telif ((files)); then\n"
	      "\t\t_h2d_files\n"
	      "\telse\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	      "\tfi\n"
	      "}\n"
	      "complete -F _h2d h2d\n",
	      out);
}
