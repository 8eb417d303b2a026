/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in until kernel_verdict.c is there, and goes with it. */
#include "host/kernel_verdict.h"

int h2d_kernel_verdict_get(const struct h2d_kernel_verdict_options *options,
			   struct h2d_kernel_verdict **out)
{
	(void)options;
	*out = NULL;
	return H2D_E_UNAVAILABLE;
}

void h2d_kernel_verdict_free(struct h2d_kernel_verdict *verdict)
{
	(void)verdict;
}
