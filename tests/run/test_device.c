/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from devices and pinning, through fake runtimes, however the program came by the
 * function. */
#include <dlfcn.h>

#include "under.h"

typedef int copy_fn(void *to, void *from, size_t bytes);
typedef int copy_kind_fn(void *to, const void *from, size_t bytes, int kind);
typedef int copy_async_fn(void *to, void *from, size_t bytes, void *stream);
typedef int copy_2d_fn(void *to, size_t to_pitch, const void *from, size_t from_pitch,
		       size_t width, size_t height, int kind, void *stream);
typedef int pin_fn(void *at, size_t bytes, unsigned flags);
typedef int address_fn(const char *symbol, void **fn, int version, unsigned long long flags,
		       int *status);

static unsigned char *map, device[300000];

static void *runtime(const char *name)
{
	char path[512];
	void *object;

	snprintf(path, sizeof(path), "%s/lib%s.so", getenv("H2D_TEST_FAKES"), name);
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!object)
		fprintf(stderr, "%s\n", dlerror());
	return object;
}

static void begin(void)
{
	map = under_map(under_file, UNDER_FILE_BYTES);
	memset(device, 0x77, sizeof(device));
}

static int arrived(size_t at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (map[at + i] != 0x77)
			return 0;
	return !strcmp(under_permissions(map + at), "rw-p");
}

static void hip_by_dlsym(void)
{
	void *object = runtime("amdhip64");
	copy_kind_fn *copy;
	copy_fn *copy_from;
	copy_2d_fn *copy_2d;
	pin_fn *pin;

	begin();
	REQUIRE(object && map);
	copy = (copy_kind_fn *)dlsym(object, "hipMemcpy");
	copy_from = (copy_fn *)dlsym(object, "hipMemcpyDtoH");
	copy_2d = (copy_2d_fn *)dlsym(object, "hipMemcpy2DAsync");
	pin = (pin_fn *)dlsym(object, "hipHostRegister");
	REQUIRE(copy && copy_from && copy_2d && pin);
	CHECK(!dlsym(object, "hipMemcpyWithStream") && dlerror());
	CHECK(!copy(map + MIB, device, 100000, 2));
	CHECK(arrived(MIB, 100000));
	CHECK(!copy_from(map + 4 * MIB - 100, device, 200));
	CHECK(arrived(4 * MIB - 100, 200));
	CHECK(!copy_2d(map + 6 * MIB, MIB, device, 64, 1000, 3, 2, NULL));
	CHECK(arrived(6 * MIB, 1000) && arrived(8 * MIB, 1000));
	CHECK(under_same(map, 7 * MIB + 1000, MIB - 1000));
	CHECK(!pin(map + 10 * MIB, 4096, 0));
	CHECK_STR(under_permissions(map + 10 * MIB), "rw-p");
	CHECK(under_same(map, 9 * MIB, 3 * MIB));
}

static void hip_by_address(void)
{
	void *object = runtime("amdhip64"), *fn = NULL;
	address_fn *address;
	copy_fn *copy;

	begin();
	REQUIRE(object && map);
	address = (address_fn *)dlsym(object, "hipGetProcAddress");
	REQUIRE(address && !address("hipMemcpyDtoH", &fn, 6, 0, NULL) && fn);
	copy = (copy_fn *)fn;
	CHECK(!copy(map + MIB, device, 5000));
	CHECK(arrived(MIB, 5000));
	CHECK(address("hipNoSuch", &fn, 6, 0, NULL));
}

static void cuda_by_address(void)
{
	void *object = runtime("cuda"), *fn = NULL;
	address_fn *address;
	copy_async_fn *copy;
	pin_fn *pin;

	begin();
	REQUIRE(object && map);
	address = (address_fn *)dlsym(object, "cuGetProcAddress_v2");
	pin = (pin_fn *)dlsym(object, "cuMemHostRegister_v2");
	REQUIRE(address && pin && !address("cuGetProcAddress", &fn, 12000, 0, NULL) && fn);
	address = (address_fn *)fn;
	REQUIRE(!address("cuMemcpyDtoHAsync", &fn, 12000, 0, NULL) && fn);
	copy = (copy_async_fn *)fn;
	CHECK(!copy(map + MIB, device, 5000, NULL));
	CHECK(arrived(MIB, 5000));
	/* Pinned for reading only: nothing is opened. */
	CHECK(!pin(map + 6 * MIB, 4096, 8));
	CHECK_STR(under_permissions(map + 6 * MIB), "r--p");
	CHECK(!pin(map + 8 * MIB, 4096, 0));
	CHECK_STR(under_permissions(map + 8 * MIB), "rw-p");
}

static void absent_stays_absent(void)
{
	void *self = dlopen(NULL, RTLD_NOW);

	CHECK(!dlsym(RTLD_DEFAULT, "hipMemcpy") && dlerror());
	CHECK(!dlsym(RTLD_DEFAULT, "cuMemcpyDtoH_v2"));
	CHECK(!dlsym(RTLD_NEXT, "cudaMemcpy"));
	CHECK(self && !dlsym(self, "hipHostRegister"));
	/* Others are found as ever, and from where the caller stands. */
	CHECK(dlsym(RTLD_DEFAULT, "strlen") && dlsym(RTLD_NEXT, "strlen"));
	CHECK(dlsym(RTLD_NEXT, "under_main") == NULL);
}

static void look(struct h2d_run_state *s)
{
	CHECK(UNDER_SUM(s, device_open_count) >= 1);
	CHECK_EQ(UNDER_SUM(s, fault_count), 0);
}

static const struct under_case cases[] = {
	{"hip_by_dlsym", hip_by_dlsym, look, 0, NULL},
	{"hip_by_address", hip_by_address, look, 0, NULL},
	{"cuda_by_address", cuda_by_address, look, 0, NULL},
	{"absent_stays_absent", absent_stays_absent, NULL, 0, NULL},
};

UNDER_MAIN(cases)
