/* SPDX-License-Identifier: Apache-2.0 */
/* The software copy engine: order, marks, failures, copies that never end, orderly destruction.
 */
#include <sys/mman.h>

#include "core/clock.h"
#include "core/mem.h"
#include "device_bench.h"
#include "test.h"

static struct h2d_stream *stream(void)
{
	struct h2d_stream *s = NULL;

	CHECK_EQ(ops->stream_create(dev, &s), 0);
	return s;
}

static struct h2d_event *event(void)
{
	struct h2d_event *e = NULL;

	CHECK_EQ(ops->event_create(dev, &e), 0);
	return e;
}

static void fault(enum h2d_copy_fault_kind kind, uint64_t first, uint64_t count, int status)
{
	struct h2d_copy_fault f = {
		.kind = kind, .first = first, .count = count, .status = status};

	h2d_copy_fault_set(dev, &f);
}

/* Each copy overwrites what the one before it wrote: the last must win, every time. */
static void order(void)
{
	enum { COPIES = 5000 }; /* more than the queue holds */
	static uint64_t src[COPIES], dst, chain[64];
	struct h2d_stream *s;

	REQUIRE(!device_open("host", 0));
	s = stream();
	CHECK_EQ(device_counts().thread_count, 0); /* started by the first copy */
	CHECK_EQ(device_wait(s, 0), 0);		   /* nothing under way: complete at once */
	CHECK_EQ(device_counts().thread_count, 0);
	for (uint64_t i = 0; i < COPIES; i++) {
		src[i] = i;
		CHECK_EQ(ops->copy_to_device(s, &dst, &src[i], sizeof(dst)), 0);
	}
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	CHECK_EQ(dst, COPIES - 1);
	CHECK_EQ(device_counts().copy_count, COPIES);
	CHECK_EQ(device_counts().copy_bytes, COPIES * sizeof(dst));
	/* A chain: each copy reads what the one before it wrote. */
	chain[0] = 4711;
	for (int i = 1; i < 64; i++)
		CHECK_EQ(ops->copy_to_device(s, &chain[i], &chain[i - 1], sizeof(chain[0])), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	CHECK_EQ(chain[63], 4711);
	/* Back, and nothing at all. */
	CHECK_EQ(ops->copy_to_host(s, &chain[5], &src[9], sizeof(chain[0])), 0);
	CHECK_EQ(ops->copy_to_device(s, NULL, NULL, 0), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	CHECK_EQ(chain[5], 9);
	CHECK_EQ(device_counts().thread_total, 1);
	ops->stream_destroy(dev, s);
	CHECK_EQ(device_counts().thread_count, 0);
	CHECK_EQ(device_counts().stream_count, 0);
	CHECK_EQ(device_counts().event_count, 0);
	h2d_device_close(dev);
}

static void two_dimensions(void)
{
	unsigned char src[40 * 10], dst[50 * 10];
	struct h2d_stream *s;

	REQUIRE(!device_open("host", 0));
	s = stream();
	scratch_fill(src, sizeof(src), 0);
	memset(dst, 0xee, sizeof(dst));
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 50, src, 40, 33, 10), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	for (int row = 0; row < 10; row++) {
		CHECK(!memcmp(dst + row * 50, src + row * 40, 33));
		for (int i = 33; i < 50; i++)
			CHECK_EQ(dst[row * 50 + i], 0xee);
	}
	/* Rows that lie together are one run. */
	memset(dst, 0xee, sizeof(dst));
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 40, src, 40, 40, 10), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	CHECK(!memcmp(dst, src, 400) && dst[400] == 0xee);
	CHECK_EQ(device_counts().copy_count, 2);
	CHECK_EQ(device_counts().copy_bytes, 730);
	/* One row may have any pitch; several may not overlap. */
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 0, src, 0, 33, 1), 0);
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 32, src, 40, 33, 2), H2D_E_INVALID);
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 50, src, 32, 33, 2), H2D_E_INVALID);
	CHECK_EQ(ops->copy_to_device_2d(s, dst, UINT64_MAX / 2, src, 40, 33, 3), H2D_E_INVALID);
	CHECK_EQ(ops->copy_to_device_2d(s, dst, 50, src, 40, 33, 0), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	ops->stream_destroy(dev, s);
	h2d_device_close(dev);
}

/* The second of three copies fails: marks before it are good, the next one is not, and once
 * that was seen the stream is good again. Another stream never hears of it. */
static void failure_is_attributed(void)
{
	static uint64_t src = 1, dst[4];
	struct h2d_stream *a, *b;
	struct h2d_event *e[4];

	REQUIRE(!device_open("host", 0));
	a = stream();
	b = stream();
	for (int i = 0; i < 4; i++)
		e[i] = event();
	fault(H2D_COPY_FAULT_FAIL, 2, 1, H2D_E_DEVICE);
	memset(dst, 0, sizeof(dst));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(ops->copy_to_device(a, &dst[i], &src, sizeof(src)), 0);
		CHECK_EQ(ops->event_record(e[i], a), 0);
	}
	CHECK_EQ(ops->event_wait(e[2], 20 * SECOND), H2D_E_DEVICE); /* nobody had looked yet */
	CHECK_EQ(ops->event_query(e[0]), 1);
	CHECK_EQ(ops->event_query(e[1]), H2D_E_DEVICE);
	CHECK_EQ(ops->event_query(e[1]), H2D_E_DEVICE);	  /* and it stays so */
	CHECK(dst[0] == 1 && dst[1] == 0 && dst[2] == 1); /* the stream went on */

	/* Seen: later marks are good. */
	CHECK_EQ(ops->copy_to_device(a, &dst[1], &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e[3], a), 0);
	CHECK_EQ(ops->event_wait(e[3], 20 * SECOND), 0);
	CHECK_EQ(dst[1], 1);
	CHECK_EQ(ops->event_query(e[1]), H2D_E_DEVICE);
	CHECK_EQ(device_counts().failed_count, 1);

	/* Kept until it is seen, however many copies later, and by its own stream only. */
	fault(H2D_COPY_FAULT_FAIL, 1, 1, H2D_E_IO);
	CHECK_EQ(ops->copy_to_device(a, &dst[0], &src, sizeof(src)), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(ops->copy_to_device(a, &dst[2], &src, sizeof(src)), 0);
	while (device_counts().failed_count < 2)
		sched_yield();
	CHECK_EQ(ops->copy_to_device(b, &dst[3], &src, sizeof(src)), 0);
	CHECK_EQ(device_wait(b, 20 * SECOND), 0);
	CHECK_EQ(device_wait(a, 20 * SECOND), H2D_E_IO);
	CHECK_EQ(device_wait(a, 20 * SECOND), 0);

	/* A mark made when all is quiet carries it as well. */
	fault(H2D_COPY_FAULT_FAIL, 1, 0, H2D_E_DEVICE);
	CHECK_EQ(ops->copy_to_device(a, &dst[0], &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e[0], a), 0);
	while (!ops->event_query(e[0]))
		sched_yield();
	CHECK_EQ(ops->event_query(e[0]), H2D_E_DEVICE);
	CHECK_EQ(device_wait(a, 0), 0);
	h2d_copy_fault_set(dev, NULL);
	for (int i = 0; i < 4; i++)
		ops->event_destroy(dev, e[i]);
	ops->stream_destroy(dev, b);
	ops->stream_destroy(dev, a);
	CHECK_EQ(device_counts().event_count, 0);
	h2d_device_close(dev);
}

static void marks(void)
{
	static uint64_t src = 1, dst;
	struct h2d_soft *soft;
	struct h2d_stream *s;
	struct h2d_event *e, *gone;

	REQUIRE(!device_open("host", 0));
	soft = h2d_soft_hold(dev);
	s = stream();
	e = event();
	CHECK_EQ(ops->event_query(e), 1); /* never recorded */
	CHECK_EQ(ops->event_wait(e, 0), 0);

	fault(H2D_COPY_FAULT_HANG, 1, 1, 0);
	CHECK_EQ(ops->copy_to_device(s, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e, s), 0);
	CHECK(h2d_soft_wait_hanging(soft, 1, 20 * SECOND));
	CHECK_EQ(ops->event_query(e), 0);
	CHECK_EQ(ops->event_wait(e, 0), H2D_E_DEVICE_LOST);
	/* Time that ran out changes nothing: it is still pending. */
	CHECK_EQ(ops->event_wait(e, 2000000), H2D_E_DEVICE_LOST);
	CHECK_EQ(ops->event_query(e), 0);
	CHECK_EQ(atomic_load(&dev->lost), 0);

	/* Recorded again: the first place is forgotten; destroyed while pending: no harm. */
	CHECK_EQ(ops->copy_to_device(s, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e, s), 0);
	gone = event();
	CHECK_EQ(ops->event_record(gone, s), 0);
	ops->event_destroy(dev, gone);
	h2d_copy_fault_release(soft);
	CHECK_EQ(ops->event_wait(e, UINT64_MAX),
		 H2D_E_DEVICE_LOST); /* what the hung copy gave */
	CHECK_EQ(dst, 1);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);

	/* The first place is reached while the second is not. */
	fault(H2D_COPY_FAULT_HANG, 2, 1, 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(ops->copy_to_device(s, &dst, &src, sizeof(src)), 0);
		CHECK_EQ(ops->event_record(e, s), 0);
	}
	CHECK(h2d_soft_wait_hanging(soft, 1, 20 * SECOND));
	CHECK_EQ(ops->event_query(e), 0);
	h2d_copy_fault_release(soft);
	CHECK_EQ(ops->event_wait(e, 20 * SECOND), H2D_E_DEVICE_LOST);

	/* Recorded in another stream, then that stream goes first. */
	{
		struct h2d_stream *other = stream();

		CHECK_EQ(ops->copy_to_device(other, &dst, &src, sizeof(src)), 0);
		CHECK_EQ(ops->event_record(e, other), 0);
		ops->stream_destroy(dev, other);
		CHECK_EQ(ops->event_query(e), 1);
	}
	ops->event_destroy(dev, e);
	ops->stream_destroy(dev, s);
	h2d_device_close(dev);
	h2d_soft_release(soft);
}

static void *wait_for(void *arg)
{
	return (void *)(intptr_t)ops->event_wait(arg, 20 * SECOND);
}

/* Several threads wait for one mark; the copy before it is late. */
static void many_waiters(void)
{
	static uint64_t src = 1, dst;
	struct h2d_copy_fault late = {
		.kind = H2D_COPY_FAULT_DELAY, .first = 1, .count = 1, .delay_ns = 20000000};
	struct h2d_stream *s;
	struct h2d_event *e;
	pthread_t t[4];
	uint64_t began;
	void *rc;

	REQUIRE(!device_open("host", 0));
	s = stream();
	e = event();
	h2d_copy_fault_set(dev, &late);
	began = h2d_now_ns();
	CHECK_EQ(ops->copy_to_device(s, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e, s), 0);
	for (int i = 0; i < 4; i++)
		REQUIRE(!h2d_mem->thread_create(&t[i], wait_for, e));
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &rc);
		CHECK_EQ((intptr_t)rc, 0);
	}
	CHECK(h2d_now_ns() - began >= 20000000);
	CHECK_EQ(dst, 1);
	ops->event_destroy(dev, e);
	ops->stream_destroy(dev, s);
	h2d_device_close(dev);
}

/* Destroying a stream lets what is pending finish. */
static void destroy_with_pending_work(void)
{
	enum { COPIES = 300 };
	static uint64_t src[COPIES], dst[COPIES];
	struct h2d_copy_fault late = {
		.kind = H2D_COPY_FAULT_DELAY, .first = 1, .count = 1, .delay_ns = 5000000};
	struct h2d_stream *s;

	REQUIRE(!device_open("host", 0));
	s = stream();
	h2d_copy_fault_set(dev, &late);
	for (uint64_t i = 0; i < COPIES; i++) {
		src[i] = i + 1;
		CHECK_EQ(ops->copy_to_device(s, &dst[i], &src[i], sizeof(src[i])), 0);
	}
	ops->stream_destroy(dev, s);
	CHECK(!memcmp(src, dst, sizeof(src)));
	CHECK_EQ(device_counts().copy_count, COPIES);
	CHECK_EQ(device_counts().thread_count, 0);
	CHECK_EQ(atomic_load(&dev->lost), 0);
	h2d_device_close(dev);
}

/* A copy that never completes is left behind; what waits after it is thrown away, unexecuted.
 */
static void destroy_under_a_hung_copy(void)
{
	static uint64_t src = 1, dst[2];
	struct h2d_soft *soft;
	struct h2d_stream *s, *healthy;
	struct h2d_event *e;
	struct h2d_soft_counts c;

	REQUIRE(!device_open("host", 50000000));
	soft = h2d_soft_hold(dev);
	s = stream();
	healthy = stream();
	e = event();
	fault(H2D_COPY_FAULT_HANG, 1, 1, 0);
	CHECK_EQ(ops->copy_to_device(s, &dst[0], &src, sizeof(src)), 0);
	CHECK(h2d_soft_wait_hanging(soft, 1, 20 * SECOND));
	CHECK_EQ(ops->copy_to_device(s, &dst[1], &src, sizeof(src)), 0);
	CHECK_EQ(ops->event_record(e, s), 0);
	ops->stream_destroy(dev, s);
	CHECK_EQ(atomic_load(&dev->lost), 1);
	CHECK(scratch_logged("never completed"));
	CHECK_EQ(ops->event_wait(e, 20 * SECOND), H2D_E_DEVICE_LOST);
	CHECK(ops->event_query(e) == H2D_E_DEVICE_LOST);
	/* The other stream is none the worse. */
	CHECK_EQ(ops->copy_to_device(healthy, &dst[0], &src, sizeof(src)), 0);
	CHECK_EQ(device_wait(healthy, 20 * SECOND), 0);
	CHECK_EQ(dst[0], 1);
	dst[0] = 0;
	ops->stream_destroy(dev, healthy);
	ops->event_destroy(dev, e);
	h2d_soft_count(soft, &c);
	CHECK_EQ(c.thread_count, 1);
	h2d_device_close(dev);

	/* The device is closed; the thread comes back, touches nothing and goes. */
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, 20 * SECOND));
	CHECK(!dst[0] && !dst[1]);
	h2d_soft_count(soft, &c);
	CHECK_EQ(c.copy_count, 2); /* the hung and the healthy one */
	h2d_soft_release(soft);
}

/* A full queue makes the producer wait, for a time. */
static void full_queue(void)
{
	static uint64_t src = 1, dst;
	struct h2d_soft *soft;
	struct h2d_stream *s;
	int rc = 0, n;

	REQUIRE(!device_open("null", 3000000));
	soft = h2d_soft_hold(dev);
	s = stream();
	fault(H2D_COPY_FAULT_HANG, 1, 1, 0);
	for (n = 0; n <= H2D_SOFT_QUEUE_MAX && !rc; n++)
		rc = ops->copy_to_device(s, &dst, &src, sizeof(src));
	CHECK_EQ(n, H2D_SOFT_QUEUE_MAX + 1);
	CHECK_EQ(rc, H2D_E_DEVICE_LOST);
	CHECK_EQ(atomic_load(&dev->lost), 1);
	ops->stream_destroy(dev, s); /* lost already: a short wait */
	h2d_device_close(dev);
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, 20 * SECOND));
	h2d_soft_release(soft);
}

static void callers_streams(void)
{
	static uint64_t src = 3, dst;
	struct h2d_stream *s, *w = NULL, *x = NULL;
	struct h2d_device *first;

	REQUIRE(!device_open("host", 0));
	s = stream();
	CHECK_EQ(ops->stream_wrap(dev, s, &w), 0);
	REQUIRE(w && w != s);
	fault(H2D_COPY_FAULT_FAIL, 1, 1, H2D_E_DEVICE);
	CHECK_EQ(ops->copy_to_device(w, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), H2D_E_DEVICE); /* one queue */
	CHECK_EQ(ops->copy_to_device(w, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	CHECK_EQ(dst, 3);
	ops->stream_destroy(dev, w); /* drops the wrapper only */
	CHECK_EQ(ops->copy_to_device(s, &dst, &src, sizeof(src)), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);

	CHECK_EQ(ops->stream_wrap(dev, &dst, &x), H2D_E_INVALID);
	CHECK_EQ(ops->stream_wrap(dev, NULL, &x), H2D_E_INVALID);
	CHECK(!x);
	first = dev;
	REQUIRE(!device_open("host", 0));
	CHECK_EQ(ops->stream_wrap(dev, s, &x), H2D_E_INVALID); /* another device's */
	h2d_device_close(dev);
	dev = first;

	/* The owner goes first: the wrapper is of no use any more, and harmless. */
	CHECK_EQ(ops->stream_wrap(dev, s, &w), 0);
	ops->stream_destroy(dev, s);
	CHECK_EQ(ops->copy_to_device(w, &dst, &src, sizeof(src)), H2D_E_INVALID);
	ops->stream_destroy(dev, w);
	h2d_device_close(dev);
}

struct producer {
	struct h2d_stream *s;
	uint64_t *src, *dst;
	int rc;
};

static void *produce(void *arg)
{
	struct producer *p = arg;

	for (int i = 0; i < 500 && !p->rc; i++) {
		p->rc = ops->copy_to_device(p->s, &p->dst[i], &p->src[i], sizeof(uint64_t));
		if (!p->rc && i % 50 == 0)
			p->rc = device_wait(p->s, 20 * SECOND);
	}
	return NULL;
}

/* Eight threads fill two streams. */
static void many_producers(void)
{
	static uint64_t src[8][500], dst[8][500];
	struct h2d_stream *s[2];
	struct producer p[8];
	pthread_t t[8];

	REQUIRE(!device_open("host", 0));
	s[0] = stream();
	s[1] = stream();
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 500; k++)
			src[i][k] = (uint64_t)(i * 1000 + k);
		p[i] = (struct producer){s[i % 2], src[i], dst[i], 0};
		REQUIRE(!h2d_mem->thread_create(&t[i], produce, &p[i]));
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], NULL);
		CHECK_EQ(p[i].rc, 0);
	}
	CHECK_EQ(device_wait(s[0], 20 * SECOND), 0);
	CHECK_EQ(device_wait(s[1], 20 * SECOND), 0);
	CHECK(!memcmp(src, dst, sizeof(src)));
	CHECK_EQ(device_counts().copy_count, 4000);
	CHECK_EQ(device_counts().thread_total, 2);
	ops->stream_destroy(dev, s[0]);
	ops->stream_destroy(dev, s[1]);
	h2d_device_close(dev);
}

/* `null` reads a byte of every page of the source, at any alignment, and writes nowhere. */
static void null_brings_pages_in(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char in[16];
	struct h2d_devmem mem = {0};
	struct h2d_stream *s;
	unsigned char *p;

	REQUIRE(!device_open("null", 0));
	CHECK(!(dev->caps & (H2D_DEV_READABLE | H2D_DEV_FILL)) && !ops->copy_to_host);
	s = stream();
	p = mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(p != MAP_FAILED);
	madvise(p, 16 * page, MADV_NOHUGEPAGE);
	REQUIRE(!ops->alloc(dev, 1ull << 36, &mem)); /* addresses only */
	/* From the last byte of page 2 to the first of page 9. */
	CHECK_EQ(ops->copy_to_device(s, mem.ptr, p + 3 * page - 1, 6 * page + 2), 0);
	CHECK_EQ(device_wait(s, 20 * SECOND), 0);
	REQUIRE(!mincore(p, 16 * page, in));
	for (int i = 0; i < 16; i++)
		CHECK_EQ(in[i] & 1, i >= 2 && i <= 9);
	ops->free(dev, &mem);
	CHECK(!mem.ptr);
	munmap(p, 16 * page);
	ops->stream_destroy(dev, s);
	h2d_device_close(dev);
}

int main(void)
{
	RUN(order);
	RUN(two_dimensions);
	RUN(failure_is_attributed);
	RUN(marks);
	RUN(many_waiters);
	RUN(destroy_with_pending_work);
	RUN(destroy_under_a_hung_copy);
	RUN(full_queue);
	RUN(callers_streams);
	RUN(many_producers);
	RUN(null_brings_pages_in);
	return TEST_DONE();
}
