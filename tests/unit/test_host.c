/* SPDX-License-Identifier: Apache-2.0 */
/* Destination memory of `host`: huge, untouched, and refused when it cannot be had. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "device/hostmem.h"
#include "device/room.h"
#include "device_bench.h"
#include "test.h"

static uint64_t page;

static uint64_t resident(void *p, uint64_t bytes)
{
	uint64_t pages = (bytes + page - 1) / page, n = 0;
	unsigned char *vec = malloc(pages);

	CHECK_EQ(mincore(p, bytes, vec), 0);
	for (uint64_t i = 0; i < pages; i++)
		n += vec[i] & 1;
	free(vec);
	return n * page;
}

/* A field of the mapping at `p` in smaps, in bytes. */
static uint64_t smaps(const void *p, const char *field)
{
	FILE *in = fopen("/proc/self/smaps", "r");
	unsigned long lo, hi, kib = 0;
	char line[512];
	int found = 0;

	while (fgets(line, sizeof(line), in)) {
		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			found = lo <= (uintptr_t)p && (uintptr_t)p < hi;
		else if (found && !strncmp(line, field, strlen(field)))
			if (sscanf(line + strlen(field), ": %lu", &kib) == 1)
				break;
	}
	fclose(in);
	return (uint64_t)kib * 1024;
}

static void untouched_and_huge(void)
{
	uint64_t huge = h2d_hostmem_huge_page_bytes(), bytes = 9 * 1024 * 1024 + 5;
	struct h2d_devmem mem;

	REQUIRE(!device_open("host", 0));
	REQUIRE(!ops->alloc(dev, bytes, &mem));
	CHECK_EQ(mem.bytes, bytes);
	CHECK_EQ(resident(mem.ptr, bytes), 0); /* the readers' first write is the only touch */
	CHECK_EQ(device_counts().alloc_bytes, bytes);
	if (huge) {
		CHECK_EQ((uintptr_t)mem.ptr % huge, 0);
		*(volatile char *)mem.ptr = 1;
		if (!smaps(mem.ptr, "AnonHugePages"))
			printf("no huge page was free\n");
		else
			CHECK_EQ(resident(mem.ptr, bytes), huge);
	}
	((volatile char *)mem.ptr)[bytes - 1] = 1;
	ops->free(dev, &mem);
	CHECK(!mem.ptr);
	ops->free(dev, &mem); /* again: nothing */

	/* Small ones are plain, and take no more than they need. */
	REQUIRE(!ops->alloc(dev, 5000, &mem));
	CHECK_EQ((uintptr_t)mem.ptr % page, 0);
	memset(mem.ptr, 1, 5000);
	CHECK_EQ(resident(mem.ptr, 5000), (5000 + page - 1) / page * page);
	ops->free(dev, &mem);
	CHECK_EQ(ops->alloc(dev, 0, &mem), H2D_E_INVALID);
	CHECK_EQ(device_counts().alloc_count, 0);
	h2d_device_close(dev);
}

static void staging(void)
{
	static const uint64_t sizes[] = {1, 4096, 4097, 2 << 20, (2 << 20) + 1, 7 << 20};
	void *p[6];

	for (int null = 0; null < 2; null++) {
		REQUIRE(!device_open(null ? "null" : "host", 0));
		for (int i = 0; i < 6; i++) {
			REQUIRE(!ops->host_alloc(dev, sizes[i], &p[i]));
			CHECK_EQ((uintptr_t)p[i] % page, 0);
			memset(p[i], i, sizes[i]);
			CHECK(resident(p[i], sizes[i]) <= sizes[i] + page);
		}
		CHECK_EQ(device_counts().host_alloc_count, 6);
		for (int i = 0; i < 6; i++) {
			CHECK_EQ(((unsigned char *)p[i])[sizes[i] - 1], i);
			ops->host_free(dev, p[i], sizes[i]);
		}
		CHECK_EQ(device_counts().host_alloc_bytes, 0);
		ops->host_free(dev, NULL, 1);
		h2d_device_close(dev);
	}
}

/* More than there is, in one piece and in several: refused with the figures. */
static void impossible(void)
{
	struct h2d_devmem mem[8];
	struct h2d_room room;
	int n = 0, rc = 0;

	REQUIRE(!device_open("host", 0));
	h2d_room_read(&room);
	REQUIRE(room.available_bytes < UINT64_MAX);
	CHECK_EQ(ops->alloc(dev, room.available_bytes * 2, &mem[0]), H2D_E_NOMEM);
	CHECK(scratch_logged("cannot be had") && scratch_logged("are available"));
	CHECK(!mem[0].ptr);
	CHECK_EQ(ops->alloc(dev, UINT64_MAX, &mem[0]), H2D_E_NOMEM);
	CHECK_EQ(ops->alloc(dev, UINT64_MAX - 4096, &mem[0]), H2D_E_NOMEM);
	/* What was promised and not touched yet counts. */
	for (n = 0; n < 8 && !rc; n++)
		rc = ops->alloc(dev, room.available_bytes / 3, &mem[n]);
	CHECK_EQ(rc, H2D_E_NOMEM);
	CHECK(n >= 2); /* three or four, if nobody else takes or gives memory meanwhile */
	for (int i = 0; i < n - 1; i++)
		ops->free(dev, &mem[i]);
	CHECK_EQ(ops->alloc(dev, room.available_bytes / 3, &mem[0]), 0);
	ops->free(dev, &mem[0]);
	h2d_device_close(dev);
}

#if !defined(__SANITIZE_ADDRESS__) &&                                                          \
	!defined(__SANITIZE_THREAD__) /* their shadows take it all */
static int limited_child(void)
{
	struct rlimit limit = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};
	struct h2d_devmem mem;
	int ok;

	setrlimit(RLIMIT_AS, &limit);
	if (device_open("host", 0))
		return 1;
	ok = ops->alloc(dev, 512 << 20, &mem) == H2D_E_NOMEM &&
	     scratch_logged("RLIMIT_AS 268435456");
	h2d_device_close(dev);
	return ok ? 0 : 2;
}

static void limited(void)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(limited_child());
	waitpid(pid, &status, 0);
	CHECK_EQ(status, 0);
}
#endif

int main(void)
{
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	RUN(untouched_and_huge);
	RUN(staging);
	RUN(impossible);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	RUN(limited);
#endif
	return TEST_DONE();
}
