/* SPDX-License-Identifier: Apache-2.0 */
/* The opencl device on a driver that this project did not write: memory, copies, marks. */
#include <sys/mman.h>

#include "opencl_bench.h"

static struct fixture f; /* for its log */
static const char *const memories[] = {"opencl:0,memory=svm", "opencl:0,memory=buffer"};

static void specs(void)
{
	static const char *const bad[] = {
		"opencl:x",   "opencl:0,memory=", "opencl,",	 "opencl:0,memory=svmx",
		"opencl:0:1", "opencl:70000",	  "opencl:0,x=1"};
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(h2d_device_open(bad[i], &o, &dev), H2D_E_INVALID);
	CHECK_EQ(h2d_device_open("opencl:999", &o, &dev), H2D_E_UNAVAILABLE);
	CHECK(dev == NULL);
}

static void facts(void)
{
	struct h2d_device_info i = H2D_OPTS(i);
	struct h2d_device *dev = opencl_open(&f, "opencl", 0);

	REQUIRE(dev);
	CHECK_EQ(h2d_device_info(dev, &i), 0);
	CHECK_STR(i.backend, "opencl");
	CHECK(i.hardware[0]);
	CHECK(i.memory_bytes > 0);
	CHECK(i.unified < 2);
	CHECK_EQ(i.readable, 1);
	h2d_device_close(dev);
}

static int wait_mark(struct h2d_device *dev, struct h2d_stream *s, uint64_t timeout_ns)
{
	const struct h2d_backend *b = dev->backend;
	struct h2d_event *e = NULL;
	int rc = b->event_create(dev, &e);

	if (!rc)
		rc = b->event_record(e, s);
	if (!rc)
		rc = b->event_wait(e, timeout_ns);
	b->event_destroy(dev, e);
	return rc;
}

static void there_and_back(const char *spec)
{
	enum { BYTES = 3000000, ROWS = 37, ROW = 1000, DST_PITCH = 1500, SRC_PITCH = 4001 };
	struct h2d_device *dev = opencl_open(&f, spec, 0);
	const struct h2d_backend *b;
	struct h2d_stream *s = NULL;
	unsigned char *out;
	struct h2d_devmem mem;
	void *host = NULL;

	REQUIRE(dev);
	b = dev->backend;
	CHECK_EQ(b->alloc(dev, 0, &mem), H2D_E_INVALID);
	CHECK_EQ(b->alloc(dev, UINT64_MAX, &mem), H2D_E_INVALID);
	CHECK_EQ(b->alloc(dev, UINT64_C(1) << 50, &mem), H2D_E_DEVICE_MEMORY);
	CHECK(strstr(f.last_error, "at most") != NULL);
	CHECK_EQ(b->alloc(dev, BYTES, &mem), 0);
	CHECK_EQ((uintptr_t)mem.ptr % 256, 0);
	CHECK_EQ(b->host_alloc(dev, BYTES, &host), 0);
	CHECK_EQ((uintptr_t)host % 4096, 0);
	CHECK_EQ(b->stream_create(dev, &s), 0);
	out = malloc(BYTES);
	fixture_fill(host, BYTES, 0);
	CHECK_EQ(b->copy_to_device(s, mem.ptr, host, BYTES), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(b->copy_to_host(s, out, (unsigned char *)mem.ptr + 777, BYTES - 777), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(fixture_differs(out, BYTES - 777, 777), UINT64_MAX);

	/* In order: each copy overwrites what the one before it wrote. */
	for (uint32_t i = 0; i < 300; i++) {
		memcpy((unsigned char *)host + 4 * i, &i, 4);
		CHECK_EQ(b->copy_to_device(s, mem.ptr, (unsigned char *)host + 4 * i, 4), 0);
	}
	CHECK_EQ(b->copy_to_host(s, out, mem.ptr, 4), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(out[0] | out[1] << 8, 299);

	/* Rows, at an offset that no pitch divides. */
	memset(out, 0xee, BYTES);
	CHECK_EQ(b->copy_to_device(s, mem.ptr, out, BYTES), 0);
	fixture_fill(host, BYTES, 0);
	CHECK_EQ(b->copy_to_device_2d(s, (unsigned char *)mem.ptr + 7001, DST_PITCH, host,
				      SRC_PITCH, ROW, ROWS),
		 0);
	CHECK_EQ(b->copy_to_device_2d(s, mem.ptr, 5, host, 5, 5, 3), 0);
	CHECK_EQ(b->copy_to_device_2d(s, mem.ptr, 4, host, 5, 5, 3), H2D_E_INVALID);
	CHECK_EQ(b->copy_to_device_2d(s, mem.ptr, UINT64_MAX / 2, host, 5, 5, 4),
		 H2D_E_INVALID);
	CHECK_EQ(b->copy_to_device_2d(s, mem.ptr, 9, host, 9, 5, 0), 0);
	CHECK_EQ(b->copy_to_host(s, out, mem.ptr, BYTES), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(fixture_differs(out, 15, 0), UINT64_MAX);
	CHECK_EQ(out[7000], 0xee);
	for (uint64_t r = 0; r < ROWS; r++) {
		CHECK_EQ(fixture_differs(out + 7001 + r * DST_PITCH, ROW, r * SRC_PITCH),
			 UINT64_MAX);
		CHECK_EQ(out[7001 + r * DST_PITCH + ROW], 0xee);
	}
	free(out);
	b->stream_destroy(dev, s);
	b->host_free(dev, host, BYTES);
	b->free(dev, &mem);
	CHECK(mem.ptr == NULL);
	CHECK_EQ(opencl_of(dev)->range_count, 0);
	CHECK_EQ(atomic_load(&opencl_of(dev)->alloc_bytes), 0);
	h2d_device_close(dev);
}

static void both_memories(void)
{
	there_and_back(memories[0]);
	there_and_back(memories[1]);
}

static void foreign_addresses(void)
{
	struct h2d_device *dev = opencl_open(&f, memories[1], 0);
	unsigned char local[16] = {0};
	struct h2d_stream *s = NULL;
	struct h2d_devmem mem;

	REQUIRE(dev);
	CHECK_EQ(dev->backend->stream_create(dev, &s), 0);
	CHECK_EQ(dev->backend->alloc(dev, 100, &mem), 0);
	CHECK_EQ(dev->backend->copy_to_device(s, local, local, 16), H2D_E_INVALID);
	CHECK_EQ(dev->backend->copy_to_device(s, (unsigned char *)mem.ptr + 90, local, 11),
		 H2D_E_INVALID);
	CHECK_EQ(dev->backend->copy_to_device(s, (unsigned char *)mem.ptr + 90, local, 10), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	dev->backend->free(dev, &mem);
	dev->backend->stream_destroy(dev, s);
	h2d_device_close(dev);
}

static void registered_memory(void)
{
	struct h2d_device *dev = opencl_open(&f, memories[0], 0);
	const uint64_t bytes = 1 << 20;
	struct h2d_stream *s = NULL;
	struct h2d_devmem mem;
	unsigned char *map, *out = malloc(bytes);
	struct fixture file;

	REQUIRE(dev && !fixture_open(&file, bytes, NULL, 0));
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file.ckpt->cat.files[0].fd, 0);
	REQUIRE(map != MAP_FAILED);
	CHECK_EQ(dev->backend->host_register(dev, map, bytes, true), 0);
	CHECK_EQ(dev->backend->alloc(dev, bytes, &mem), 0);
	CHECK_EQ(dev->backend->stream_create(dev, &s), 0);
	CHECK_EQ(dev->backend->copy_to_device(s, mem.ptr, map, bytes), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(dev->backend->host_unregister(dev, map, bytes), 0);
	CHECK_EQ(dev->backend->host_unregister(dev, map, bytes), H2D_E_INVALID);
	CHECK_EQ(dev->backend->copy_to_host(s, out, mem.ptr, bytes), 0);
	CHECK_EQ(wait_mark(dev, s, 20 * SECOND), 0);
	CHECK_EQ(fixture_differs(out, bytes, 0), UINT64_MAX);
	dev->backend->stream_destroy(dev, s);
	dev->backend->free(dev, &mem);
	h2d_device_close(dev);
	munmap(map, bytes);
	fixture_close(&file);
	free(out);
}

/* A caller's queue behind a gate: nothing ends before the gate is opened, waits run out without
 * changing anything, and a mark may be thrown away before its time. */
static void marks(void)
{
	struct h2d_device *dev = opencl_open(&f, memories[0], 0);
	const struct h2d_backend *b;
	struct h2d_event *e = NULL, *gone = NULL;
	struct h2d_stream *s = NULL;
	static uint64_t src = 4711;
	struct h2d_devmem mem;
	h2d_cl_queue queue;
	h2d_cl_event gate, barrier;

	REQUIRE(dev);
	b = dev->backend;
	queue = queue_new(dev);
	gate = gate_new(dev);
	CHECK_EQ(b->alloc(dev, 4096, &mem), 0);
	memset(mem.ptr, 0, 4096);
	CHECK_EQ(b->stream_wrap(dev, queue, &s), 0);
	CHECK_EQ(b->event_create(dev, &e), 0);
	CHECK_EQ(b->event_create(dev, &gone), 0);
	CHECK_EQ(b->event_query(e), 1); /* never recorded */
	CHECK_EQ(b->event_wait(e, 0), 0);
	barrier = gate_close(queue, gate);
	CHECK_EQ(b->copy_to_device(s, mem.ptr, &src, sizeof(src)), 0);
	CHECK_EQ(b->event_record(e, s), 0);
	CHECK_EQ(b->event_query(e), 0);
	CHECK_EQ(b->event_wait(e, 0), H2D_E_DEVICE_LOST);
	CHECK_EQ(b->event_wait(e, 2000000), H2D_E_DEVICE_LOST);
	CHECK_EQ(b->event_query(e), 0);
	CHECK_EQ(atomic_load(&dev->lost), 0);
	CHECK_EQ(b->event_record(gone, s), 0);
	b->event_destroy(dev, gone);
	CHECK_EQ(gates.clSetUserEventStatus(gate, 0), 0);
	CHECK_EQ(b->event_wait(e, 20 * SECOND), 0);
	CHECK_EQ(b->event_query(e), 1);
	CHECK_EQ(b->event_wait(e, 0), 0);
	CHECK(!memcmp(mem.ptr, &src, sizeof(src)));
	opencl_of(dev)->api.clReleaseEvent(barrier);
	opencl_of(dev)->api.clReleaseEvent(gate);

	/* A gate that fails: so does the copy behind it, and its mark says so, with the name.
	 */
	gate = gate_new(dev);
	barrier = gate_close(queue, gate);
	CHECK_EQ(b->copy_to_device(s, mem.ptr, &src, sizeof(src)), 0);
	CHECK_EQ(b->event_record(e, s), 0);
	CHECK_EQ(gates.clSetUserEventStatus(gate, -5), 0);
	CHECK_EQ(b->event_wait(e, 20 * SECOND), H2D_E_DEVICE);
	CHECK(strstr(f.last_error, "copies before a mark failed: ") != NULL);
	CHECK_EQ(b->event_query(e), H2D_E_DEVICE); /* and it stays so */
	CHECK_EQ(b->event_wait(e, 0), H2D_E_DEVICE);
	/* PoCL 3.1 may still be telling them: the failed gate and barrier are left, see opencl.h */
	b->event_destroy(dev, e);
	b->stream_destroy(dev, s);
	opencl_of(dev)->api.clReleaseCommandQueue(queue);
	b->free(dev, &mem);
	h2d_device_close(dev);
}

static void foreign_queues_and_contexts(void)
{
	struct h2d_device *a = opencl_open(&f, "opencl:0", 0),
			  *b = opencl_open(&f, "opencl:0", 0);
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *c = NULL, *other;
	struct h2d_stream *s = NULL;
	h2d_cl_queue queue;

	REQUIRE(a && b);
	queue = queue_new(a);
	CHECK_EQ(b->backend->stream_wrap(b, queue, &s), H2D_E_INVALID);
	/* A device opened in the caller's context takes the caller's queues. */
	o.context = opencl_of(a)->context;
	CHECK_EQ(h2d_device_open("opencl:0", &o, &c), 0);
	REQUIRE(c);
	CHECK_EQ(c->backend->stream_wrap(c, queue, &s), 0);
	c->backend->stream_destroy(c, s);
	h2d_device_close(c);
	CHECK_EQ(b->backend->stream_create(a, &s), 0); /* the context is still there */
	a->backend->stream_destroy(a, s);
	other = opencl_open(&f, "opencl:1", 0);
	if (other) {
		h2d_device_close(other);
		CHECK_EQ(h2d_device_open("opencl:1", &o, &c), H2D_E_INVALID);
	}
	opencl_of(a)->api.clReleaseCommandQueue(queue);
	h2d_device_close(a);
	h2d_device_close(b);
}

int main(void)
{
	opencl_begin();
	RUN(specs);
	RUN(facts);
	RUN(both_memories);
	RUN(foreign_addresses);
	RUN(registered_memory);
	RUN(marks);
	RUN(foreign_queues_and_contexts);
	return TEST_DONE();
}
