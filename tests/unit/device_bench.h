/* SPDX-License-Identifier: Apache-2.0 */
/** @file device_bench.h  An opened device with short calls, for the device tests. */
#ifndef H2D_TEST_DEVICE_BENCH_H
#define H2D_TEST_DEVICE_BENCH_H

#include "device/engine_thread.h"
#include "scratch.h"

#define SECOND 1000000000ull

static struct h2d_device *dev;
static const struct h2d_backend *ops;

static inline int device_open(const char *spec, uint64_t copy_timeout_ns)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	int rc;

	o.log = scratch_log_fn;
	o.copy_timeout_ns = copy_timeout_ns;
	rc = h2d_device_open(spec, &o, &dev);
	ops = rc ? NULL : dev->backend;
	return rc;
}

static inline struct h2d_soft_counts device_counts(void)
{
	struct h2d_soft_counts c;

	h2d_soft_count(dev->priv, &c);
	return c;
}

/** A mark in `s`, waited for. @return what event_wait() said */
static inline int device_wait(struct h2d_stream *s, uint64_t timeout_ns)
{
	struct h2d_event *e;
	int rc = ops->event_create(dev, &e);

	if (rc)
		return rc;
	rc = ops->event_record(e, s);
	if (!rc)
		rc = ops->event_wait(e, timeout_ns);
	ops->event_destroy(dev, e);
	return rc;
}

#endif
