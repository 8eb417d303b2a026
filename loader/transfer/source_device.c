/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that the device reads from the file itself. */
#include "transfer/engine.h"

static int read_file(struct h2d_reader *r, const struct h2d_chunk *c, uint64_t offset,
		     uint64_t bytes, void *dst)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_file *f = e->config->inputs[c->file].file;
	int rc = e->dev->backend->read_file(r->stream, f->fd, offset, bytes, dst);

	if (rc)
		return h2d_fail(&e->log, rc, "device %s: reading %s, %llu bytes at offset %llu",
				e->dev->facts.name, f->path, (unsigned long long)bytes,
				(unsigned long long)offset);
	atomic_fetch_add(&e->read_bytes, bytes);
	return 0;
}

static int device_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	const struct h2d_chunk *c = s->chunk;
	struct h2d_segments it;
	struct h2d_segment seg;
	int rc = 0;

	s->src = NULL;
	s->filled = H2D_FILLED_DST;
	if (c->flags & H2D_CHUNK_SAME) {
		rc = read_file(r, c, c->file_offset, c->bytes, c->dst);
	} else {
		h2d_segments_begin(&it, r->engine->plan, c);
		while (!rc && h2d_segments_next(&it, &seg))
			rc = read_file(r, c, seg.file_offset, seg.bytes, seg.dst);
	}
	if (rc == H2D_E_DEVICE_LOST)
		h2d_copy_abandon(r, s);
	return rc;
}

const struct h2d_source_ops h2d_source_device = {
	.name = "device",
	.begin = device_begin,
};
