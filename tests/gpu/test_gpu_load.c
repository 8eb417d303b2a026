/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU back-ends on a fake runtime, when everything goes well. */
#include "bench.h"

static bool gpu_can(const struct h2d_path *p, struct h2d_device *dev)
{
	const char *why;
	char reason[256];

	if (p->source == H2D_SOURCE_DEVICE &&
	    dev->backend->read_file_check(dev, reason, sizeof(reason)))
		return false;
	return h2d_path_supported(p, dev->caps, true, &why);
}

static void every_path_is_exact(void)
{
	unsigned done = 0;

	for (const struct h2d_path *const *p = h2d_paths; *p; p++) {
		struct h2d_device *dev;

		fake->script("register_read_only=1");
		REQUIRE(!bench_open(0, 0, &dev));
		if (gpu_can(*p, dev)) {
			CHECK_EQ(bench_round(0, 0, (*p)->name), 0);
			done++;
		}
		h2d_device_close(dev);
		check_clean();
	}
	CHECK(done >= 9);
}

static void readers_copy_from_pinned_memory(void)
{
	struct fake_live l;

	fake->script("delay_us=300");
	CHECK_EQ(bench_round(0, 0, "pinned"), 0);
	l = bench_live();
	CHECK(l.copy_count > 10);
	CHECK_EQ(l.pinned_copy_count, l.copy_count);
	CHECK(l.max_pending_count >= 2);
	fake->script("");
	CHECK_EQ(bench_round(0, 0, "mmap"), 0);
	l = bench_live();
	CHECK(l.pinned_copy_count < l.copy_count); /* the mapping is not, the read back is */
	check_clean();
}

static void pinning_refused_is_done_otherwise(void)
{
	char script[64];

	snprintf(script, sizeof(script), "%s=801@1+",
		 call_of("hipHostRegister", "cuMemHostRegister_v2"));
	fake->script(script);
	CHECK_EQ(bench_round(0, 0, "pinned"), 0);
	CHECK(fake->calls(call_of("hipHostMalloc", "cuMemHostAlloc")) > 0);
	check_clean();
}

static void the_callers_thread_keeps_its_device(void)
{
	const uintptr_t before = strcmp(backend, "hip") ? 0 : 1; /* no context; device 1 */

	fake->script("");
	fake->set_current(before);
	CHECK_EQ(bench_round(0, 0, "pinned"), 0);
	if (fake->calls(call_of("hipGetDevice", "cuCtxGetCurrent")))
		CHECK_EQ(fake->current(), before);
	fake->set_current(0);
	check_clean();
}

static void two_devices_at_once(void)
{
	struct h2d_load_opts o = bench_opts("pinned");
	struct h2d_weights *w[2] = {NULL, NULL};
	struct h2d_device *dev[2];

	fake->script("");
	for (unsigned i = 0; i < 2; i++) {
		REQUIRE(!bench_open(i, 0, &dev[i]));
		CHECK_EQ(h2d_load(f.ckpt, dev[i], &o, &w[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK(w[i] && !bench_compare(w[i]));
	for (unsigned i = 0; i < 2; i++) {
		h2d_weights_free(w[i]);
		h2d_device_close(dev[i]);
	}
	check_clean();
}

static void facts(void)
{
	struct h2d_device_info info = H2D_OPTS(info);
	struct h2d_device *dev;

	fake->script("memory_bytes=123456789");
	REQUIRE(!bench_open(1, 0, &dev));
	REQUIRE(!h2d_device_info(dev, &info));
	CHECK_STR(info.name, call_of("hip:1", "cuda:1"));
	CHECK_STR(info.hardware, call_of("Fake Radeon 1", "Fake GeForce 1"));
	CHECK_STR(info.pci_address, call_of("0000:44:00.0", "0000:1b:00.0"));
	CHECK_EQ(info.memory_bytes, 123456789);
	CHECK_EQ(info.memory_free_bytes, 123456789);
	CHECK_EQ(info.unified, 0);
	CHECK(!(dev->caps & H2D_DEV_UNIFIED));
	CHECK_EQ(info.numa_node, -1);
	CHECK(!(dev->caps & H2D_DEV_REGISTER_READ_ONLY));
	h2d_device_close(dev);
	fake->script("integrated=1;register_read_only=1");
	REQUIRE(!bench_open(0, 0, &dev));
	REQUIRE(!h2d_device_info(dev, &info));
	CHECK_EQ(info.unified, 1);
	CHECK(dev->caps & H2D_DEV_UNIFIED);
	CHECK_EQ(!!(dev->caps & H2D_DEV_REGISTER_READ_ONLY), strcmp(backend, "hip") != 0);
	h2d_device_close(dev);
	check_clean();
}

static void wrong_names_are_told(void)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev;
	char spec[32];

	fake->script("");
	CHECK_EQ(bench_open(2, 0, &dev), H2D_E_UNAVAILABLE);
	CHECK(strstr(f.last_error, "there are 2 devices"));
	snprintf(spec, sizeof(spec), "%s:x", backend);
	CHECK_EQ(h2d_device_open(spec, &o, &dev), H2D_E_INVALID);
	snprintf(spec, sizeof(spec), "%s:0,x=1", backend);
	CHECK_EQ(h2d_device_open(spec, &o, &dev), H2D_E_INVALID);
	check_clean();
}

static void registering(void)
{
	static unsigned char page[8192] __attribute__((aligned(4096)));
	struct h2d_device *dev;

	fake->script("register_read_only=1");
	REQUIRE(!bench_open(0, 0, &dev));
	CHECK_EQ(dev->backend->host_register(dev, page, sizeof(page), true), 0);
	CHECK_EQ(bench_live().read_only_register_count, strcmp(backend, "hip") ? 1 : 0);
	CHECK(dev->backend->host_register(dev, page, 4096, true) != 0); /* twice */
	CHECK_EQ(dev->backend->host_unregister(dev, page, sizeof(page)), 0);
	CHECK_EQ(dev->backend->host_register(dev, page, 0, false), H2D_E_INVALID);
	h2d_device_close(dev);
	check_clean();
}

/* Columns 100 to 199 of a tensor of 300 rows of 1000 bytes, in the caller's memory and stream.
 */
static void slices_in_the_callers_stream(void)
{
	struct h2d_load_opts o = bench_opts("pinned");
	struct h2d_target t = H2D_OPTS(t);
	struct h2d_report report = H2D_OPTS(report);
	struct h2d_devmem mem;
	struct h2d_device *dev;
	const unsigned char *raw;
	uint64_t bad = 0;

	fake->script("");
	REQUIRE(!bench_open(1, 0, &dev));
	REQUIRE(!dev->backend->alloc(dev, 300 * 128, &mem));
	t.tensor = 2; /* 300 000 bytes */
	t.data = mem.ptr;
	t.capacity_bytes = mem.bytes;
	t.begin_bytes = 100;
	t.row_count = 300;
	t.row_bytes = 100;
	t.source_pitch_bytes = 1000;
	t.target_pitch_bytes = 128;
	o.stream = fake->stream_new(1, false);
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, &report), 0);
	CHECK(fake->calls(call_of("hipMemcpy2DAsync", "cuMemcpy2DAsync_v2")) > 0);
	raw = fake->bytes(mem.ptr, mem.bytes);
	REQUIRE(raw);
	for (uint64_t row = 0; row < 300; row++)
		bad += fixture_differs(raw + row * 128, 100,
				       f.ckpt->cat.tensors[2].offset_bytes + 100 +
					       row * 1000) != UINT64_MAX;
	CHECK_EQ(bad, 0);
	CHECK_EQ(bench_live().stream_count, 1); /* the caller's, and it is still there */
	fake->stream_free(o.stream);
	h2d_report_clear(&report);
	dev->backend->free(dev, &mem);
	h2d_device_close(dev);
	check_clean();
}

static void a_stream_of_another_context_is_refused(void)
{
	struct h2d_stream *s = NULL;
	struct h2d_device *dev;
	void *native;

	if (!strcmp(backend, "hip"))
		return; /* nobody can tell */
	fake->script("");
	REQUIRE(!bench_open(0, 0, &dev));
	native = fake->stream_new(0, true);
	if (!dev->backend->stream_wrap(dev, native, &s)) {
		CHECK_EQ(fake->calls("cuStreamGetCtx"), 0); /* a driver that cannot tell */
		dev->backend->stream_destroy(dev, s);
	} else {
		CHECK(strstr(f.last_error, "another device or context"));
	}
	fake->stream_free(native);
	h2d_device_close(dev);
	check_clean();
}

int main(int argc, char **argv)
{
	bench_start(argc, argv);
	bench_fixture();
	RUN(every_path_is_exact);
	RUN(readers_copy_from_pinned_memory);
	RUN(pinning_refused_is_done_otherwise);
	RUN(the_callers_thread_keeps_its_device);
	RUN(two_devices_at_once);
	RUN(facts);
	RUN(wrong_names_are_told);
	RUN(registering);
	RUN(slices_in_the_callers_stream);
	RUN(a_stream_of_another_context_is_refused);
	bench_end();
	return TEST_DONE();
}
