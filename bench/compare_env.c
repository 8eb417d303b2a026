/* SPDX-License-Identifier: Apache-2.0 */
/* Where two environments differ. Some facts make results of two machines; others, such as the
 * kernel, are what one wants to compare, and are only named. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"

/* A fact is one or several members; "group.member" of the environment, "tool:member" of the
 * tool. */
struct fact {
	const char *name;
	bool required,
		told; /* told: by every document; where neither tells, nothing is known */
	const char *members[4];
};

static const struct fact facts[] = {
	{"cpu", true, true, {"cpu.model", "cpu.allowed_count"}},
	{"memory", true, true, {"memory.total_bytes"}},
	{"gpu", true, false, {"gpus"}},
	{"storage", true, false, {"storage.filesystem", "storage.device"}},
	{"scheduling", true, false, {NULL}}, /* of samples, not of the environment */
	{"build", true, true, {"tool:build_type", "tool:sanitizers"}},
	{"kernel", false, false, {"kernel.release", "kernel.version"}},
	{"distribution", false, false, {"distribution.id", "distribution.version_id"}},
	{"driver",
	 false,
	 false,
	 {"amdgpu.version", "amdgpu.srcversion", "nvidia.version", "nvidia.srcversion"}},
	{"huge_pages", false, false, {"transparent_huge_pages.enabled"}},
	{"h2d", false, false, {"tool:version", "tool:git"}},
	{"compiler", false, false, {"tool:compiler"}},
};
enum { FACTS = sizeof(facts) / sizeof(facts[0]) };

const char *const *h2d_compare_fact_names(void)
{
	static const char *names[FACTS + 1];

	for (size_t i = 0; i < FACTS; i++)
		names[i] = facts[i].name;
	return names;
}

static bool in_list(const char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i], name))
			return true;
	return false;
}

bool h2d_compare_requires(const struct h2d_compare *c, const char *name)
{
	const struct h2d_compare_opts *o = &c->opts;

	if (in_list(o->require, o->require_count, name))
		return true;
	if (in_list(o->ignore, o->ignore_count, name) || c->kind == H2D_COMPARE_LAB)
		return false;
	for (size_t i = 0; i < FACTS; i++)
		if (!strcmp(facts[i].name, name))
			return facts[i].required;
	return false;
}

/* What tells one GPU from another; clocks and processes do not. */
static json_t *gpus_of(const json_t *list)
{
	json_t *out = json_array();

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *g = json_array_get(list, i);
		const char *vendor = h2d_get_text(g, "vendor_id");
		const char *device = h2d_get_text(g, "device_id");
		const json_t *speed = json_object_get(g, "link_speed_gt_per_s");

		json_array_append_new(out,
				      json_pack("[s, s, f, i]", vendor ? vendor : "?",
						device ? device : "?", json_number_value(speed),
						(int)h2d_get_u64(g, "link_lane_count")));
	}
	return out;
}

/* @return a new reference, or NULL where the document does not tell */
static json_t *member_of(const json_t *document, const char *member)
{
	const json_t *env = json_object_get(document, "environment");
	const char *dot = strchr(member, '.');
	char group[64];

	if (!strncmp(member, "tool:", 5))
		return json_incref(
			json_object_get(json_object_get(document, "tool"), member + 5));
	if (!strcmp(member, "gpus"))
		return gpus_of(json_object_get(env, "gpus"));
	snprintf(group, sizeof(group), "%.*s", (int)(dot - member), member);
	return json_incref(json_object_get(json_object_get(env, group), dot + 1));
}

/* A guest's memory varies by a little with its kernel. */
static bool alike(const char *member, const json_t *a, const json_t *b)
{
	if (!strcmp(member, "memory.total_bytes") && json_is_integer(a) && json_is_integer(b)) {
		const double x = json_number_value(a), y = json_number_value(b);

		return fabs(x - y) <= 0.03 * (x > y ? x : y);
	}
	return json_equal(a, b);
}

static void describe(const json_t *value, char *out, size_t cap)
{
	char *text;

	if (json_is_string(value)) {
		snprintf(out, cap, "%s", json_string_value(value));
		return;
	}
	text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	snprintf(out, cap, "%s", text ? text : "unknown");
	free(text);
}

static void note(struct h2d_compare *c, const char *name, const json_t *a, const json_t *b)
{
	struct h2d_compare_difference *d = &c->differences[c->difference_count];

	if (c->difference_count == H2D_COMPARE_DIFFERENCES)
		return;
	d->name = name;
	describe(a, d->a, sizeof(d->a));
	describe(b, d->b, sizeof(d->b));
	d->untold = !a && !b;
	d->required = h2d_compare_requires(c, name);
	c->difference_count++;
}

static bool known(const json_t *value)
{
	return value && !json_is_null(value);
}

static void compare_fact(struct h2d_compare *c, const struct fact *f)
{
	bool differs = false, told = false;

	for (size_t k = 0; k < 4 && f->members[k] && !differs; k++) {
		json_t *a = member_of(c->a, f->members[k]), *b = member_of(c->b, f->members[k]);

		/* What neither tells is no difference; what one tells is. */
		told |= known(a) || known(b);
		differs = (known(a) || known(b)) && !alike(f->members[k], a, b);
		if (differs)
			note(c, f->name, a, b);
		json_decref(a);
		json_decref(b);
	}
	if (!told && f->told)
		note(c, f->name, NULL, NULL);
}

bool h2d_compare_scheduled_alike(const struct h2d_compare_cell *cell)
{
	const json_t *a = cell->a.scheduling, *b = cell->b.scheduling;

	if (!cell->a.there || !cell->b.there || !cell->a.count || !cell->b.count)
		return true;
	if (cell->a.mixed || cell->b.mixed)
		return false;
	return a && b ? json_equal(a, b) : a == b;
}

/* Loaders may schedule themselves, so that cells of one campaign differ. The first is named. */
static void compare_scheduling(struct h2d_compare *c)
{
	json_t *mixed = json_string("not alike");

	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_compare_cell *cell = &c->cells[i];
		const size_t before = c->difference_count;

		if (h2d_compare_scheduled_alike(cell))
			continue;
		note(c, "scheduling", cell->a.mixed ? mixed : cell->a.scheduling,
		     cell->b.mixed ? mixed : cell->b.scheduling);
		if (c->difference_count > before)
			c->differences[before].of_cells = true;
		break;
	}
	json_decref(mixed);
}

const char *h2d_compare_apart(const struct h2d_compare *c, const struct h2d_compare_cell *cell)
{
	const char *a = cell->a.accelerator, *b = cell->b.accelerator;

	if (c->kind != H2D_COMPARE_LAB)
		return NULL;
	if (!a || !b || strcmp(a, b))
		return "accelerator";
	if (in_list(c->opts.ignore, c->opts.ignore_count, "cpu"))
		return NULL;
	for (size_t i = 0; i < c->difference_count; i++)
		if (!strcmp(c->differences[i].name, "cpu"))
			return "cpu";
	return NULL;
}

void h2d_compare_environments(struct h2d_compare *c)
{
	for (size_t i = 0; i < FACTS; i++)
		if (facts[i].members[0])
			compare_fact(c, &facts[i]);
		else
			compare_scheduling(c);
}
