/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation and every thread of a load fails once. */
#include "faults.h"

static struct fixture f;

static void walk(enum fault_call call, int error)
{
	uint64_t hits = 0;
	struct way w;

	for (unsigned i = 0; fault_way(i, &w); i++) {
		struct h2d_device *dev = fault_device(&f, w.device, 0);
		struct h2d_load_opts o = fault_opts(&w);

		for (uint64_t n = 1;; n++) {
			int rc;

			fault_arm(call, n, 1, error);
			rc = fault_load(&f, dev, &o, way_readable(&w));
			if (!atomic_load(&fault.hit)) {
				CHECK_EQ(rc, 0);
				break;
			}
			hits++;
			if (rc != H2D_E_NOMEM)
				fprintf(stderr, "path %s device %s n %llu: %d %s\n", w.path,
					w.device, (unsigned long long)n, rc, f.last_error);
			CHECK_EQ(rc, H2D_E_NOMEM);
		}
		h2d_device_close(dev);
	}
	CHECK(hits > 0);
}

static void allocations_fail(void)
{
	walk(FAULT_MEMORY, ENOMEM);
}

static void threads_fail(void)
{
	walk(FAULT_THREAD, EAGAIN);
}

static void allocations_of_into_fail(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 0);
	unsigned char *mem = malloc(FAULT_FILE_BYTES);
	struct h2d_target t[3] = {{.size = sizeof(t[0])}};
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	int rc = -1;

	for (unsigned i = 0; i < 3; i++)
		t[i] = (struct h2d_target){.size = sizeof(t[0]),
					   .tensor = i + 2,
					   .data = mem + i * 300000,
					   .capacity_bytes = 300000};
	t[2].tensor = 3;
	o.trace_path = "/dev/null";
	for (uint64_t n = 1; rc; n++) {
		fault_arm(FAULT_MEMORY, n, 1, ENOMEM);
		rc = h2d_load_into(f.ckpt, dev, t, 3, &o, &r);
		CHECK_EQ(rc, atomic_load(&fault.hit) ? H2D_E_NOMEM : 0);
		fault.call = FAULT_NONE;
		h2d_report_clear(&r);
	}
	free(mem);
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
	RUN(allocations_fail);
	RUN(threads_fail);
	RUN(allocations_of_into_fail);
	fixture_close(&f);
	return TEST_DONE();
}
