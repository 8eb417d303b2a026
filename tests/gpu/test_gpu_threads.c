/* SPDX-License-Identifier: Apache-2.0 */
/* Four loads at the same time, on two devices through three handles. For the thread sanitizer.
 */
#include "bench.h"

#include <pthread.h>

struct job {
	pthread_t thread;
	struct h2d_device *dev;
	const char *path;
	int rc;
	struct h2d_weights *weights;
};

static void *load(void *arg)
{
	struct job *j = arg;
	struct h2d_load_opts o = bench_opts(j->path);

	for (int i = 0; i < 3 && !j->rc; i++) {
		h2d_weights_free(j->weights);
		j->weights = NULL;
		j->rc = h2d_load(f.ckpt, j->dev, &o, &j->weights);
	}
	return NULL;
}

static void four_loads_at_once(void)
{
	struct job jobs[4] = {
		{.path = "pinned"}, {.path = "mmap"}, {.path = "direct"}, {.path = "pinned"}};
	struct h2d_device *dev[3];

	fake->script("delay_us=50");
	REQUIRE(!bench_open(0, 0, &dev[0]));
	REQUIRE(!bench_open(1, 0, &dev[1]));
	REQUIRE(!bench_open(0, 0, &dev[2]));
	for (int i = 0; i < 4; i++) {
		jobs[i].dev = dev[i % 3];
		REQUIRE(!pthread_create(&jobs[i].thread, NULL, load, &jobs[i]));
	}
	for (int i = 0; i < 4; i++)
		pthread_join(jobs[i].thread, NULL);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(jobs[i].rc, 0);
		CHECK(jobs[i].weights && !bench_compare(jobs[i].weights));
		h2d_weights_free(jobs[i].weights);
	}
	for (int i = 0; i < 3; i++)
		h2d_device_close(dev[i]);
	check_clean();
}

/* One of them loses the device: all end, none hangs. */
static void one_device_lost_for_all(void)
{
	struct job jobs[4] = {
		{.path = "pinned"}, {.path = "mmap"}, {.path = "pinned"}, {.path = "pinned"}};
	struct h2d_device *dev;
	unsigned lost_count = 0;

	fake->script("copy=719@30");
	REQUIRE(!bench_open(0, 0, &dev));
	for (int i = 0; i < 4; i++) {
		jobs[i].dev = dev;
		REQUIRE(!pthread_create(&jobs[i].thread, NULL, load, &jobs[i]));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(jobs[i].thread, NULL);
		lost_count += jobs[i].rc == H2D_E_DEVICE_LOST;
		h2d_weights_free(jobs[i].weights);
	}
	CHECK_EQ(lost_count, 4);
	h2d_device_close(dev);
	CHECK_EQ(bench_live().violation_count, 0);
	fake->sweep();
}

int main(int argc, char **argv)
{
	bench_start(argc, argv);
	bench_fixture();
	RUN(four_loads_at_once);
	RUN(one_device_lost_for_all);
	bench_end();
	return TEST_DONE();
}
