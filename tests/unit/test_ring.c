/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory: kept between loads, given up when it does not fit, and refused by the kernel
 * for direct reads. */
#include <errno.h>
#include <fcntl.h>

#include "device/engine_thread.h"
#include "file/io.h"
#include "load_fixture.h"

static struct fixture f;
static struct h2d_device *dev;

static void open_device(void)
{
	struct h2d_device_opts o = H2D_OPTS(o);

	o.log = fixture_log;
	o.log_user = &f;
	if (h2d_device_open("null", &o, &dev))
		abort();
}

static struct h2d_soft_counts counts(void)
{
	struct h2d_soft_counts c;

	h2d_soft_count(dev->priv, &c);
	return c;
}

/* @return staging bytes of a load */
static uint64_t load(const char *path, uint64_t staging, char *reason)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;

	o.path = path;
	o.staging_bytes = staging;
	o.threads = 2;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	if (!w)
		return 0;
	h2d_weights_report(w, &r);
	if (reason)
		snprintf(reason, 700, "%s", r.reason);
	h2d_weights_free(w);
	return r.staging_bytes;
}

static void kept_between_loads(void)
{
	uint64_t large, small;
	void *p;

	open_device();
	large = load("pinned", 1 << 20, NULL);
	CHECK(large > 0 && large <= 1 << 20);
	CHECK_EQ(counts().host_alloc_count, 1);
	CHECK_EQ(counts().host_alloc_bytes, large);
	p = dev->spares[0].p;
	CHECK(p != NULL);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(load("pinned", 1 << 20, NULL), large);
		CHECK_EQ(counts().host_alloc_count, 1);
		CHECK(dev->spares[0].p == p);
	}
	/* A bound that it exceeds: it has to go. */
	small = load("pinned", 1 << 18, NULL);
	CHECK(small <= 1 << 18);
	CHECK_EQ(counts().host_alloc_count, 1);
	CHECK_EQ(counts().host_alloc_bytes, small);
	/* One that is too small, too. */
	CHECK_EQ(load("pinned", 1 << 20, NULL), large);
	CHECK_EQ(counts().host_alloc_bytes, large);
	h2d_device_host_trim(dev);
	CHECK_EQ(counts().host_alloc_count, 0);
	CHECK_EQ(load("pinned", 1 << 20, NULL), large);
	h2d_device_close(dev); /* releases it: the leak check would tell */
}

static void no_more_than_a_few_are_kept(void)
{
	void *p[H2D_SPARE_MAX + 2];
	uint64_t bytes = 4096;

	open_device();
	for (int i = 0; i < H2D_SPARE_MAX + 2; i++)
		CHECK_EQ(h2d_device_host_get(dev, &bytes, 4096, &p[i]), 0);
	CHECK_EQ(counts().host_alloc_count, H2D_SPARE_MAX + 2);
	for (int i = 0; i < H2D_SPARE_MAX + 2; i++)
		h2d_device_host_put(dev, p[i], bytes);
	CHECK_EQ(counts().host_alloc_count, H2D_SPARE_MAX);
	h2d_device_close(dev);
}

/* As Linux answers a direct read into memory that has no pages to pin. The first one is of the
 * question whether the file can be read so, into memory of our own. */
static unsigned direct_reads;

static ssize_t no_direct(int fd, void *buf, size_t bytes, off_t offset)
{
	if ((fcntl(fd, F_GETFL) & O_DIRECT) && direct_reads++) {
		errno = EFAULT;
		return -1;
	}
	return pread(fd, buf, bytes, offset);
}

static void memory_that_takes_no_direct_reads(void)
{
	struct h2d_io_ops io = h2d_io_system;
	char reason[700];

	open_device();
	load("direct", 1 << 20, reason);
	if (strstr(reason, "through the page cache")) {
		h2d_device_close(dev);
		printf("note: no direct reads here at all: %s\n", reason);
		return;
	}
	dev->caps |= H2D_DEV_PINNED;
	io.pread = no_direct;
	h2d_io = &io;
	load("direct", 1 << 20, reason);
	h2d_io = &h2d_io_system;
	CHECK_EQ(direct_reads, 2);
	CHECK(strstr(reason, "pinned memory takes no direct reads") != NULL);
	h2d_device_close(dev);
}

int main(void)
{
	static const struct extent extents[] = {{1000, 500000}, {501000, 7}, {600000, 900001}};

	if (fixture_open(&f, 1500001, extents, 3)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	RUN(kept_between_loads);
	RUN(no_more_than_a_few_are_kept);
	RUN(memory_that_takes_no_direct_reads);
	fixture_close(&f);
	return TEST_DONE();
}
