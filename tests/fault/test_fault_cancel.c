/* SPDX-License-Identifier: Apache-2.0 */
/* Cancelling at every single look at the progress callback, by every path. */
#include "faults.h"

static struct fixture f;
static uint64_t calls, stop_at;

static int on_progress(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	CHECK(done <= total);
	return ++calls == stop_at;
}

static void cancelled_at_each_step(void)
{
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 0);
		struct h2d_load_opts o = fault_opts(&w);

		o.progress = on_progress;
		for (stop_at = 1;; stop_at++) {
			int rc;

			calls = 0;
			rc = fault_load(&f, dev, &o, way_readable(&w));
			if (calls < stop_at) {
				CHECK_EQ(rc, 0);
				break;
			}
			CHECK_EQ(rc, H2D_E_CANCELLED);
		}
		CHECK(stop_at > 4);
		h2d_device_close(dev);
	}
}

static void verify_is_cancelled(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 0);
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w = NULL;

	CHECK_EQ(h2d_load(f.ckpt, dev, NULL, &w), 0);
	o.progress = on_progress;
	for (stop_at = 1;; stop_at++) {
		int rc;

		calls = 0;
		rc = h2d_verify(w, &o, &v);
		if (calls < stop_at) {
			CHECK_EQ(rc, 0);
			break;
		}
		CHECK_EQ(rc, H2D_E_CANCELLED);
	}
	CHECK(stop_at > 4);
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
	RUN(cancelled_at_each_step);
	RUN(verify_is_cancelled);
	fixture_close(&f);
	return TEST_DONE();
}
