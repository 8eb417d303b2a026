/* SPDX-License-Identifier: Apache-2.0 */
/* The handle: the ways to open one, what its calls answer, views, faults of reads and memory.
 */
#include <limits.h>
#include <sys/mman.h>

#include "ckpt.h"
#include "format/checkpoint.h"

static void bad_arguments(void)
{
	struct h2d_open_opts o = H2D_OPTS(o);
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_checkpoint *c = (void *)1;
	unsigned char large[sizeof(o) + 8] = {0};
	size_t size = sizeof(large);
	const void *data;

	CHECK_EQ(h2d_checkpoint_open(NULL, NULL, &c), H2D_E_INVALID);
	CHECK(c == NULL);
	CHECK_EQ(h2d_checkpoint_open("x", NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_open_fd(0, "x", NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_open_memory("x", 1, NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_open_memory(NULL, 1, NULL, &c), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_open_memory(NULL, 0, NULL, &c), H2D_E_FORMAT);
	CHECK_EQ(h2d_checkpoint_open_fd(-1, NULL, NULL, &c), H2D_E_IO);
	o.size = 3;
	CHECK_EQ(h2d_checkpoint_open_memory("x", 1, &o, &c), H2D_E_INVALID);
	/* A newer caller's struct: taken while what we do not know of it is zero. */
	memcpy(large, &size, sizeof(size));
	CHECK_EQ(h2d_checkpoint_open_memory("x", 1, (void *)large, &c), H2D_E_FORMAT);
	large[sizeof(large) - 1] = 1;
	CHECK_EQ(h2d_checkpoint_open_memory("x", 1, (void *)large, &c), H2D_E_INVALID);
	CHECK(c == NULL);

	h2d_checkpoint_close(NULL);
	CHECK_EQ(h2d_checkpoint_info(NULL, &info), H2D_E_INVALID);
	CHECK(h2d_checkpoint_file(NULL, 0) == NULL);
	CHECK_EQ(h2d_checkpoint_tensor(NULL, 0, &t), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_find(NULL, "", 0, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_checkpoint_view(NULL, 0, &data, NULL), H2D_E_INVALID);
}

static void older_and_newer_info(void)
{
	struct {
		struct h2d_checkpoint_info i;
		uint64_t later;
	} wide = {.i.size = sizeof(wide), .later = 7};
	struct h2d_checkpoint_info narrow = {
		.size = offsetof(struct h2d_checkpoint_info, format), .format = "untouched"};

	REQUIRE(!st_open("{}", 2, 0));
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &wide.i), 0);
	CHECK_EQ(wide.later, 0);
	CHECK_EQ(wide.i.size, sizeof(wide));
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &narrow), 0);
	CHECK_STR(narrow.path, "memory");
	CHECK_STR(narrow.format, "untouched");
	narrow.size = 1;
	CHECK_EQ(h2d_checkpoint_info(st_ckpt, &narrow), H2D_E_INVALID);
	CHECK(h2d_checkpoint_file(st_ckpt, 1) == NULL);
	CHECK_EQ(h2d_checkpoint_find(st_ckpt, "a", 1, NULL), H2D_E_NOT_FOUND);
	CHECK(st_ckpt->open_ns > 0);
	st_drop();
}

static void by_path(void)
{
	struct h2d_open_opts o = fresh_log();
	struct h2d_tensor_info t = H2D_OPTS(t);
	const void *view, *again;
	struct h2d_checkpoint *c;
	uint64_t size;

	write_st("m.safetensors", 5000, NAMES("a", "b"));
	REQUIRE(!h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c));
	CHECK_STR(h2d_checkpoint_file(c, 0), in_scratch("m.safetensors"));
	CHECK_EQ(h2d_checkpoint_tensor(c, 1, &t), 0);
	CHECK_STR(t.name, "b");
	CHECK_EQ(h2d_checkpoint_view(c, 1, &view, &size), 0);
	CHECK_EQ(size, 5000);
	for (size_t i = 0; i < size; i++)
		CHECK(((const unsigned char *)view)[i] == pattern(5000 + i));
	CHECK_EQ(h2d_checkpoint_view(c, 1, &again, NULL), 0);
	CHECK(again == view);
	CHECK_EQ(h2d_checkpoint_view(c, 2, &again, NULL), H2D_E_NOT_FOUND);
	CHECK(again == NULL);
	CHECK_EQ(lines.errors + lines.warnings, 0);
	h2d_checkpoint_close(c);
}

static void by_descriptor(void)
{
	struct h2d_open_opts o = fresh_log();
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *c;
	const void *view;
	int fd, fds[2];

	write_st("m.safetensors", 4, NAMES("a"));
	fd = open(in_scratch("m.safetensors"), O_RDONLY);
	REQUIRE(fd >= 0);
	REQUIRE(!h2d_checkpoint_open_fd(fd, "given", &o, &c));
	/* It was duplicated: the caller's may go. */
	close(fd);
	CHECK_EQ(h2d_checkpoint_info(c, &info), 0);
	CHECK_STR(info.path, "given");
	CHECK_EQ(h2d_checkpoint_view(c, 0, &view, NULL), 0);
	CHECK_EQ(*(const unsigned char *)view, pattern(0));
	h2d_checkpoint_close(c);

	REQUIRE(!pipe(fds));
	CHECK_EQ(h2d_checkpoint_open_fd(fds[0], "pipe", &o, &c), H2D_E_FORMAT);
	CHECK_STR(lines.error, "pipe: not a regular file");
	close(fds[0]);
	close(fds[1]);
}

static void not_files(void)
{
	struct h2d_open_opts o = fresh_log();
	struct h2d_checkpoint *c;
	char longer[NAME_MAX + 2];

	CHECK_EQ(h2d_checkpoint_open(in_scratch("nothing"), &o, &c), H2D_E_NOT_FOUND);
	CHECK_EQ(lines.errors, 1);
	memset(longer, 'n', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	CHECK_EQ(h2d_checkpoint_open(longer, &o, &c), H2D_E_NOT_FOUND);
	CHECK_EQ(h2d_checkpoint_open("", &o, &c), H2D_E_NOT_FOUND);
	CHECK(!mkfifo(in_scratch("fifo"), 0600));
	CHECK_EQ(h2d_checkpoint_open(in_scratch("fifo"), &o, &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "fifo: not a regular file") != NULL);
	write_text("empty", "");
	CHECK_EQ(h2d_checkpoint_open(in_scratch("empty"), &o, &c), H2D_E_FORMAT);
	write_bytes("legacy", "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
	CHECK_EQ(h2d_checkpoint_open(in_scratch("legacy"), &o, &c), H2D_E_FORMAT);
	CHECK(strstr(lines.error, "legacy pickle stream of torch.save (offset 0)") != NULL);
	CHECK(c == NULL);
}

/* The file is cut short between opening and the first view: an error, no mapping of it. */
static void view_of_a_changed_file(void)
{
	struct h2d_open_opts o = fresh_log();
	struct h2d_checkpoint *c;
	const void *view;

	write_st("m.safetensors", 5000, NAMES("a", "b"));
	REQUIRE(!h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c));
	CHECK(!truncate(in_scratch("m.safetensors"), 100));
	CHECK_EQ(h2d_checkpoint_view(c, 0, &view, NULL), H2D_E_CHANGED);
	CHECK(view == NULL);
	CHECK_EQ(lines.errors, 1);
	CHECK_EQ(h2d_checkpoint_view(c, 0, &view, NULL), H2D_E_CHANGED);
	h2d_checkpoint_close(c);
}

/* ---- reads that go wrong */

static enum { WHOLE, SINGLE_BYTES, FAIL, END } mode;
static long reads, fail_at, opened;

static ssize_t odd_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	long n = reads++;

	switch (mode) {
	case SINGLE_BYTES:
		if (n % 3 == 1) {
			errno = EINTR;
			return -1;
		}
		return pread(fd, buf, 1, offset);
	case FAIL:
		if (n == fail_at) {
			errno = EIO;
			return -1;
		}
		break;
	case END:
		if (n == fail_at)
			return 0;
		break;
	default:
		break;
	}
	return pread(fd, buf, bytes, offset);
}

static int counting_open(const char *path, int flags)
{
	int fd = open(path, flags);

	opened += fd >= 0;
	return fd;
}

static int counting_close(int fd)
{
	opened--;
	return close(fd);
}

static void *no_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	(void)addr;
	(void)bytes;
	(void)prot;
	(void)flags;
	(void)fd;
	(void)offset;
	errno = ENOMEM;
	return MAP_FAILED;
}

static void faulty_reads(void)
{
	struct h2d_io_ops io = h2d_io_system;
	struct h2d_open_opts o;
	struct h2d_checkpoint *c;
	const void *view;
	long calls;

	io.pread = odd_pread;
	io.open = counting_open;
	io.close = counting_close;
	write_st("m.safetensors", 4, NAMES("a", "b"));
	h2d_io = &io;

	mode = WHOLE;
	reads = 0;
	o = fresh_log();
	CHECK_EQ(h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c), 0);
	h2d_checkpoint_close(c);
	calls = reads;
	CHECK(calls > 0 && calls < 6);

	mode = SINGLE_BYTES;
	o = fresh_log();
	CHECK_EQ(h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c), 0);
	CHECK_EQ(lines.errors, 0);
	h2d_checkpoint_close(c);

	for (fail_at = 0; fail_at < calls; fail_at++) {
		mode = FAIL;
		reads = 0;
		o = fresh_log();
		CHECK_EQ(h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c), H2D_E_IO);
		CHECK(strstr(lines.error, "m.safetensors: reading") != NULL);
		CHECK_EQ(lines.errors, 1);
		mode = END;
		reads = 0;
		o = fresh_log();
		CHECK_EQ(h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c),
			 H2D_E_CHANGED);
		CHECK(strstr(lines.error, "m.safetensors: file was truncated") != NULL);
		CHECK_EQ(lines.errors, 1);
	}

	mode = WHOLE;
	io.mmap = no_mmap;
	o = fresh_log();
	CHECK_EQ(h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c), 0);
	CHECK_EQ(h2d_checkpoint_view(c, 0, &view, NULL), H2D_E_NOMEM);
	CHECK_EQ(lines.errors, 1);
	h2d_checkpoint_close(c);
	h2d_io = &h2d_io_system;
	CHECK_EQ(opened, 0);
}

/* Every read of a set fails once: of the index, of the heads, of the headers. */
static void faulty_reads_of_a_set(void)
{
	static const char index[] = "{\"weight_map\":{\"a\":\"x\",\"b\":\"y\"}}";
	struct h2d_io_ops io = h2d_io_system;
	struct h2d_checkpoint *c;
	struct h2d_open_opts o;

	make_folder("set");
	write_st("set/x", 4, NAMES("a"));
	write_st("set/y", 4, NAMES("b"));
	write_text("set/m.index.json", index);
	io.pread = odd_pread;
	io.open = counting_open;
	io.close = counting_close;
	h2d_io = &io;
	mode = FAIL;
	for (fail_at = 0;; fail_at++) {
		reads = 0;
		o = fresh_log();
		if (!h2d_checkpoint_open(in_scratch("set/m.index.json"), &o, &c))
			break;
		CHECK_EQ(lines.errors, 1);
		CHECK(strstr(lines.error, "Input/output error") != NULL);
		CHECK_EQ(opened, 0);
		REQUIRE(fail_at < 50);
	}
	CHECK(fail_at > 6);
	h2d_checkpoint_close(c);
	CHECK_EQ(opened, 0);
	h2d_io = &h2d_io_system;
}

/* ---- several threads on one handle */

static struct h2d_checkpoint *common;

static void *reader(void *arg)
{
	int *wrong = arg;
	const void *view;
	uint64_t index, size;

	for (int i = 0; i < 200; i++) {
		const char *name = i % 2 ? "a" : "b";

		*wrong += h2d_checkpoint_find(common, name, 1, &index) != 0;
		*wrong += h2d_checkpoint_view(common, index, &view, &size) != 0;
		*wrong += *(const unsigned char *)view != pattern(i % 2 ? 0 : 5000);
	}
	return NULL;
}

static void several_threads(void)
{
	pthread_t threads[4];
	int wrong[4] = {0};

	write_st("m.safetensors", 5000, NAMES("a", "b"));
	REQUIRE(!h2d_checkpoint_open(in_scratch("m.safetensors"), NULL, &common));
	for (int i = 0; i < 4; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, reader, &wrong[i]));
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		CHECK_EQ(wrong[i], 0);
	}
	h2d_checkpoint_close(common);
}

static void every_allocation_fails(void)
{
	struct h2d_checkpoint *c;
	const void *view;

	write_st("m.safetensors", 4, NAMES("a", "b"));
	for (long i = 0;; i++) {
		struct h2d_open_opts o = fresh_log();
		int rc;

		mem_begin(i);
		rc = h2d_checkpoint_open(in_scratch("m.safetensors"), &o, &c);
		if (!rc)
			rc = h2d_checkpoint_view(c, 0, &view, NULL);
		mem_end();
		h2d_checkpoint_close(c);
		if (!rc) {
			CHECK(i > 10);
			break;
		}
		CHECK_EQ(rc, H2D_E_NOMEM);
		CHECK_EQ(lines.errors, 1);
		REQUIRE(i < 100);
	}
}

int main(void)
{
	scratch_make();
	RUN(bad_arguments);
	RUN(older_and_newer_info);
	RUN(by_path);
	RUN(by_descriptor);
	RUN(not_files);
	RUN(view_of_a_changed_file);
	RUN(faulty_reads);
	RUN(faulty_reads_of_a_set);
	RUN(several_threads);
	RUN(every_allocation_fails);
	return TEST_DONE();
}
