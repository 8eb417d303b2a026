/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

int h2d_path_describe(uint32_t i, const char **name, const char **summary)
{
	(void)i;
	(void)name;
	(void)summary;
	return H2D_E_UNSUPPORTED;
}
