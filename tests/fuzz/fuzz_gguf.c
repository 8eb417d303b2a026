/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes given to the GGUF reader. */
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	walk_memory(data, bytes);
	return 0;
}
