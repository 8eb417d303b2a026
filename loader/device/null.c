/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that discards: for testing h2d itself, and for measuring the host side alone.
 *
 * A copy reads one byte of every page of its source and writes nothing, so that pages of a
 * mapping come in exactly as they would for a device that reads them, while the rate is not
 * bounded by memory. Rates on `null` are therefore never copy rates.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "device/engine_thread.h"
#include "device/hostmem.h"

static int null_move(void *ctx, void *dst, const void *src, uint64_t bytes)
{
	const volatile unsigned char *p = src;
	uint64_t page = (uint64_t)(uintptr_t)ctx, step;

	(void)dst;
	step = page - ((uintptr_t)p & (page - 1)); /* to the next page */
	for (uint64_t at = 0; at < bytes; at += step, step = page)
		(void)p[at];
	return 0;
}

static int null_open(struct h2d_device *dev, const char *args)
{
	struct h2d_soft *soft;
	int rc;

	if (args[0])
		return h2d_fail(
			&dev->log, H2D_E_INVALID,
			"null: takes no arguments: \"%s\" (two such devices: null,null)", args);
	rc = h2d_soft_create(&dev->log, null_move, (void *)(uintptr_t)sysconf(_SC_PAGESIZE),
			     NULL, &soft);
	if (rc)
		return rc;
	dev->priv = soft;
	dev->facts.unified = 2;
	return 0;
}

static void null_close(struct h2d_device *dev)
{
	h2d_soft_release(dev->priv);
}

/* Addresses only, so that they are unique and any access faults. */
static int null_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	memset(out, 0, sizeof(*out));
	if (!bytes)
		return h2d_fail(&dev->log, H2D_E_INVALID, "null: an allocation of 0 bytes");
	out->ptr = h2d_hostmem_reserve(bytes);
	if (!out->ptr)
		return h2d_fail_errno(&dev->log, errno,
				      "null: reserving %llu bytes of addresses",
				      (unsigned long long)bytes);
	out->bytes = bytes;
	h2d_soft_account(dev->priv, false, 1, bytes);
	return 0;
}

static void null_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	if (!mem->ptr)
		return;
	h2d_hostmem_free(mem->ptr, mem->bytes);
	h2d_soft_account(dev->priv, false, -1, mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

const struct h2d_backend h2d_backend_null = {
	.name = "null",
	.summary = "discards what it gets (tests and host-side measurements)",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_COPY_2D | H2D_DEV_CALLER_STREAM,
	.open = null_open,
	.close = null_close,
	.alloc = null_alloc,
	.free = null_free,
	.host_alloc = h2d_soft_host_alloc,
	.host_free = h2d_soft_host_free,
	.stream_create = h2d_soft_stream_create,
	.stream_destroy = h2d_soft_stream_destroy,
	.stream_wrap = h2d_soft_stream_wrap,
	.copy_to_device = h2d_soft_copy,
	.copy_to_device_2d = h2d_soft_copy_2d,
	.event_create = h2d_soft_event_create,
	.event_destroy = h2d_soft_event_destroy,
	.event_record = h2d_soft_event_record,
	.event_query = h2d_soft_event_query,
	.event_wait = h2d_soft_event_wait,
};
