/* SPDX-License-Identifier: Apache-2.0 */
/* Reads that fail, fall short or are refused, one after the other, by every path. */
#include "faults.h"

static struct fixture f;

/* Make the n-th call fail for every n that a load reaches. `wanted`: the status, or 0 where the
 * library has to get over it. */
static void walk(const struct way *w, enum fault_call call, uint64_t count, int error,
		 int wanted, uint64_t *hits)
{
	struct h2d_device *dev = fault_device(&f, w->device, 0);
	struct h2d_load_opts o = fault_opts(w);
	uint64_t step = 1;

	for (uint64_t n = 1;; n += step) {
		int rc;

		fault_arm(call, n, count, error);
		rc = fault_load(&f, dev, &o, way_readable(w));
		if (!atomic_load(&fault.hit)) {
			CHECK_EQ(rc, 0);
			break;
		}
		++*hits;
		if (rc != wanted)
			fprintf(stderr,
				"path %s device %s staging %d call %d error %d n %llu\n",
				w->path, w->device, w->staging, call, error,
				(unsigned long long)n);
		CHECK_EQ(rc, wanted);
		if (n > 20)
			step = 7; /* enough of the same */
	}
	h2d_device_close(dev);
}

static void each_way(enum fault_call call, uint64_t count, int error, int wanted)
{
	uint64_t hits = 0;
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		walk(&w, call, count, error, wanted, &hits);
		fault.no_uring = true;
		if (!strcmp(w.path, "direct"))
			walk(&w, call, count, error, wanted, &hits);
		fault.no_uring = false;
	}
	CHECK(hits > 0);
}

static void reads_fail(void)
{
	each_way(FAULT_READ, 1, EIO, H2D_E_IO);
}

static void reads_fall_short(void)
{
	each_way(FAULT_READ, 1, FAULT_SHORT, 0);
	each_way(FAULT_READ, UINT64_MAX, FAULT_SHORT, 0);
}

static void reads_are_interrupted(void)
{
	each_way(FAULT_READ, 5, EINTR, 0);
}

static void reads_are_refused_for_now(void)
{
	each_way(FAULT_READ, 3, EAGAIN, 0);
}

static void file_ends_early(void)
{
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 0);
		struct h2d_load_opts o = fault_opts(&w);
		int rc;

		fault_arm(FAULT_READ, 3, UINT64_MAX, FAULT_EOF);
		rc = fault_load(&f, dev, &o, way_readable(&w));
		CHECK_EQ(rc, atomic_load(&fault.hit) ? H2D_E_CHANGED : 0);
		h2d_device_close(dev);
	}
}

static void mapping_is_refused(void)
{
	uint64_t hits = 0;
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++)
		if (strncmp(w.path, "mmap", 4) == 0 || !strcmp(w.path, "clone"))
			walk(&w, FAULT_MMAP, 2, ENOMEM, H2D_E_NOMEM, &hits);
	CHECK(hits > 0);
}

static void file_cannot_be_examined(void)
{
	each_way(FAULT_FSTAT, 1, EIO, H2D_E_IO);
}

static void direct_is_refused(void)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;
	struct h2d_device *dev = fault_device(&f, "host", 0);

	o.path = "direct";
	fault_arm(FAULT_OPEN, 1, UINT64_MAX, EINVAL);
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	CHECK(atomic_load(&fault.hit) > 0);
	fault.call = FAULT_NONE;
	REQUIRE(w);
	CHECK(fault_correct(&f, w));
	h2d_weights_report(w, &r);
	CHECK_STR(r.path_requested, "direct");
	CHECK_STR(r.path_used, "pinned");
	CHECK(strstr(r.reason, "O_DIRECT") != NULL);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

/* A filesystem that takes O_DIRECT but not at the file's unaligned end, say. */
static void some_direct_reads_are_invalid(void)
{
	struct way ways[] = {{"direct", "host", false}, {"direct", "null", true}};
	uint64_t hits = 0;

	fault.direct_only = true;
	for (int i = 0; i < 2; i++) {
		/* The first one is the question whether the filesystem accepts them. */
		fault.no_uring = i;
		walk(&ways[i], FAULT_READ, 1, EINVAL, 0, &hits);
		walk(&ways[i], FAULT_READ, UINT64_MAX, EINVAL, 0, &hits);
	}
	fault.direct_only = fault.no_uring = false;
	CHECK(hits > 0);
}

static void cache_state_is_unknown(void)
{
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;
	struct h2d_device *dev = fault_device(&f, "host", 0);

	fault_arm(FAULT_CACHESTAT, 1, UINT64_MAX, EPERM);
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	fault.call = FAULT_NONE;
	REQUIRE(w);
	CHECK(fault_correct(&f, w));
	h2d_weights_report(w, &r);
	CHECK_STR(r.path_requested, "auto");
	CHECK_STR(r.path_used, "pinned");
	CHECK(strstr(r.reason, "unknown") != NULL);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

int main(void)
{
	if (fixture_open(&f, FAULT_FILE_BYTES, fault_extents,
			 sizeof(fault_extents) / sizeof(fault_extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	faults_install();
	RUN(reads_fail);
	RUN(reads_fall_short);
	RUN(reads_are_interrupted);
	RUN(reads_are_refused_for_now);
	RUN(file_ends_early);
	RUN(mapping_is_refused);
	RUN(file_cannot_be_examined);
	RUN(direct_is_refused);
	RUN(some_direct_reads_are_invalid);
	RUN(cache_state_is_unknown);
	fixture_close(&f);
	return TEST_DONE();
}
