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
	bool required;
	const char *members[4];
};

static const struct fact facts[] = {
	{"cpu", true, {"cpu.model", "cpu.allowed_count"}},
	{"memory", true, {"memory.total_bytes"}},
	{"gpu", true, {"gpus"}},
	{"storage", true, {"storage.filesystem", "storage.device"}},
	{"scheduling", true, {"scheduling"}},
	{"build", true, {"tool:build_type", "tool:sanitizers"}},
	{"kernel", false, {"kernel.release", "kernel.version"}},
	{"distribution", false, {"distribution.id", "distribution.version_id"}},
	{"driver",
	 false,
	 {"amdgpu.version", "amdgpu.srcversion", "nvidia.version", "nvidia.srcversion"}},
	{"huge_pages", false, {"transparent_huge_pages.enabled"}},
	{"h2d", false, {"tool:version", "tool:git"}},
	{"compiler", false, {"tool:compiler"}},
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

/* How the measured processes ran: of the first that tells. All of a campaign run alike. */
static json_t *scheduling_of(const json_t *document)
{
	const json_t *cells = json_object_get(document, "cells");

	for (size_t i = 0; i < json_array_size(cells); i++) {
		const json_t *samples = json_object_get(json_array_get(cells, i), "samples");

		for (size_t k = 0; k < json_array_size(samples); k++) {
			json_t *found =
				json_object_get(json_array_get(samples, k), "scheduling");

			if (json_is_object(found))
				return json_incref(found);
		}
	}
	return NULL;
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
	if (!strcmp(member, "scheduling"))
		return scheduling_of(document);
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

void h2d_compare_environments(struct h2d_compare *c)
{
	for (size_t i = 0; i < FACTS; i++) {
		bool differs = false;

		for (size_t k = 0; k < 4 && facts[i].members[k] && !differs; k++) {
			json_t *a = member_of(c->a, facts[i].members[k]);
			json_t *b = member_of(c->b, facts[i].members[k]);
			struct h2d_compare_difference *d = &c->differences[c->difference_count];

			/* What neither tells is no difference; what one tells is. */
			differs = (a && !json_is_null(a)) || (b && !json_is_null(b))
					  ? !alike(facts[i].members[k], a, b)
					  : false;
			if (differs && c->difference_count < H2D_COMPARE_DIFFERENCES) {
				d->name = facts[i].name;
				describe(a, d->a, sizeof(d->a));
				describe(b, d->b, sizeof(d->b));
				d->required = h2d_compare_requires(c, d->name);
				c->difference_count++;
			}
			json_decref(a);
			json_decref(b);
		}
	}
}
