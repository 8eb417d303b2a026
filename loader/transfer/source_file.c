/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/source_file.h"

#include <string.h>

int h2d_source_file_map(struct h2d_source_file *in, enum h2d_source source,
			const struct h2d_log *log)
{
	enum h2d_map_kind kind;
	int rc;

	switch (source) {
	case H2D_SOURCE_MAP_READ:
		kind = H2D_MAP_READ;
		break;
	case H2D_SOURCE_MAP_WRITABLE:
		kind = H2D_MAP_WRITABLE;
		break;
	case H2D_SOURCE_MAP_SHARED:
		kind = H2D_MAP_SHARED;
		break;
	default:
		return 0;
	}
	if (in->map.base)
		return 0;
	rc = h2d_map_open(&in->map, in->file, kind, log);
	if (!rc)
		rc = h2d_guard_add(&in->map, &in->guard, log);
	in->base = in->map.base;
	return rc;
}

void h2d_source_file_close(struct h2d_source_file *in, bool quarantine)
{
	h2d_guard_remove(in->guard);
	if (!quarantine)
		h2d_map_close(&in->map);
	if (in->has_direct)
		h2d_direct_close(&in->direct);
	memset(in, 0, sizeof(*in));
}
