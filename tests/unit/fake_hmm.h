/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file fake_hmm.h
 * A back-end that does to its sources what the kernel does, without a kernel module: where the
 * mapping is private and writable it replaces every page by writing it, and counts the spans
 * for which a driver would have restarted. It never waits.
 */
#ifndef H2D_TEST_FAKE_HMM_H
#define H2D_TEST_FAKE_HMM_H

#include <stdint.h>
#include <unistd.h>

#include "device/engine_thread.h"
#include "repro/repro.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

static struct {
	enum h2d_retry_policy policy;
	enum h2d_permission_rule rule;
	bool corrupt; /* a byte on its way */
	bool refuse_zero_page;
	bool hide_window;    /* one is not recognised, and none is counted by the driver */
	uint32_t timeout_ms; /* 0: 1000 */
	uint32_t slow_ms;    /* a copy takes at least that */
} kernel;

/* Of one device. */
struct fake_counts {
	pthread_mutex_t lock;
	struct h2d_hmm_count count;
};

/* What the kernel's page-table lock is to two copies from the same mapping. */
static pthread_mutex_t mm_lock = PTHREAD_MUTEX_INITIALIZER;

static void replace_pages(struct fake_counts *c, unsigned char *p, uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct h2d_page_state pages;
	struct h2d_smaps smaps;

	pthread_mutex_lock(&c->lock);
	c->count.requests++;
	pthread_mutex_unlock(&c->lock);
	if (h2d_smaps_read(p, bytes, NULL, &smaps) || h2d_pages_read(p, bytes, NULL, &pages))
		return;
	if (kernel.rule == H2D_PERMISSION_ACCESS || smaps.permissions[1] != 'w' ||
	    smaps.permissions[3] != 'p')
		return;
	pthread_mutex_lock(&c->lock);
	if (kernel.policy != H2D_RETRY_REFRESH)
		c->count.restarts += pages.replaced_span_count;
	if (kernel.policy == H2D_RETRY_STALE)
		c->count.windows += pages.replaced_span_count -
				    (kernel.hide_window && pages.replaced_span_count);
	pthread_mutex_unlock(&c->lock);
	usleep(kernel.slow_ms * 1000);
	pthread_mutex_lock(&mm_lock);
	for (uint64_t at = 0; at < bytes; at += page) {
		volatile unsigned char *byte = p + at;

		*byte = *byte;
	}
	pthread_mutex_unlock(&mm_lock);
}

static struct {
	uintptr_t begin, end;
} ours[64];

static bool is_ours(const void *p)
{
	for (size_t i = 0; i < 64; i++)
		if ((uintptr_t)p >= ours[i].begin && (uintptr_t)p < ours[i].end)
			return true;
	return false;
}

static void *take(uint64_t bytes)
{
	void *p = aligned_alloc(4096, (size_t)bytes);

	for (size_t i = 0; p && i < 64; i++)
		if (!ours[i].end) {
			ours[i].begin = (uintptr_t)p;
			ours[i].end = (uintptr_t)p + bytes;
			break;
		}
	return p;
}

static void give(void *p)
{
	for (size_t i = 0; p && i < 64; i++)
		if (ours[i].begin == (uintptr_t)p)
			ours[i].begin = ours[i].end = 0;
	free(p);
}

static int fake_move(void *ctx, void *dst, const void *src, uint64_t bytes)
{
	const bool pageable = !is_ours(src);

	if (pageable && kernel.refuse_zero_page && !((const unsigned char *)src)[0] &&
	    !((const unsigned char *)src)[1])
		return H2D_E_DEVICE;
	if (pageable)
		replace_pages(ctx, (unsigned char *)(uintptr_t)src, bytes);
	pthread_mutex_lock(&mm_lock);
	memcpy(dst, src, bytes);
	pthread_mutex_unlock(&mm_lock);
	if (pageable && kernel.corrupt)
		((unsigned char *)dst)[bytes / 2] ^= 0x10;
	return 0;
}

static int fake_open(struct h2d_device *dev, const char *args)
{
	struct fake_counts *c = calloc(1, sizeof(*c));
	struct h2d_soft *soft;
	int rc;

	(void)args;
	if (!c)
		return H2D_E_NOMEM;
	pthread_mutex_init(&c->lock, NULL);
	rc = h2d_soft_create(&dev->log, fake_move, c, free, &soft);
	dev->priv = soft;
	return rc;
}

static void fake_close(struct h2d_device *dev)
{
	h2d_soft_release(dev->priv);
}

static int fake_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	(void)dev;
	out->ptr = take(bytes);
	out->bytes = bytes;
	return out->ptr ? 0 : H2D_E_DEVICE_MEMORY;
}

static void fake_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	(void)dev;
	give(mem->ptr);
}

static int fake_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	(void)dev;
	*out = take(bytes);
	return *out ? 0 : H2D_E_NOMEM;
}

static void fake_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	(void)dev;
	(void)bytes;
	give(p);
}

static void fake_count(struct h2d_device *dev, struct h2d_hmm_count *out)
{
	struct fake_counts *c = h2d_soft_context(dev->priv);

	pthread_mutex_lock(&c->lock);
	*out = c->count;
	memset(&c->count, 0, sizeof(c->count));
	pthread_mutex_unlock(&c->lock);
	out->timeout_ms = kernel.timeout_ms ? kernel.timeout_ms : 1000;
	out->hz = 250;
	out->windows_counted = !kernel.hide_window;
}

static const struct h2d_backend fake = {
	.name = "hmm-fake",
	.summary = "replaces pages as the kernel would",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_HMM,
	.open = fake_open,
	.close = fake_close,
	.alloc = fake_alloc,
	.free = fake_free,
	.host_alloc = fake_host_alloc,
	.host_free = fake_host_free,
	.stream_create = h2d_soft_stream_create,
	.stream_destroy = h2d_soft_stream_destroy,
	.copy_to_device = h2d_soft_copy,
	.copy_to_host = h2d_soft_copy,
	.event_create = h2d_soft_event_create,
	.event_destroy = h2d_soft_event_destroy,
	.event_record = h2d_soft_event_record,
	.event_query = h2d_soft_event_query,
	.event_wait = h2d_soft_event_wait,
	.hmm_count = fake_count,
};

static void open_fake(struct h2d_device *device, enum h2d_retry_policy policy,
		      enum h2d_permission_rule rule)
{
	kernel.policy = policy;
	kernel.rule = rule;
	kernel.corrupt = kernel.refuse_zero_page = false;
	memset(device, 0, sizeof(*device));
	device->backend = &fake;
	device->caps = fake.caps;
	device->copy_timeout_ns = 30000000000ull;
	snprintf(device->facts.name, sizeof(device->facts.name), "hmm-fake");
	if (fake.open(device, ""))
		exit(1);
}

/* Tests that look at page tables are skipped where these are hidden. */
static bool pagemap_works(void)
{
	static char here[2 * 4096];
	struct h2d_page_state s;
	uintptr_t page = ((uintptr_t)here + 4095) & ~(uintptr_t)4095;

	*(volatile char *)page = 1;
	return !h2d_pages_read((void *)page, 4096, NULL, &s) && s.present_count == 1;
}

/* Where the file of known bytes is made: in memory, if possible. */
static const char *scratch(void)
{
	return access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
}

#endif
