/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

int h2d_cact_parse(struct h2d_parse *p)
{
	return h2d_fail(p->log, H2D_E_UNSUPPORTED, "%s: cact is not read yet", p->file->path);
}
