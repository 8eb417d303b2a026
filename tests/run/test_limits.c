/* SPDX-License-Identifier: Apache-2.0 */
/* Bad input: many mappings, no entry left in the kernel's map, files cut short, limits. */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "under.h"

/* Newer than some headers. */
#ifndef PR_SET_VMA
#define PR_SET_VMA	     0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static void many_mappings(void)
{
	enum { ROUNDS = 6, EACH = 20000 };
	static unsigned char *maps[EACH];
	int fd = open(under_file, O_RDONLY);

	REQUIRE(fd >= 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < EACH; i++) {
			maps[i] = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
				       (off_t)(i % 8) * 65536);
			REQUIRE(maps[i] != MAP_FAILED);
		}
		for (size_t i = 0; i < EACH; i += 100)
			maps[i][round] = 7;
		for (size_t i = 0; i < EACH; i++) {
			if (i % 100 == 0 && maps[i][round] != 7)
				CHECK(0);
			REQUIRE(!munmap(maps[i], MIB));
		}
	}
	close(fd);
}

static void look_many(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, mapping_count), 120000);
	CHECK_EQ(UNDER_SUM(s, fault_count), 1200);
	CHECK_EQ(UNDER_SUM(s, written_page_count), 1200);
}

/* Single pages of alternating permissions, until no more can be made. */
static void exhaust(void)
{
	size_t bytes = (size_t)300000 * 4096;
	unsigned char *p = mmap(NULL, bytes, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	REQUIRE(p != MAP_FAILED);
	for (size_t at = 4096; at < bytes; at += 8192)
		if (mprotect(p + at, 4096, PROT_READ))
			return;
	SKIP("the map count has no limit here");
}

static void no_map_entry_left(void)
{
	unsigned char *a = under_map(under_file, UNDER_FILE_BYTES);
	unsigned char *b = under_map(under_file, UNDER_FILE_BYTES);

	REQUIRE(a && b);
	a[3 * MIB] = 1;
	exhaust();
	b[5 * MIB] = 2;
	CHECK_STR(under_permissions(b), "rw-p");
	a[9 * MIB] = 3;
	CHECK(a[3 * MIB] == 1 && b[5 * MIB] == 2 && a[9 * MIB] == 3);
	memset(a, 1, UNDER_FILE_BYTES);
	memset(b, 2, UNDER_FILE_BYTES);
	CHECK(a[UNDER_FILE_BYTES - 1] == 1 && b[0] == 2);
}

static void look_whole(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, flags) & H2D_RUN_WHOLE_OPENED, H2D_RUN_WHOLE_OPENED);
	CHECK_EQ(UNDER_SUM(s, opened_bytes), 2 * UNDER_FILE_BYTES);
}

static void file_cut_short(void)
{
	char path[80];
	unsigned char *p;

	snprintf(path, sizeof(path), "%s.cut", under_file);
	under_make(path, 1);
	p = under_map(path, UNDER_FILE_BYTES);
	REQUIRE(p && !strcmp(under_permissions(p), "r--p"));
	p[0] = 1;
	p[9 * MIB] = 1;
	CHECK(!truncate(path, 4 * MIB));
	unlink(path);
	p[2 * MIB] = 1;
	CHECK(p[0] == 1);
	*(volatile unsigned char *)(p + 8 * MIB) = 1; /* SIGBUS, the program's affair */
}

static void limited_data(void)
{
	struct rlimit limit = {(rlim_t)1 << 32, (rlim_t)1 << 32};

	REQUIRE(!setrlimit(RLIMIT_DATA, &limit));
	CHECK_STR(under_permissions(under_map(under_file, UNDER_FILE_BYTES)), "rw-p");
}

static void look_limited(struct h2d_run_state *s)
{
	CHECK_EQ(atomic_load(&s->refused_limit_count), 1);
	CHECK_EQ(UNDER_SUM(s, mapping_count), 0);
}

static void as_without(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	int fd = open(under_file, O_WRONLY);

	/* Errors are the kernel's. */
	CHECK(p && munmap(p + 1, 4096) == -1 && errno == EINVAL);
	CHECK(mprotect(p + 1, 4096, PROT_READ) == -1 && errno == EINVAL);
	CHECK(mremap(p + 1, 4096, 8192, MREMAP_MAYMOVE) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) == MAP_FAILED &&
	      errno == EACCES);
	CHECK(mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, 999, 0) == MAP_FAILED &&
	      errno == EBADF);
	close(fd);
	fd = open(under_file, O_RDONLY);
	CHECK(mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 123) == MAP_FAILED &&
	      errno == EINVAL);
	/* Over, out of and in the middle of a kept range. */
	CHECK(mmap(p + 2 * MIB, MIB, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 2 * MIB);
	p[2 * MIB] = 1;
	CHECK(p[2 * MIB] == 1 && p[2 * MIB + 1] == 0);
	CHECK(!munmap(p + 6 * MIB, MIB));
	CHECK(!mprotect(p + 8 * MIB, MIB, PROT_READ));
	CHECK(!mprotect(p + 9 * MIB, MIB, PROT_READ | PROT_WRITE));
	CHECK_STR(under_permissions(p + 9 * MIB), "rw-p");
	CHECK(!madvise(p + 10 * MIB, 8192, 23));
	p[0] = p[5 * MIB] = p[7 * MIB] = 4;
	CHECK(p[0] == 4 && p[7 * MIB] == 4 && under_same(p, 8 * MIB, 4 * MIB));
	p = mremap(p, 2 * MIB, 4 * MIB, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && p[0] == 4);
	p[3 * MIB] = 5;
	CHECK(under_same(p, 1, 3 * MIB - 1) && p[3 * MIB] == 5);
	close(fd);
}

/* Locked or populated at once, a writable private mapping is copied page by page; kept, it is
 * read. What is opened afterwards is copied then, and stays in memory too. */
static void locked_and_populated(void)
{
	int fd = open(under_file, O_RDONLY), status = -1;
	unsigned char *p =
		mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	unsigned char *q = under_map(under_file, 4 * MIB), cached[1024];
	struct iovec all = {p, 4 * MIB};
	pid_t pid;

	REQUIRE(p != MAP_FAILED && q && fd >= 0);
	CHECK_STR(under_permissions(p), "r--p");
	CHECK(under_same(p, 0, 4 * MIB));
	CHECK(!mlock(q, 4 * MIB) && !mincore(q, 4 * MIB, cached));
	for (size_t i = 0; i < 1024; i++)
		if (!(cached[i] & 1))
			CHECK(0);
	CHECK_STR(under_permissions(q), "r--p");
	q[0] = q[3 * MIB] = 5;
	CHECK(q[0] == 5 && under_same(q, 1, 3 * MIB - 1) && q[3 * MIB] == 5);
	CHECK(!munlock(q, 4 * MIB));
	CHECK(!mlockall(MCL_CURRENT) || errno == ENOMEM || errno == EPERM);
	q[MIB + 1] = 6;
	CHECK(q[MIB + 1] == 6 && !munlockall());
	/* A name is for anonymous memory only, with and without us. */
	CHECK(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, p, 4096, "x") == -1);
	p[MIB] = 7;
	CHECK(p[MIB] == 7);
	/* By way of a handle of the process, which kernels take for others or for all. */
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd >= 0 && process_madvise(fd, &all, 1, 23, 0) > 0)
		CHECK_STR(under_permissions(p + 3 * MIB), "rw-p");
	pid = fork();
	if (!pid) {
		p[3 * MIB] = 1;
		_exit(!(p[3 * MIB] == 1 && q[0] == 5));
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void look_locked(struct h2d_run_state *s)
{
	CHECK(UNDER_SUM(s, mapping_count) >= 2);
}

/* Lowered afterwards: a mapping that was writable from the start would not notice. */
static void limited_afterwards(void)
{
	unsigned char *p = under_map(under_file, UNDER_FILE_BYTES);
	struct rlimit data, now;

	REQUIRE(p && !getrlimit(RLIMIT_DATA, &data));
	CHECK_STR(under_permissions(p), "r--p");
	data.rlim_cur = 4096;
	REQUIRE(!setrlimit(RLIMIT_DATA, &data));
	p[5 * MIB] = 1;
	CHECK(p[5 * MIB] == 1);
	CHECK(!getrlimit(RLIMIT_DATA, &now) && now.rlim_cur == 4096);
	data.rlim_cur = data.rlim_max;
	setrlimit(RLIMIT_DATA, &data);
}

/* Read past the page cache, which takes whole blocks only. */
static void opened_direct(void)
{
	int fd = open(under_file, O_RDONLY | O_DIRECT);
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, UNDER_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK_STR(under_permissions(p), "r--p");
	close(fd);
}

static const struct under_case cases[] = {
	{"limited_afterwards", limited_afterwards, NULL, 0, NULL},
	{"opened_direct", opened_direct, NULL, 0, NULL},
	{"locked_and_populated", locked_and_populated, look_locked, 0, NULL},
	{"many_mappings", many_mappings, look_many, 0, NULL},
	{"no_map_entry_left", no_map_entry_left, look_whole, 0, NULL},
	{"file_cut_short", file_cut_short, NULL, SIGBUS, NULL},
	{"limited_data", limited_data, look_limited, 0, NULL},
	{"as_without", as_without, NULL, 0, NULL},
};

UNDER_MAIN(cases)
