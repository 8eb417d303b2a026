/* SPDX-License-Identifier: Apache-2.0 */
/* Which functions of a module are to be judged: those that call hmm_range_fault(), by the name
 * they have in the kernel's source or, where the compiler renamed them, by what they do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "internal.h"
#include "policy.h"

enum { ROOTS_MAX = 16, SITES_MAX = 64 };

static const char wanted[] = "amdgpu_hmm_range_get_pages";

struct roots {
	struct ins_root items[ROOTS_MAX];
	size_t count;
	bool overflow;
};

static void add_root(struct roots *roots, struct ins_place entry, bool is_named)
{
	for (size_t i = 0; i < roots->count; i++)
		if (roots->items[i].entry.section == entry.section &&
		    roots->items[i].entry.address == entry.address)
			return;
	if (roots->count == ROOTS_MAX) {
		roots->overflow = true;
		return;
	}
	roots->items[roots->count++] = (struct ins_root){.entry = entry, .is_named = is_named};
}

/* Every call of hmm_range_fault(). False when there is another use of it. */
static bool find_sites(struct ins_analysis *a)
{
	for (uint32_t i = 1; i < a->image->section_count; i++) {
		const struct ins_section *s = &a->image->sections[i];

		for (size_t r = 0; s->is_code && r < s->reloc_count; r++) {
			struct ins_place place = {i, s->relocs[r].offset};
			struct ins_insn insn;

			if (strcmp(a->image->symbols[s->relocs[r].symbol].name,
				   "hmm_range_fault"))
				continue;
			if (!place.address--)
				return false;
			if (!ins_decode(a->decoder, place, &insn) ||
			    (insn.op != INS_CALL && insn.op != INS_JMP) || !insn.external ||
			    a->site_count == SITES_MAX)
				return false;
			a->sites[a->site_count++].place = place;
		}
	}
	return true;
}

/* The function of which a place is part; of a .cold part that is the one it was split from. */
static const struct ins_symbol *owner(const struct ins_image *image, struct ins_place place)
{
	const struct ins_symbol *s = ins_function_at(image, place);
	const char *cold = s ? strstr(s->name, ".cold") : NULL;

	if (!cold)
		return s;
	for (uint32_t i = 0; i < image->function_count; i++) {
		const struct ins_symbol *f = &image->symbols[image->functions[i]];

		if (strlen(f->name) == (size_t)(cold - s->name) &&
		    !memcmp(f->name, s->name, (size_t)(cold - s->name)))
			return f;
	}
	return NULL;
}

static void find_named(struct ins_analysis *a, struct roots *roots)
{
	for (uint32_t i = 0; i < a->image->function_count; i++) {
		const struct ins_symbol *s = &a->image->symbols[a->image->functions[i]];

		if (ins_name_is(s->name, wanted) && !ins_name_is_cold(s->name) &&
		    !strstr(s->name, ".part."))
			add_root(roots, (struct ins_place){s->section, s->value}, true);
	}
}

/* Functions with calls that no judged one has. */
static bool find_others(struct ins_analysis *a, struct roots *roots)
{
	for (size_t i = 0; i < a->site_count; i++) {
		const struct ins_symbol *s;

		if (a->sites[i].is_covered)
			continue;
		s = owner(a->image, a->sites[i].place);
		if (!s)
			return false;
		add_root(roots, (struct ins_place){s->section, s->value}, false);
	}
	return true;
}

static int judge(struct ins_analysis *a, struct roots *roots, size_t from)
{
	int err = 0;

	for (size_t i = from; !err && i < roots->count; i++)
		err = ins_policy_of(a, &roots->items[i]);
	return err;
}

static void unknown(struct ins_analysis *a, const char *why)
{
	a->report->retry_policy = H2D_RETRY_UNKNOWN;
	snprintf(a->report->retry_why, sizeof(a->report->retry_why), "%s", why);
}

/* One answer from all of them. */
static void combine(struct ins_analysis *a, const struct roots *roots)
{
	const struct ins_root *first = &roots->items[0];

	for (size_t i = 0; i < a->site_count; i++)
		if (!a->sites[i].is_covered) {
			unknown(a,
				"a call of hmm_range_fault() is on no path that was followed");
			return;
		}
	for (size_t i = 0; i < roots->count; i++) {
		const struct ins_root *r = &roots->items[i];

		if (r->policy == H2D_RETRY_UNKNOWN) {
			unknown(a, r->why);
			return;
		}
		if (r->policy != first->policy) {
			unknown(a, "the module has several such functions, and they differ");
			return;
		}
	}
	a->report->retry_policy = first->policy;
}

static const char *no_call(const struct ins_image *image)
{
	for (uint32_t i = 1; i < image->symbol_count; i++)
		if (!strncmp(image->symbols[i].name, "hmm_range_fault_", 16))
			return "the kernel's own helper does the retries (hmm_range_fault_…)";
	return "the module does not call hmm_range_fault()";
}

int ins_policy(struct ins_analysis *a)
{
	struct roots roots = {0};
	size_t named;
	int err;

	a->sites = h2d_mem->calloc(SITES_MAX, sizeof(*a->sites));
	if (!a->sites)
		return H2D_E_NOMEM;
	if (!find_sites(a)) {
		unknown(a, "hmm_range_fault() is used otherwise than by a call");
		return 0;
	}
	find_named(a, &roots);
	if (!a->site_count) {
		unknown(a, no_call(a->image));
		return 0;
	}
	err = judge(a, &roots, 0);
	named = roots.count;
	if (err)
		return err;
	if (!find_others(a, &roots)) {
		unknown(a, "a call of hmm_range_fault() is in no known function");
		return 0;
	}
	err = judge(a, &roots, named);
	if (err)
		return err;
	if (roots.overflow || !roots.count)
		unknown(a, "too many functions call hmm_range_fault()");
	else
		combine(a, &roots);
	a->has_copies = roots.count > 1;
	/* Whose callers are asked for the permission rule. */
	if (named == 1 || (!named && roots.count == 1)) {
		a->root = roots.items[0].entry;
		a->have_root = true;
		a->root_named = named == 1;
	}
	return 0;
}
