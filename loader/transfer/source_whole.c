/* SPDX-License-Identifier: Apache-2.0 */
/* One whole file after the other in anonymous memory. Served by a single reader. */
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/mem.h"
#include "file/cache.h"
#include "transfer/engine.h"

struct whole {
	struct h2d_source_file *in; /* whose bytes are in `data` */
	void *data;
	uint64_t bytes;
};

static int whole_setup(struct h2d_reader *r)
{
	struct whole *w = h2d_mem->calloc(1, sizeof(*w));

	r->source_state[H2D_SOURCE_WHOLE] = w;
	return w ? 0 : h2d_fail(&r->engine->log, H2D_E_NOMEM, "reader: out of memory");
}

static void forget(struct h2d_engine *e, struct whole *w)
{
	if (w->in)
		w->in->base = NULL;
	if (w->data && atomic_load(&e->quarantine))
		atomic_fetch_add(&e->dev->quarantined_bytes, w->bytes);
	else if (w->data)
		munmap(w->data, w->bytes);
	memset(w, 0, sizeof(*w));
}

static bool whole_teardown(struct h2d_reader *r)
{
	struct whole *w = r->source_state[H2D_SOURCE_WHOLE];

	if (w)
		forget(r->engine, w);
	free(w);
	return false;
}

static int read_whole(struct h2d_reader *r, struct whole *w, struct h2d_source_file *in)
{
	struct h2d_engine *e = r->engine;
	uint64_t bytes = in->file->id.size_bytes;
	int rc;

	rc = h2d_reader_drain(r);
	if (rc)
		return rc;
	forget(e, w);
	w->data = h2d_mem->map(bytes, PROT_READ | PROT_WRITE);
	if (!w->data)
		return h2d_fail(&e->log, H2D_E_NOMEM,
				"%s: %llu bytes of memory for the whole file cannot be had",
				in->file->path, (unsigned long long)bytes);
	w->bytes = bytes;
	w->in = in;
	rc = h2d_file_read(in->file, w->data, bytes, 0, &e->log);
	if (rc)
		return rc;
	in->base = w->data;
	atomic_fetch_add(&e->read_bytes, bytes);
	if (e->config->drop)
		h2d_cache_drop(in->file, 0, bytes);
	return 0;
}

static int whole_begin(struct h2d_reader *r, struct h2d_slot *s)
{
	struct h2d_source_file *in = &r->engine->config->inputs[s->chunk->file];
	int rc;

	if (!in->base) {
		rc = read_whole(r, r->source_state[H2D_SOURCE_WHOLE], in);
		if (rc)
			return rc;
	}
	rc = h2d_source_map.begin(r, s);
	atomic_fetch_sub(&r->engine->read_bytes, s->chunk->bytes); /* counted with the file */
	return rc;
}

const struct h2d_source_ops h2d_source_whole = {
	.name = "whole",
	.setup = whole_setup,
	.teardown = whole_teardown,
	.begin = whole_begin,
};
