/* SPDX-License-Identifier: Apache-2.0 */
#include "host/switches.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "abi/whole_file.h"
#include "core/mem.h"
#include "host/known_switches.h"

enum {
	PROGRAM_WORDS = 4, /* "python -m sglang.launch_server …" */
	FILE_BYTES_MAX = 1 << 20,
};

/* Where one word of a command line is cut. */
static const char separators[] = "/.: ";

struct h2d_switches {
	json_t *root;
};

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static bool has_word(const json_t *list, const char *word)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i,
			   item) if (json_is_string(item) &&
				     !strcmp(json_string_value(item), word)) return true;
	return false;
}

/* What is missing in an entry, or NULL. */
static const char *check_entry(const json_t *entry, const char *what)
{
	if (!text(entry, what))
		return what;
	if (!text(entry, "gain"))
		return "gain";
	if (!text(entry, "source"))
		return "source";
	return json_is_array(json_object_get(entry, "for")) ? NULL : "for";
}

static int check(const struct h2d_log *log, const char *name, const json_t *root)
{
	const json_t *general = json_object_get(root, "general"), *entry, *program;
	const json_t *programs = json_object_get(root, "programs");
	const char *missing = NULL;
	size_t i, k;

	if (!json_is_array(general) || !json_is_array(programs))
		return h2d_fail(log, H2D_E_FORMAT, "%s: no table of switches", name);
	json_array_foreach(general, i, entry)
	{
		missing = text(entry, "id") ? check_entry(entry, "action") : "id";
		if (missing)
			return h2d_fail(log, H2D_E_FORMAT, "%s: general action %zu has no '%s'",
					name, i, missing);
	}
	json_array_foreach(programs, i, program)
	{
		const json_t *switches = json_object_get(program, "switches");

		if (!text(program, "name") ||
		    !json_is_array(json_object_get(program, "words")) ||
		    !json_is_array(switches))
			return h2d_fail(log, H2D_E_FORMAT,
					"%s: program %zu lacks name, words or switches", name,
					i);
		json_array_foreach(switches, k, entry)
		{
			missing = check_entry(entry, "switch");
			if (missing)
				return h2d_fail(log, H2D_E_FORMAT,
						"%s: a switch of %s has no '%s'", name,
						text(program, "name"), missing);
		}
	}
	return 0;
}

int h2d_switches_open(const char *file, const struct h2d_log *log, struct h2d_switches **out)
{
	struct h2d_switches *s = h2d_mem->calloc(1, sizeof(*s));
	const char *name = file ? file : "known-switches.json";
	void *data = NULL;
	json_error_t e;
	size_t bytes;
	int rc;

	*out = NULL;
	if (!s)
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	rc = file ? h2d_whole_file_read(file, FILE_BYTES_MAX, log, &data, &bytes) : 0;
	if (!rc) {
		s->root =
			data ? json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &e)
			     : json_loadb((const char *)h2d_known_switches,
					  h2d_known_switches_bytes, JSON_REJECT_DUPLICATES, &e);
		free(data);
		rc = s->root ? check(log, name, s->root)
			     : h2d_fail(log, H2D_E_FORMAT, "%s:%d: %s", name, e.line, e.text);
	}
	if (rc) {
		h2d_switches_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void h2d_switches_close(struct h2d_switches *s)
{
	if (!s)
		return;
	json_decref(s->root);
	free(s);
}

static void fill(const json_t *entry, const char *what, struct h2d_switch *out)
{
	out->action = text(entry, what);
	out->gain = text(entry, "gain");
	out->source = text(entry, "source");
}

bool h2d_switches_general(const struct h2d_switches *s, const char *id, const char *finding,
			  struct h2d_switch *out)
{
	const json_t *entry, *first = NULL;
	size_t i;

	json_array_foreach(json_object_get(s->root, "general"), i, entry)
	{
		if (!has_word(json_object_get(entry, "for"), finding))
			continue;
		if (id && !strcmp(text(entry, "id"), id)) {
			fill(entry, "action", out);
			return true;
		}
		if (!first)
			first = entry;
	}
	if (!first || id)
		return false;
	fill(first, "action", out);
	return true;
}

static bool names(const json_t *program, const char *part, size_t n)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(program, "words"), i, item)
	{
		const char *word = json_string_value(item);

		if (word && strlen(word) == n && !strncasecmp(word, part, n))
			return true;
	}
	return false;
}

/* The first part of a word that is a program's. */
static const char *match(const struct h2d_switches *s, const char *word, size_t *bytes,
			 const char **name)
{
	const json_t *programs = json_object_get(s->root, "programs"), *program;
	size_t i, n;

	for (const char *part = word; *part; part += n) {
		part += strspn(part, separators);
		n = strcspn(part, separators);
		json_array_foreach(programs, i, program)
		{
			if (!n || !names(program, part, n))
				continue;
			*bytes = n;
			*name = text(program, "name");
			return part;
		}
	}
	return NULL;
}

const char *h2d_switches_program(const struct h2d_switches *s, char *const *words, size_t count)
{
	const char *name;
	size_t bytes;

	/* What comes first in the command line decides: `vllm serve /models/comfyui/x`. */
	for (size_t w = 0; w < count && w < PROGRAM_WORDS; w++)
		if (match(s, words[w], &bytes, &name))
			return name;
	return NULL;
}

bool h2d_switches_of_program(const struct h2d_switches *s, const char *name,
			     const char *finding, struct h2d_switch *out)
{
	const json_t *program, *entry;
	size_t i, k;

	json_array_foreach(json_object_get(s->root, "programs"), i, program)
	{
		if (!name || strcmp(text(program, "name"), name) != 0)
			continue;
		json_array_foreach(json_object_get(program, "switches"), k, entry)
		{
			if (!has_word(json_object_get(entry, "for"), finding))
				continue;
			fill(entry, "switch", out);
			return true;
		}
	}
	return false;
}

const char *h2d_switches_match(const struct h2d_switches *s, const char *word, size_t *bytes)
{
	const json_t *program, *entry;
	const char *name;
	size_t i, k;

	json_array_foreach(json_object_get(s->root, "programs"), i, program)
		json_array_foreach(json_object_get(program, "switches"), k, entry)
	{
		const char *known = text(entry, "switch");

		*bytes = strcspn(known, " ");
		if (known[0] == '-' && strlen(word) == *bytes && !strncmp(word, known, *bytes))
			return word;
	}
	return match(s, word, bytes, &name);
}
