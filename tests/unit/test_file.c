/* SPDX-License-Identifier: Apache-2.0 */
/* Exact reads under every fault of the I/O table, and the identity of a file. */
#include <errno.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "file/file.h"
#include "file/io.h"
#include "scratch.h"
#include "test.h"

enum { FILE_BYTES = 300000 };

static struct h2d_io_ops faulty;
static int calls, fault_errno, faults_left, most_bytes;

/* Fails `faults_left` times, then reads at most `most_bytes`. */
static ssize_t faulty_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	calls++;
	if (faults_left) {
		faults_left--;
		errno = fault_errno;
		return -1;
	}
	if (most_bytes && bytes > (size_t)most_bytes)
		bytes = (size_t)most_bytes;
	return pread(fd, buf, bytes, offset);
}

static ssize_t faulty_preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	calls++;
	if (count > IOV_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (faults_left) {
		faults_left--;
		errno = fault_errno;
		return -1;
	}
	while (count && !iov->iov_len) {
		iov++;
		count--;
	}
	if (most_bytes && count)
		return pread(fd, iov->iov_base,
			     iov->iov_len < (size_t)most_bytes ? iov->iov_len
							       : (size_t)most_bytes,
			     offset);
	return preadv(fd, iov, count, offset);
}

static void inject(int err, int times, int most)
{
	faulty = h2d_io_system;
	faulty.pread = faulty_pread;
	faulty.preadv = faulty_preadv;
	fault_errno = err;
	faults_left = times;
	most_bytes = most;
	calls = 0;
	h2d_io = &faulty;
}

static void heal(void)
{
	h2d_io = &h2d_io_system;
}

static unsigned char buf[FILE_BYTES];

static int read_all(const struct h2d_file *f)
{
	memset(buf, 0, sizeof(buf));
	return h2d_file_read(f, buf, sizeof(buf) - 7, 7, &scratch_log);
}

static int readv_all(const struct h2d_file *f)
{
	static struct iovec iov[3000];
	size_t n = 0;

	memset(buf, 0, sizeof(buf));
	for (size_t at = 0; at < sizeof(buf) - 7; n++) {
		size_t left = sizeof(buf) - 7 - at, want = n % 5 == 3 ? 0 : 150;

		want = want < left ? want : left;
		iov[n] = (struct iovec){buf + at, want};
		at += want;
	}
	CHECK(n > IOV_MAX && n < 3000);
	return h2d_file_readv(f, iov, n, 7, &scratch_log);
}

static void faults(void)
{
	static int (*const reads[])(const struct h2d_file *) = {read_all, readv_all};
	struct h2d_file f;

	REQUIRE(!h2d_file_open(&f, scratch_file("faults", FILE_BYTES), &scratch_log));
	for (size_t i = 0; i < 2; i++) {
		inject(0, 0, 1111);
		CHECK_EQ(reads[i](&f), 0);
		CHECK(scratch_same(buf, sizeof(buf) - 7, 7));
		CHECK(calls > FILE_BYTES / 1111);

		inject(EINTR, 500, 0);
		CHECK_EQ(reads[i](&f), 0);
		CHECK(scratch_same(buf, sizeof(buf) - 7, 7));
		CHECK_EQ(faults_left, 0);

		inject(EAGAIN, 3, 0);
		CHECK_EQ(reads[i](&f), 0);
		CHECK(scratch_same(buf, sizeof(buf) - 7, 7));
		CHECK_EQ(faults_left, 0);

		/* Without an end, neither may hang. */
		inject(EAGAIN, INT_MAX, 0);
		CHECK_EQ(reads[i](&f), H2D_E_IO);
		inject(EINTR, INT_MAX, 0);
		CHECK_EQ(reads[i](&f), H2D_E_IO);

		inject(EIO, 1, 0);
		CHECK_EQ(reads[i](&f), H2D_E_IO);
		CHECK(scratch_logged("faults: reading at offset 7"));
		CHECK_EQ(calls, 1);
	}
	heal();
	h2d_file_close(&f);
}

static size_t longest;

static ssize_t pretend_pread(int fd, void *p, size_t bytes, off_t offset)
{
	(void)fd;
	(void)p;
	(void)offset;
	longest = bytes > longest ? bytes : longest;
	return (ssize_t)(bytes > (size_t)INT_MAX ? INT_MAX / 4096 * 4096 : bytes);
}

static void huge_read(void)
{
	const uint64_t bytes = 5ull << 30;
	const char *path = scratch_file("huge", 1);
	struct h2d_file f;

	REQUIRE(!truncate(path, (off_t)bytes));
	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	faulty = h2d_io_system;
	faulty.pread = pretend_pread;
	h2d_io = &faulty;
	CHECK_EQ(h2d_file_read(&f, buf, bytes, 0, &scratch_log), 0);
	CHECK_EQ(longest, 0x7ffff000); /* what Linux reads at most */
	heal();
	h2d_file_close(&f);
}

static void ranges(void)
{
	struct h2d_file f;
	struct iovec iov = {buf, 10};

	REQUIRE(!h2d_file_open(&f, scratch_file("ranges", 100), &scratch_log));
	CHECK_EQ(h2d_file_read(&f, buf, 100, 0, &scratch_log), 0);
	CHECK_EQ(h2d_file_read(&f, buf, 0, 100, &scratch_log), 0);
	CHECK_EQ(h2d_file_read(&f, buf, 101, 0, &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_read(&f, buf, 1, 100, &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_read(&f, buf, 2, UINT64_MAX, &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_readv(&f, &iov, 1, 91, &scratch_log), H2D_E_FORMAT);
	CHECK(scratch_logged("10 bytes at offset 91 pass the end of the file (100)"));
	CHECK_EQ(h2d_file_readv(&f, &iov, 0, 0, &scratch_log), 0);
	h2d_file_close(&f);
}

static void memory_files(void)
{
	unsigned char data[100];
	struct iovec iov[2] = {{buf, 10}, {buf + 20, 5}};
	struct h2d_file f;

	scratch_fill(data, sizeof(data), 0);
	REQUIRE(!h2d_file_open_memory(&f, data, sizeof(data), &scratch_log));
	CHECK_EQ(h2d_file_read(&f, buf, 90, 10, &scratch_log), 0);
	CHECK(scratch_same(buf, 90, 10));
	CHECK_EQ(h2d_file_read(&f, buf, 91, 10, &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_readv(&f, iov, 2, 3, &scratch_log), 0);
	CHECK(scratch_same(buf, 10, 3) && scratch_same(buf + 20, 5, 13));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), 0);
	h2d_file_close(&f);
	CHECK_EQ(h2d_file_open_memory(&f, NULL, 1, &scratch_log), H2D_E_INVALID);
	CHECK_EQ(h2d_file_open_memory(&f, NULL, 0, &scratch_log), 0);
	h2d_file_close(&f);
}

/* Each way in which a file changes under an open descriptor. */
static void changes(void)
{
	const char *path = scratch_file("changes", 5000), *other;
	struct timeval times[2] = {{1, 0}, {1, 0}};
	struct h2d_file f;
	int fd;

	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), 0);
	REQUIRE(!truncate(path, 4000));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	CHECK(scratch_logged("size differs"));
	CHECK_EQ(h2d_file_read(&f, buf, 5000, 0, &scratch_log), H2D_E_CHANGED);
	CHECK(scratch_logged("ends at offset 4000, its size was 5000"));
	h2d_file_close(&f);

	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	fd = open(path, O_WRONLY);
	utimes(path, times);
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	CHECK(scratch_logged("modification time differs"));
	close(fd);
	h2d_file_close(&f);

	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	other = scratch_file("other", 5000);
	REQUIRE(!rename(other, path));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	h2d_file_close(&f);

	REQUIRE(!h2d_file_open(&f, path, &scratch_log));
	REQUIRE(!unlink(path));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	h2d_file_close(&f);
}

/* A link or directory is turned elsewhere: neither touches the inode that is open. */
static void replaced_without_touching(void)
{
	char *absolute = realpath(scratch_file("a", 100), NULL);
	const char *link;
	struct h2d_file f;

	scratch_file("b", 100);
	link = scratch_path("link");
	REQUIRE(!symlink("a", link));
	REQUIRE(!h2d_file_open(&f, link, &scratch_log));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), 0);
	REQUIRE(!unlink(link) && !symlink("b", link));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	CHECK(scratch_logged("the file was replaced"));
	h2d_file_close(&f);

	/* A descriptor of the caller's has no path that could lead elsewhere. */
	REQUIRE(!unlink(link) && !symlink("a", link));
	{
		int fd = open(link, O_RDONLY);

		REQUIRE(!h2d_file_open_fd(&f, fd, link, &scratch_log));
		close(fd);
	}
	REQUIRE(!unlink(link) && !symlink("b", link));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), 0);
	CHECK_EQ(h2d_file_read(&f, buf, 100, 0, &scratch_log), 0);
	h2d_file_close(&f);

	/* A relative path that a chdir() broke says nothing about the file. */
	REQUIRE(!h2d_file_open(&f, scratch_path("a"), &scratch_log));
	{
		int here = open(".", O_RDONLY);

		REQUIRE(!chdir("/"));
		CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), 0);
		REQUIRE(!fchdir(here));
		close(here);
	}
	h2d_file_close(&f);

	/* An absolute one that is gone does: its directory was moved away. */
	REQUIRE(absolute && !h2d_file_open(&f, absolute, &scratch_log));
	REQUIRE(!rename(scratch_dir, "scratch-moved"));
	CHECK_EQ(h2d_file_check_unchanged(&f, &scratch_log), H2D_E_CHANGED);
	CHECK(scratch_logged("no longer exists"));
	REQUIRE(!rename("scratch-moved", scratch_dir));
	h2d_file_close(&f);
	free(absolute);
}

static void not_files(void)
{
	const char *fifo = scratch_path("fifo");
	struct h2d_file f;
	int fd;

	REQUIRE(!mkfifo(fifo, 0600));
	CHECK_EQ(h2d_file_open(&f, fifo, &scratch_log), H2D_E_FORMAT); /* and does not hang */
	CHECK_EQ(h2d_file_open(&f, "/", &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_open(&f, "/dev/null", &scratch_log), H2D_E_FORMAT);
	CHECK_EQ(h2d_file_open(&f, scratch_path("none"), &scratch_log), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_file_open_fd(&f, -1, NULL, &scratch_log), H2D_E_IO);
	fd = open(scratch_path("w"), O_WRONLY | O_CREAT, 0600);
	CHECK_EQ(h2d_file_open_fd(&f, fd, NULL, &scratch_log), H2D_E_PERMISSION);
	CHECK(scratch_logged("is not open for reading"));
	close(fd);
	h2d_file_close(&f);
}

/* Unaligned reads through a descriptor that the caller opened for direct ones. */
static void direct_descriptor(void)
{
	int fd = open(scratch_file("direct", 10000), O_RDONLY | O_DIRECT);
	struct h2d_file f;

	if (fd < 0)
		return; /* this filesystem has none */
	REQUIRE(!h2d_file_open_fd(&f, fd, NULL, &scratch_log));
	CHECK_EQ(h2d_file_read(&f, buf, 333, 77, &scratch_log), 0);
	CHECK(scratch_same(buf, 333, 77));
	CHECK(fcntl(fd, F_GETFL) & O_DIRECT); /* the caller's keeps its flag */
	h2d_file_close(&f);
	close(fd);
}

int main(void)
{
	RUN(faults);
	RUN(huge_read);
	RUN(ranges);
	RUN(memory_files);
	RUN(changes);
	RUN(replaced_without_touching);
	RUN(not_files);
	RUN(direct_descriptor);
	return TEST_DONE();
}
