/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file gpu.h
 * What HIP and CUDA have in common. Each of them is a leaf (hip.c, cuda.c) that maps the calls
 * below onto its runtime, one to one; everything else, which is the whole behaviour of a
 * back-end, is in gpu.c and gpu_host.c.
 *
 * The rules:
 *  - Every call makes the device current for the calling thread first, and what was current
 *    before is current again when it returns: a thread of the caller never notices.
 *  - Every code that a runtime returns becomes a status, and a line with the call's and the
 *    code's names. Both runtimes number their codes alike.
 *  - A code after which the context is of no use marks the device lost. So does, by the
 *    engine, a copy that never ends. The runtime of a lost device is not called again: nothing
 *    of it is freed, waited for or reused.
 *  - Waiting for an event is asking for it, at first without a pause, then less and less
 *    often (at most 200 us apart): neither runtime can wait for a limited time.
 *
 * Thread-safety as in device.h.
 * @since 0.1
 */
#ifndef H2D_DEVICE_GPU_H
#define H2D_DEVICE_GPU_H

#include "device/device.h"
#include "device/dl.h"
#include "device/storage.h"

/** The calls of a runtime, for their names. */
enum h2d_gpu_call {
	H2D_GPU_ENTER,
	H2D_GPU_MEM_INFO,
	H2D_GPU_ALLOC,
	H2D_GPU_FREE,
	H2D_GPU_HOST_ALLOC,
	H2D_GPU_HOST_FREE,
	H2D_GPU_REGISTER,
	H2D_GPU_UNREGISTER,
	H2D_GPU_STREAM_CREATE,
	H2D_GPU_STREAM_DESTROY,
	H2D_GPU_STREAM_CHECK,
	H2D_GPU_EVENT_CREATE,
	H2D_GPU_EVENT_DESTROY,
	H2D_GPU_EVENT_RECORD,
	H2D_GPU_EVENT_QUERY,
	H2D_GPU_TO_DEVICE,
	H2D_GPU_TO_DEVICE_2D,
	H2D_GPU_TO_HOST,
	H2D_GPU_CALL_COUNT,
};

struct h2d_gpu;

/** A runtime. All but error_name() and leave() return the runtime's code, 0 for success. */
struct h2d_gpu_ops {
	const char *const *names; /**< of the calls, by enum h2d_gpu_call */
	/** What the runtime calls a code; never "". */
	void (*error_name)(const struct h2d_gpu *g, int code, char *out, size_t bytes);
	/** Make the device current; `was` is for leave(). */
	int (*enter)(struct h2d_gpu *g, uintptr_t *was);
	void (*leave)(struct h2d_gpu *g, uintptr_t was);
	int (*mem_info)(struct h2d_gpu *g, size_t *available, size_t *total);
	int (*alloc)(struct h2d_gpu *g, void **p, size_t bytes);
	int (*free)(struct h2d_gpu *g, void *p);
	int (*host_alloc)(struct h2d_gpu *g, void **p, size_t bytes);
	int (*host_free)(struct h2d_gpu *g, void *p);
	int (*host_register)(struct h2d_gpu *g, void *p, size_t bytes, bool read_only);
	int (*host_unregister)(struct h2d_gpu *g, void *p);
	int (*stream_create)(struct h2d_gpu *g, void **s);
	int (*stream_destroy)(struct h2d_gpu *g, void *s);
	/** Whether a stream of the caller belongs to this device; `mine` stays true when the
	 *  runtime cannot tell. */
	int (*stream_check)(struct h2d_gpu *g, void *s, bool *mine);
	int (*event_create)(struct h2d_gpu *g, void **e);
	int (*event_destroy)(struct h2d_gpu *g, void *e);
	int (*event_record)(struct h2d_gpu *g, void *e, void *s);
	int (*event_query)(struct h2d_gpu *g, void *e);
	int (*to_device)(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s);
	int (*to_device_2d)(struct h2d_gpu *g, void *dst, size_t dst_pitch, const void *src,
			    size_t src_pitch, size_t row_bytes, size_t rows, void *s);
	int (*to_host)(struct h2d_gpu *g, void *dst, const void *src, size_t bytes, void *s);
};

struct h2d_gpu_host;
struct h2d_gpu_memory;

/** An opened GPU, at the start of the leaf's own; dev->priv points to it. */
struct h2d_gpu {
	const struct h2d_gpu_ops *ops;
	struct h2d_device *dev;
	struct h2d_dl dl;
	const struct h2d_storage_kind *storage_kind;
	bool allow_compat; /* of storage-to-device */
	int index;
	pthread_mutex_t lock;	   /* of what follows */
	struct h2d_gpu_host *host; /* staging memory handed out */
	pthread_mutex_t storage_lock;
	struct h2d_storage *storage;   /* under storage_lock; NULL until it is asked for */
	struct h2d_gpu_memory *memory; /* device memory handed out */
	uint64_t alloc_bytes;	       /* device memory handed out */
};

/** Status of a code. @param host  the call was about host memory */
int h2d_gpu_status(int code, bool host);
/** Whether nothing can be done with the context after this code. */
bool h2d_gpu_is_fatal(int code);

/** `call` returned `code`: log it after `fmt`, mark the device lost where it is.
 *  @return the status */
int h2d_gpu_fail(struct h2d_gpu *g, enum h2d_gpu_call call, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/** "CUDA_ERROR_NO_DEVICE (100)" */
void h2d_gpu_error_text(const struct h2d_gpu *g, int code, char *out, size_t bytes);

/** Enter, unless the device is lost (which is told). @return 0 or a status */
int h2d_gpu_enter(struct h2d_gpu *g, uintptr_t *was);

/** Common part of a leaf's open(): facts that both runtimes tell in the same way.
 *  `pci_address` has been filled in already, as the runtime spells it. */
int h2d_gpu_opened(struct h2d_gpu *g, struct h2d_device *dev, int unified, int numa_hint);
/** Common part of close(): true when the leaf shall release the device (it is not lost). */
bool h2d_gpu_closing(struct h2d_gpu *g);

/** Drop the account of staging memory; the memory itself is quarantined, or it is a mistake. */
void h2d_gpu_host_forget(struct h2d_gpu *g);

/* Members of a back-end's table. */
int h2d_gpu_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out);
void h2d_gpu_free(struct h2d_device *dev, struct h2d_devmem *mem);
int h2d_gpu_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out);
void h2d_gpu_host_free(struct h2d_device *dev, void *p, uint64_t bytes);
int h2d_gpu_host_register(struct h2d_device *dev, void *p, uint64_t bytes, bool read_only);
int h2d_gpu_host_unregister(struct h2d_device *dev, void *p, uint64_t bytes);
int h2d_gpu_stream_create(struct h2d_device *dev, struct h2d_stream **out);
void h2d_gpu_stream_destroy(struct h2d_device *dev, struct h2d_stream *s);
int h2d_gpu_stream_wrap(struct h2d_device *dev, void *native, struct h2d_stream **out);
int h2d_gpu_copy(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
int h2d_gpu_copy_2d(struct h2d_stream *s, void *dst, uint64_t dst_pitch, const void *src,
		    uint64_t src_pitch, uint64_t row_bytes, uint64_t rows);
int h2d_gpu_copy_to_host(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
int h2d_gpu_event_create(struct h2d_device *dev, struct h2d_event **out);
void h2d_gpu_event_destroy(struct h2d_device *dev, struct h2d_event *e);
int h2d_gpu_event_record(struct h2d_event *e, struct h2d_stream *s);
int h2d_gpu_event_query(struct h2d_event *e);
int h2d_gpu_event_wait(struct h2d_event *e, uint64_t timeout_ns);
int h2d_gpu_read_file_check(struct h2d_device *dev, char *why, size_t why_bytes);
int h2d_gpu_read_file(struct h2d_stream *s, int fd, uint64_t offset, uint64_t bytes, void *dst);

/** Device memory that was handed out: kept in mind, and forgotten (for a lost device: without
 *  asking it anything). */
int h2d_gpu_memory_add(struct h2d_gpu *g, void *base, uint64_t bytes);
void h2d_gpu_memory_remove(struct h2d_gpu *g, void *base);
/** What close() has to do for storage-to-device; `lost`: without calling its library. */
void h2d_gpu_storage_end(struct h2d_gpu *g, bool lost);

/** A stream, for gpu.c and gpu_storage.c. */
struct h2d_stream {
	struct h2d_gpu *gpu;
	void *native;
	bool owner;
	struct h2d_storage_refs files;
};

/** Read ":N[,gds=compat]" of a spec. @return 0 or H2D_E_INVALID, told */
int h2d_gpu_parse(struct h2d_device *dev, const char *args, unsigned *index,
		  bool *allow_compat);

#endif
