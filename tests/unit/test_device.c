/* SPDX-License-Identifier: Apache-2.0 */
/* The device table: what it refuses, how specs are read, what an opened device tells. */
#include "device/device.h"
#include "scratch.h"
#include "test.h"

static const struct h2d_device_opts *quiet(void)
{
	static struct h2d_device_opts o = H2D_OPTS(o);

	o.log = scratch_log_fn;
	return &o;
}

static int open_spec(const char *spec)
{
	struct h2d_device *dev = NULL;
	int rc = h2d_device_open(spec, quiet(), &dev);

	CHECK((rc == 0) == (dev != NULL));
	h2d_device_close(dev);
	return rc;
}

static void specs(void)
{
	CHECK_EQ(open_spec("host"), 0);
	CHECK_EQ(open_spec("null"), 0);
	CHECK_EQ(open_spec("host:0"), H2D_E_INVALID);
	CHECK(scratch_logged("host: takes no arguments"));
	CHECK_EQ(open_spec("null:x=1"), H2D_E_INVALID);
	CHECK_EQ(open_spec("hos"), H2D_E_INVALID);
	CHECK_EQ(open_spec("hosts"), H2D_E_INVALID);
	CHECK_EQ(open_spec(""), H2D_E_INVALID);
	CHECK_EQ(open_spec(":0"), H2D_E_INVALID);
	CHECK_EQ(open_spec(NULL), H2D_E_INVALID);
	CHECK_EQ(open_spec("nosuch:1"), H2D_E_INVALID);
	CHECK(scratch_logged("nosuch:1") && scratch_logged("host, null"));
	CHECK_EQ(
		open_spec("host:0123456789012345678901234567890123456789012345678901234567890"),
		H2D_E_INVALID);
	CHECK_EQ(h2d_device_open("host", NULL, NULL), H2D_E_INVALID);
	h2d_device_close(NULL);
}

static void indexes(void)
{
	static const struct {
		const char *args, *rest;
		unsigned index;
		int rc;
	} cases[] = {
		{"", "", 0, 0},
		{":0", "", 0, 0},
		{":17", "", 17, 0},
		{":65535", "", 65535, 0},
		{":65536", "", 0, H2D_E_INVALID},
		{":99999999999999999999999999", "", 0, H2D_E_INVALID},
		{":2,x=1", ",x=1", 2, 0},
		{":2:y", ":y", 2, 0},
		{":stale,timeout_ms=40", ":stale,timeout_ms=40", 0, 0},
		{":2x", "", 0, H2D_E_INVALID},
		{":-1", ":-1", 0, 0}, /* for the back-end to refuse */
		{":", ":", 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned index;
		const char *rest;
		int rc = h2d_device_index(cases[i].args, &index, &rest);

		CHECK_EQ(rc, cases[i].rc);
		if (rc)
			continue;
		CHECK_EQ(index, cases[i].index);
		CHECK_STR(rest, cases[i].rest);
	}
}

static const struct h2d_backend *backend(const char *name)
{
	for (size_t i = 0; h2d_backends[i]; i++)
		if (!strcmp(h2d_backends[i]->name, name))
			return h2d_backends[i];
	abort();
}

static void validation(void)
{
	struct h2d_backend b;

	for (size_t i = 0; h2d_backends[i]; i++)
		CHECK_EQ(h2d_backend_validate(h2d_backends[i], &scratch_log), 0);

#define BROKEN(change, text)                                                                   \
	do {                                                                                   \
		b = *backend("host");                                                          \
		change;                                                                        \
		CHECK_EQ(h2d_backend_validate(&b, &scratch_log), H2D_E_INTERNAL);              \
		CHECK(scratch_logged(text));                                                   \
	} while (0)
	BROKEN(b.name = NULL, "no usable name");
	BROKEN(b.name = "a:b", "no usable name");
	BROKEN(b.abi = 99, "ABI 99");
	BROKEN(b.open = NULL, "open is missing");
	BROKEN(b.free = NULL, "free is missing");
	BROKEN(b.host_alloc = NULL, "host_alloc is missing");
	BROKEN(b.event_wait = NULL, "event_wait is missing");
	BROKEN(b.copy_to_host = NULL, "copy_to_host is missing");
	BROKEN(b.copy_to_device_2d = NULL, "copy_to_device_2d is missing");
	BROKEN(b.stream_wrap = NULL, "stream_wrap is missing");
	BROKEN(b.caps |= H2D_DEV_REGISTER, "host_register is missing");
	BROKEN(b.caps |= H2D_DEV_REGISTER_READ_ONLY, "registers read-only");
	BROKEN(b.caps |= H2D_DEV_READ_FILE, "read_file is missing");
	BROKEN(b.caps |= H2D_DEV_HMM, "hmm_count is missing");
	b = *backend("null");
	b.caps |= H2D_DEV_FILL;
	CHECK_EQ(h2d_backend_validate(&b, &scratch_log), H2D_E_INTERNAL);
}

static void info(void)
{
	struct h2d_device_info in = {.size = sizeof(in)};
	struct h2d_device *dev;

	REQUIRE(!h2d_device_open("host", quiet(), &dev));
	CHECK_EQ(dev->copy_timeout_ns, 30000000000);
	CHECK_EQ(h2d_device_info(dev, &in), 0);
	CHECK_STR(in.name, "host");
	CHECK_STR(in.backend, "host");
	CHECK_STR(in.pci_address, "");
	CHECK(in.hardware != NULL);
	CHECK_EQ(in.unified, 1);
	CHECK_EQ(in.readable, 1);
	CHECK(in.numa_node >= -1);
	CHECK(in.memory_bytes > (1 << 20));
	CHECK(in.memory_free_bytes > 0 && in.memory_free_bytes < UINT64_MAX);
	CHECK_EQ(h2d_device_info(dev, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_device_info(NULL, &in), H2D_E_INVALID);
	in.size = 4;
	CHECK_EQ(h2d_device_info(dev, &in), H2D_E_INVALID);
	h2d_device_close(dev);

	in.size = sizeof(in);
	REQUIRE(!h2d_device_open("null", quiet(), &dev));
	CHECK_EQ(h2d_device_info(dev, &in), 0);
	CHECK_EQ(in.readable, 0);
	CHECK_EQ(in.memory_bytes, 0);
	CHECK_EQ(in.numa_node, -1);
	h2d_device_close(dev);
}

/* Callers older and newer than the library. */
static void sized_structs(void)
{
	struct {
		struct h2d_device_opts o;
		uint64_t more;
	} newer = {.o = {.size = sizeof(newer), .copy_timeout_ns = 5}};
	struct {
		struct h2d_device_info in;
		uint64_t more;
	} wide = {.in = {.size = sizeof(wide)}, .more = 77};
	struct {
		size_t size;
		const char *name;
	} narrow = {.size = sizeof(narrow)};
	struct h2d_device *dev;

	REQUIRE(!h2d_device_open("null", &newer.o, &dev));
	CHECK_EQ(dev->copy_timeout_ns, 5);
	CHECK_EQ(h2d_device_info(dev, &wide.in), 0);
	CHECK_EQ(wide.more, 0);
	CHECK_STR(wide.in.name, "null");
	CHECK_EQ(h2d_device_info(dev, (struct h2d_device_info *)(void *)&narrow), 0);
	CHECK_STR(narrow.name, "null");
	h2d_device_close(dev);
	newer.more = 1;
	CHECK_EQ(h2d_device_open("null", &newer.o, &dev), H2D_E_INVALID);
	CHECK(!dev);
}

static void descriptions(void)
{
	const char *name = NULL, *summary = NULL;
	unsigned seen = 0;
	uint32_t i = 0;

	for (; !h2d_backend_describe(i, &name, &summary); i++) {
		CHECK(name[0] && summary[0]);
		seen |= !strcmp(name, "host") ? 1 : !strcmp(name, "null") ? 2 : 0;
	}
	CHECK_EQ(seen, 3);
	CHECK_EQ(h2d_backend_describe(i, &name, &summary), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_backend_describe(0, NULL, NULL), 0);
}

int main(void)
{
	RUN(specs);
	RUN(indexes);
	RUN(validation);
	RUN(info);
	RUN(sized_structs);
	RUN(descriptions);
	return TEST_DONE();
}
