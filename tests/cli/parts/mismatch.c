/* SPDX-License-Identifier: Apache-2.0 */
/* Linked in front of the library's h2d_verify(): the weights are read back as always, and then
 * tensor 1 is said to differ from byte 5 on. */
#include "h2d/h2d.h"

int __real_h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
		      struct h2d_verify_result *result);
int __wrap_h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
		      struct h2d_verify_result *result);

int __wrap_h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
		      struct h2d_verify_result *result)
{
	int rc = __real_h2d_verify(weights, opts, result);

	if (rc)
		return rc;
	result->mismatch_tensor = 1;
	result->mismatch_offset = 5;
	return H2D_E_MISMATCH;
}
