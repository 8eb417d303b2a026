/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes that are not there, are the wrong ones, or have no GPU: one line, no crash, nothing
 * left. Usage: test_gpu_absent hip|cuda TEXT|codes|real */
#include <dirent.h>
#include <dlfcn.h>

#include "device/device.h"
#include "fake.h"
#include "load_fixture.h"

static const char *backend, *what;
static struct fixture f;

static unsigned count_dir(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int open_device(struct h2d_device **dev)
{
	struct h2d_device_opts o = H2D_OPTS(o);

	o.log = fixture_log;
	o.log_user = &f;
	f.error_count = 0;
	f.last_error[0] = 0;
	return h2d_device_open(backend, &o, dev);
}

static const struct h2d_backend *find(void)
{
	for (size_t i = 0; h2d_backends[i]; i++)
		if (!strcmp(h2d_backends[i]->name, backend))
			return h2d_backends[i];
	return NULL;
}

/* One refused opening: the status, one line, and nothing left behind. */
static void check_refused(const char *text)
{
	struct h2d_device *dev = NULL;
	struct h2d_runtime rt;
	unsigned threads, files, count = 7;
	char why[256];

	open_device(&dev); /* what a library does once is done */
	threads = count_dir("/proc/self/task");
	files = count_dir("/proc/self/fd");
	CHECK_EQ(open_device(&dev), H2D_E_UNAVAILABLE);
	CHECK(!dev);
	CHECK_EQ(f.error_count, 1);
	CHECK(!strncmp(f.last_error, backend, strlen(backend)));
	if (text && !strstr(f.last_error, text))
		fprintf(stderr, "\"%s\" is not in \"%s\"\n", text, f.last_error);
	CHECK(!text || strstr(f.last_error, text));
	CHECK_EQ(find()->probe(&count, why, sizeof(why)), 0);
	CHECK_EQ(count, 0);
	CHECK(strstr(f.last_error, why));
	find()->runtime(&rt);
	CHECK_EQ(rt.device_count, 0);
	CHECK_STR(rt.why, why);
	CHECK_EQ(count_dir("/proc/self/task"), threads);
	CHECK_EQ(count_dir("/proc/self/fd"), files);
	printf("     %s\n", f.last_error);
}

static void refused(void)
{
	struct h2d_runtime rt;

	find()->runtime(&rt);
	if (!strcmp(what, "no runtime is installed") && rt.library[0])
		SKIP("the real runtime is installed here");
	check_refused(what);
}

static void codes(void)
{
	static const int list[] = {1, 3, 34, 100, 101, 802, 803, 804, 999, 1234};
	const bool hip = !strcmp(backend, "hip");
	void *lib = dlopen(hip ? "libamdhip64.so.6" : "libcuda.so.1", RTLD_NOW);
	void *symbol = lib ? dlsym(lib, "fake_control") : NULL;
	const struct fake_control *(*control)(void), *fake;
	struct fake_live l;
	char text[64];

	if (!symbol)
		SKIP("the fake runtime is not in LD_LIBRARY_PATH");
	memcpy(&control, &symbol, sizeof(control));
	fake = control();
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		static const char *const calls[2][2] = {{"cuInit", "cuDeviceGetCount"},
							{"hipInit", "hipGetDeviceCount"}};

		for (int k = 0; k < 2; k++) {
			snprintf(text, sizeof(text), "%s=%d@1+", calls[hip][k], list[i]);
			fake->script(text);
			snprintf(text, sizeof(text), "(%d)", list[i]);
			check_refused(text);
		}
	}
	fake->script("devices=0");
	check_refused(hip ? "hipErrorNoDevice (100)" : "counts no device");
	fake->live(&l);
	CHECK_EQ(l.context_count + l.stream_count + l.alloc_count + l.violation_count, 0);
}

static void real(void)
{
	struct h2d_device *dev = NULL;
	struct h2d_runtime rt;

	find()->runtime(&rt);
	if (rt.device_count)
		SKIP("there is a GPU for it here");
	if (!rt.library[0])
		SKIP("the real runtime is not installed here");
	printf("     %s, version %s\n", rt.path, rt.version);
	CHECK_EQ(open_device(&dev), H2D_E_UNAVAILABLE);
	CHECK(rt.error_code != 0);
	CHECK(rt.error_name[0]);
	/* HIP 5.7 answers 101 the first time and 100 from then on. */
	check_refused(!strcmp(backend, "hip") ? "hipError" : "CUDA_ERROR");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	backend = argv[1];
	what = argv[2];
	if (!strcmp(what, "codes"))
		RUN(codes);
	else if (!strcmp(what, "real"))
		RUN(real);
	else
		RUN(refused);
	return TEST_DONE();
}
