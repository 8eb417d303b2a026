/* SPDX-License-Identifier: Apache-2.0 */
/* Device copies that fail, come late, or never end. */
#include "faults.h"

static struct fixture f;

static void copies_fail(void)
{
	uint64_t hits = 0;
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 0);
		struct h2d_load_opts o = fault_opts(&w);
		struct h2d_soft_counts c;

		for (uint64_t n = 1;; n++) {
			struct h2d_copy_fault cf = {.kind = H2D_COPY_FAULT_FAIL,
						    .first = n,
						    .count = 1,
						    .status = H2D_E_DEVICE};
			uint64_t failed;
			int rc;

			h2d_soft_count(dev->priv, &c);
			failed = c.failed_count;
			h2d_copy_fault_set(dev, &cf);
			rc = fault_load(&f, dev, &o, way_readable(&w));
			h2d_soft_count(dev->priv, &c);
			if (c.failed_count == failed) {
				CHECK_EQ(rc, 0);
				break;
			}
			hits++;
			CHECK_EQ(rc, H2D_E_DEVICE);
		}
		h2d_copy_fault_set(dev, NULL);
		CHECK_EQ(fault_load(&f, dev, &o, way_readable(&w)), 0);
		h2d_device_close(dev);
	}
	CHECK(hits > 0);
}

static void copies_come_late(void)
{
	struct h2d_copy_fault cf = {
		.kind = H2D_COPY_FAULT_DELAY, .first = 1, .count = 4, .delay_ns = 3000000};
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 0);
		struct h2d_load_opts o = fault_opts(&w);

		h2d_copy_fault_set(dev, &cf);
		CHECK_EQ(fault_load(&f, dev, &o, way_readable(&w)), 0);
		h2d_device_close(dev);
	}
}

/* The load ends with DEVICE_LOST, nothing under the copy is freed, and the device is of no use
 * any more; another one is. */
static void copies_never_end(void)
{
	struct way w;
	unsigned lost = 0;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 40000000), *other;
		struct h2d_soft *soft = h2d_soft_hold(dev);
		struct h2d_load_opts o = fault_opts(&w);
		struct h2d_copy_fault cf = {
			.kind = H2D_COPY_FAULT_HANG, .first = 2, .count = 1};
		struct h2d_weights *weights = NULL;
		int rc;

		h2d_copy_fault_set(dev, &cf);
		rc = h2d_load(f.ckpt, dev, &o, &weights);
		if (rc) {
			lost++;
			CHECK_EQ(rc, H2D_E_DEVICE_LOST);
			CHECK(atomic_load(&dev->lost));
			CHECK(weights == NULL);
			CHECK(atomic_load(&dev->quarantined_bytes) > 0);
			CHECK_EQ(h2d_load(f.ckpt, dev, &o, &weights), H2D_E_DEVICE_LOST);
		} else {
			h2d_weights_free(weights); /* no second copy */
		}
		h2d_device_close(dev);
		h2d_copy_fault_release(soft);
		CHECK(h2d_soft_wait_threads(soft, 0, UINT64_C(5000000000)));
		h2d_soft_release(soft);
		other = fault_device(&f, w.device, 0);
		weights = NULL;
		CHECK_EQ(h2d_load(f.ckpt, other, &o, &weights), 0);
		if (weights && way_readable(&w))
			CHECK(fault_correct(&f, weights));
		h2d_weights_free(weights);
		h2d_device_close(other);
	}
	CHECK(lost >= 12);
}

/* Cancelling while a copy hangs: the copy's time still has to run out, then all is given up. */
static int stop(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	(void)done;
	(void)total;
	return 1;
}

static void cancelled_while_a_copy_hangs(void)
{
	struct h2d_device *dev = fault_device(&f, "null", 40000000);
	struct h2d_soft *soft = h2d_soft_hold(dev);
	struct way w = {"pinned", "null", true};
	struct h2d_load_opts o = fault_opts(&w);
	struct h2d_copy_fault cf = {.kind = H2D_COPY_FAULT_HANG, .first = 1};
	struct h2d_weights *weights = NULL;
	int rc;

	o.progress = stop;
	h2d_copy_fault_set(dev, &cf);
	rc = h2d_load(f.ckpt, dev, &o, &weights);
	CHECK(rc == H2D_E_CANCELLED || rc == H2D_E_DEVICE_LOST);
	CHECK(weights == NULL);
	h2d_device_close(dev);
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, UINT64_C(5000000000)));
	h2d_soft_release(soft);
}

static void reading_back_hangs(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 40000000);
	struct h2d_soft *soft = h2d_soft_hold(dev);
	struct h2d_copy_fault cf = {.kind = H2D_COPY_FAULT_HANG, .first = 1};
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_weights *weights = NULL;
	unsigned char buf[16];

	CHECK_EQ(h2d_load(f.ckpt, dev, NULL, &weights), 0);
	h2d_copy_fault_set(dev, &cf);
	CHECK_EQ(h2d_weights_read(weights, 2, 0, buf, 16), H2D_E_DEVICE_LOST);
	CHECK_EQ(h2d_verify(weights, NULL, &v), H2D_E_DEVICE_LOST);
	h2d_weights_free(weights);
	CHECK(atomic_load(&dev->quarantined_bytes) > 0);
	h2d_device_close(dev);
	h2d_copy_fault_release(soft);
	CHECK(h2d_soft_wait_threads(soft, 0, UINT64_C(5000000000)));
	h2d_soft_release(soft);
}

int main(void)
{
	if (fixture_open(&f, FAULT_FILE_BYTES, fault_extents,
			 sizeof(fault_extents) / sizeof(fault_extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	faults_install();
	RUN(copies_fail);
	RUN(copies_come_late);
	RUN(copies_never_end);
	RUN(cancelled_while_a_copy_hangs);
	RUN(reading_back_hangs);
	fixture_close(&f);
	return TEST_DONE();
}
