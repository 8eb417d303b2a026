/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory of a GPU: pages of our own, on the device's NUMA node, that are then
 * registered. Memory that a driver allocates may refuse to be read into directly (O_DIRECT),
 * and lies on whatever node the driver thinks best; it is the second choice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/mem.h"
#include "device/gpu.h"
#include "device/hostmem.h"

struct h2d_gpu_host {
	struct h2d_gpu_host *next;
	void *p;
	uint64_t bytes;
	bool registered; /* our pages, else the driver's */
};

static void keep(struct h2d_gpu *g, struct h2d_gpu_host *h)
{
	pthread_mutex_lock(&g->lock);
	h->next = g->host;
	g->host = h;
	pthread_mutex_unlock(&g->lock);
}

static struct h2d_gpu_host *take(struct h2d_gpu *g, const void *p)
{
	struct h2d_gpu_host **at, *h;

	pthread_mutex_lock(&g->lock);
	for (at = &g->host; *at && (*at)->p != p; at = &(*at)->next)
		;
	h = *at;
	if (h)
		*at = h->next;
	pthread_mutex_unlock(&g->lock);
	return h;
}

/* Pages of our own. @return 0, or a status after which the driver is asked for memory */
static int get_registered(struct h2d_gpu *g, struct h2d_gpu_host *h)
{
	struct h2d_device *dev = g->dev;
	int code;

	h->p = h2d_hostmem_alloc(h->bytes);
	if (!h->p)
		return h2d_fail_errno(&dev->log, errno,
				      "%s: %" PRIu64 " bytes of staging memory",
				      dev->facts.name, h->bytes);
	h2d_hostmem_bind(h->p, h->bytes, dev->facts.numa_node);
	code = g->ops->host_register(g, h->p, h->bytes, false);
	if (!code) {
		h->registered = true;
		return 0;
	}
	h2d_hostmem_free(h->p, h->bytes);
	h->p = NULL;
	return h2d_gpu_fail(g, H2D_GPU_REGISTER, code,
			    "%" PRIu64 " bytes of staging memory are not pinned", h->bytes);
}

static int get_allocated(struct h2d_gpu *g, struct h2d_gpu_host *h)
{
	int code = g->ops->host_alloc(g, &h->p, h->bytes);

	if (!code)
		return 0;
	h->p = NULL;
	return h2d_gpu_fail(g, H2D_GPU_HOST_ALLOC, code,
			    "%" PRIu64 " bytes of pinned memory cannot be had", h->bytes);
}

int h2d_gpu_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	struct h2d_gpu *g = dev->priv;
	struct h2d_gpu_host *h;
	uintptr_t was;
	int rc;

	*out = NULL;
	h = h2d_mem->calloc(1, sizeof(*h));
	if (!h)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "%s: out of memory", dev->facts.name);
	if (!bytes || !h2d_align_up_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE), &h->bytes) ||
	    h->bytes > SIZE_MAX / 2) {
		free(h);
		return h2d_fail(&dev->log, H2D_E_INVALID,
				"%s: %" PRIu64 " bytes of staging memory", dev->facts.name,
				bytes);
	}
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		goto out;
	rc = get_registered(g, h);
	if (rc && rc != H2D_E_DEVICE_LOST)
		rc = get_allocated(g, h);
	g->ops->leave(g, was);
out:
	if (rc) {
		free(h);
		return rc;
	}
	keep(g, h);
	*out = h->p;
	return 0;
}

/* Memory that the device may still reach is never given back. */
static void quarantine(struct h2d_gpu *g, const struct h2d_gpu_host *h)
{
	atomic_fetch_add(&g->dev->quarantined_bytes, h->bytes);
}

void h2d_gpu_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct h2d_gpu *g = dev->priv;
	struct h2d_gpu_host *h;
	uintptr_t was;
	int code;

	(void)bytes;
	h = p ? take(g, p) : NULL;
	if (!h)
		return;
	if (atomic_load(&dev->lost) || h2d_gpu_enter(g, &was)) {
		quarantine(g, h);
		free(h);
		return;
	}
	code = h->registered ? g->ops->host_unregister(g, h->p) : g->ops->host_free(g, h->p);
	g->ops->leave(g, was);
	if (code) {
		h2d_gpu_fail(g, h->registered ? H2D_GPU_UNREGISTER : H2D_GPU_HOST_FREE, code,
			     "%" PRIu64 " bytes of staging memory stay pinned", h->bytes);
		quarantine(g, h);
	} else if (h->registered) {
		h2d_hostmem_free(h->p, h->bytes);
	}
	free(h);
}

int h2d_gpu_host_register(struct h2d_device *dev, void *p, uint64_t bytes, bool read_only)
{
	struct h2d_gpu *g = dev->priv;
	uintptr_t was;
	int rc, code;

	if (!p || !bytes || bytes > SIZE_MAX)
		return h2d_fail(&dev->log, H2D_E_INVALID, "%s: a range of %" PRIu64 " bytes",
				dev->facts.name, bytes);
	rc = h2d_gpu_enter(g, &was);
	if (rc)
		return rc;
	code = g->ops->host_register(g, p, bytes, read_only);
	g->ops->leave(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_REGISTER, code,
				   "%" PRIu64 " bytes%s are not registered", bytes,
				   read_only ? " of read-only memory" : "")
		    : 0;
}

int h2d_gpu_host_unregister(struct h2d_device *dev, void *p, uint64_t bytes)
{
	struct h2d_gpu *g = dev->priv;
	uintptr_t was;
	int rc = h2d_gpu_enter(g, &was), code;

	if (rc)
		return rc;
	code = g->ops->host_unregister(g, p);
	g->ops->leave(g, was);
	return code ? h2d_gpu_fail(g, H2D_GPU_UNREGISTER, code,
				   "%" PRIu64 " bytes stay registered", bytes)
		    : 0;
}

void h2d_gpu_host_forget(struct h2d_gpu *g)
{
	while (g->host) {
		struct h2d_gpu_host *next = g->host->next;

		free(g->host);
		g->host = next;
	}
}
