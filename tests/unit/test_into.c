/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load_into(): ranges, slices, bounds, and what is refused. */
#include "device/engine_thread.h"
#include "load_fixture.h"

enum { FILE_BYTES = 400000, CANARY = 0xa5 };

static const struct extent extents[] = {
	{100, 0}, {100, 100000}, {100100, 7}, {120000, 65536}, {200000, 150000}};

static const char *const paths[] = {"pinned", "pread",	"mmap", "mmap-rw", "clone",
				    "eager",  "direct", "auto", NULL};

static struct fixture f;
static unsigned char mem[1 << 20];
static uint64_t done_count;

static void on_done(void *user, uint64_t index)
{
	(void)user;
	(void)index;
	done_count++;
}

static struct h2d_target target(uint64_t tensor, uint64_t at, uint64_t capacity)
{
	struct h2d_target t = H2D_OPTS(t);

	t.tensor = tensor;
	t.data = mem + at;
	t.capacity_bytes = capacity;
	return t;
}

static struct h2d_target slice(uint64_t tensor, uint64_t at, uint64_t begin, uint64_t rows,
			       uint64_t row_bytes, uint64_t src_pitch, uint64_t dst_pitch)
{
	struct h2d_target t = target(tensor, at, (rows - 1) * dst_pitch + row_bytes);

	t.begin_bytes = begin;
	t.row_count = rows;
	t.row_bytes = row_bytes;
	t.source_pitch_bytes = src_pitch;
	t.target_pitch_bytes = dst_pitch;
	return t;
}

/* What `mem` must look like after the targets were loaded: canaries everywhere else. */
static void expect(unsigned char *want, const struct h2d_target *t, size_t count)
{
	memset(want, CANARY, sizeof(mem));
	for (size_t i = 0; i < count; i++) {
		uint64_t base = extents[t[i].tensor].offset + t[i].begin_bytes;
		unsigned char *to = want + ((unsigned char *)t[i].data - mem);
		uint64_t bytes = t[i].length_bytes
					 ? t[i].length_bytes
					 : extents[t[i].tensor].bytes - t[i].begin_bytes;

		if (!t[i].row_count)
			fixture_fill(to, bytes, base);
		for (uint64_t r = 0; r < t[i].row_count; r++)
			fixture_fill(to + r * t[i].target_pitch_bytes, t[i].row_bytes,
				     base + r * t[i].source_pitch_bytes);
	}
}

/* Into host memory by every path, with and without staging, with chunks of several sizes. */
static void load_every_way(const struct h2d_target *t, size_t count, unsigned char *want)
{
	static const uint64_t chunks[] = {0, 4096, 65536};
	struct h2d_device *dev = NULL;

	expect(want, t, count);
	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	for (int p = 0; paths[p]; p++)
		for (int c = 0; c < 6; c++) {
			struct h2d_load_opts o = H2D_OPTS(o);
			struct h2d_report r = H2D_OPTS(r);
			int rc;

			o.log = fixture_log;
			o.log_user = &f;
			o.path = paths[p];
			o.chunk_bytes = chunks[c % 3];
			o.staging_bytes = c < 3 ? 0 : 8 << 20;
			o.threads = 2;
			o.tensor_done = on_done;
			done_count = 0;
			memset(mem, CANARY, sizeof(mem));
			rc = h2d_load_into(f.ckpt, dev, t, count, &o, &r);
			if (rc)
				fprintf(stderr, "path %s: %s\n", paths[p], f.last_error);
			CHECK_EQ(rc, 0);
			CHECK_EQ(done_count, count);
			CHECK(!memcmp(mem, want, sizeof(mem)));
			CHECK_STR(r.path_requested, paths[p]);
			CHECK(r.staging_bytes <= 256 << 20);
			h2d_report_clear(&r);
			CHECK(r.reason == NULL);
		}
	h2d_device_close(dev);
}

static void ranges(void)
{
	unsigned char *want = malloc(sizeof(mem));
	struct h2d_target t[] = {
		target(1, 0, 100000),	   target(2, 100000, 7),      target(0, 5, 0),
		target(3, 100007, 65536),  target(4, 200000, 100001), target(4, 300001, 50000),
		target(1, 360000, 100000), target(1, 460001, 300),
	};

	t[4].length_bytes = 100001;
	t[5].begin_bytes = 100000;
	t[7].begin_bytes = 99777;
	t[7].length_bytes = 211;
	load_every_way(t, 8, want);
	free(want);
}

/* A tensor cut in columns as for tensor parallelism, into dense and into pitched memory. */
static void slices(void)
{
	unsigned char *want = malloc(sizeof(mem));
	struct h2d_target t[] = {
		slice(1, 0, 0, 100, 500, 1000, 500),
		slice(1, 60000, 500, 100, 500, 1000, 777),
		slice(3, 150000, 3, 64, 1000, 1024, 1000),
		slice(4, 300000, 1, 3, 29999, 60000, 30001),
		slice(4, 500000, 0, 150, 1, 1000, 1),
		slice(4, 510000, 0, 7, 100, 100, 100),
		slice(4, 520000, 777, 1, 5000, 5000, 5000),
		slice(3, 600000, 0, 256, 256, 256, 300),
	};

	load_every_way(t, 8, want);
	free(want);
}

/* The columns of two tensors fused side by side in one matrix. */
static void interleaved_rows(void)
{
	unsigned char *want = malloc(sizeof(mem));
	struct h2d_target t[] = {
		slice(1, 0, 0, 100, 1000, 1000, 1600),
		slice(3, 1000, 0, 100, 600, 600, 1600),
	};

	load_every_way(t, 2, want);
	free(want);
}

static void same_tensor_twice(void)
{
	unsigned char *want = malloc(sizeof(mem));
	struct h2d_target t[] = {target(4, 500001, 150000), target(4, 0, 150000),
				 target(4, 200000, 150000)};

	t[2].begin_bytes = 149000;
	load_every_way(t, 3, want);
	free(want);
}

static void pitches_default_to_dense(void)
{
	struct h2d_target t = slice(3, 0, 0, 10, 100, 0, 0);
	struct h2d_device *dev = NULL;

	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	t.capacity_bytes = 1000;
	memset(mem, CANARY, sizeof(mem));
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, NULL, NULL), 0);
	CHECK_EQ(fixture_differs(mem, 1000, extents[3].offset), UINT64_MAX);
	CHECK_EQ(mem[1000], CANARY);
	h2d_device_close(dev);
}

static void refused(struct h2d_target *t, size_t count, int status, const char *why)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_device *dev = NULL;

	o.log = fixture_log;
	o.log_user = &f;
	f.last_error[0] = 0;
	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	memset(mem, CANARY, sizeof(mem));
	CHECK_EQ(h2d_load_into(f.ckpt, dev, t, count, &o, &r), status);
	CHECK(r.reason == NULL);
	if (!strstr(f.last_error, why))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", why, f.last_error);
	CHECK(strstr(f.last_error, why) != NULL);
	for (size_t i = 0; i < sizeof(mem); i++)
		if (mem[i] != CANARY) {
			CHECK(!"memory was touched");
			break;
		}
	h2d_device_close(dev);
}

static void bad_targets(void)
{
	struct h2d_target t = target(4, 0, 150000), pair[2];

	t.tensor = 5;
	refused(&t, 1, H2D_E_INVALID, "no such tensor");
	t = target(4, 0, 149999);
	refused(&t, 1, H2D_E_INVALID, "do not fit");
	t = target(4, 0, 1000);
	t.begin_bytes = 150001;
	refused(&t, 1, H2D_E_INVALID, "behind the end");
	t.begin_bytes = 149500;
	t.length_bytes = 501;
	refused(&t, 1, H2D_E_INVALID, "passes the end");
	t.length_bytes = UINT64_MAX;
	refused(&t, 1, H2D_E_INVALID, "passes the end");
	t = target(4, 0, 150000);
	t.data = NULL;
	refused(&t, 1, H2D_E_INVALID, "no address");
	t.data = (void *)UINTPTR_MAX;
	refused(&t, 1, H2D_E_INVALID, "overflows");
	t = slice(4, 0, 0, 10, 0, 10, 10);
	refused(&t, 1, H2D_E_INVALID, "without bytes");
	t = slice(4, 0, 0, 10, 100, 99, 100);
	refused(&t, 1, H2D_E_INVALID, "pitch");
	t = slice(4, 0, 0, 10, 100, 100, 99);
	refused(&t, 1, H2D_E_INVALID, "pitch");
	t = slice(4, 0, 0, 151, 1000, 1000, 1000);
	refused(&t, 1, H2D_E_INVALID, "pass the end");
	t = slice(4, 0, 1, 150, 1000, 1000, 1000);
	refused(&t, 1, H2D_E_INVALID, "pass the end");
	t = slice(4, 0, 0, UINT64_MAX, 1000, 1000, 1000);
	refused(&t, 1, H2D_E_INVALID, "pass the end");
	t = slice(4, 0, 0, 10, 100, 100, UINT64_MAX / 2);
	refused(&t, 1, H2D_E_INVALID, "overflow");
	t = slice(4, 0, 0, 10, 100, 100, 100);
	t.capacity_bytes--;
	refused(&t, 1, H2D_E_INVALID, "do not fit");
	t.capacity_bytes++;
	t.length_bytes = 1;
	refused(&t, 1, H2D_E_INVALID, "length_bytes");
	pair[0] = target(1, 0, 100000);
	pair[1] = target(3, 99999, 65536);
	refused(pair, 2, H2D_E_INVALID, "overlap");
	pair[0] = slice(1, 0, 0, 100, 1000, 1000, 1600);
	pair[1] = slice(3, 1001, 0, 100, 600, 600, 1600);
	refused(pair, 2, H2D_E_INVALID, "overlap");
	pair[1] = slice(3, 999, 0, 100, 600, 600, 1600);
	refused(pair, 2, H2D_E_INVALID, "overlap");
	pair[1] = target(2, 0, 7); /* in the first row */
	refused(pair, 2, H2D_E_INVALID, "overlap");
	pair[1] = target(2, 1595, 7); /* from the gap into the second row */
	refused(pair, 2, H2D_E_INVALID, "overlap");
}

static void other_refusals(void)
{
	struct h2d_target t = target(4, 0, 150000);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;
	unsigned long long slot_bytes, lead_bytes;
	int rc;

	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	o.path = "view";
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_UNSUPPORTED);
	o.path = "no-such-path";
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_NOT_FOUND);
	o.path = "pinned";
	o.present = H2D_PRESENT_READ;
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_UNSUPPORTED);
	o.present = 77;
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_INVALID);
	o.present = H2D_PRESENT_NONE;
	o.cache = 77;
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_INVALID);
	o.cache = H2D_CACHE_KEEP;
	o.staging_bytes = 1000;
	o.log = fixture_log;
	o.log_user = &f;
	CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), H2D_E_INVALID);
	CHECK_STR(f.last_error, "staging of 1000 bytes does not hold one slot, which takes "
				"4096: a chunk of 4096");
	o.path = "direct";
	o.chunk_bytes = o.staging_bytes = 65536;
	rc = h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL);
	CHECK(rc == H2D_E_INVALID || rc == H2D_E_UNSUPPORTED);
	if (rc == H2D_E_INVALID) {
		CHECK_EQ(sscanf(f.last_error,
				"staging of 65536 bytes does not hold one slot, which takes "
				"%llu: a chunk of 65536 and %llu for the alignment of direct "
				"reads",
				&slot_bytes, &lead_bytes),
			 2);
		CHECK(lead_bytes && slot_bytes == 65536 + lead_bytes);
		o.staging_bytes = slot_bytes; /* and so much is enough */
		CHECK_EQ(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL), 0);
	}
	o.path = "pinned";
	o.chunk_bytes = o.staging_bytes = 0;
	o.stream = &o; /* not a stream of this runtime */
	CHECK(h2d_load_into(f.ckpt, dev, &t, 1, &o, NULL) < 0);
	CHECK_EQ(h2d_load_into(f.ckpt, dev, NULL, 1, NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_load_into(NULL, dev, &t, 1, NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_load_into(f.ckpt, NULL, &t, 1, NULL, NULL), H2D_E_INVALID);
	CHECK_EQ(h2d_load_into(f.ckpt, dev, NULL, 0, NULL, NULL), 0);
	h2d_device_close(dev);
}

/* Copies are ordered behind what the caller has put into the stream, and none runs elsewhere.
 */
static void callers_stream(void)
{
	struct h2d_target t[] = {target(1, 0, 100000), target(4, 100000, 150000)};
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;
	struct h2d_soft_counts c;
	struct h2d_stream *s;
	static unsigned char before[100000];

	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	CHECK_EQ(dev->backend->stream_create(dev, &s), 0);
	memset(mem, CANARY, sizeof(mem));
	/* Earlier work of the caller's that writes the same memory, late. */
	h2d_copy_fault_set(dev, &(struct h2d_copy_fault){.kind = H2D_COPY_FAULT_DELAY,
							 .first = 1,
							 .count = 1,
							 .delay_ns = 20000000});
	CHECK_EQ(dev->backend->copy_to_device(s, mem, before, sizeof(before)), 0);
	o.path = "pinned";
	o.stream = s;
	o.chunk_bytes = 65536;
	CHECK_EQ(h2d_load_into(f.ckpt, dev, t, 2, &o, NULL), 0);
	CHECK_EQ(fixture_differs(mem, 100000, extents[1].offset), UINT64_MAX);
	CHECK_EQ(fixture_differs(mem + 100000, 150000, extents[4].offset), UINT64_MAX);
	h2d_soft_count(dev->priv, &c);
	CHECK_EQ(c.stream_count, 1);
	CHECK_EQ(c.thread_total, 1);
	CHECK(c.copy_count > 4);
	dev->backend->stream_destroy(dev, s);
	h2d_device_close(dev);
}

/* Structs of an older caller: shorter, with what is missing read as zero. */
static void older_structs(void)
{
	struct {
		size_t size;
		uint64_t tensor;
		void *data;
		uint64_t capacity_bytes;
	} t[2] = {{sizeof(t[0]), 1, mem, 100000}, {sizeof(t[0]), 3, mem + 100000, 65536}};
	struct {
		size_t size;
		const char *path_requested;
	} r = {sizeof(r), NULL};
	struct h2d_device *dev = NULL;

	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	memset(mem, CANARY, sizeof(mem));
	CHECK_EQ(h2d_load_into(f.ckpt, dev, (const struct h2d_target *)(const void *)t, 2, NULL,
			       (struct h2d_report *)(void *)&r),
		 0);
	CHECK_STR(r.path_requested, "auto");
	CHECK_EQ(fixture_differs(mem, 100000, extents[1].offset), UINT64_MAX);
	CHECK_EQ(fixture_differs(mem + 100000, 65536, extents[3].offset), UINT64_MAX);
	h2d_report_clear((struct h2d_report *)(void *)&r);
	h2d_device_close(dev);
}

/* Whose strings they are: those of weights live on when a report is cleared. */
static void whose_strings(void)
{
	struct h2d_report r = H2D_OPTS(r), again = H2D_OPTS(again);
	struct h2d_weights *weights = NULL;
	struct h2d_device *dev = NULL;

	CHECK_EQ(h2d_device_open("host", NULL, &dev), 0);
	REQUIRE(!h2d_load(f.ckpt, dev, NULL, &weights));
	CHECK_EQ(h2d_weights_report(weights, &r), 0);
	h2d_report_clear(&r);
	h2d_report_clear(&r);
	CHECK_EQ(h2d_weights_report(weights, &again), 0);
	CHECK(again.reason && again.reason[0] && again.reason == r.reason);
	h2d_weights_free(weights);
	h2d_device_close(dev);
}

int main(void)
{
	if (fixture_open(&f, FILE_BYTES, extents, 5)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	RUN(ranges);
	RUN(slices);
	RUN(interleaved_rows);
	RUN(same_tensor_twice);
	RUN(pitches_default_to_dense);
	RUN(bad_targets);
	RUN(other_refusals);
	RUN(callers_stream);
	RUN(older_structs);
	RUN(whose_strings);
	fixture_close(&f);
	return TEST_DONE();
}
