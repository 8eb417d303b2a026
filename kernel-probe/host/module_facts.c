/* SPDX-License-Identifier: Apache-2.0 */
#include "host/module_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "core/mem.h"

static const char name[] = "/h2d/module";

enum { FACTS_BYTES = 16 << 10 };

static const char *word(bool yes)
{
	return yes ? "yes" : "no";
}

void h2d_module_facts_note(const struct h2d_module_report *r)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = h2d_hostfs_observed() ? open_memstream(&text, &bytes) : NULL;

	if (!out)
		return;
	fprintf(out, "path: %s\nmachine: %s\norigin: %s\n", r->path, r->machine,
		h2d_module_origin_name(r->origin));
	fprintf(out, "version: %s\nsrcversion: %s\nbuild_id: %s\n", r->version, r->srcversion,
		r->build_id);
	fprintf(out, "retry_policy: %s\nretry_why: %s\n",
		h2d_retry_policy_name(r->retry_policy), r->retry_why);
	fprintf(out, "compression: %s\nin_tree: %s\nsigned: %s\nbtf: %s\nsymbols: %s\n",
		r->compression, word(r->in_tree), word(r->is_signed), word(r->has_btf),
		word(r->has_symbols));
	for (int i = 0; i < H2D_CALLER_COUNT; i++) {
		const struct h2d_caller_report *c = &r->callers[i];
		const char *caller = h2d_permission_caller_name((enum h2d_permission_caller)i);

		fprintf(out, "permission_%s: %s\npresent_%s: %s\nwhy_%s: %s\n", caller,
			h2d_permission_rule_name(c->rule), caller, word(c->is_present), caller,
			c->why);
	}
	if (!fclose(out))
		h2d_hostfs_note(H2D_HOSTFS_TEXT, name, text, bytes, 0);
	free(text);
}

static void member(const char *text, const char *key, char *out, size_t cap)
{
	if (h2d_text_field(text, key, out, cap) < 0)
		out[0] = 0;
}

static enum h2d_permission_rule rule_of(const char *word)
{
	for (int i = 0; i <= H2D_PERMISSION_ACCESS; i++)
		if (!strcmp(word, h2d_permission_rule_name((enum h2d_permission_rule)i)))
			return (enum h2d_permission_rule)i;
	return H2D_PERMISSION_UNKNOWN;
}

/* @return whether it is told */
static bool flag(const char *text, const char *key, bool *out)
{
	char value[8];

	member(text, key, value, sizeof(value));
	*out = !strcmp(value, "yes");
	return value[0];
}

/* What older captures do not tell stays untold. */
static void read_marks(const char *text, struct h2d_module_report *r)
{
	static const char *const known[] = {"none", "xz", "zstd", "gzip"};
	char value[8];

	r->marks_told = flag(text, "in_tree", &r->in_tree) &
			flag(text, "signed", &r->is_signed) & flag(text, "btf", &r->has_btf) &
			flag(text, "symbols", &r->has_symbols);
	member(text, "compression", value, sizeof(value));
	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(value, known[i]))
			snprintf(r->compression, sizeof(r->compression), "%s", known[i]);
}

static void read_caller(const char *text, enum h2d_permission_caller caller,
			struct h2d_caller_report *c)
{
	const char *who = h2d_permission_caller_name(caller);
	char key[32], value[64];

	snprintf(key, sizeof(key), "permission_%s", who);
	member(text, key, value, sizeof(value));
	c->rule = rule_of(value);
	snprintf(key, sizeof(key), "why_%s", who);
	member(text, key, c->why, sizeof(c->why));
	snprintf(key, sizeof(key), "present_%s", who);
	/* A caller whose rule was not understood is there all the same. */
	if (!flag(text, key, &c->is_present))
		c->is_present = c->rule != H2D_PERMISSION_UNKNOWN;
}

int h2d_module_facts_read(const char *root, struct h2d_module_report **out)
{
	struct h2d_module_report *r;
	char *text, value[64];
	size_t bytes;

	*out = NULL;
	if (h2d_hostfs_read_all(root, name, FACTS_BYTES, &text, &bytes))
		return H2D_E_NOT_FOUND;
	r = h2d_mem->calloc(1, sizeof(*r));
	if (!r) {
		free(text);
		return H2D_E_NOMEM;
	}
	member(text, "path", r->path, sizeof(r->path));
	member(text, "machine", r->machine, sizeof(r->machine));
	member(text, "version", r->version, sizeof(r->version));
	member(text, "srcversion", r->srcversion, sizeof(r->srcversion));
	member(text, "build_id", r->build_id, sizeof(r->build_id));
	member(text, "retry_why", r->retry_why, sizeof(r->retry_why));
	member(text, "retry_policy", value, sizeof(value));
	r->retry_policy = h2d_retry_policy_from_name(value);
	member(text, "origin", value, sizeof(value));
	for (int i = 0; i <= H2D_ORIGIN_REBUILT; i++)
		if (!strcmp(value, h2d_module_origin_name((enum h2d_module_origin)i)))
			r->origin = (enum h2d_module_origin)i;
	r->is_recorded = true;
	read_marks(text, r);
	for (int i = 0; i < H2D_CALLER_COUNT; i++)
		read_caller(text, (enum h2d_permission_caller)i, &r->callers[i]);
	free(text);
	*out = r;
	return 0;
}
