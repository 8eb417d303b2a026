/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load() by every path, to every device that is always there, over odd shapes. */
#include "h2d/h2d.h"
#include "load_fixture.h"
#include "transfer/tuning.h"

static const char *const paths[] = {"pinned", "pread",	"mmap", "mmap-rw", "clone",
				    "eager",  "direct", "auto", "view"};
enum { PATHS = sizeof(paths) / sizeof(paths[0]) };

struct counts {
	uint64_t done, last_progress, progress_calls, total;
	unsigned char seen[4096];
};

static void on_done(void *user, uint64_t index)
{
	struct counts *c = user;

	c->done++;
	if (index < sizeof(c->seen))
		c->seen[index]++;
}

static int on_progress(void *user, uint64_t done, uint64_t total)
{
	struct counts *c = user;

	c->progress_calls++;
	if (done < c->last_progress)
		c->last_progress = UINT64_MAX; /* never again equal to the total */
	else
		c->last_progress = done;
	c->total = total;
	return 0;
}

static void check_bytes(const struct fixture *f, const struct h2d_weights *w)
{
	for (uint64_t i = 0; i < h2d_weights_count(w); i++) {
		const struct h2d_tensor *t;
		uint64_t index, bytes, at;
		unsigned char *buf;
		void *data;

		CHECK_EQ(h2d_weights_data(w, i, &index, &data, &bytes), 0);
		t = &f->ckpt->cat.tensors[index];
		CHECK_EQ(bytes, t->size_bytes);
		if (!bytes)
			continue;
		CHECK_EQ(fixture_differs(data, bytes, t->offset_bytes), UINT64_MAX);
		if (i % 7)
			continue;
		buf = malloc(bytes);
		at = bytes / 3;
		CHECK_EQ(h2d_weights_read(w, i, at, buf, bytes - at), 0);
		CHECK_EQ(fixture_differs(buf, bytes - at, t->offset_bytes + at), UINT64_MAX);
		free(buf);
	}
}

/* Load by one path with the given options and check everything that can be known. */
static void load_one(struct fixture *f, struct h2d_device *dev, const char *path,
		     struct h2d_load_opts o)
{
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_verify_result v = H2D_OPTS(v);
	uint64_t n = f->ckpt->cat.tensor_count;
	static struct counts c;
	struct h2d_weights *w = NULL;
	struct h2d_device_info di = H2D_OPTS(di);
	int rc;

	memset(&c, 0, sizeof(c));
	o.path = path;
	o.progress = on_progress;
	o.progress_user = &c;
	o.tensor_done = on_done;
	o.tensor_done_user = &c;
	h2d_device_info(dev, &di);
	rc = h2d_load(f->ckpt, dev, &o, &w);
	if (!strcmp(path, "view") && strcmp(di.name, "host")) {
		CHECK_EQ(rc, H2D_E_UNSUPPORTED);
		CHECK(w == NULL);
		return;
	}
	if (rc)
		fprintf(stderr, "path %s device %s: %s\n", path, di.name, f->last_error);
	CHECK_EQ(rc, 0);
	if (rc)
		return;
	CHECK_EQ(h2d_weights_count(w), n);
	CHECK_EQ(c.done, n);
	for (uint64_t i = 0; i < n && i < sizeof(c.seen); i++)
		CHECK_EQ(c.seen[i], 1);
	CHECK_EQ(c.last_progress, f->ckpt->cat.size_bytes);
	CHECK_EQ(c.total, f->ckpt->cat.size_bytes);
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	CHECK_EQ(r.loaded_bytes, f->ckpt->cat.size_bytes);
	CHECK_STR(r.path_requested, path);
	CHECK(r.reason != NULL);
	if (o.staging_bytes)
		CHECK(r.staging_bytes <= o.staging_bytes);
	if (di.readable) {
		check_bytes(f, w);
		CHECK_EQ(h2d_verify(w, NULL, &v), 0);
		CHECK_EQ(v.tensor_count, n);
		CHECK_EQ(v.compared_bytes, f->ckpt->cat.size_bytes);
		CHECK_EQ(v.mismatch_tensor, UINT64_MAX);
	} else {
		CHECK_EQ(h2d_verify(w, NULL, &v), H2D_E_UNSUPPORTED);
	}
	h2d_weights_free(w);
}

static void load_all(struct fixture *f, const struct h2d_load_opts *o)
{
	static const char *const devices[] = {"host", "null"};

	for (int d = 0; d < 2; d++) {
		struct h2d_device *dev = NULL;
		struct h2d_device_opts dopts = H2D_OPTS(dopts);

		dopts.log = fixture_log;
		dopts.log_user = f;
		CHECK_EQ(h2d_device_open(devices[d], &dopts, &dev), 0);
		for (int p = 0; dev && p < PATHS; p++)
			load_one(f, dev, paths[p], *o);
		h2d_device_close(dev);
	}
}

/* Every combination of staging that changes the route of chunks. */
static void load_routes(struct fixture *f, uint64_t chunk)
{
	struct h2d_load_opts o = H2D_OPTS(o);

	load_all(f, &o);
	o.chunk_bytes = chunk;
	load_all(f, &o);
	o.staging_bytes = 4 * (chunk + 3 * 4096);
	o.threads = 2;
	load_all(f, &o);
	o.cache = H2D_CACHE_DROP;
	o.threads = 3;
	o.align_bytes = 4096;
	load_all(f, &o);
	o.align_bytes = 0;
	o.staging_bytes = 0;
	o.per_tensor = 1;
	o.threads = 0;
	load_all(f, &o);
}

static void odd_sizes(void)
{
	/* Empty, one byte, unaligned, around a page, around the chunk, much longer than it. */
	static const uint64_t sizes[] = {0,	1,     3,     4095,   4096, 4097, 0,
					 65536, 65537, 65535, 200001, 17,   1};
	enum { N = sizeof(sizes) / sizeof(sizes[0]) };
	struct extent e[N];
	struct fixture f;

	REQUIRE(!fixture_open(&f, 1 << 20, e,
			      fixture_row(e, sizes, N, 4321, 0) < 1 << 20 ? N : 0));
	load_routes(&f, 65536);
	fixture_close(&f);
}

static void gaps(void)
{
	/* Gaps that are thrown away, that split a read, and that end a chunk. */
	static const struct extent e[] = {
		{0, 100},     {101, 100},    {5000, 4000},   {40000, 10},
		{900000, 50}, {900050, 950}, {901000, 1000}, {1900000, 70000},
	};
	struct fixture f;

	REQUIRE(!fixture_open(&f, 2 << 20, e, 8));
	load_routes(&f, 65536);
	fixture_close(&f);
}

static void shared_extents(void)
{
	/* As PyTorch stores tied and overlapping views. */
	static const struct extent e[] = {
		{100, 300000}, {100, 300000}, {2000, 10},      {2000, 100000},
		{2005, 3},     {250000, 100}, {290000, 50000}, {400000, 1},
	};
	struct fixture f;

	REQUIRE(!fixture_open(&f, 1 << 19, e, 8));
	load_routes(&f, 65536);
	fixture_close(&f);
}

static void many_small(void)
{
	enum { N = 35743 };
	struct extent *e = malloc(N * sizeof(*e));
	uint64_t *sizes = malloc(N * sizeof(*sizes));
	struct h2d_load_opts o = H2D_OPTS(o);
	struct fixture f;

	for (int i = 0; i < N; i++)
		sizes[i] = (uint64_t)(i * 37 % 401);
	REQUIRE(!fixture_open(&f, fixture_row(e, sizes, N, 777, 0), e, N));
	load_all(&f, &o);
	o.staging_bytes = 4 << 20;
	load_all(&f, &o);
	free(e);
	free(sizes);
	fixture_close(&f);
}

static void nothing_to_load(void)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct extent empty[2] = {{10, 0}, {10, 0}};
	struct fixture f;

	REQUIRE(!fixture_open(&f, 100, empty, 2));
	load_all(&f, &o);
	fixture_close(&f);
	REQUIRE(!fixture_open(&f, 100, empty, 0));
	load_all(&f, &o);
	fixture_close(&f);
}

int main(void)
{
	RUN(nothing_to_load);
	RUN(odd_sizes);
	RUN(gaps);
	RUN(shared_extents);
	RUN(many_small);
	return TEST_DONE();
}
