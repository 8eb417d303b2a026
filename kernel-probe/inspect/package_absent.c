/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in where packages cannot be read. */
#include "inspect.h"

int h2d_inspect_package(const char *path, const struct h2d_log *log,
			struct h2d_module_report **report)
{
	*report = NULL;
	return h2d_fail(log, H2D_E_UNAVAILABLE,
			"%s: this h2d was built without the part that reads packages", path);
}
