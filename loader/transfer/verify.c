/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

int h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
	       struct h2d_verify_result *result)
{
	(void)weights;
	(void)opts;
	(void)result;
	return H2D_E_UNSUPPORTED;
}
