/* SPDX-License-Identifier: Apache-2.0 */
/* Four loads at once, onto one OpenCL device and onto two. */
#include "opencl_bench.h"

enum { JOBS = 4 };

static struct fixture f;

struct job {
	pthread_t thread;
	struct h2d_device *dev;
	const char *path;
	int rc;
};

static void *run(void *arg)
{
	struct job *j = arg;
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_weights *w = NULL;

	o.path = j->path;
	o.chunk_bytes = 65536;
	o.threads = 2;
	for (int i = 0; i < 3 && !j->rc; i++) {
		j->rc = h2d_load(f.ckpt, j->dev, &o, &w);
		if (!j->rc)
			j->rc = h2d_verify(w, NULL, &v);
		h2d_weights_free(w);
		w = NULL;
	}
	return NULL;
}

static void four_at_once(const char *a, const char *b)
{
	static const char *const paths[JOBS] = {"pinned", "direct", "register", "mmap"};
	struct h2d_device *devs[2] = {opencl_open(&f, a, 0), opencl_open(&f, b, 0)};
	struct job jobs[JOBS];

	for (int i = 0; i < JOBS && devs[0] && devs[1]; i++) {
		jobs[i] = (struct job){.dev = devs[i % 2], .path = paths[i]};
		if (pthread_create(&jobs[i].thread, NULL, run, &jobs[i]))
			abort();
	}
	for (int i = 0; i < JOBS && devs[0] && devs[1]; i++) {
		pthread_join(jobs[i].thread, NULL);
		CHECK_EQ(jobs[i].rc, 0);
	}
	h2d_device_close(devs[0]);
	h2d_device_close(devs[1]);
}

static void one_context_and_two(void)
{
	four_at_once("opencl:0", "opencl:1");
	four_at_once("opencl:0", "opencl:0");
	four_at_once("opencl:0,memory=buffer", "opencl:0");
}

static void one_device(void)
{
	struct h2d_device *dev = opencl_open(&f, "opencl", 0);
	struct job jobs[JOBS];

	REQUIRE(dev);
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){.dev = dev, .path = "pinned"};
		if (pthread_create(&jobs[i].thread, NULL, run, &jobs[i]))
			abort();
	}
	for (int i = 0; i < JOBS; i++) {
		pthread_join(jobs[i].thread, NULL);
		CHECK_EQ(jobs[i].rc, 0);
	}
	CHECK_EQ(opencl_of(dev)->range_count, 0);
	h2d_device_close(dev);
}

int main(void)
{
	static const struct extent extents[] = {{1000, 500000}, {501000, 7}, {600000, 900001}};

	opencl_begin();
	if (fixture_open(&f, 1500001, extents, 3)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	f.ckpt->log.fn = NULL; /* the fixture's log is for one thread */
	RUN(one_device);
	RUN(one_context_and_two);
	fixture_close(&f);
	return TEST_DONE();
}
