/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/checked.h"
#include "transfer_options.h"

const char *h2d_size_parse(const char *text, uint64_t *bytes)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
	uint64_t value;
	char *end;

	if (*text < '0' || *text > '9')
		return "is not a size: write for example 8MiB";
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return "is too large";
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name))
			continue;
		if (!h2d_mul_u64(value, UINT64_C(1) << units[i].shift, bytes))
			return "is too large";
		return NULL;
	}
	return "has an unknown unit: use KiB, MiB, GiB or TiB";
}

static const char *parse_number(const struct h2d_option *o, const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return "is not a number";
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (*end)
		return "is not a number";
	if (errno || (o->max && *value > o->max))
		return "is too large";
	return *value < o->min ? "is too small" : NULL;
}

static int add_text(struct h2d_texts *list, const char *text)
{
	const char **grown;

	if (list->count & (list->count - 1)) { /* room is the next power of two */
		list->items[list->count++] = text;
		return 0;
	}
	grown = realloc(list->items, (list->count ? list->count * 2 : 1) * sizeof(*grown));
	if (!grown)
		return -1;
	list->items = grown;
	list->items[list->count++] = text;
	return 0;
}

static int wrong_choice(struct h2d_cli *cli, const struct h2d_option *o, const char *text,
			const char *const *choices)
{
	const char *meant = h2d_suggest(text, choices);
	char list[512] = "";
	size_t used = 0;

	for (size_t i = 0; choices[i] && used < sizeof(list); i++)
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
					 i ? ", " : "", choices[i]);
	if (meant)
		h2d_cli_usage(cli, "--%s: there is no '%s'; did you mean '%s'?", o->name, text,
			      meant);
	else
		h2d_cli_usage(cli, "--%s: '%s' is none of %s", o->name, text, list);
	return -1;
}

/* The names before the first colons; what follows them is for the back-ends to judge. */
static int check_device(struct h2d_cli *cli, const struct h2d_option *o, const char *text)
{
	char spec[H2D_DEVICE_SPEC_BYTES] = "";
	int got;

	while ((got = h2d_device_list_next(&text, spec, sizeof(spec))) > 0) {
		size_t bytes = strcspn(spec, ":,");

		if (h2d_word_in(h2d_backend_names(), spec, bytes) ||
		    h2d_word_in(h2d_known_backends, spec, bytes))
			continue;
		spec[bytes] = 0;
		return wrong_choice(cli, o, spec, h2d_known_backends);
	}
	if (got)
		h2d_cli_usage(cli, "--%s: too long a name of a device", o->name);
	return got;
}

const char *const *h2d_option_choices(const struct h2d_option *o)
{
	return o->word == H2D_WORD_PATH ? h2d_path_names() : o->choices;
}

static int check_text(struct h2d_cli *cli, const struct h2d_option *o, const char *text)
{
	const char *const *choices = h2d_option_choices(o);

	if (o->word == H2D_WORD_DEVICE)
		return check_device(cli, o, text);
	if (o->word == H2D_WORD_PATH) {
		if (strchr(text, '/')) {
			h2d_cli_usage(cli,
				      "--%s names a transfer path such as 'mmap' or 'pinned', "
				      "not a file: the checkpoint is an argument of its own",
				      o->name);
			return -1;
		}
	}
	if (choices && choices[0] && !h2d_word_in(choices, text, strlen(text)))
		return wrong_choice(cli, o, text, choices);
	return 0;
}

static int set_value(struct h2d_cli *cli, const struct h2d_option *o, void *at,
		     const char *text)
{
	const char *wrong = NULL;

	switch (o->kind) {
	case H2D_OPTION_FLAG:
		*(bool *)at = true;
		return 0;
	case H2D_OPTION_COUNT:
		++*(unsigned *)at;
		return 0;
	case H2D_OPTION_NUMBER:
		wrong = parse_number(o, text, at);
		break;
	case H2D_OPTION_SIZE:
		wrong = h2d_size_parse(text, at);
		if (!wrong && *(uint64_t *)at < o->min)
			wrong = "is too small";
		break;
	case H2D_OPTION_TEXTS:
		if (add_text(at, text))
			return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory"), -1;
		return 0;
	case H2D_OPTION_CHOICE:
	case H2D_OPTION_TEXT:
		if (check_text(cli, o, text))
			return -1;
		*(const char **)at = text;
		return 0;
	}
	if (wrong)
		h2d_cli_usage(cli, "--%s: '%s' %s", o->name, text, wrong);
	return wrong ? -1 : 0;
}

/* The option of that name or letter, and where its value lies. */
static const struct h2d_option *find(const struct h2d_parser *p, const char *name, size_t bytes,
				     char letter, void **at)
{
	for (size_t s = 0; s < p->set_count; s++) {
		const struct h2d_option *o = p->sets[s].table->options;

		for (; o->name; o++) {
			if (letter ? o->letter != letter
				   : strlen(o->name) != bytes || memcmp(o->name, name, bytes))
				continue;
			*at = (char *)p->sets[s].values + o->offset;
			return o;
		}
	}
	return NULL;
}

static int unknown(const struct h2d_parser *p, const char *name, size_t bytes)
{
	const char *names[128], *meant;
	char wrong[128];
	size_t n = 0;

	for (size_t s = 0; s < p->set_count; s++)
		for (const struct h2d_option *o = p->sets[s].table->options; o->name; o++)
			if (n < sizeof(names) / sizeof(names[0]) - 1)
				names[n++] = o->name;
	names[n] = NULL;
	snprintf(wrong, sizeof(wrong), "%.*s", (int)(bytes < 100 ? bytes : 100), name);
	meant = h2d_suggest(wrong, names);
	if (meant)
		h2d_cli_usage(p->cli, "unknown option '--%s'; did you mean '--%s'?", wrong,
			      meant);
	else
		h2d_cli_usage(p->cli, "unknown option '--%s'", wrong);
	return -1;
}

static bool takes_argument(const struct h2d_option *o)
{
	return o->kind != H2D_OPTION_FLAG && o->kind != H2D_OPTION_COUNT;
}

static int missing(const struct h2d_parser *p, const struct h2d_option *o)
{
	h2d_cli_usage(p->cli, "--%s needs a value: %s", o->name, o->argument);
	return -1;
}

static int parse_long(const struct h2d_parser *p, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2, *value = strchr(name, '=');
	size_t bytes = value ? (size_t)(value - name) : strlen(name);
	const struct h2d_option *o;
	void *at;

	o = find(p, name, bytes, 0, &at);
	if (!o)
		return unknown(p, name, bytes);
	if (!takes_argument(o)) {
		if (value) {
			h2d_cli_usage(p->cli, "--%s takes no value", o->name);
			return -1;
		}
		return set_value(p->cli, o, at, NULL);
	}
	if (value)
		return set_value(p->cli, o, at, value + 1);
	if (*i + 1 >= argc)
		return missing(p, o);
	return set_value(p->cli, o, at, argv[++*i]);
}

static int parse_letters(const struct h2d_parser *p, int argc, char **argv, int *i)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		void *at;
		const struct h2d_option *o = find(p, NULL, 0, *c, &at);

		if (!o) {
			h2d_cli_usage(p->cli, "unknown option '-%c'", *c);
			return -1;
		}
		if (takes_argument(o)) {
			if (c[1])
				return set_value(p->cli, o, at, c + 1);
			if (*i + 1 >= argc)
				return missing(p, o);
			return set_value(p->cli, o, at, argv[++*i]);
		}
		if (set_value(p->cli, o, at, NULL))
			return -1;
	}
	return 0;
}

int h2d_options_parse(const struct h2d_parser *p, int argc, char **argv, int *index)
{
	int words = 0, i;

	for (i = *index; i < argc; i++) {
		char *arg = argv[i];
		int rc;

		if (arg[0] != '-' || !arg[1]) {
			if (p->stop_at_word)
				break;
			argv[*index + words++] = arg;
			continue;
		}
		if (!strcmp(arg, "--")) {
			if (p->stop_at_word) {
				i++;
				break;
			}
			for (i++; i < argc; i++)
				argv[*index + words++] = argv[i];
			break;
		}
		rc = arg[1] == '-' ? parse_long(p, argc, argv, &i)
				   : parse_letters(p, argc, argv, &i);
		if (rc)
			return -1;
	}
	if (p->stop_at_word)
		*index = i;
	return words;
}

void h2d_options_release(const struct h2d_option_table *table, void *values)
{
	for (const struct h2d_option *o = table->options; o->name; o++) {
		if (o->kind == H2D_OPTION_TEXTS) {
			struct h2d_texts *list = (void *)((char *)values + o->offset);

			free(list->items);
			*list = (struct h2d_texts){0};
		}
	}
}
