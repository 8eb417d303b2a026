/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_INSPECT_POLICY_H
#define H2D_INSPECT_POLICY_H

#include "internal.h"

/* A function whose retry policy is asked. */
struct ins_root {
	struct ins_place entry;
	bool is_named; /* it has the name that it has in the kernel's source */
	enum h2d_retry_policy policy;
	char why[160];
};

/* Judges one function, with its evidence, and notes which calls of hmm_range_fault() it has.
 * 0 or H2D_E_NOMEM. */
int ins_policy_of(struct ins_analysis *analysis, struct ins_root *root);

#endif
