/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for the inspector where h2d was built without what it needs. */
#include <stdlib.h>

#include "inspect.h"

static int absent(const struct h2d_log *log, struct h2d_module_report **report)
{
	*report = NULL;
	return h2d_fail(log, H2D_E_UNAVAILABLE,
			"this h2d was built without the module inspector: it needs libelf, "
			"libarchive and Capstone");
}

int h2d_inspect_bytes(const char *name, const void *data, size_t bytes,
		      const struct h2d_log *log, struct h2d_module_report **report)
{
	(void)name;
	(void)data;
	(void)bytes;
	return absent(log, report);
}

int h2d_inspect_file(const char *path, const struct h2d_log *log,
		     struct h2d_module_report **report)
{
	(void)path;
	return absent(log, report);
}

int h2d_inspect_package(const char *path, const struct h2d_log *log,
			struct h2d_module_report **report)
{
	(void)path;
	return absent(log, report);
}

void h2d_module_report_free(struct h2d_module_report *report)
{
	free(report);
}
