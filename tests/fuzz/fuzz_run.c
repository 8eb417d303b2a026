/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_run_core */
/* The preloaded library's memory calls against the system's own: see run_ops.h. */
#include "../unit/run_ops.h"
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	PROMISE(ops_run(data, bytes));
	return 0;
}
