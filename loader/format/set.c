/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

int h2d_set_open(struct h2d_catalogue *cat, const char *path, const struct h2d_log *log)
{
	(void)cat;
	return h2d_fail(log, H2D_E_UNSUPPORTED, "%s: sets are not read yet", path);
}

int h2d_set_open_file(struct h2d_catalogue *cat, struct h2d_file *file,
		      const struct h2d_log *log)
{
	(void)cat;
	return h2d_fail(log, H2D_E_UNSUPPORTED, "%s: sets are not read yet", file->path);
}
