/* SPDX-License-Identifier: Apache-2.0 */
/* Buffered reads: preadv() scatters the file into the layout of the destination. */
#include <stdlib.h>
#include <sys/uio.h>

#include "core/mem.h"
#include "transfer/engine.h"
#include "transfer/tuning.h"

enum { IOV_COUNT = 1024 }; /* UIO_MAXIOV, include/uapi/linux/uio.h */

struct scatter {
	struct iovec iov[IOV_COUNT];
	size_t count;
	uint64_t begin, end; /* of the file, covered by `iov` */
	uint64_t sink_bytes;
	unsigned char sink[]; /* where gaps of the file go */
};

static int pread_setup(struct h2d_reader *r)
{
	struct scatter *sc = h2d_mem->malloc(sizeof(*sc) + h2d_tuning->sink_bytes);

	r->source_state[H2D_SOURCE_PREAD] = sc;
	if (!sc)
		return h2d_fail(&r->engine->log, H2D_E_NOMEM, "reader: out of memory");
	sc->sink_bytes = h2d_tuning->sink_bytes;
	return 0;
}

static bool pread_teardown(struct h2d_reader *r)
{
	free(r->source_state[H2D_SOURCE_PREAD]);
	return false;
}

static int flush(struct h2d_engine *e, const struct h2d_file *f, struct scatter *sc)
{
	int rc = sc->count ? h2d_file_readv(f, sc->iov, sc->count, sc->begin, &e->log) : 0;

	if (!rc && sc->count)
		atomic_fetch_add(&e->read_bytes, sc->end - sc->begin);
	sc->count = 0;
	return rc;
}

static void add(struct scatter *sc, void *p, uint64_t bytes)
{
	sc->iov[sc->count].iov_base = p;
	sc->iov[sc->count++].iov_len = bytes;
	sc->end += bytes;
}

static int scatter(struct h2d_engine *e, const struct h2d_chunk *c, struct scatter *sc,
		   ptrdiff_t shift)
{
	const struct h2d_file *f = e->config->inputs[c->file].file;
	struct h2d_segments it;
	struct h2d_segment seg;
	int rc;

	sc->count = 0;
	h2d_segments_begin(&it, e->plan, c);
	while (h2d_segments_next(&it, &seg)) {
		if (sc->count >= IOV_COUNT - 1 ||
		    (sc->count && seg.file_offset - sc->end > sc->sink_bytes)) {
			rc = flush(e, f, sc);
			if (rc)
				return rc;
		}
		if (!sc->count)
			sc->begin = sc->end = seg.file_offset;
		if (seg.file_offset > sc->end)
			add(sc, sc->sink, seg.file_offset - sc->end);
		add(sc, seg.dst + shift, seg.bytes);
	}
	return flush(e, f, sc);
}

static int pread_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_chunk *c = s->chunk;
	const struct h2d_file *f = e->config->inputs[c->file].file;
	struct scatter *sc = r->source_state[H2D_SOURCE_PREAD];
	bool fill = c->route == H2D_ROUTE_FILL;
	int rc;

	s->src = s->buf;
	s->filled = fill			  ? H2D_FILLED_DST
		    : c->flags & H2D_CHUNK_PACKED ? H2D_FILLED_IMAGE
						  : H2D_FILLED_SPAN;
	if ((c->flags & H2D_CHUNK_SAME) || s->filled == H2D_FILLED_SPAN) {
		rc = h2d_file_read(f, fill ? c->dst : s->buf, c->bytes, c->file_offset,
				   &e->log);
		if (!rc)
			atomic_fetch_add(&e->read_bytes, c->bytes);
		return rc;
	}
	return scatter(e, c, sc, fill ? 0 : s->buf - c->dst);
}

const struct h2d_source_ops h2d_source_pread = {
	.name = "pread",
	.setup = pread_setup,
	.teardown = pread_teardown,
	.begin = pread_begin,
};
