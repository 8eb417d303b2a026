/* SPDX-License-Identifier: Apache-2.0 */
/* Path `gds` on a host device that has been taught to read files. */
#include <unistd.h>

#include "device/engine_thread.h"
#include "load_fixture.h"

static struct fixture f;
static struct h2d_device *dev;
static const struct h2d_backend *real;
static struct h2d_backend teach;

static struct {
	_Atomic uint64_t calls, bytes, now, most;
	uint64_t fail_at;
	int status;
	const char *why;
} reads;

static int read_file_check(struct h2d_device *d, char *why, size_t why_bytes)
{
	(void)d;
	if (!reads.why)
		return 0;
	snprintf(why, why_bytes, "%s", reads.why);
	return H2D_E_UNSUPPORTED;
}

static int read_file(struct h2d_stream *s, int fd, uint64_t offset, uint64_t bytes, void *dst)
{
	uint64_t n = atomic_fetch_add(&reads.calls, 1) + 1, now;

	CHECK(s != NULL);
	if (n == reads.fail_at)
		return reads.status;
	now = atomic_fetch_add(&reads.now, 1) + 1;
	if (now > atomic_load(&reads.most))
		atomic_store(&reads.most, now);
	atomic_fetch_add(&reads.bytes, bytes);
	n = (uint64_t)pread(fd, dst, bytes, (off_t)offset);
	atomic_fetch_sub(&reads.now, 1);
	return n == bytes ? 0 : H2D_E_IO;
}

static void open_device(void)
{
	struct h2d_device_opts o = H2D_OPTS(o);

	o.log = fixture_log;
	o.log_user = &f;
	if (h2d_device_open("host", &o, &dev))
		abort();
	real = dev->backend;
	teach = *real;
	teach.read_file = read_file;
	teach.read_file_check = read_file_check;
	dev->caps = teach.caps = H2D_DEV_READABLE | H2D_DEV_READ_FILE;
	dev->backend = &teach;
	memset(&reads, 0, sizeof(reads));
}

static void close_device(void)
{
	dev->backend = real;
	h2d_device_close(dev);
}

static int load(uint64_t chunk, uint32_t threads)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;
	int rc;

	o.path = "gds";
	o.chunk_bytes = chunk;
	o.threads = threads;
	rc = h2d_load(f.ckpt, dev, &o, &w);
	if (rc) {
		CHECK(w == NULL);
		return rc;
	}
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	CHECK_STR(r.path_used, "gds");
	CHECK_EQ(r.staging_bytes, 0);
	CHECK_EQ(r.copy_count, 0);
	CHECK_EQ(r.read_bytes, atomic_load(&reads.bytes));
	CHECK(strstr(r.reason, "in place") == NULL);
	CHECK_EQ(h2d_verify(w, NULL, &v), 0);
	h2d_weights_free(w);
	return 0;
}

static void exact(void)
{
	static const uint64_t chunks[] = {0, 65536, 4096, 100000};

	for (int i = 0; i < 4; i++) {
		open_device();
		CHECK_EQ(load(chunks[i], (uint32_t)i), 0);
		CHECK(atomic_load(&reads.calls) > 0);
		close_device();
	}
	/* Tensors that lie together both in the file and on the device are one read. */
	open_device();
	CHECK_EQ(load(0, 1), 0);
	CHECK(atomic_load(&reads.calls) < f.ckpt->cat.tensor_count);
	close_device();
}

static void failures(void)
{
	struct h2d_soft_counts c;

	for (uint64_t n = 1; n < 8; n++) {
		open_device();
		reads.fail_at = n;
		reads.status = H2D_E_IO;
		CHECK_EQ(load(65536, 2), H2D_E_IO);
		CHECK(strstr(f.last_error, "offset") != NULL);
		h2d_soft_count(dev->priv, &c);
		CHECK_EQ(c.alloc_count, 0);
		CHECK_EQ(c.stream_count, 0);
		CHECK_EQ(c.event_count, 0);
		close_device();
	}
	open_device();
	reads.fail_at = 3;
	reads.status = H2D_E_DEVICE_LOST;
	CHECK_EQ(load(65536, 2), H2D_E_DEVICE_LOST);
	CHECK_EQ(atomic_load(&dev->lost), 1);
	CHECK(atomic_load(&dev->quarantined_bytes) > 0);
	close_device();
}

static void refused_with_its_reason(void)
{
	open_device();
	reads.why = "libstorage.so is not here";
	CHECK_EQ(load(0, 0), H2D_E_UNSUPPORTED);
	CHECK(strstr(f.last_error, "path gds on device host: libstorage.so is not here"));
	dev->caps = H2D_DEV_READABLE;
	CHECK_EQ(load(0, 0), H2D_E_UNSUPPORTED);
	CHECK(strstr(f.last_error, "cannot read files itself"));
	close_device();
}

int main(void)
{
	/* Four in a row at multiples of the alignment, then odd ones. */
	static const struct extent extents[] = {
		{4096, 65536}, {69632, 4096}, {73728, 256},	{73984, 1024}, {80001, 300000},
		{380001, 1},   {380002, 77},  {400000, 500000}, {950000, 0},   {950000, 50001},
	};

	if (fixture_open(&f, 1000001, extents, sizeof(extents) / sizeof(extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	RUN(exact);
	RUN(failures);
	RUN(refused_with_its_reason);
	fixture_close(&f);
	return TEST_DONE();
}
