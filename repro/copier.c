/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/copier.h"

#include <inttypes.h>
#include <string.h>

#include "core/clock.h"
#include "repro/known.h"

enum { POISON = 0xa5 };

/* Far beyond any number of windows that a copy of a repro's size can meet. */
static const uint64_t wait_ns = UINT64_C(3600) * 1000000000;

int h2d_copier_open(struct h2d_copier *c, struct h2d_device *dev, uint64_t bytes,
		    const struct h2d_log *log)
{
	const struct h2d_backend *b = dev->backend;
	void *staging = NULL;
	int rc;

	memset(c, 0, sizeof(*c));
	c->dev = dev;
	c->log = log;
	c->bytes = bytes;
	rc = b->stream_create(dev, &c->stream);
	if (!rc)
		rc = b->event_create(dev, &c->event);
	if (!rc)
		rc = b->alloc(dev, bytes, &c->target);
	if (!rc)
		rc = b->host_alloc(dev, bytes, &staging);
	c->staging = staging;
	if (rc)
		h2d_copier_close(c);
	return rc;
}

void h2d_copier_close(struct h2d_copier *c)
{
	const struct h2d_backend *b = c->dev ? c->dev->backend : NULL;

	if (!b)
		return;
	/* A stream ends only when its copies have, so it goes before their buffers. */
	if (c->stream)
		b->stream_destroy(c->dev, c->stream);
	if (c->event)
		b->event_destroy(c->dev, c->event);
	/* Under a copy that never completed, buffers stay: the device may still write there. */
	if (!c->dev->lost) {
		if (c->target.ptr)
			b->free(c->dev, &c->target);
		if (c->staging)
			b->host_free(c->dev, c->staging, c->bytes);
	}
	memset(c, 0, sizeof(*c));
}

static int finish(struct h2d_copier *c)
{
	const struct h2d_backend *b = c->dev->backend;
	int rc = b->event_record(c->event, c->stream);

	return rc ? rc : b->event_wait(c->event, wait_ns);
}

int h2d_copier_poison(struct h2d_copier *c, uint64_t bytes)
{
	int rc;

	memset(c->staging, POISON, (size_t)bytes);
	rc = c->dev->backend->copy_to_device(c->stream, c->target.ptr, c->staging, bytes);
	return rc ? rc : finish(c);
}

int h2d_copier_copy(struct h2d_copier *c, const void *src, uint64_t bytes, uint64_t *elapsed_ns,
		    struct h2d_hmm_count *count)
{
	const struct h2d_backend *b = c->dev->backend;
	uint64_t begin;
	int rc;

	memset(count, 0, sizeof(*count));
	if (bytes > c->bytes)
		return h2d_fail(c->log, H2D_E_INTERNAL, "copy larger than its target");
	if (b->hmm_count)
		b->hmm_count(c->dev, count);
	begin = h2d_now_ns();
	rc = b->copy_to_device(c->stream, c->target.ptr, src, bytes);
	if (!rc)
		rc = finish(c);
	*elapsed_ns = h2d_now_ns() - begin;
	if (b->hmm_count)
		b->hmm_count(c->dev, count);
	return rc;
}

int h2d_copier_verify(struct h2d_copier *c, uint64_t bytes, bool zeros)
{
	uint64_t at = UINT64_MAX;
	int rc;

	if (!(c->dev->caps & H2D_DEV_READABLE))
		return H2D_E_UNSUPPORTED;
	memset(c->staging, (unsigned char)~POISON, (size_t)bytes);
	rc = c->dev->backend->copy_to_host(c->stream, c->staging, c->target.ptr, bytes);
	if (!rc)
		rc = finish(c);
	if (rc)
		return rc;
	if (!zeros) {
		at = h2d_known_compare(c->staging, bytes, 0);
	} else {
		for (uint64_t i = 0; i < bytes && at == UINT64_MAX; i++)
			if (c->staging[i])
				at = i;
	}
	if (at == UINT64_MAX)
		return 0;
	return h2d_fail(c->log, H2D_E_MISMATCH,
			"%s: byte %" PRIu64 " of %" PRIu64 " did not arrive as it was sent",
			c->dev->facts.name, at, bytes);
}
