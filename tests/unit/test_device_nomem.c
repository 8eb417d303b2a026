/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation and every thread of a device fails in turn: an error, and nothing is left.
 */
#include <errno.h>

#include "core/mem.h"
#include "device_bench.h"
#include "test.h"

static long countdown; /* calls until one fails; negative: never */
static long live;

static int fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

static void *failing_malloc(size_t bytes)
{
	return fails() ? NULL : malloc(bytes);
}

static void *failing_calloc(size_t count, size_t size)
{
	return fails() ? NULL : calloc(count, size);
}

static void *failing_realloc(void *p, size_t bytes)
{
	return fails() ? NULL : realloc(p, bytes);
}

static void *failing_map(size_t bytes, int prot)
{
	errno = ENOMEM;
	return fails() ? NULL : h2d_mem_libc.map(bytes, prot);
}

static int failing_thread(pthread_t *t, void *(*fn)(void *), void *arg)
{
	return fails() ? EAGAIN : h2d_mem_libc.thread_create(t, fn, arg);
}

static const struct h2d_mem_ops failing = {
	.malloc = failing_malloc,
	.calloc = failing_calloc,
	.realloc = failing_realloc,
	.map = failing_map,
	.thread_create = failing_thread,
};

/* All that a load asks of a device. @return 0 or the first failure */
static int use(const char *spec)
{
	static uint64_t src = 5;
	struct h2d_devmem mem = {0};
	struct h2d_stream *s = NULL, *w = NULL;
	struct h2d_event *e = NULL;
	void *staging = NULL;
	int rc = device_open(spec, 0);

	if (rc)
		return rc;
	rc = ops->alloc(dev, 3 << 20, &mem);
	if (!rc)
		rc = ops->host_alloc(dev, 1 << 20, &staging);
	if (!rc)
		rc = ops->stream_create(dev, &s);
	if (!rc)
		rc = ops->event_create(dev, &e);
	if (!rc)
		rc = ops->copy_to_device(s, mem.ptr, &src, sizeof(src));
	if (!rc)
		rc = ops->event_record(e, s);
	if (!rc)
		rc = ops->event_wait(e, 20 * SECOND);
	if (!rc)
		rc = ops->stream_wrap(dev, s, &w);
	ops->stream_destroy(dev, w);
	ops->event_destroy(dev, e);
	ops->stream_destroy(dev, s);
	ops->host_free(dev, staging, 1 << 20);
	ops->free(dev, &mem);
	live += (long)(device_counts().stream_count + device_counts().thread_count +
		       device_counts().event_count + device_counts().alloc_bytes +
		       device_counts().host_alloc_bytes);
	h2d_device_close(dev);
	return rc;
}

static void each_in_turn(const char *spec)
{
	int rc, n = 0;

	h2d_mem = &failing;
	for (;; n++) {
		countdown = n;
		scratch_line[0] = 0;
		rc = use(spec);
		if (countdown >= 0)
			break; /* nothing was left to fail */
		CHECK_EQ(rc, H2D_E_NOMEM);
		CHECK(scratch_line[0]);
		REQUIRE(n < 1000);
	}
	h2d_mem = &h2d_mem_libc;
	CHECK_EQ(rc, 0);
	CHECK(n >= 8);
	CHECK_EQ(live, 0);
}

static void host(void)
{
	each_in_turn("host");
}

static void null(void)
{
	each_in_turn("null");
}

int main(void)
{
	RUN(host);
	RUN(null);
	return TEST_DONE();
}
