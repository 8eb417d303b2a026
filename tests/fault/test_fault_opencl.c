/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads onto an OpenCL device whose copies are gated and failed by user events: order and
 * failures are then the driver's own, and nothing depends on time.
 */
#include "faults.h"
#include <jansson.h>

#include "opencl_bench.h"

enum { THREADS = 2 };

static struct fixture f;

/* What is done to the n-th copy of a load, from 1. */
static struct {
	int32_t (*memcpy)(h2d_cl_queue, uint32_t, void *, const void *, size_t, uint32_t,
			  const h2d_cl_event *, h2d_cl_event *);
	int32_t (*set)(h2d_cl_event, int32_t);
	_Atomic uint64_t copies;
	h2d_cl_event gate; /* copies from `first` to `last` wait for it */
	uint64_t first, last;
	uint64_t open_at;    /* the copy after which it is opened; 0: never */
	int32_t open_status; /* … with this */
	uint64_t refuse;     /* the copy that is not even taken; 0: none */
} way;

static int32_t gated_memcpy(h2d_cl_queue q, uint32_t blocking, void *dst, const void *src,
			    size_t bytes, uint32_t n, const h2d_cl_event *list,
			    h2d_cl_event *event)
{
	uint64_t i = atomic_fetch_add(&way.copies, 1) + 1;
	int32_t code;

	if (i == way.refuse)
		return OCL_OUT_OF_RESOURCES;
	if (way.gate && i >= way.first && i <= way.last) {
		n = 1;
		list = &way.gate;
		/* PoCL 3.1 does not bear a command that fails by one dependency in the moment
		 * in which another one is met: so that there is no other. */
		if (way.open_status < 0)
			gates.clFinish(q);
	}
	code = way.memcpy(q, blocking, dst, src, bytes, n, list, event);
	if (i == way.open_at)
		way.set(way.gate, way.open_status);
	return code;
}

static struct h2d_device *gated_device(uint64_t timeout_ns)
{
	struct h2d_device *dev = opencl_open(&f, "opencl:0,memory=svm", timeout_ns);

	if (!dev)
		return NULL;
	memset(&way, 0, sizeof(way));
	way.memcpy = opencl_of(dev)->api.clEnqueueSVMMemcpy;
	way.set = gates.clSetUserEventStatus;
	opencl_of(dev)->api.clEnqueueSVMMemcpy = gated_memcpy;
	return dev;
}

static struct h2d_load_opts load_opts(const char *path)
{
	struct h2d_load_opts o = H2D_OPTS(o);

	o.path = path;
	o.chunk_bytes = FAULT_CHUNK;
	o.threads = THREADS;
	return o;
}

static int load_once(struct h2d_device *dev, const struct h2d_load_opts *o,
		     struct h2d_report *r)
{
	struct h2d_verify_result v = H2D_OPTS(v);
	struct h2d_weights *w = NULL;
	int descriptors = fault_descriptors(), rc;

	f.error_count = 0;
	rc = h2d_load(f.ckpt, dev, o, &w);
	if (rc) {
		CHECK(w == NULL);
		CHECK(f.error_count > 0);
	} else {
		way.gate = NULL;
		way.refuse = 0;
		if (r)
			CHECK_EQ(h2d_weights_report(w, r), 0);
		CHECK_EQ(h2d_verify(w, NULL, &v), 0);
		CHECK(v.compared_bytes > 600000);
		h2d_weights_free(w);
	}
	if (!atomic_load(&dev->lost)) {
		CHECK_EQ(opencl_of(dev)->range_count, 0);
		CHECK_EQ(fault_descriptors(), descriptors);
		CHECK_EQ(fault_mappings(&f), 0);
	}
	return rc;
}

static void every_path_is_exact(void)
{
	static const char *const specs[] = {"opencl:0,memory=svm", "opencl:0,memory=buffer",
					    "opencl:1"};

	for (int d = 0; d < 3; d++) {
		struct h2d_device *dev = opencl_open(&f, specs[d], 0);

		if (!dev)
			continue;
		for (int p = 0; p < 9; p++) {
			struct h2d_load_opts o =
				load_opts(fault_paths[p] ? fault_paths[p] : "register");

			CHECK_EQ(load_once(dev, &o, NULL), 0);
		}
		h2d_device_close(dev);
	}
}

/* Of a trace: the most copies at once, and whether something was read during a copy. */
static void look_at_trace(const char *path, unsigned *most, bool *read_too)
{
	json_t *doc = json_load_file(path, 0, NULL), *e, *o;
	json_t *events = json_object_get(doc, "traceEvents");
	size_t i, k;

	*most = 0;
	*read_too = false;
	json_array_foreach(events, i, e)
	{
		const char *name = json_string_value(json_object_get(e, "name"));
		double at = json_number_value(json_object_get(e, "ts"));
		unsigned n = 0;

		json_array_foreach(events, k, o)
		{
			double from = json_number_value(json_object_get(o, "ts"));
			double to = from + json_number_value(json_object_get(o, "dur"));
			const char *what = json_string_value(json_object_get(o, "name"));

			n += !strcmp(what, "copy") && from <= at && at < to;
		}
		if (!strcmp(name, "copy") && n > *most)
			*most = n;
		*read_too |= !strcmp(name, "read") && n;
	}
	json_decref(doc);
}

/* No copy ends before as many are under way as there are slots: the engine keeps them all busy,
 * or this would wait for ever. */
static void copies_overlap(void)
{
	struct h2d_device *dev = gated_device(20 * SECOND);
	struct h2d_load_opts o = load_opts("pinned");
	struct h2d_report r = H2D_OPTS(r);
	char trace[160];
	unsigned most;
	bool read_too;

	REQUIRE(dev);
	snprintf(trace, sizeof(trace), "%s.trace", f.path);
	o.trace_path = trace;
	way.gate = gate_new(dev);
	way.first = 1;
	way.last = UINT64_MAX;
	way.open_at = 2 * h2d_tuning->slots_per_reader;
	CHECK_EQ(load_once(dev, &o, &r), 0);
	CHECK_EQ(r.threads, THREADS);
	CHECK(r.max_in_flight_count >= way.open_at - 1);
	look_at_trace(trace, &most, &read_too);
	CHECK(most >= way.open_at);
	CHECK(read_too);
	unlink(trace);
	h2d_device_close(dev);
}

/* The n-th copy fails by its gate, for every n; the next load is whole. */
static void each_copy_fails(void)
{
	struct h2d_device *dev = gated_device(20 * SECOND);
	struct h2d_load_opts o = load_opts("pinned");
	uint64_t n, copies;

	REQUIRE(dev);
	for (n = 1;; n++) {
		int rc;

		atomic_store(&way.copies, 0);
		way.gate = gate_new(dev);
		way.first = way.last = way.open_at = n;
		way.open_status = -5;
		rc = load_once(dev, &o, NULL);
		copies = atomic_load(&way.copies);
		way.gate = NULL;
		if (!rc)
			break;
		CHECK_EQ(rc, H2D_E_DEVICE);
		CHECK(copies >= n);
	}
	CHECK(n > 5);
	CHECK_EQ(load_once(dev, &o, NULL), 0);
	h2d_device_close(dev);
}

/* The n-th copy is refused when it is enqueued. */
static void each_copy_is_refused(void)
{
	static const char *const paths[] = {"pinned", "mmap", "direct"};
	struct h2d_device *dev = gated_device(20 * SECOND);

	REQUIRE(dev);
	for (size_t p = 0; p < sizeof(paths) / sizeof(paths[0]); p++) {
		struct h2d_load_opts o = load_opts(paths[p]);
		uint64_t n;

		for (n = 1;; n++) {
			int rc;

			atomic_store(&way.copies, 0);
			way.refuse = n;
			rc = load_once(dev, &o, NULL);
			if (!rc)
				break;
			CHECK_EQ(rc, H2D_E_DEVICE);
		}
		CHECK(n > 2);
	}
	h2d_device_close(dev);
}

/* A copy that never ends: the device is lost, what lies under the copy stays, another device
 * works. */
static void a_copy_never_ends(void)
{
	struct h2d_device *dev = gated_device(40000000), *other;
	struct h2d_load_opts o = load_opts("pinned");
	struct h2d_opencl_api api;
	h2d_cl_event gate;

	REQUIRE(dev);
	api = opencl_of(dev)->api;
	gate = way.gate = gate_new(dev);
	way.first = way.last = 3;
	CHECK_EQ(load_once(dev, &o, NULL), H2D_E_DEVICE_LOST);
	CHECK(strstr(f.last_error, "did not end within") != NULL);
	CHECK_EQ(atomic_load(&dev->lost), 1);
	CHECK(atomic_load(&dev->quarantined_bytes) > 0);
	CHECK_EQ(load_once(dev, &o, NULL), H2D_E_DEVICE_LOST);
	h2d_device_close(dev);
	other = opencl_open(&f, "opencl", 0);
	REQUIRE(other);
	CHECK_EQ(load_once(other, &o, NULL), 0);
	h2d_device_close(other);
	/* Long after: the copy writes to memory that is still there. */
	CHECK_EQ(way.set(gate, 0), 0);
	api.clReleaseEvent(gate);
}

int main(void)
{
	opencl_begin();
	if (fixture_open(&f, FAULT_FILE_BYTES, fault_extents,
			 sizeof(fault_extents) / sizeof(fault_extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	faults_install();
	RUN(every_path_is_exact);
	RUN(copies_overlap);
	RUN(each_copy_fails);
	RUN(each_copy_is_refused);
	RUN(a_copy_never_ends);
	fixture_close(&f);
	return TEST_DONE();
}
