/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of a shared mapping whose windows are registered with the device while it copies. */
#include "transfer/engine.h"

static int register_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	int rc;

	if (s->chunk->route == H2D_ROUTE_SOURCE) {
		rc = h2d_windows_get(r->engine->windows, s->chunk, s->windows, &s->split);
		if (rc)
			return rc;
	}
	return h2d_source_map.begin(r, s);
}

static void register_end(struct h2d_reader *r, struct h2d_slot *s)
{
	h2d_windows_put(r->engine->windows, s->windows);
	s->split = NULL;
}

const struct h2d_source_ops h2d_source_register = {
	.name = "register",
	.begin = register_begin,
	.end = register_end,
};
