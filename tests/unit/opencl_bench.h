/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file opencl_bench.h
 * An opened OpenCL device, and user events of its driver as gates in front of copies. CI has
 * PoCL for it, which is set up to have two devices.
 */
#ifndef H2D_TEST_OPENCL_BENCH_H
#define H2D_TEST_OPENCL_BENCH_H

#include <dlfcn.h>

#include "device/opencl.h"
#include "load_fixture.h"

#define SECOND 1000000000ull

struct gate_api {
	h2d_cl_event (*clCreateUserEvent)(h2d_cl_context, int32_t *);
	int32_t (*clSetUserEventStatus)(h2d_cl_event, int32_t);
	int32_t (*clFinish)(h2d_cl_queue q);
	int32_t (*clEnqueueBarrierWithWaitList)(h2d_cl_queue, uint32_t, const h2d_cl_event *,
						h2d_cl_event *);
};

static struct gate_api gates;

static inline struct h2d_device *opencl_open(struct fixture *f, const char *spec,
					     uint64_t timeout_ns)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;

	o.log = fixture_log;
	o.log_user = f;
	o.copy_timeout_ns = timeout_ns;
	h2d_device_open(spec, &o, &dev);
	return dev;
}

static inline struct h2d_opencl *opencl_of(struct h2d_device *dev)
{
	return dev->priv;
}

/* Call first: leaves the program where there is no OpenCL device. */
static inline void opencl_begin(void)
{
	static struct fixture f;
	struct h2d_device *dev;
	void *lib;

	setenv("POCL_DEVICES", "pthread pthread", 0);
	dev = opencl_open(&f, "opencl", 0);
	if (!dev)
		SKIP(f.last_error);
	lib = opencl_of(dev)->api.dl.handle;
	*(void **)&gates.clCreateUserEvent = dlsym(lib, "clCreateUserEvent");
	*(void **)&gates.clSetUserEventStatus = dlsym(lib, "clSetUserEventStatus");
	*(void **)&gates.clFinish = dlsym(lib, "clFinish");
	*(void **)&gates.clEnqueueBarrierWithWaitList =
		dlsym(lib, "clEnqueueBarrierWithWaitList");
	h2d_device_close(dev);
}

static inline h2d_cl_event gate_new(struct h2d_device *dev)
{
	int32_t code;

	return gates.clCreateUserEvent(opencl_of(dev)->context, &code);
}

/* Everything that is put into the queue from now on waits for the gate. The barrier is the
 * caller's to release: PoCL 3.1 aborts when one fails that nobody holds. */
static inline h2d_cl_event gate_close(h2d_cl_queue q, h2d_cl_event gate)
{
	h2d_cl_event barrier = NULL;

	CHECK_EQ(gates.clEnqueueBarrierWithWaitList(q, 1, &gate, &barrier), 0);
	return barrier;
}

static inline h2d_cl_queue queue_new(struct h2d_device *dev)
{
	struct h2d_opencl *ocl = opencl_of(dev);
	int32_t code;

	return ocl->api.clCreateCommandQueue(ocl->context, ocl->device, 0, &code);
}

#endif
