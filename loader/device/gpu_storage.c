/* SPDX-License-Identifier: Apache-2.0 */
/* Storage to the memory of a GPU, and the account of that memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "device/gpu.h"

struct h2d_gpu_memory {
	struct h2d_gpu_memory *next;
	unsigned char *base;
	uint64_t bytes;
	bool asked, known; /* whether the storage library was told of it, and took it */
};

int h2d_gpu_memory_add(struct h2d_gpu *g, void *base, uint64_t bytes)
{
	struct h2d_gpu_memory *m = h2d_mem->calloc(1, sizeof(*m));

	if (!m)
		return h2d_fail(&g->dev->log, H2D_E_NOMEM, "%s: out of memory",
				g->dev->facts.name);
	m->base = base;
	m->bytes = bytes;
	pthread_mutex_lock(&g->lock);
	m->next = g->memory;
	g->memory = m;
	g->alloc_bytes += bytes;
	pthread_mutex_unlock(&g->lock);
	return 0;
}

void h2d_gpu_memory_remove(struct h2d_gpu *g, void *base)
{
	struct h2d_gpu_memory **at, *m;

	pthread_mutex_lock(&g->lock);
	for (at = &g->memory; *at && (*at)->base != base; at = &(*at)->next)
		;
	m = *at;
	if (m) {
		*at = m->next;
		g->alloc_bytes -= m->bytes;
	}
	pthread_mutex_unlock(&g->lock);
	if (m && m->known)
		h2d_storage_forget(g->storage, m->base);
	free(m);
}

void h2d_gpu_storage_end(struct h2d_gpu *g, bool lost)
{
	uintptr_t was;

	while (g->memory) { /* only of a lost device: it stays */
		struct h2d_gpu_memory *next = g->memory->next;

		free(g->memory);
		g->memory = next;
	}
	/* What it holds of a lost device is left behind, the library with it. */
	if (!g->storage || lost || h2d_gpu_enter(g, &was))
		return;
	h2d_storage_close(g->storage);
	g->ops->leave(g, was);
	g->storage = NULL;
}

int h2d_gpu_read_file_check(struct h2d_device *dev, char *why, size_t why_bytes)
{
	struct h2d_gpu *g = dev->priv;
	uintptr_t was;
	int rc = 0;

	why[0] = 0;
	if (dev->caps & H2D_DEV_UNIFIED) {
		snprintf(why, why_bytes,
			 "the device shares the host's memory: %s has nothing to "
			 "do there",
			 g->storage_kind->name);
		return H2D_E_UNSUPPORTED;
	}
	pthread_mutex_lock(&g->storage_lock);
	if (!g->storage) {
		rc = h2d_gpu_enter(g, &was);
		if (!rc) {
			rc = h2d_storage_open(&g->storage, g->storage_kind, g->allow_compat,
					      &dev->log, why, why_bytes);
			g->ops->leave(g, was);
		}
	}
	pthread_mutex_unlock(&g->storage_lock);
	if (rc && !why[0])
		snprintf(why, why_bytes, "%s", h2d_status_string(rc));
	return rc;
}

/* The allocation that `dst` lies in, made known to the library at its first use. Memory of the
 * caller is taken as it is. */
static void find_memory(struct h2d_gpu *g, unsigned char *dst, unsigned char **base)
{
	struct h2d_gpu_memory *m;

	pthread_mutex_lock(&g->lock);
	for (m = g->memory; m; m = m->next)
		if (dst >= m->base && (uint64_t)(dst - m->base) < m->bytes)
			break;
	if (m && !m->asked) {
		m->asked = true;
		m->known = h2d_storage_know(g->storage, m->base, m->bytes);
	}
	*base = m && m->known ? m->base : dst;
	pthread_mutex_unlock(&g->lock);
}

int h2d_gpu_read_file(struct h2d_stream *s, int fd, uint64_t offset, uint64_t bytes, void *dst)
{
	struct h2d_gpu *g = s->gpu;
	unsigned char *base;
	uintptr_t was;
	char why[256];
	int rc;

	if (offset > INT64_MAX - bytes || bytes > INT64_MAX)
		return h2d_fail(&g->dev->log, H2D_E_INVALID, "%s: offset %" PRIu64,
				g->dev->facts.name, offset);
	rc = h2d_gpu_read_file_check(g->dev, why, sizeof(why));
	if (rc)
		return h2d_fail(&g->dev->log, rc, "%s: %s", g->dev->facts.name, why);
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	find_memory(g, dst, &base);
	rc = h2d_storage_read(g->storage, &s->files, fd, offset, bytes, base,
			      (uint64_t)((unsigned char *)dst - base));
	g->ops->leave(g, was);
	return rc;
}
