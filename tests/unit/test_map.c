/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings by kind, and exactly how much of one is present. */
#include <errno.h>
#include <sys/mman.h>

#include "file/io.h"
#include "file/map.h"
#include "scratch.h"
#include "test.h"

static uint64_t page;

/* Permissions of the mapping at `p` as /proc/self/maps prints them. */
static const char *permissions(const void *p)
{
	static char perms[8];
	unsigned long lo, hi;
	FILE *in = fopen("/proc/self/maps", "r");
	char line[512];

	perms[0] = 0;
	while (fgets(line, sizeof(line), in))
		if (sscanf(line, "%lx-%lx %4s", &lo, &hi, perms) == 3 && lo <= (uintptr_t)p &&
		    (uintptr_t)p < hi)
			break;
	fclose(in);
	return perms;
}

static uint64_t present(const void *p, uint64_t bytes)
{
	uint64_t n = 0;

	CHECK_EQ(h2d_map_present(p, bytes, &n), 0);
	return n;
}

static void kinds(void)
{
	static const char *const expected[] = {"r--p", "rw-p", "r--s"};
	struct h2d_file f;
	struct h2d_map m;

	REQUIRE(!h2d_file_open(&f, scratch_file("kinds", 10 * page + 5), &scratch_log));
	for (int kind = H2D_MAP_READ; kind <= H2D_MAP_SHARED; kind++) {
		REQUIRE(!h2d_map_open(&m, &f, (enum h2d_map_kind)kind, &scratch_log));
		CHECK_STR(permissions(m.base), expected[kind]);
		CHECK_EQ(m.bytes, 10 * page + 5);
		CHECK(scratch_same(m.base, m.bytes, 0));
		h2d_map_close(&m);
		CHECK(!m.base);
		h2d_map_close(&m);
	}
	h2d_file_close(&f);
}

static void without_file(void)
{
	unsigned char data[3] = {1, 2, 3};
	struct h2d_file f;
	struct h2d_map m;

	REQUIRE(!h2d_file_open(&f, scratch_file("empty", 0), &scratch_log));
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_READ, &scratch_log), 0);
	CHECK(!m.base && !m.bytes);
	h2d_map_close(&m);
	h2d_file_close(&f);

	REQUIRE(!h2d_file_open_memory(&f, data, 3, &scratch_log));
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_READ, &scratch_log), 0);
	CHECK(m.base == data && m.borrowed);
	h2d_map_release(&m, 0, 3);
	CHECK_EQ(data[2], 3);
	h2d_map_close(&m);
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_WRITABLE, &scratch_log), H2D_E_UNSUPPORTED);
	h2d_file_close(&f);
}

static int map_calls, last_flags, refusals;

static void *refusing_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	map_calls++;
	last_flags = flags;
	if (map_calls <= refusals) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return mmap(addr, bytes, prot, flags, fd, offset);
}

/* What overcommit refuses to a private writable mapping is not needed by one that is never
 * written. */
static void larger_than_memory(void)
{
	struct h2d_io_ops ops = h2d_io_system;
	struct h2d_file f;
	struct h2d_map m;

	ops.mmap = refusing_mmap;
	REQUIRE(!h2d_file_open(&f, scratch_file("large", page), &scratch_log));
	h2d_io = &ops;
	map_calls = 0, refusals = 1;
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_WRITABLE, &scratch_log), 0);
	CHECK_EQ(map_calls, 2);
	CHECK(last_flags & MAP_NORESERVE);
	CHECK(scratch_logged("without reserving"));
	h2d_map_close(&m);
	map_calls = 0, refusals = 2;
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_WRITABLE, &scratch_log), H2D_E_NOMEM);
	map_calls = 0, refusals = 1;
	CHECK_EQ(h2d_map_open(&m, &f, H2D_MAP_READ, &scratch_log), H2D_E_NOMEM);
	CHECK_EQ(map_calls, 1);
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

static void present_of_a_file(void)
{
	uint64_t bytes = 300 * page + 123;
	struct h2d_file f;
	struct h2d_map m;

	REQUIRE(!h2d_file_open(&f, scratch_file("present", bytes), &scratch_log));
	REQUIRE(!h2d_map_open(&m, &f, H2D_MAP_READ, &scratch_log));
	CHECK_EQ(present(m.base, bytes), 0);
	if (madvise(m.base, bytes, MADV_POPULATE_READ)) {
		printf("MADV_POPULATE_READ is not here (before Linux 5.14)\n");
	} else {
		CHECK_EQ(present(m.base, bytes), bytes);
		CHECK_EQ(present(m.base + 5, bytes - 5), bytes - 5);
		CHECK_EQ(present(m.base + page - 1, 2), 2);
		/* Only whole pages go, of [page + 1, 5 page - 1) those numbered 2 and 3. */
		h2d_map_release(&m, page + 1, 4 * page - 2);
		CHECK_EQ(present(m.base, bytes), bytes - 2 * page);
		CHECK_EQ(present(m.base + 2 * page - 10, 20), 10);
		/* The last page belongs to the range that ends the file. */
		h2d_map_release(&m, 299 * page, page + 123);
		CHECK_EQ(present(m.base, bytes), bytes - 3 * page - 123);
		/* What passes the file is not touched. */
		h2d_map_release(&m, 0, bytes + 1);
		CHECK_EQ(present(m.base, bytes), bytes - 3 * page - 123);
		h2d_map_release(&m, 0, bytes);
		CHECK_EQ(present(m.base, bytes), 0);
	}
	h2d_map_close(&m);
	h2d_file_close(&f);
}

static int batch_reads;
static size_t longest;

static ssize_t counting_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	batch_reads++;
	longest = bytes > longest ? bytes : longest;
	if (batch_reads % 2 && bytes > 8)
		bytes /= 2; /* a short read */
	return pread(fd, buf, bytes & ~(size_t)7, offset);
}

static void present_over_batches(void)
{
	struct h2d_io_ops ops = h2d_io_system;
	uint64_t pages = 3 * 4096 + 5, touched = 0;
	unsigned char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	REQUIRE(p != MAP_FAILED);
	madvise(p, pages * page, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < pages; i += i % 7 + 1, touched++)
		p[i * page] = 1;
	p[(pages - 1) * page] = 1; /* reached by the loop or not: count it below */
	touched = 0;
	for (uint64_t i = 0; i < pages; i++) {
		unsigned char in;

		CHECK_EQ(mincore(p + i * page, page, &in), 0);
		touched += in & 1;
	}
	CHECK(touched > 100 && touched < pages);
	ops.pread = counting_pread;
	h2d_io = &ops;
	CHECK_EQ(present(p, pages * page), touched * page);
	h2d_io = &h2d_io_system;
	CHECK(batch_reads >= 4);
	CHECK(longest <= 4096 * 8);
	CHECK_EQ(present(p, 0), 0);
	munmap(p, pages * page);
}

static int no_pagemap(const char *path, int flags)
{
	(void)path;
	(void)flags;
	errno = EACCES;
	return -1;
}

static void present_cannot_be_told(void)
{
	struct h2d_io_ops ops = h2d_io_system;
	uint64_t n = 0;

	ops.open = no_pagemap;
	h2d_io = &ops;
	CHECK_EQ(h2d_map_present(&n, sizeof(n), &n), H2D_E_UNAVAILABLE);
	h2d_io = &h2d_io_system;
	CHECK_EQ(h2d_map_present((void *)UINTPTR_MAX, 2, &n), H2D_E_INVALID);
}

int main(void)
{
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	RUN(kinds);
	RUN(without_file);
	RUN(larger_than_memory);
	RUN(present_of_a_file);
	RUN(present_over_batches);
	RUN(present_cannot_be_told);
	return TEST_DONE();
}
