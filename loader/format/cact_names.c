/* SPDX-License-Identifier: Apache-2.0 */
#include "format/cact_names.h"

#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const layer2[] = {
	"norm_in",  "q_proj",	 "k_proj",    "v_proj",	  "q_norm", "k_norm", "gate_proj",
	"out_proj", "post_norm", "attn_gate", "pre_hada", "d1",	    "d2",     "d3",
};
static const char *const layer3[] = {
	"norm_in", "q_proj", "k_proj",	  "v_proj",   "q_taps",	   "k_taps",	"v_taps",
	"q_norm",  "k_norm", "gate_proj", "out_proj", "post_norm", "attn_gate", "pre_hada",
	"d1",	   "d2",     "b2",	  "d3",	      "d4",	   "w1a",	"w1b",
	"w2a",	   "w2b",    "w3a",	  "w3b",      "cond_v",	   "cond_u",
};
enum { TAPS_AT = 4, TAPS_COUNT = 3 };

/* Hyper-connections over all lanes, then the two Hadamard permutations of generation 3. */
static const char *const middle[] = {
	"mhc.a_pre",   "mhc.a_post",   "mhc.a_res",   "mhc.b_pre", "mhc.b_post", "mhc.b_res",
	"mhc.phi_pre", "mhc.phi_post", "mhc.phi_res", "hada_p1",   "hada_p2",
};
enum { MHC_COUNT = 9 };

static const char *const site[] = {"tables", "key_proj", "value_proj", "taps"};
static const char *const head2[] = {"probes", "proj", "bias"};
static const char *const head3[] = {"probes", "gain", "query",	    "row_bias",
				    "proj",   "bias", "calibration"};
static const char *const head_name[] = {"", "embedding", "confidence", "router"};
enum { ROUTER = 3 };

static uint64_t layer_tensors(const struct h2d_cact_order *o)
{
	if (o->generation == 2)
		return COUNT(layer2);
	return COUNT(layer3) - (o->conv_taps ? 0 : TAPS_COUNT);
}

static uint64_t middle_tensors(const struct h2d_cact_order *o)
{
	return o->generation == 2 ? MHC_COUNT : COUNT(middle);
}

static uint64_t head_tensors(const struct h2d_cact_order *o, unsigned head)
{
	if (o->generation == 2)
		return COUNT(head2);
	return COUNT(head3) - (head == ROUTER && o->calibration ? 0 : 1);
}

uint64_t h2d_cact_fixed_count(const struct h2d_cact_order *o)
{
	return 1 + o->layer_count * layer_tensors(o) + middle_tensors(o) +
	       (uint64_t)o->site_count * COUNT(site) + 1;
}

uint64_t h2d_cact_count(const struct h2d_cact_order *o)
{
	uint64_t n = h2d_cact_fixed_count(o) + 1;

	if (o->manifest)
		n++;
	for (unsigned i = 0; i < o->head_count; i++)
		n += head_tensors(o, o->heads[i]);
	return n;
}

static const char *numbered(struct h2d_arena *arena, const char *group, uint64_t number,
			    const char *part)
{
	char name[64];

	snprintf(name, sizeof(name), "%s.%llu.%s", group, (unsigned long long)number, part);
	return h2d_arena_copy(arena, name, strlen(name));
}

static const char *layer_part(const struct h2d_cact_order *o, uint64_t place)
{
	if (o->generation == 2)
		return layer2[place];
	if (!o->conv_taps && place >= TAPS_AT)
		place += TAPS_COUNT;
	return layer3[place];
}

static const char *head_part(const struct h2d_cact_order *o, uint64_t n,
			     struct h2d_arena *arena)
{
	if (o->manifest && n-- == 0)
		return "heads.manifest";
	for (unsigned i = 0; i < o->head_count; i++) {
		uint64_t count = head_tensors(o, o->heads[i]);
		char name[64];

		if (n >= count) {
			n -= count;
			continue;
		}
		snprintf(name, sizeof(name), "heads.%s.%s", head_name[o->heads[i]],
			 o->generation == 2 ? head2[n] : head3[n]);
		return h2d_arena_copy(arena, name, strlen(name));
	}
	return "tokenizer";
}

const char *h2d_cact_name(const struct h2d_cact_order *o, uint64_t n, struct h2d_arena *arena)
{
	uint64_t per_layer = layer_tensors(o);

	if (n-- == 0)
		return "embedding";
	if (n < o->layer_count * per_layer)
		return numbered(arena, "layers", n / per_layer, layer_part(o, n % per_layer));
	n -= o->layer_count * per_layer;
	if (n < middle_tensors(o))
		return middle[n];
	n -= middle_tensors(o);
	if (n < (uint64_t)o->site_count * COUNT(site))
		return numbered(arena, "engram", n / COUNT(site), site[n % COUNT(site)]);
	n -= (uint64_t)o->site_count * COUNT(site);
	if (n-- == 0)
		return "final_norm";
	return head_part(o, n, arena);
}
