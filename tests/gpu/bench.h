/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file bench.h
 * For tests of the GPU back-ends on the fake runtimes: which back-end, the fake's control, and
 * loads of a small checkpoint by it.
 */
#ifndef H2D_GPU_BENCH_H
#define H2D_GPU_BENCH_H

#include <dlfcn.h>

#include "device/device.h"
#include "fake.h"
#include "load_fixture.h"
#include "path/table.h"

static const char *backend; /* "hip" or "cuda" */
static const struct fake_control *fake;
static struct fixture f;
static unsigned char *image; /* what the file holds */
static char told[1024];	     /* the first error line that names an offset in a file */
static bool lost;	     /* whether the device was, at the end of the last round */

/* From several threads. */
static inline void bench_log(void *user, enum h2d_log_level level, const char *line)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	fixture_log(user, level, line);
	if (level == H2D_LOG_ERROR && !told[0] && strstr(line, "offset "))
		snprintf(told, sizeof(told), "%s", line);
	pthread_mutex_unlock(&lock);
}

/* Which entry point is the runtime's for a job. */
static inline const char *call_of(const char *hip, const char *cuda)
{
	return strcmp(backend, "hip") ? cuda : hip;
}

static inline void bench_start(int argc, char **argv)
{
	const struct fake_control *(*control)(void);
	void *lib, *symbol;

	if (argc < 2)
		exit(2);
	backend = argv[1];
	lib = dlopen(call_of("libamdhip64.so.6", "libcuda.so.1"), RTLD_NOW);
	symbol = lib ? dlsym(lib, "fake_control") : NULL;
	if (!symbol)
		SKIP("the fake runtime is not in LD_LIBRARY_PATH");
	memcpy(&control, &symbol, sizeof(control));
	fake = control();
}

/* Tensors that make packed chunks, chunks of one tensor, and one of a single byte. */
static inline void bench_fixture(void)
{
	const uint64_t sizes[] = {1, 4096, 300000, 70001, 2, 65536, 900000, 12345, 262144, 777};
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	struct extent extents[COUNT];
	uint64_t end = fixture_row(extents, sizes, COUNT, 512, 3);

	if (fixture_open(&f, end + 100, extents, COUNT))
		exit(1);
	image = malloc(end + 100);
	if (!image)
		exit(1);
	fixture_fill(image, end + 100, 0);
}

static inline struct h2d_load_opts bench_opts(const char *path)
{
	struct h2d_load_opts o = H2D_OPTS(o);

	o.log = bench_log;
	o.log_user = &f;
	o.path = path;
	o.threads = 2;
	o.chunk_bytes = 64 << 10;
	return o;
}

static inline int bench_open(unsigned index, uint64_t timeout_ns, struct h2d_device **dev)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	char spec[32];

	snprintf(spec, sizeof(spec), "%s:%u", backend, index);
	o.log = bench_log;
	o.log_user = &f;
	o.copy_timeout_ns = timeout_ns;
	f.error_count = 0;
	f.last_error[0] = told[0] = 0;
	return h2d_device_open(spec, &o, dev);
}

/* Whether the file's bytes are in device memory, and can be read back. */
static inline int bench_compare(const struct h2d_weights *w)
{
	static unsigned char buf[1 << 20];
	int rc = h2d_weights_count(w) == f.ckpt->cat.tensor_count ? 0 : H2D_E_MISMATCH;

	for (uint64_t i = 0; !rc && i < h2d_weights_count(w); i++) {
		const struct h2d_tensor *t;
		uint64_t index, bytes;
		const unsigned char *raw;
		void *data;

		if (h2d_weights_data(w, i, &index, &data, &bytes) || bytes > sizeof(buf))
			return H2D_E_MISMATCH;
		t = &f.ckpt->cat.tensors[index];
		raw = fake->bytes(data, bytes);
		if (!raw || memcmp(raw, image + t->offset_bytes, bytes))
			return H2D_E_MISMATCH;
		rc = h2d_weights_read(w, i, 0, buf, bytes);
		if (!rc && memcmp(buf, raw, bytes))
			rc = H2D_E_MISMATCH;
	}
	return rc;
}

static inline void bench_end(void)
{
	fixture_close(&f);
	free(image);
}

/* Open, load, look at every byte, close. @return the first failure; H2D_E_MISMATCH for bytes */
static inline int bench_round(unsigned index, uint64_t timeout_ns, const char *path)
{
	struct h2d_load_opts o = bench_opts(path);
	struct h2d_weights *w = NULL;
	struct h2d_device *dev;
	int rc = bench_open(index, timeout_ns, &dev);

	lost = false;
	if (rc)
		return rc;
	rc = h2d_load(f.ckpt, dev, &o, &w);
	if (!rc)
		rc = bench_compare(w);
	h2d_weights_free(w);
	h2d_device_host_trim(dev);
	lost = atomic_load(&dev->lost);
	h2d_device_close(dev);
	return rc;
}

static inline uint64_t live_objects(const struct fake_live *l)
{
	return l->context_count + l->alloc_count + l->host_alloc_count + l->register_count +
	       l->stream_count + l->event_count;
}

static inline struct fake_live bench_live(void)
{
	struct fake_live l;

	fake->live(&l);
	return l;
}

/* Nothing is left, and nothing was done that must not be. */
static inline void check_clean(void)
{
	struct fake_live l = bench_live();

	CHECK_EQ(live_objects(&l), 0);
	CHECK_EQ(l.violation_count, 0);
}

#endif
