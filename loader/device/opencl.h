/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file opencl.h
 * Shared by the files of the opencl back-end (and its tests, which put gates and failures into
 * `api`).
 *
 * Device memory is shared virtual memory where the driver has it. Else it is a buffer object,
 * and its addresses are those of a reserved range of ours that nothing is behind: they are only
 * looked up, to find buffer and offset.
 */
#ifndef H2D_DEVICE_OPENCL_H
#define H2D_DEVICE_OPENCL_H

#include "device/device.h"
#include "device/opencl_api.h"

/** Memory that the back-end knows: of the device, or of the host. */
struct h2d_opencl_range {
	unsigned char *base; /**< as handed out */
	uint64_t bytes;
	h2d_cl_mem mem; /**< the buffer object that it belongs to, or NULL */
	void *raw;	/**< what SVM or the mapping of the buffer really began with, or NULL */
};

struct h2d_opencl {
	struct h2d_opencl_api api;
	h2d_cl_device device;
	h2d_cl_context context;
	h2d_cl_queue queue; /**< for mapping */
	bool svm;
	bool plain_host; /**< host memory needs no pinning: the device is a processor, or shares
			  *   the host's memory */
	bool processor;
	uint64_t alloc_max_bytes;
	_Atomic uint64_t alloc_bytes;
	pthread_mutex_t lock; /**< of the ranges */
	struct h2d_opencl_range *ranges;
	size_t range_count, range_cap;
	/** Under `lock`: events of copies that failed, released with the device. PoCL 3.1 still
	 *  looks at them, from a thread of its own, when all of them have ended already. */
	h2d_cl_event *failed;
	size_t failed_count, failed_cap;
};

/** Fail with the error's name and number. @return its status */
int h2d_opencl_fail(const struct h2d_device *dev, int32_t code, const char *call);

/** The range that [p, p+bytes) lies in. @return 0 or H2D_E_INVALID */
int h2d_opencl_find(struct h2d_opencl *ocl, const void *p, uint64_t bytes,
		    struct h2d_opencl_range *out);

/** As h2d_opencl_find(), with a buffer object: H2D_E_UNSUPPORTED where none can be had. */
int h2d_opencl_find_buffer(struct h2d_opencl *ocl, const void *p, uint64_t bytes,
			   struct h2d_opencl_range *out);

/* opencl_memory.c */
int h2d_opencl_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out);
void h2d_opencl_free(struct h2d_device *dev, struct h2d_devmem *mem);
int h2d_opencl_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out);
void h2d_opencl_host_free(struct h2d_device *dev, void *p, uint64_t bytes);
int h2d_opencl_host_register(struct h2d_device *dev, void *p, uint64_t bytes, bool read_only);
int h2d_opencl_host_unregister(struct h2d_device *dev, void *p, uint64_t bytes);

/* opencl_stream.c */
int h2d_opencl_stream_create(struct h2d_device *dev, struct h2d_stream **out);
int h2d_opencl_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out);
void h2d_opencl_stream_destroy(struct h2d_device *dev, struct h2d_stream *s);
int h2d_opencl_copy_to_device(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
int h2d_opencl_copy_to_device_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch,
				 const void *src, uint64_t src_pitch, uint64_t row_bytes,
				 uint64_t rows);
int h2d_opencl_copy_to_host(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
int h2d_opencl_event_create(struct h2d_device *dev, struct h2d_event **out);
void h2d_opencl_event_destroy(struct h2d_device *dev, struct h2d_event *e);
int h2d_opencl_event_record(struct h2d_event *e, struct h2d_stream *s);
int h2d_opencl_event_query(struct h2d_event *e);
int h2d_opencl_event_wait(struct h2d_event *e, uint64_t timeout_ns);

#endif
