/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to the file that a trace is written to. */
#include <sys/stat.h>

#include "load_fixture.h"

static const struct extent extents[] = {{64, 100000}, {100064, 50000}};
static struct fixture f;
static struct h2d_device *dev;
static char trace[160];

static int cancel(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	(void)done;
	(void)total;
	return 1;
}

static int load_by(struct h2d_device *on, const char *path, const char *to,
		   h2d_progress_fn progress)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w = NULL;
	int rc;

	o.path = path;
	o.trace_path = to;
	o.progress = progress;
	rc = h2d_load(f.ckpt, on, &o, &w);
	h2d_weights_free(w);
	return rc;
}

static int load(const char *to, h2d_progress_fn progress)
{
	return load_by(dev, "pinned", to, progress);
}

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? -1 : st.st_size;
}

/* A load that fails leaves no file behind, and none of an earlier load's trace is lost. */
static void failed_loads(void)
{
	off_t whole;

	CHECK_EQ(load(trace, cancel), H2D_E_CANCELLED);
	CHECK_EQ(size_of(trace), -1);
	CHECK_EQ(load(trace, NULL), 0);
	whole = size_of(trace);
	CHECK(whole > 2);
	CHECK_EQ(load(trace, cancel), H2D_E_CANCELLED);
	CHECK_EQ(size_of(trace), whole);
}

/* A longer file is cut to the trace. */
static void written_over(void)
{
	char last = 0;
	int fd;

	CHECK_EQ(fixture_write(trace, 1 << 20), 0);
	CHECK_EQ(load(trace, NULL), 0);
	CHECK(size_of(trace) < 1 << 20);
	fd = open(trace, O_RDONLY | O_CLOEXEC);
	CHECK(lseek(fd, -1, SEEK_END) > 0);
	CHECK_EQ(read(fd, &last, 1), 1);
	CHECK(last == '}' || last == '\n');
	close(fd);
}

/* A slip of the user's must not cost a checkpoint, by whatever name it is called. */
static void over_the_checkpoint(void)
{
	CHECK_EQ(load(f.path, NULL), H2D_E_INVALID);
	CHECK_EQ((uint64_t)size_of(f.path), f.file_bytes);
	unlink(trace);
	CHECK_EQ(symlink(f.path, trace), 0);
	CHECK_EQ(load(trace, NULL), H2D_E_INVALID);
	CHECK_EQ((uint64_t)size_of(f.path), f.file_bytes);
	CHECK_EQ(load(NULL, NULL), 0);
}

/* A trace that was asked for is there, or the load says why not. */
static void of_a_view(void)
{
	struct h2d_device *host = NULL;

	REQUIRE(!h2d_device_open("host", NULL, &host));
	CHECK_EQ(load_by(host, "view", trace, NULL), H2D_E_UNSUPPORTED);
	CHECK_EQ(load_by(host, "view", NULL, NULL), 0);
	h2d_device_close(host);
}

int main(void)
{
	if (fixture_open(&f, 200000, extents, 2) || h2d_device_open("null", NULL, &dev)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	snprintf(trace, sizeof(trace), "%s.trace", f.path);
	RUN(failed_loads);
	RUN(written_over);
	RUN(over_the_checkpoint);
	RUN(of_a_view);
	unlink(trace);
	h2d_device_close(dev);
	fixture_close(&f);
	return TEST_DONE();
}
