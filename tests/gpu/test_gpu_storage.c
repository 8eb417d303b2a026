/* SPDX-License-Identifier: Apache-2.0 */
/* Storage to device by fake cuFile and hipFile. */
#include "bench.h"

static const struct fake_control *storage;
static char why[256];

static const char *call(const char *name)
{
	static char full[2][64];
	static unsigned next;
	char *out = full[next++ % 2];

	snprintf(out, sizeof(full[0]), "%s%s", call_of("hipFile", "cuFile"), name);
	return out;
}

static int open_device(const char *more, struct h2d_device **dev)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	char spec[64];

	snprintf(spec, sizeof(spec), "%s:0%s", backend, more);
	o.log = bench_log;
	o.log_user = &f;
	f.last_error[0] = 0;
	return h2d_device_open(spec, &o, dev);
}

static int check(const char *more)
{
	struct h2d_device *dev;
	int rc = open_device(more, &dev);

	if (rc)
		return rc;
	rc = dev->backend->read_file_check(dev, why, sizeof(why));
	h2d_device_close(dev);
	return rc;
}

static void check_storage_clean(void)
{
	struct fake_live l;

	storage->live(&l);
	CHECK_EQ(l.violation_count, 0);
	CHECK_EQ(l.file_count, 0);
	CHECK_EQ(l.driver_count, 0);
	CHECK_EQ(l.register_count, 0);
	check_clean();
}

/* Read `bytes` from `offset` on to `at` in an allocation, and compare. */
static int read_one(struct h2d_device *dev, struct h2d_stream *s, struct h2d_devmem *m,
		    uint64_t offset, uint64_t bytes, uint64_t at)
{
	int rc = dev->backend->read_file(s, f.ckpt->cat.files[0].fd, offset, bytes,
					 (char *)m->ptr + at);
	const unsigned char *raw = fake->bytes((char *)m->ptr + at, bytes);

	if (rc)
		return rc;
	return raw && !memcmp(raw, image + offset, bytes) ? 0 : H2D_E_MISMATCH;
}

static void bytes_arrive(void)
{
	struct h2d_stream *s[2];
	struct h2d_devmem m[2];
	struct h2d_device *dev;
	struct fake_live l;

	storage->script("short_reads=1");
	REQUIRE(!open_device("", &dev));
	for (int i = 0; i < 2; i++) {
		REQUIRE(!dev->backend->stream_create(dev, &s[i]));
		REQUIRE(!dev->backend->alloc(dev, 1 << 20, &m[i]));
	}
	CHECK_EQ(read_one(dev, s[0], &m[0], 4096, 65536, 0), 0);
	CHECK_EQ(read_one(dev, s[0], &m[0], 1, 99999, 4097), 0);
	CHECK_EQ(read_one(dev, s[1], &m[1], 8192, 300000, 12345), 0);
	CHECK_EQ(read_one(dev, s[1], &m[0], 777, 1, 5), 0);
	storage->live(&l);
	CHECK_EQ(l.file_count, 1); /* one file, two streams */
	CHECK_EQ(l.register_count, 2);
	CHECK_EQ(storage->calls(call("HandleRegister")), 1);
	/* Past the end. */
	CHECK_EQ(read_one(dev, s[0], &m[0], f.file_bytes - 100, 200, 0), H2D_E_IO);
	CHECK(strstr(f.last_error, "ends at offset"));
	dev->backend->stream_destroy(dev, s[0]);
	storage->live(&l);
	CHECK_EQ(l.file_count, 1);
	dev->backend->stream_destroy(dev, s[1]);
	storage->live(&l);
	CHECK_EQ(l.file_count, 0); /* nothing of it is kept open */
	dev->backend->free(dev, &m[0]);
	dev->backend->free(dev, &m[1]);
	h2d_device_close(dev);
	check_storage_clean();
}

static void each_call_fails(void)
{
	for (const char *const *name = storage->names; *name; name++) {
		struct h2d_stream *s;
		struct h2d_devmem m;
		struct h2d_device *dev;
		char script[96];
		int rc;

		snprintf(script, sizeof(script), "%s=5008@1", *name);
		storage->script(script);
		REQUIRE(!open_device("", &dev));
		REQUIRE(!dev->backend->stream_create(dev, &s));
		REQUIRE(!dev->backend->alloc(dev, 1 << 20, &m));
		rc = read_one(dev, s, &m, 4096, 100000, 0);
		if (!strcmp(*name, call("DriverOpen")) ||
		    !strcmp(*name, call("HandleRegister")) || !strcmp(*name, call("Read"))) {
			CHECK_EQ(rc, H2D_E_UNSUPPORTED);
			CHECK(strstr(f.last_error, "5008"));
			CHECK_EQ(read_one(dev, s, &m, 4096, 100000, 0), 0); /* the next one */
		} else if (strcmp(*name, call("SetParameterBool"))) {
			CHECK_EQ(rc, 0);
		}
		dev->backend->stream_destroy(dev, s);
		dev->backend->free(dev, &m);
		h2d_device_close(dev);
		if (strstr(*name, "Close") || strstr(*name, "BufDeregister"))
			continue; /* what cannot be given back stays */
		check_storage_clean();
	}
}

static void a_read_that_fails_is_told(void)
{
	struct h2d_stream *s;
	struct h2d_devmem m;
	struct h2d_device *dev;
	char script[64];

	snprintf(script, sizeof(script), "%s=5011@2", call("Read"));
	storage->script(script);
	REQUIRE(!open_device("", &dev));
	REQUIRE(!dev->backend->stream_create(dev, &s));
	REQUIRE(!dev->backend->alloc(dev, 1 << 20, &m));
	CHECK_EQ(read_one(dev, s, &m, 0, 4096, 0), 0);
	CHECK_EQ(read_one(dev, s, &m, 8192, 4096, 0), H2D_E_DEVICE);
	CHECK(strstr(f.last_error, "Read at offset 8192"));
	CHECK(strstr(f.last_error, "(5011)"));
	dev->backend->stream_destroy(dev, s);
	dev->backend->free(dev, &m);
	h2d_device_close(dev);
}

/* Whole loads by path gds: short reads, and a read that fails at each chunk in turn. */
static void loads_that_fail_end_clean(void)
{
	storage->script("short_reads=1");
	fake->script("");
	CHECK_EQ(bench_round(0, 0, "gds"), 0);
	check_storage_clean();
	for (unsigned n = 1;; n++) {
		char script[64];
		int rc;

		snprintf(script, sizeof(script), "%s=5011@%u", call("Read"), n);
		storage->script(script);
		rc = bench_round(0, 0, "gds");
		if (storage->calls(call("Read")) < n) {
			CHECK_EQ(rc, 0);
			CHECK(n > 10);
			break;
		}
		CHECK_EQ(rc, H2D_E_DEVICE);
		CHECK(strstr(told, "(5011)"));
		check_storage_clean();
	}
}

static void compatibility_mode_is_refused(void)
{
	storage->script("compat_fixed=1");
	CHECK_EQ(check(""), H2D_E_UNSUPPORTED);
	CHECK(strstr(why, "compatibility mode"));
	CHECK_EQ(check(",gds=compat"), 0);
	storage->script("compat=1");
	CHECK_EQ(check(""), 0); /* it was forbidden by a call */
	CHECK_EQ(check(",gds=other"), H2D_E_INVALID);
	if (!strcmp(backend, "hip")) {
		storage->script("compat_fixed=1");
		setenv("HIPFILE_ALLOW_COMPAT_MODE", "false", 1);
		CHECK_EQ(check(""), 0);
		unsetenv("HIPFILE_ALLOW_COMPAT_MODE");
	}
	check_storage_clean();
}

static void not_for_unified_memory(void)
{
	storage->script("");
	fake->script("integrated=1");
	CHECK_EQ(check(""), H2D_E_UNSUPPORTED);
	CHECK(strstr(why, "shares the host's memory"));
	fake->script("");
	check_storage_clean();
}

int main(int argc, char **argv)
{
	const struct fake_control *(*control)(void);
	void *lib, *symbol;

	bench_start(argc, argv);
	bench_fixture();
	lib = dlopen(call_of("libhipfile.so.0", "libcufile.so.0"), RTLD_NOW);
	if (argc > 2) { /* the library is not there */
		if (lib)
			SKIP("the real library is installed here");
		CHECK_EQ(check(""), H2D_E_UNSUPPORTED);
		CHECK(strstr(why, "no runtime is installed"));
		printf("     %s\n", why);
		bench_end();
		return TEST_DONE();
	}
	symbol = lib ? dlsym(lib, "fake_control") : NULL;
	if (!symbol)
		SKIP("the fake storage library is not in LD_LIBRARY_PATH");
	memcpy(&control, &symbol, sizeof(control));
	storage = control();
	RUN(bytes_arrive);
	RUN(each_call_fails);
	RUN(a_read_that_fails_is_told);
	RUN(loads_that_fail_end_clean);
	RUN(compatibility_mode_is_refused);
	RUN(not_for_unified_memory);
	bench_end();
	return TEST_DONE();
}
