/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cact_names.h
 * A .cact file names no tensor: what a tensor is follows from its place in the order in which
 * Needle's exporter writes them (needle/model/export.py, 571fcd6). The place is turned into a
 * canonical name here: `embedding`, `layers.3.q_proj`, `mhc.phi_res`, `hada_p1`,
 * `engram.0.tables`, `final_norm`, `heads.router.bias`, `tokenizer`.
 */
#ifndef H2D_FORMAT_CACT_NAMES_H
#define H2D_FORMAT_CACT_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/arena.h"

/** What of the header decides the order. */
struct h2d_cact_order {
	unsigned generation; /**< 2 or 3 */
	uint32_t layer_count;
	uint32_t site_count; /**< engram sites */
	bool conv_taps;	     /**< generation 3: each layer has q, k and v taps */
	bool manifest;	     /**< there is a head manifest, perhaps an empty one */
	bool calibration;    /**< generation 3: a router head ends with one */
	unsigned head_count;
	unsigned char heads[3]; /**< 1 embedding, 2 confidence, 3 router, as in the manifest */
};

/** Number of tensors before the head manifest or, without heads, the tokenizer; at most
 *  UINT32_MAX layers and sites, so that it does not wrap. */
uint64_t h2d_cact_fixed_count(const struct h2d_cact_order *order);
/** Number of tensors in all, with heads (and their manifest) and tokenizer. */
uint64_t h2d_cact_count(const struct h2d_cact_order *order);
/** Canonical name of the tensor at `ordinal` (< h2d_cact_count()), in the arena or static;
 *  NULL when memory cannot be had. */
const char *h2d_cact_name(const struct h2d_cact_order *order, uint64_t ordinal,
			  struct h2d_arena *arena);

#endif
