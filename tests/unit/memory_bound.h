/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file memory_bound.h
 * The bound on host memory of a load: the increase of anonymous memory since the device was
 * opened stays within staging + header + 32 MiB, whatever the checkpoint's size (`clone`: and
 * the largest tensor). Very many tensors take up to BOUND_TENSOR_BYTES each on top, catalogue
 * and plan together. Checked on `null`, whose destination takes no memory.
 */
#ifndef H2D_MEMORY_BOUND_H
#define H2D_MEMORY_BOUND_H

#include "load_fixture.h"
#include "transfer/tuning.h"

enum { BOUND_LARGE_BYTES = 64 << 20, BOUND_SLACK_BYTES = 32 << 20 };
enum { BOUND_TENSOR_BYTES = 384 };

#ifdef __SANITIZE_THREAD__
enum { BOUND_SANITIZED = 1 };
#else
enum { BOUND_SANITIZED = 0 };
#endif

/* The address sanitizer keeps what was freed. */
#ifdef __SANITIZE_ADDRESS__
enum { BOUND_QUARANTINE = 1 };
#else
enum { BOUND_QUARANTINE = 0 };
#endif

static uint64_t bound_peak;

/* Anonymous and huge-page memory of this process. */
static uint64_t bound_rss(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	uint64_t kib = 0, sum = 0;
	char line[256];

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %lu", &kib) == 1 ||
		    sscanf(line, "HugetlbPages: %lu", &kib) == 1)
			sum += kib * 1024;
	if (status)
		fclose(status);
	return sum;
}

static int bound_sample(void *user, uint64_t done, uint64_t total)
{
	uint64_t now = bound_rss();

	(void)user;
	(void)done;
	(void)total;
	bound_peak = now > bound_peak ? now : bound_peak;
	return 0;
}

static void bound_sample_done(void *user, uint64_t index)
{
	if (index < 16)
		bound_sample(user, 0, 0);
}

/* A sparse file of large tensors and, at its end, small ones. */
static int bound_fixture(struct fixture *f, uint64_t file_bytes)
{
	enum { SMALL = 20000, SMALL_BYTES = 4000 };
	uint64_t large = (file_bytes - (uint64_t)SMALL * SMALL_BYTES) / BOUND_LARGE_BYTES, at;
	struct extent *e = malloc((large + SMALL) * sizeof(*e));
	int rc;

	for (uint64_t i = 0; i < large; i++)
		e[i] = (struct extent){i * BOUND_LARGE_BYTES, BOUND_LARGE_BYTES};
	at = large * BOUND_LARGE_BYTES;
	for (uint64_t i = 0; i < SMALL; i++)
		e[large + i] = (struct extent){at + i * SMALL_BYTES, SMALL_BYTES};
	rc = fixture_open(f, 0, e, 0);
	if (!rc)
		rc = truncate(f->path, (off_t)file_bytes);
	if (!rc) {
		h2d_file_close(&f->ckpt->cat.files[0]);
		rc = h2d_file_open(&f->ckpt->cat.files[0], f->path, &f->ckpt->log);
	}
	if (!rc)
		rc = fixture_add(&f->ckpt->cat, 0, e, large + SMALL);
	free(e);
	return rc;
}

static void bound_check(struct fixture *f, const char *path, struct h2d_load_opts o)
{
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_device *dev = NULL;
	struct h2d_weights *w = NULL;
	uint64_t before, bound;

	CHECK_EQ(h2d_device_open("null", NULL, &dev), 0);
	before = bound_peak = bound_rss();
	o.path = path;
	o.progress = bound_sample;
	o.tensor_done = bound_sample_done;
	o.log = fixture_log;
	o.log_user = f;
	CHECK_EQ(h2d_load(f->ckpt, dev, &o, &w), 0);
	REQUIRE(w);
	CHECK_EQ(h2d_weights_report(w, &r), 0);
	bound = r.staging_bytes + BOUND_SLACK_BYTES;
	if (!strcmp(path, "clone"))
		bound = BOUND_LARGE_BYTES + BOUND_SLACK_BYTES;
	printf("     %-7s %llu bytes of staging, %llu more at the peak\n", path,
	       (unsigned long long)r.staging_bytes, (unsigned long long)(bound_peak - before));
	CHECK(bound_peak - before <= bound);
	if (o.staging_bytes)
		CHECK(r.staging_bytes <= o.staging_bytes || !strcmp(path, "clone"));
	CHECK(r.staging_bytes <= 256 << 20);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* `tight`: also with little staging and pages given back. */
static void bound_check_all(struct fixture *f, const char *const *paths, bool tight)
{
	static struct h2d_tuning tuning;

	tuning = h2d_tuning_default;
	tuning.progress_interval_ns = 0;
	h2d_tuning = &tuning;
	for (; *paths; paths++) {
		struct h2d_load_opts o = H2D_OPTS(o);

		bound_check(f, *paths, o);
		if (!tight)
			continue;
		o.staging_bytes = 8 << 20;
		o.cache = H2D_CACHE_DROP;
		bound_check(f, *paths, o);
	}
}

#endif
