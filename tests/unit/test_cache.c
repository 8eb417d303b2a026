/* SPDX-License-Identifier: Apache-2.0 */
/* The page cache: asked honestly, filled, emptied. */
#include <errno.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "file/cache.h"
#include "file/io.h"
#include "refuse_syscall.h"
#include "scratch.h"
#include "test.h"

enum { FILE_PAGES = 1000 };

static uint64_t page;
static struct h2d_io_ops ops;
static int asked_cachestat, asked_mincore, synced, advised, cachestat_errno;

static int counting_cachestat(int fd, uint64_t offset, uint64_t bytes,
			      struct h2d_cachestat *out)
{
	asked_cachestat++;
	if (cachestat_errno) {
		errno = cachestat_errno;
		return -1;
	}
	return h2d_io_system.cachestat(fd, offset, bytes, out);
}

static int counting_mincore(void *addr, size_t bytes, unsigned char *vec)
{
	asked_mincore++;
	return mincore(addr, bytes, vec);
}

static int counting_fdatasync(int fd)
{
	synced++;
	return fdatasync(fd);
}

static int counting_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
	advised += advice == POSIX_FADV_DONTNEED;
	return posix_fadvise(fd, offset, bytes, advice);
}

static void watch(int err)
{
	ops = h2d_io_system;
	ops.cachestat = counting_cachestat;
	ops.mincore = counting_mincore;
	ops.fdatasync = counting_fdatasync;
	ops.fadvise = counting_fadvise;
	asked_cachestat = asked_mincore = synced = advised = 0;
	cachestat_errno = err;
	h2d_io = &ops;
}

static int have_cachestat(void)
{
	struct h2d_cachestat cs;
	int fd = open(scratch_file("probe", 1), O_RDONLY);
	int rc = h2d_io_system.cachestat(fd, 0, 1, &cs);

	close(fd);
	return !rc;
}

/* Whether the working directory's filesystem lets go of pages at all. */
static int drops_pages(void)
{
	struct stat st;
	unsigned char in = 1;
	void *p;
	int fd = open(scratch_file("drops", page), O_RDONLY);

	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	fstat(fd, &st);
	p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	mincore(p, page, &in);
	munmap(p, page);
	close(fd);
	return !(in & 1);
}

static void own_file(void)
{
	uint64_t bytes = FILE_PAGES * page + 100;
	struct h2d_cache_state st;
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("own", bytes), &scratch_log));
	h2d_cache_query(&f, 0, UINT64_MAX, &st);
	CHECK_EQ(st.method, H2D_CACHE_CACHESTAT);
	CHECK_EQ(st.total_bytes, bytes);
	CHECK_EQ(st.cached_bytes, bytes); /* just written */
	CHECK(!st.why);

	watch(0);
	CHECK_EQ(h2d_cache_evict(&f, 0, UINT64_MAX, &scratch_log), 0);
	CHECK_EQ(synced, 1); /* it was dirty */
	h2d_cache_query(&f, 0, bytes, &st);
	CHECK_EQ(st.cached_bytes, 0);
	CHECK_EQ(st.dirty_bytes, 0);

	watch(0);
	CHECK_EQ(h2d_cache_evict(&f, 0, bytes, &scratch_log), 0);
	CHECK(!synced && !advised); /* nothing left to do */

	CHECK_EQ(h2d_cache_warm(&f, 100 * page, 50 * page, &scratch_log), 0);
	h2d_cache_query(&f, 100 * page, 50 * page, &st);
	CHECK_EQ(st.cached_bytes, 50 * page);
	CHECK_EQ(h2d_cache_warm(&f, 0, bytes, &scratch_log), 0);
	h2d_cache_query(&f, 0, bytes, &st);
	CHECK_EQ(st.cached_bytes, bytes);

	watch(0);
	CHECK_EQ(h2d_cache_evict(&f, 0, bytes, &scratch_log), 0);
	CHECK_EQ(synced, 0); /* clean: no write-back asked for */
	CHECK(advised >= 1);

	CHECK_EQ(h2d_cache_warm(&f, 0, bytes, &scratch_log), 0);
	watch(0);
	h2d_cache_drop(&f, 0, bytes);
	CHECK(!synced && !asked_cachestat && advised == 1);
	h2d_cache_query(&f, 0, bytes, &st);
	CHECK_EQ(st.cached_bytes, 0);
	h2d_cache_query(&f, bytes, 10, &st);
	CHECK_EQ(st.total_bytes, 0);
	CHECK_EQ(st.cached_bytes, 0);
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

/* Pages that somebody has mapped stay, and evict ends all the same. */
static void mapped_pages_stay(void)
{
	uint64_t bytes = 64 * page;
	struct h2d_cache_state st;
	volatile unsigned char *p;
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("pinned", bytes), &scratch_log));
	p = mmap(NULL, bytes, PROT_READ, MAP_SHARED, f.fd, 0);
	REQUIRE(p != MAP_FAILED);
	for (uint64_t i = 0; i < 64; i++)
		(void)p[i * page];
	watch(0);
	CHECK_EQ(h2d_cache_evict(&f, 0, bytes, &scratch_log), 0);
	CHECK_EQ(advised, H2D_CACHE_EVICT_TRIES);
	CHECK_EQ(synced, 1);
	h2d_cache_query(&f, 0, bytes, &st);
	CHECK(st.cached_bytes > 0);
	munmap((void *)p, bytes);
	CHECK_EQ(h2d_cache_evict(&f, 0, bytes, &scratch_log), 0);
	h2d_cache_query(&f, 0, bytes, &st);
	CHECK_EQ(st.cached_bytes, 0);
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

/* Without the system call, mincore is asked of files of one's own, and agrees exactly. */
static void without_cachestat(void)
{
	uint64_t bytes = FILE_PAGES * page + 9;
	struct h2d_cache_state st, old;
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("enosys", bytes), &scratch_log));
	h2d_cache_evict(&f, 0, bytes, &scratch_log);
	h2d_cache_warm(&f, 500 * page, UINT64_MAX, &scratch_log);
	h2d_cache_query(&f, 3 * page, (FILE_PAGES - 5) * page, &st);
	watch(ENOSYS);
	h2d_cache_query(&f, 3 * page, (FILE_PAGES - 5) * page, &old);
	CHECK(asked_mincore >= 1);
	CHECK_EQ(old.method, H2D_CACHE_MINCORE);
	CHECK_EQ(old.total_bytes, (FILE_PAGES - 5) * page);
	CHECK(old.cached_bytes > 0 && old.cached_bytes < old.total_bytes);
	if (st.method == H2D_CACHE_CACHESTAT)
		CHECK_EQ(old.cached_bytes, st.cached_bytes);
	/* It counts by the byte at both ends. */
	h2d_cache_query(&f, bytes - page - 100, page + 100, &old);
	CHECK_EQ(old.cached_bytes, page + 100);
	h2d_cache_query(&f, 0, bytes, &old);
	CHECK(old.cached_bytes % page == 9);
	CHECK_EQ(h2d_cache_evict(&f, 0, bytes, &scratch_log), 0);
	h2d_cache_query(&f, 0, bytes, &old);
	CHECK_EQ(old.cached_bytes, 0);
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

/* After EPERM nothing is believed and mincore is not asked, even of a file of one's own. */
static void refused(void)
{
	static const struct {
		int err;
		const char *why;
	} cases[] = {
		{EPERM, "neither owned nor writable"},
		{EOPNOTSUPP, "hugetlbfs"},
		{EINVAL, "failed"},
	};
	struct h2d_cache_state st;
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("refused", 10 * page), &scratch_log));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		watch(cases[i].err);
		h2d_cache_query(&f, 0, 10 * page, &st);
		CHECK_EQ(st.method, H2D_CACHE_UNKNOWN);
		CHECK_EQ(asked_mincore, 0);
		CHECK_EQ(st.cached_bytes, 0);
		CHECK_EQ(st.total_bytes, 10 * page);
		CHECK(st.why && strstr(st.why, cases[i].why));
		CHECK_EQ(h2d_cache_evict(&f, 0, 10 * page, &scratch_log), 0);
		CHECK(synced == 1 && advised == 1); /* blind, so once */
	}
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

/* In a child without rights: somebody else's file. @return bits of what was wrong */
static int foreign_child(const char *path)
{
	struct h2d_cache_state st;
	struct h2d_file f;
	int wrong = 0;

	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 64;
	if (h2d_file_open(&f, path, &scratch_log))
		return 32;
	watch(0);
	h2d_cache_query(&f, 0, 10 * page, &st);
	/* Kernels 6.5 to 6.12 answer anyone; later ones refuse. Never mincore. */
	if (st.method == H2D_CACHE_MINCORE || asked_mincore)
		wrong |= 1;
	if (st.method == H2D_CACHE_UNKNOWN && (!st.why || st.cached_bytes))
		wrong |= 2;
	watch(EPERM);
	h2d_cache_query(&f, 0, 10 * page, &st);
	if (st.method != H2D_CACHE_UNKNOWN || asked_mincore)
		wrong |= 4;
	watch(ENOSYS); /* here mincore would say that everything is cached */
	h2d_cache_query(&f, 0, 10 * page, &st);
	if (st.method != H2D_CACHE_UNKNOWN || asked_mincore || !strstr(st.why, "mincore"))
		wrong |= 8;
	return wrong;
}

static void foreign_file(void)
{
	const char *path = scratch_file("foreign", 10 * page);
	int status = -1;
	pid_t pid;

	if (geteuid()) {
		printf("foreign_file: not root, so every file here is one's own\n");
		return;
	}
	chmod(scratch_dir, 0755);
	pid = fork();
	if (!pid)
		_exit(foreign_child(path));
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 32) {
		printf("foreign_file: the build directory is closed to others\n");
		return;
	}
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

/* Filters that do not know cachestat answer EPERM or ENOSYS, of one's own file too. */
static void seccomp(void)
{
	static const struct {
		int err;
		enum h2d_cache_method method;
	} cases[] = {{EPERM, H2D_CACHE_UNKNOWN}, {ENOSYS, H2D_CACHE_MINCORE}};
	const char *path = scratch_file("filtered", 10 * page);

	for (size_t i = 0; i < 2; i++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			struct h2d_cache_state st;
			struct h2d_file f;

			if (refuse_syscall(SYS_cachestat, cases[i].err))
				_exit(77);
			if (h2d_file_open(&f, path, &scratch_log))
				_exit(1);
			h2d_cache_query(&f, 0, 10 * page, &st);
			_exit(st.method == cases[i].method ? 0 : 2);
		}
		waitpid(pid, &status, 0);
		CHECK(WIFEXITED(status));
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
			printf("seccomp: no filters here\n");
		else
			CHECK_EQ(WEXITSTATUS(status), 0);
	}
}

static int failing_fdatasync(int fd)
{
	(void)fd;
	errno = synced++ ? EIO : EINTR;
	return -1;
}

static void write_back_fails(void)
{
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("eio", page), &scratch_log));
	watch(ENOSYS);
	ops.fdatasync = failing_fdatasync;
	CHECK_EQ(h2d_cache_evict(&f, 0, page, &scratch_log), H2D_E_IO);
	CHECK_EQ(synced, 2);
	CHECK(scratch_logged("writing dirty pages back"));
	h2d_io = &h2d_io_system;
	h2d_file_close(&f);
}

static void memory_has_none(void)
{
	struct h2d_cache_state st;
	struct h2d_file f;

	REQUIRE(!h2d_file_open_memory(&f, "abc", 3, &scratch_log));
	h2d_cache_query(&f, 0, 3, &st);
	CHECK_EQ(st.method, H2D_CACHE_UNKNOWN);
	CHECK(st.why && strstr(st.why, "memory"));
	CHECK_EQ(h2d_cache_warm(&f, 0, 3, &scratch_log), H2D_E_UNSUPPORTED);
	CHECK_EQ(h2d_cache_evict(&f, 0, 3, &scratch_log), H2D_E_UNSUPPORTED);
	h2d_cache_drop(&f, 0, 3);
	h2d_file_close(&f);
}

/* tmpfs answers, and drops nothing. */
static void tmpfs(void)
{
	struct h2d_cache_state st;
	struct h2d_file f;
	int fd = memfd_create("h2d", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && !ftruncate(fd, (off_t)(8 * page)));
	REQUIRE(pwrite(fd, "x", 1, 0) == 1);
	REQUIRE(!h2d_file_open_fd(&f, fd, "memfd", &scratch_log));
	close(fd);
	CHECK_EQ(h2d_cache_evict(&f, 0, 8 * page, &scratch_log), 0);
	h2d_cache_query(&f, 0, 8 * page, &st);
	if (st.method == H2D_CACHE_CACHESTAT)
		CHECK_EQ(st.cached_bytes, page);
	CHECK_EQ(h2d_cache_warm(&f, 0, 8 * page, &scratch_log), 0);
	h2d_file_close(&f);
}

int main(void)
{
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (!drops_pages()) {
		printf("own_file, mapped_pages_stay: this filesystem keeps its pages\n");
	} else if (!have_cachestat()) {
		printf("own_file, mapped_pages_stay: no cachestat here\n");
		RUN(without_cachestat);
	} else {
		RUN(own_file);
		RUN(mapped_pages_stay);
		RUN(without_cachestat);
	}
	RUN(refused);
	RUN(foreign_file);
	RUN(seccomp);
	RUN(write_back_fails);
	RUN(memory_has_none);
	RUN(tmpfs);
	return TEST_DONE();
}
