/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_bound.h"
#include "scratch.h"

static struct fixture f;

static void bounded(void)
{
	static const char *const paths[] = {"pinned", "direct", "mmap", "pread", "clone", NULL};

	bound_check_all(&f, paths, true);
}

enum { TINY = 300000 };

/* One byte each, so that all memory is the tensors' and none their data's. (In an image, as a
 * slot holds it, each takes 256.) */
static uint64_t write_tiny(const char *path)
{
	FILE *out = fopen(path, "we");
	uint64_t header = 0;

	if (!out)
		return 0;
	fwrite(&header, sizeof(header), 1, out);
	for (int i = 0; i < TINY; i++)
		fprintf(out,
			"%c\"t%06d\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1],"
			"\"data_offsets\":[%d,%d]}%s",
			i ? ',' : '{', i, i, i + 1, i + 1 == TINY ? "}" : "");
	header = (uint64_t)ftell(out) - sizeof(header);
	for (int i = 0; i < TINY; i++)
		fputc(i, out);
	rewind(out);
	fwrite(&header, sizeof(header), 1, out);
	return fclose(out) ? 0 : header;
}

static void load_tiny(const char *path, uint64_t header, bool per_tensor)
{
	struct h2d_open_opts oo = H2D_OPTS(oo);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_checkpoint *c = NULL;
	struct h2d_device *dev = NULL;
	struct h2d_weights *w = NULL;
	uint64_t before, taken;

	CHECK_EQ(h2d_device_open("null", NULL, &dev), 0);
	before = bound_peak = bound_rss();
	oo.log = o.log = fixture_log;
	oo.log_user = o.log_user = &f;
	CHECK_EQ(h2d_checkpoint_open(path, &oo, &c), 0);
	REQUIRE(c);
	o.path = "pinned";
	o.per_tensor = per_tensor;
	o.progress = bound_sample;
	CHECK_EQ(h2d_load(c, dev, &o, &w), 0);
	REQUIRE(w);
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	taken = bound_peak - before - header;
	printf("     %llu bytes of staging, %llu more at the peak\n",
	       (unsigned long long)r.staging_bytes, (unsigned long long)taken);
	CHECK(taken <=
	      r.staging_bytes + BOUND_SLACK_BYTES + (uint64_t)TINY * BOUND_TENSOR_BYTES);
	h2d_weights_free(w);
	h2d_checkpoint_close(c);
	h2d_device_close(dev);
}

static void very_many(void)
{
	const char *path = scratch_path("tiny.safetensors");
	uint64_t header = write_tiny(path);

	h2d_tuning = &h2d_tuning_default;
	REQUIRE(header);
	load_tiny(path, header, false);
	load_tiny(path, header, true);
}

int main(void)
{
	if (BOUND_SANITIZED)
		SKIP("a thread sanitizer's shadow counts as memory of the process");
	if (bound_fixture(&f, 320 << 20)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	if (!BOUND_QUARANTINE)
		RUN(very_many);
	RUN(bounded);
	fixture_close(&f);
	return TEST_DONE();
}
