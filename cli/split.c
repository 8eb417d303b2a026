/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "path/layers.h"
#include "transfer_options.h"

enum { RULES_MAX = 64 };

const char *const h2d_share_names[] = {
	[H2D_SHARE_LAYERS] = "layers",	 [H2D_SHARE_SIZE] = "size", [H2D_SHARE_ROWS] = "rows",
	[H2D_SHARE_COLUMNS] = "columns", [H2D_SHARE_COPY] = "copy", NULL,
};

static const struct h2d_option options[] = {
	{"split", 0, H2D_OPTION_TEXTS, "[GLOB=]RULE",
	 "How several devices divide the checkpoint. May be repeated; the first GLOB that "
	 "matches a tensor's name decides, and a rule without one is for all the others. "
	 "layers, the default, gives each device a run of layers (pipeline parallelism); size "
	 "gives each a run of whole tensors of about equal bytes; rows and columns cut every "
	 "tensor into equal parts of its first or last dimension (tensor parallelism), but "
	 "copy "
	 "those of one dimension unless a GLOB says otherwise; copy gives all of it to each; a "
	 "number gives all of it to that device, counted from 0.",
	 NULL, H2D_WORD_SHARE, offsetof(struct h2d_transfer_values, split), 0, 0},
	{0},
};
const struct h2d_option_table h2d_split_options = {"Several devices", options};

struct rule {
	char *glob; /* NULL: every tensor that no other rule takes */
	enum h2d_share how;
	uint32_t device;
};

struct rules {
	struct rule items[RULES_MAX];
	size_t count;
	struct rule rest;
};

/* ---------------------------------------------------------------- the words of --split */

static int parse_share(struct h2d_cli *cli, const char *word, uint32_t devices, struct rule *r)
{
	const char *meant;
	char *end;

	for (int i = 0; h2d_share_names[i]; i++)
		if (!strcmp(word, h2d_share_names[i])) {
			r->how = (enum h2d_share)i;
			return H2D_EXIT_OK;
		}
	if (*word >= '0' && *word <= '9') {
		unsigned long n = strtoul(word, &end, 10);

		if (!*end && n < devices) {
			r->how = H2D_SHARE_DEVICE;
			r->device = (uint32_t)n;
			return H2D_EXIT_OK;
		}
		if (!*end)
			return h2d_cli_usage(cli,
					     "--split: there is no device number %s: they are "
					     "counted from 0 to %u",
					     word, devices - 1);
	}
	meant = h2d_suggest(word, h2d_share_names);
	return h2d_cli_usage(cli,
			     "--split: there is no rule \"%s\"%s%s%s (layers, size, rows, "
			     "columns, copy, or the number of a device)",
			     word, meant ? "; did you mean \"" : "", meant ? meant : "",
			     meant ? "\"?" : "");
}

static int parse(struct h2d_cli *cli, const struct h2d_texts *words, uint32_t devices,
		 struct rules *rules)
{
	bool have_rest = false;

	rules->rest.how = H2D_SHARE_LAYERS;
	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->items[i], *equals = strrchr(word, '=');
		struct rule r = {0};
		int exit = parse_share(cli, equals ? equals + 1 : word, devices, &r);

		if (exit)
			return exit;
		if (!equals && have_rest)
			return h2d_cli_usage(cli, "--split: two rules without a GLOB");
		if (!equals) {
			rules->rest = r;
			have_rest = true;
			continue;
		}
		if (rules->count == RULES_MAX)
			return h2d_cli_usage(cli, "--split: more than %d rules", RULES_MAX);
		r.glob = strndup(word, (size_t)(equals - word));
		if (!r.glob)
			return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "--split: out of memory");
		rules->items[rules->count++] = r;
	}
	return H2D_EXIT_OK;
}

static const struct rule *rule_of(const struct rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->count; i++)
		if (!fnmatch(rules->items[i].glob, name, 0))
			return &rules->items[i];
	return &rules->rest;
}

/* One that matches nothing is a typing error. What --include leaves out may be matched. */
static int check_globs(struct h2d_cli *cli, const struct h2d_input *in,
		       const struct rules *rules)
{
	struct h2d_tensor_info t = H2D_OPTS(t);

	for (size_t k = 0; k < rules->count; k++) {
		const char *glob = rules->items[k].glob;
		bool matches = false;

		for (uint64_t i = 0; i < in->info.tensor_count && !matches; i++)
			matches = !h2d_checkpoint_tensor(in->ckpt, i, &t) &&
				  !fnmatch(glob, t.name, 0);
		if (!matches)
			return h2d_cli_usage(
				cli, "--split: \"%.200s\" matches none of the %llu tensors",
				glob, (unsigned long long)in->info.tensor_count);
	}
	return H2D_EXIT_OK;
}

static void release(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		free(rules->items[i].glob);
}

/* ---------------------------------------------------------------- tensor by tensor */

struct deciding {
	struct h2d_cli *cli;
	const struct h2d_input *in;
	const struct h2d_selection *selection;
	const struct rules *rules;
	struct h2d_split *split;
	struct h2d_layers layers;
	uint64_t size_bytes, size_before_bytes; /* of the tensors that go by size */
};

static bool next(const struct deciding *d, uint64_t i, struct h2d_tensor_info *t)
{
	return !h2d_checkpoint_tensor(d->in->ckpt, i, t) &&
	       h2d_selection_keeps((void *)(uintptr_t)d->selection, i, t);
}

static int cut(const struct deciding *d, uint64_t i, const struct h2d_tensor_info *t,
	       const struct rule *r, struct h2d_tensor_share *out)
{
	uint32_t dimension = r->how == H2D_SHARE_ROWS ? 0 : t->rank - 1;
	uint32_t devices = d->split->device_count;
	char name[256];

	out->how = (uint8_t)r->how;
	/* Norms and biases belong to every part, unless somebody knows better. */
	if (t->rank < 2 && !r->glob)
		out->how = H2D_SHARE_COPY;
	if (out->how == H2D_SHARE_COPY)
		return H2D_EXIT_OK;
	h2d_input_name(d->in, i, name, sizeof(name));
	if (!t->rank || (t->rank < 2 && r->how == H2D_SHARE_COLUMNS))
		return h2d_cli_usage(d->cli, "--split: tensor %s has no %s to cut", name,
				     h2d_share_names[r->how]);
	if (t->whole && t->size_bytes)
		return h2d_cli_usage(d->cli,
				     "--split: tensor %s (%s) is %s and cannot be cut: give it "
				     "a rule of its own, for example --split '%s=copy'",
				     name, t->dtype,
				     t->strides ? "a view that is not in C order"
						: "not stored row by row",
				     name);
	/* Nothing in it: each device gets all of that. */
	if (!t->size_bytes)
		out->how = H2D_SHARE_COPY;
	else if (t->shape[dimension] % devices)
		return h2d_cli_usage(d->cli,
				     "--split: the %llu %s of tensor %s cannot be cut into %u "
				     "equal parts: give it a rule of its own, for example "
				     "--split '%s=copy'",
				     (unsigned long long)t->shape[dimension],
				     h2d_share_names[r->how], name, devices, name);
	return H2D_EXIT_OK;
}

/* By the middle of each tensor, so that no device gets much more than its part. */
static uint32_t by_size(struct deciding *d, uint64_t bytes)
{
	double middle = (double)d->size_before_bytes + (double)bytes / 2;
	uint32_t devices = d->split->device_count, device;

	device = d->size_bytes ? (uint32_t)(middle * devices / (double)d->size_bytes) : 0;
	d->size_before_bytes += bytes;
	return device < devices ? device : devices - 1;
}

static int decide(struct deciding *d, uint64_t i, const struct h2d_tensor_info *t)
{
	struct h2d_tensor_share *out = &d->split->tensors[i];
	const struct rule *r = rule_of(d->rules, t->name);

	*out = (struct h2d_tensor_share){H2D_SHARE_DEVICE, r->device};
	switch (r->how) {
	case H2D_SHARE_LAYERS:
		if (!d->layers.end)
			return h2d_cli_usage(
				d->cli, "--split: no tensor's name has the number of a layer "
					"between dots: choose another rule, for example "
					"--split size");
		out->device = h2d_layers_device(&d->layers, t, d->split->device_count);
		return H2D_EXIT_OK;
	case H2D_SHARE_SIZE:
		out->device = by_size(d, t->size_bytes);
		return H2D_EXIT_OK;
	case H2D_SHARE_DEVICE:
		return H2D_EXIT_OK;
	case H2D_SHARE_ROWS:
	case H2D_SHARE_COLUMNS:
	case H2D_SHARE_COPY:
		break;
	}
	return cut(d, i, t, r, out);
}

int h2d_split_decide(struct h2d_cli *cli, const struct h2d_input *in,
		     const struct h2d_selection *selection, const struct h2d_texts *words,
		     uint32_t device_count, struct h2d_split *split)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct rules rules = {.count = 0};
	struct deciding d = {cli, in, selection, &rules, split, {0}, 0, 0};
	int exit;

	*split = (struct h2d_split){.device_count = device_count};
	exit = parse(cli, words, device_count, &rules);
	if (!exit)
		exit = check_globs(cli, in, &rules);
	if (exit)
		goto out;
	split->tensors = calloc(in->info.tensor_count + 1, sizeof(*split->tensors));
	if (!split->tensors) {
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "--split: out of memory");
		goto out;
	}
	h2d_layers_find(&d.layers, in->ckpt, h2d_selection_keeps, (void *)(uintptr_t)selection);
	for (uint64_t i = 0; i < in->info.tensor_count; i++)
		if (next(&d, i, &t) && rule_of(&rules, t.name)->how == H2D_SHARE_SIZE)
			d.size_bytes += t.size_bytes;
	for (uint64_t i = 0; i < in->info.tensor_count && !exit; i++)
		if (next(&d, i, &t))
			exit = decide(&d, i, &t);
out:
	release(&rules);
	return exit;
}

void h2d_split_release(struct h2d_split *split)
{
	free(split->tensors);
	split->tensors = NULL;
}

int h2d_split_part(void *user, uint64_t index, const struct h2d_tensor_info *tensor,
		   uint32_t device, struct h2d_part *part)
{
	const struct h2d_split *s = user;
	const struct h2d_tensor_share *share = &s->tensors[index];

	if (share->how == H2D_SHARE_DEVICE)
		return share->device == device;
	if (share->how == H2D_SHARE_COPY)
		return 1;
	part->dimension = share->how == H2D_SHARE_ROWS ? 0 : tensor->rank - 1;
	part->length = tensor->shape[part->dimension] / s->device_count;
	part->begin = part->length * device;
	return 1;
}
