/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of a GPU runtime failing in turn, copies that fail or never end, memory that runs
 * out. */
#include "bench.h"

#include <errno.h>

#include "core/mem.h"

static const uint64_t patience_ns = 200000000;

/* After a failed release one object stays, by its nature. */
static bool is_release(const char *name)
{
	static const char *const releases[] = {"hipFree",
					       "hipHostFree",
					       "hipHostUnregister",
					       "hipStreamDestroy",
					       "hipEventDestroy",
					       "cuMemFree_v2",
					       "cuMemFreeHost",
					       "cuMemHostUnregister",
					       "cuStreamDestroy_v2",
					       "cuEventDestroy_v2",
					       "cuDevicePrimaryCtxRelease_v2",
					       NULL};

	for (size_t i = 0; releases[i]; i++)
		if (!strcmp(releases[i], name))
			return true;
	return false;
}

/* Of a lost device everything stays that was there; see events_that_never_complete(). */
static void check_after(const char *name)
{
	struct fake_live l = bench_live();

	CHECK_EQ(l.violation_count, 0);
	if (!lost)
		CHECK(live_objects(&l) <= is_release(name));
}

static void each_call_fails_in_turn(void)
{
	static const int codes[] = {1, 719};
	static const unsigned places[] = {1, 4};
	unsigned failed = 0;

	for (const char *const *name = fake->names; *name; name++)
		for (size_t c = 0; c < sizeof(codes) / sizeof(codes[0]); c++)
			for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
				char script[96];
				int rc;

				if (!strcmp(*name, "cuGetErrorName"))
					continue;
				snprintf(script, sizeof(script), "%s=%d@%u", *name, codes[c],
					 places[i]);
				fake->script(script);
				rc = bench_round(0, 0, "pinned");
				if (fake->calls(*name) < places[i]) {
					CHECK_EQ(rc, 0); /* it was never met */
					check_clean();
					continue;
				}
				CHECK(rc != H2D_E_MISMATCH);
				if (rc)
					CHECK(f.error_count > 0);
				check_after(*name);
				failed += rc != 0;
				/* The next load works. */
				fake->sweep();
				fake->script("");
				CHECK_EQ(bench_round(0, 0, "pinned"), 0);
				check_clean();
				if (test_failures) {
					fprintf(stderr, "… after %s (status %d: %s)\n", script,
						rc, f.last_error);
					return;
				}
			}
	CHECK(failed > 25);
}

/* One reader, chunks of one tensor: the message names the copy that failed. Of a device that is
 * lost nothing can be asked any more: then it names the oldest copy that is not known to have
 * ended well, a few chunks before it at most. */
static void failures_are_attributed(void)
{
	static const int codes[] = {1, 700};
	const uint64_t begin = 4096, size = 1 << 20, chunk = 64 << 10;
	const struct extent one = {begin, size};
	struct fixture saved = f;

	REQUIRE(!fixture_open(&f, begin + size, &one, 1));
	for (size_t c = 0; c < 2; c++)
		for (uint64_t n = 1; n <= 1 + size / chunk; n++) {
			uint64_t failed = n == 1 ? begin : (n - 1) * chunk, named = 0;
			struct h2d_load_opts o = bench_opts("pinned");
			struct h2d_weights *w = NULL;
			struct h2d_device *dev;
			char script[64];
			const char *at;

			snprintf(script, sizeof(script), "copy=%d@%u", codes[c], (unsigned)n);
			fake->script(script);
			REQUIRE(!bench_open(0, 0, &dev));
			o.threads = 1;
			o.chunk_bytes = chunk;
			CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w),
				 codes[c] == 700 ? H2D_E_DEVICE_LOST : H2D_E_DEVICE);
			at = strstr(told, "offset ");
			REQUIRE(at);
			named = strtoull(at + 7, NULL, 10);
			if (codes[c] == 1)
				CHECK_EQ(named, failed);
			else
				CHECK(named <= failed && named + 8 * chunk >= failed);
			CHECK(!w);
			h2d_device_close(dev);
			CHECK_EQ(bench_live().violation_count, 0);
			fake->sweep();
		}
	fixture_close(&f);
	f = saved;
}

static void events_that_never_complete(void)
{
	for (unsigned n = 1; n <= 9; n += 4) {
		struct h2d_load_opts o = bench_opts("pinned");
		struct h2d_weights *w = NULL;
		struct h2d_device *dev;
		struct fake_live l;
		char script[64];

		snprintf(script, sizeof(script), "hang@%u", n);
		fake->script(script);
		REQUIRE(!bench_open(0, patience_ns, &dev));
		CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_DEVICE_LOST);
		CHECK(!w);
		CHECK(strstr(told, "did not end within 0.200 s"));
		CHECK(atomic_load(&dev->lost));
		l = bench_live();
		CHECK(atomic_load(&dev->quarantined_bytes) >= l.register_bytes + l.alloc_bytes);
		CHECK(l.register_count > 0);
		CHECK(l.alloc_count > 0);
		CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_DEVICE_LOST);
		CHECK(strstr(f.last_error, "is lost"));
		h2d_device_close(dev);
		l = bench_live();
		CHECK(l.register_count > 0); /* not freed under the device */
		CHECK(l.alloc_count > 0);
		CHECK_EQ(l.violation_count, 0);
		fake->sweep(); /* ends the copy: its memory must still be there */
		fake->script("");
		CHECK_EQ(bench_round(0, 0, "pinned"), 0);
		check_clean();
	}
}

static void the_device_is_lost_while_idle(void)
{
	struct h2d_load_opts o = bench_opts("pinned");
	struct h2d_weights *w = NULL;
	struct h2d_device *dev;
	unsigned char byte;
	char script[64];

	fake->script("");
	REQUIRE(!bench_open(0, 0, &dev));
	REQUIRE(!h2d_load(f.ckpt, dev, &o, &w));
	snprintf(script, sizeof(script), "%s=719@1+",
		 call_of("hipMemcpyAsync", "cuMemcpyDtoHAsync_v2"));
	fake->script(script);
	CHECK_EQ(h2d_weights_read(w, 0, 0, &byte, 1), H2D_E_DEVICE_LOST);
	CHECK(strstr(f.last_error, "reading tensor #0 back"));
	h2d_weights_free(w);
	CHECK(atomic_load(&dev->quarantined_bytes) > 0);
	h2d_device_close(dev);
	CHECK_EQ(bench_live().violation_count, 0);
	fake->sweep();
}

static void memory_runs_out_at_each_allocation(void)
{
	const char *calls[] = {call_of("hipMalloc", "cuMemAlloc_v2"),
			       call_of("hipHostRegister", "cuMemHostRegister_v2"),
			       call_of("hipStreamCreateWithFlags", "cuStreamCreate"),
			       call_of("hipEventCreateWithFlags", "cuEventCreate")};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (unsigned n = 1;; n++) {
			char script[64];
			int rc;

			snprintf(script, sizeof(script), "%s=2@%u", calls[i], n);
			fake->script(script);
			rc = bench_round(0, 0, "pinned");
			if (fake->calls(calls[i]) < n) {
				CHECK_EQ(rc, 0);
				CHECK(n > 1);
				break;
			}
			/* Memory that cannot be pinned is had from the driver. */
			CHECK_EQ(rc, i == 1 ? 0 : H2D_E_DEVICE_MEMORY);
			check_clean();
		}
}

static void a_checkpoint_that_does_not_fit(void)
{
	struct h2d_load_opts o = bench_opts("pinned");
	struct h2d_weights *w = NULL;
	struct h2d_device *dev;
	struct h2d_devmem mem;

	fake->script("memory_bytes=1000000");
	REQUIRE(!bench_open(0, 0, &dev));
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_DEVICE_MEMORY);
	CHECK_EQ(dev->backend->alloc(dev, 600000, &mem), 0);
	CHECK_EQ(dev->backend->alloc(dev, 600001, &(struct h2d_devmem){0}),
		 H2D_E_DEVICE_MEMORY);
	CHECK(strstr(f.last_error, "600001 bytes"));
	CHECK(strstr(f.last_error, "400000 of 1000000 are free"));
	CHECK(strstr(f.last_error, "holds 600000"));
	CHECK(strstr(f.last_error, "OutOfMemory (2)") || strstr(f.last_error, "OUT_OF_MEMORY"));
	dev->backend->free(dev, &mem);
	h2d_device_close(dev);
	check_clean();
}

static void no_pinned_memory_at_all(void)
{
	char script[96];

	snprintf(script, sizeof(script), "%s=2@1+;%s=2@1+",
		 call_of("hipHostRegister", "cuMemHostRegister_v2"),
		 call_of("hipHostMalloc", "cuMemHostAlloc"));
	fake->script(script);
	CHECK_EQ(bench_round(0, 0, "pinned"), H2D_E_NOMEM);
	CHECK(f.error_count > 0);
	check_clean();
	CHECK_EQ(bench_round(0, 0, "pread"), H2D_E_NOMEM); /* reading back needs some */
	check_clean();
}

/* ---- host memory that fails, every allocation of the library in turn */

static _Atomic long allocations, fail_at;

static bool fails(void)
{
	return atomic_fetch_add(&allocations, 1) == atomic_load(&fail_at);
}

static void *bad_malloc(size_t bytes)
{
	return fails() ? NULL : malloc(bytes);
}

static void *bad_calloc(size_t count, size_t size)
{
	return fails() ? NULL : calloc(count, size);
}

static void *bad_realloc(void *p, size_t bytes)
{
	return fails() ? NULL : realloc(p, bytes);
}

static void *bad_map(size_t bytes, int prot)
{
	return fails() ? NULL : h2d_mem_libc.map(bytes, prot);
}

static int bad_thread(pthread_t *t, void *(*fn)(void *), void *arg)
{
	return fails() ? EAGAIN : h2d_mem_libc.thread_create(t, fn, arg);
}

static void host_memory_fails_in_turn(void)
{
	static const struct h2d_mem_ops bad = {bad_malloc, bad_calloc, bad_realloc, bad_map,
					       bad_thread};

	fake->script("");
	for (long n = 0;; n++) {
		int rc;

		atomic_store(&allocations, 0);
		atomic_store(&fail_at, n);
		h2d_mem = &bad;
		rc = bench_round(0, 0, "pinned");
		h2d_mem = &h2d_mem_libc;
		check_clean();
		if (atomic_load(&allocations) <= n) {
			CHECK_EQ(rc, 0);
			CHECK(n > 10);
			break;
		}
		CHECK(rc == 0 || rc == H2D_E_NOMEM);
	}
}

int main(int argc, char **argv)
{
	bench_start(argc, argv);
	bench_fixture();
	RUN(each_call_fails_in_turn);
	RUN(failures_are_attributed);
	RUN(events_that_never_complete);
	RUN(the_device_is_lost_while_idle);
	RUN(memory_runs_out_at_each_allocation);
	RUN(a_checkpoint_that_does_not_fit);
	RUN(no_pinned_memory_at_all);
	RUN(host_memory_fails_in_turn);
	bench_end();
	return TEST_DONE();
}
