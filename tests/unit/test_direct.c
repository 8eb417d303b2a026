/* SPDX-License-Identifier: Apache-2.0 */
/* Direct reads: opened where they work, refused with the reason where they do not. */
#include <errno.h>
#include <linux/stat.h>
#include <sys/mman.h>

#include "file/direct.h"
#include "file/io.h"
#include "scratch.h"
#include "test.h"

static struct h2d_io_ops ops;
static int no_proc, fail_open, fail_read, reads, interruptions;
static struct statx fake;
static int fake_statx;

static int open_faulty(const char *path, int flags)
{
	if (no_proc && !strncmp(path, "/proc", 5)) {
		errno = ENOENT;
		return -1;
	}
	if (fail_open && (flags & O_DIRECT)) {
		errno = fail_open;
		return -1;
	}
	return open(path, flags);
}

static ssize_t pread_faulty(int fd, void *buf, size_t bytes, off_t offset)
{
	reads++;
	if (interruptions) {
		interruptions--;
		errno = EINTR;
		return -1;
	}
	if (fail_read) {
		errno = fail_read;
		return fail_read == ENODATA ? 0 : -1;
	}
	return pread(fd, buf, bytes, offset);
}

static int statx_faulty(int fd, unsigned mask, struct statx *stx)
{
	if (!fake_statx)
		return h2d_io_system.statx(fd, mask, stx);
	*stx = fake;
	return 0;
}

static void reset(void)
{
	ops = h2d_io_system;
	ops.open = open_faulty;
	ops.pread = pread_faulty;
	ops.statx = statx_faulty;
	no_proc = fail_open = fail_read = reads = interruptions = fake_statx = 0;
	memset(&fake, 0, sizeof(fake));
	h2d_io = &ops;
}

static int open_direct(const char *path, const char **why)
{
	struct h2d_direct d;
	struct h2d_file f;
	int rc;

	if (h2d_file_open(&f, path, &scratch_log))
		return H2D_E_INTERNAL;
	rc = h2d_direct_open(&d, &f, why, &scratch_log);
	CHECK((rc == H2D_E_UNSUPPORTED) == (*why != NULL));
	CHECK((d.fd >= 0) == !rc);
	h2d_direct_close(&d);
	h2d_file_close(&f);
	return rc;
}

static void reads_what_is_there(void)
{
	const uint64_t bytes = 70000;
	const char *path = scratch_file("plain", bytes), *why;
	struct h2d_direct d;
	struct h2d_file f;
	uint64_t align;
	unsigned char *buf;
	ssize_t n;
	int rc;

	reset();
	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	rc = h2d_direct_open(&d, &f, &why, &scratch_log);
	if (rc == H2D_E_UNSUPPORTED) {
		CHECK(why != NULL);
		printf("no direct reads here: %s\n", why);
		h2d_file_close(&f);
		return;
	}
	REQUIRE(!rc);
	CHECK(fcntl(d.fd, F_GETFL) & O_DIRECT);
	CHECK(!(fcntl(f.fd, F_GETFL) & O_DIRECT));
	CHECK(fcntl(d.fd, F_GETFD) & FD_CLOEXEC);
	align = d.offset_align_bytes;
	CHECK(align && !(align & (align - 1)));
	buf = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	n = pread(d.fd, buf, 8 * align, (off_t)(2 * align));
	CHECK_EQ(n, 8 * align);
	CHECK(scratch_same(buf, 8 * align, 2 * align));
	/* Past the end: what there is. */
	n = pread(d.fd, buf, 1 << 16, (off_t)(bytes & ~(align - 1)));
	CHECK_EQ(n, bytes & (align - 1));
	munmap(buf, 1 << 17);
	h2d_direct_close(&d);
	h2d_file_close(&f);
}

static void reasons(void)
{
	const char *path = scratch_file("reasons", 9000), *why;

	reset();
	fail_open = EINVAL;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	CHECK_STR(why, "the filesystem refuses O_DIRECT");
	fail_open = EACCES;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	fail_open = EMFILE;
	CHECK_EQ(open_direct(path, &why), H2D_E_IO);

	reset();
	fail_read = EINVAL;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	CHECK_STR(why, "the filesystem refuses direct reads");
	CHECK_EQ(reads, 1);
	fail_read = EIO; /* a bad disk is not a missing feature */
	CHECK_EQ(open_direct(path, &why), H2D_E_IO);
	fail_read = ENODATA; /* read as: nothing there */
	CHECK_EQ(open_direct(path, &why), H2D_E_CHANGED);

	reset();
	fake_statx = 1;
	fake.stx_mask = STATX_DIOALIGN;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	CHECK_STR(why, "the filesystem offers no direct reads of this file");
	fake.stx_dio_offset_align = fake.stx_dio_mem_align = 3000;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	fake.stx_dio_offset_align = fake.stx_dio_mem_align = 1u << 30;
	CHECK_EQ(open_direct(path, &why), H2D_E_UNSUPPORTED);
	CHECK_EQ(reads, 0);
	h2d_io = &h2d_io_system;
}

/* Where the kernel does not tell, 4096; an interrupted probe is repeated. */
static void alignment(void)
{
	const char *path = scratch_file("align", 9000), *why;
	struct h2d_direct d;
	struct h2d_file f;

	reset();
	fake_statx = 1;
	interruptions = 3;
	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	if (!h2d_direct_open(&d, &f, &why, &scratch_log)) {
		CHECK_EQ(d.offset_align_bytes, 4096);
		CHECK_EQ(d.memory_align_bytes, 4096);
		CHECK_EQ(reads, 4);
		h2d_direct_close(&d);
	}
	h2d_file_close(&f);

	/* An empty file has nothing to probe. */
	reset();
	REQUIRE(!h2d_file_open(&f, scratch_file("empty", 0), &scratch_log));
	if (!h2d_direct_open(&d, &f, &why, &scratch_log)) {
		CHECK_EQ(reads, 0);
		h2d_direct_close(&d);
	}
	h2d_file_close(&f);
	h2d_io = &h2d_io_system;
}

/* Without /proc the path is all there is, and it must lead to the same file. */
static void without_proc(void)
{
	const char *path = scratch_file("noproc", 9000), *why;
	struct h2d_direct d;
	struct h2d_file f;
	int fd, rc;

	reset();
	no_proc = 1;
	rc = open_direct(path, &why);
	CHECK(!rc || rc == H2D_E_UNSUPPORTED);
	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	REQUIRE(!rename(scratch_file("newer", 9000), path));
	rc = h2d_direct_open(&d, &f, &why, &scratch_log);
	CHECK(rc == H2D_E_CHANGED || rc == H2D_E_UNSUPPORTED);
	h2d_file_close(&f);
	fd = open(path, O_RDONLY);
	REQUIRE(!h2d_file_open_fd(&f, fd, NULL, &scratch_log));
	CHECK_EQ(h2d_direct_open(&d, &f, &why, &scratch_log), H2D_E_UNSUPPORTED);
	CHECK(why && strstr(why, "no /proc"));
	h2d_file_close(&f);
	close(fd);
	h2d_io = &h2d_io_system;
}

/* A path that leads elsewhere by now is not followed. */
static void same_inode(void)
{
	const char *path = scratch_file("first", 9000), *why;
	unsigned char *buf;
	struct h2d_direct d;
	struct h2d_file f;

	reset();
	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	REQUIRE(!rename(scratch_file("second", 100), path));
	if (!h2d_direct_open(&d, &f, &why, &scratch_log)) {
		struct stat st;

		CHECK_EQ(fstat(d.fd, &st), 0);
		CHECK_EQ(st.st_ino, f.id.ino);
		CHECK_EQ(st.st_size, 9000);
		h2d_direct_close(&d);
	}
	h2d_file_close(&f);
	buf = (unsigned char *)"abc";
	REQUIRE(!h2d_file_open_memory(&f, buf, 3, &scratch_log));
	CHECK_EQ(h2d_direct_open(&d, &f, &why, &scratch_log), H2D_E_UNSUPPORTED);
	CHECK(why && strstr(why, "memory"));
	h2d_file_close(&f);
	h2d_io = &h2d_io_system;
}

/* Refused by older kernels, buffered by newer ones: never an error. */
static void tmpfs(void)
{
	int fd = memfd_create("h2d", MFD_CLOEXEC);
	const char *why;
	struct h2d_direct d;
	struct h2d_file f;
	int rc;

	reset();
	REQUIRE(fd >= 0 && !ftruncate(fd, 9000));
	REQUIRE(!h2d_file_open_fd(&f, fd, "memfd", &scratch_log));
	close(fd);
	rc = h2d_direct_open(&d, &f, &why, &scratch_log);
	CHECK(!rc || (rc == H2D_E_UNSUPPORTED && why));
	printf("tmpfs: %s\n", rc ? why : "supported");
	h2d_direct_close(&d);
	h2d_file_close(&f);
	h2d_io = &h2d_io_system;
}

int main(void)
{
	RUN(reads_what_is_there);
	RUN(reasons);
	RUN(alignment);
	RUN(without_proc);
	RUN(same_inode);
	RUN(tmpfs);
	return TEST_DONE();
}
