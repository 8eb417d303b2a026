/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

int h2d_safetensors_parse(struct h2d_parse *p)
{
	return h2d_fail(p->log, H2D_E_UNSUPPORTED, "%s: safetensors is not read yet",
			p->file->path);
}
