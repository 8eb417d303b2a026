/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file device.h
 * The device table. A back-end owns memory and moves bytes; it knows nothing of checkpoints.
 *
 * A back-end is a static `struct h2d_backend` in one file; h2d_backend_validate() checks it
 * against its own capabilities before use. Copies are asynchronous on a stream; an event marks
 * a place in a stream and is the only way to learn that copies before it have completed. Every
 * call carries its failure up as a status, with the runtime's own error name in the log.
 *
 * Thread-safety: alloc, free, host_alloc, streams and events may be used from any thread; one
 * stream takes copies from several threads.
 */
#ifndef H2D_DEVICE_DEVICE_H
#define H2D_DEVICE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/log.h"

enum {
	H2D_BACKEND_ABI = 1,
};

/** Capabilities of a back-end (static) or of an opened device. */
enum h2d_device_caps {
	H2D_DEV_READABLE = 1 << 0, /**< copy_to_host works */
	H2D_DEV_FILL = 1 << 1,	   /**< destination is plain host memory: readers may fill it in
				    *   place, no staging needed */
	H2D_DEV_PINNED = 1 << 2,   /**< host_alloc returns memory pinned for this device */
	H2D_DEV_REGISTER = 1 << 3, /**< host_register works */
	H2D_DEV_REGISTER_READ_ONLY = 1 << 4, /**< … also on read-only mappings */
	H2D_DEV_COPY_2D = 1 << 5,
	H2D_DEV_READ_FILE = 1 << 6,	/**< storage to device */
	H2D_DEV_CALLER_STREAM = 1 << 7, /**< takes streams of its runtime from the caller */
	H2D_DEV_HMM = 1 << 8, /**< pageable copies go through the kernel's HMM code and
			       *   windows can be counted */
	H2D_DEV_UNIFIED = 1 << 9,
};

struct h2d_device;
struct h2d_stream;
struct h2d_event;

/** A device allocation. `ptr` is the device address (for opencl without SVM a handle + 0). */
struct h2d_devmem {
	void *ptr;
	uint64_t bytes;
	void *handle; /**< back-end's own */
};

/** Facts that a back-end fills at open() or describe(). */
struct h2d_device_facts {
	char name[64], hardware[128], pci_address[32];
	uint64_t memory_bytes, memory_free_bytes;
	int32_t numa_node;
	uint32_t unified;
};

/** Counters of the kernel's HMM path since the device was opened. */
struct h2d_hmm_total {
	uint64_t requests, restarts, windows, notifier_callbacks;
};

/** Counters of the kernel's HMM path, for devices with H2D_DEV_HMM, since they were read last.
 */
struct h2d_hmm_count {
	uint64_t requests; /**< copies whose source was taken through HMM */
	uint64_t restarts; /**< attempts that ended in -EAGAIN or -EBUSY and were repeated */
	uint64_t windows;  /**< attempts among them that lasted a whole timeout */
	uint64_t notifier_callbacks, foreign_callbacks; /**< … from other threads */
	uint64_t callback_pages, spans_invalidated;
	uint64_t pages_valid, pages_writable; /**< resolved by the last attempts */
	int32_t last_code;	    /**< outer return code of the last failed request, else 0 */
	bool windows_counted;	    /**< the driver's own loop was looked into; else windows are
				     *   attempts whose duration shows one */
	struct h2d_hmm_total total; /**< never reset */
	/* Facts, not reset: the driver's timeout and the kernel's CONFIG_HZ. */
	uint32_t timeout_ms, hz;
};

/** What was found of a back-end's run-time library, whether or not it can be used. */
struct h2d_runtime {
	char library[64];    /**< soname of the library that was loaded, "" when none was */
	char path[256];	     /**< its file, "" when unknown */
	char version[64];    /**< as it tells it, "" when unknown */
	char error_name[64]; /**< of the call that refused, as the runtime spells it, or "" */
	int error_code;	     /**< of that call, 0 when none refused */
	unsigned device_count;
	char why[256]; /**< one line, when there is no device */
};

struct h2d_backend {
	const char *name;    /**< "host" */
	const char *summary; /**< one line */
	unsigned abi;	     /**< H2D_BACKEND_ABI */
	unsigned caps;	     /**< what an opened device may have at most */

	/** Number of devices; why[] gets the reason when it is 0. Optional: 1. */
	int (*probe)(unsigned *count, char *why, size_t why_bytes);
	/** What is here of its run-time library; fills all of `out`. For back-ends that load
	 * one; the others: NULL. Thread-safe. */
	void (*runtime)(struct h2d_runtime *out);
	/** `args`: what follows the name in the spec (":0", ":stale,timeout_ms=40" or "").
	 *  Sets dev->priv, dev->caps, dev->facts. */
	int (*open)(struct h2d_device *dev, const char *args);
	void (*close)(struct h2d_device *dev);
	/** Fill facts that take long (milliseconds), once, before the first h2d_device_info().
	 *  Optional. */
	void (*describe)(struct h2d_device *dev);

	int (*alloc)(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out);
	void (*free)(struct h2d_device *dev, struct h2d_devmem *mem);
	/** Page-aligned staging memory, pinned where the device can. */
	int (*host_alloc)(struct h2d_device *dev, uint64_t bytes, void **out);
	void (*host_free)(struct h2d_device *dev, void *p, uint64_t bytes);
	int (*host_register)(struct h2d_device *dev, void *p, uint64_t bytes, bool read_only);
	int (*host_unregister)(struct h2d_device *dev, void *p, uint64_t bytes);

	int (*stream_create)(struct h2d_device *dev, struct h2d_stream **out);
	void (*stream_destroy)(struct h2d_device *dev, struct h2d_stream *s);
	/** Wrap a caller's stream; destroy only drops the wrapper. Optional. */
	int (*stream_wrap)(struct h2d_device *dev, void *native, struct h2d_stream **out);
	/** Host memory to device, asynchronously; `src` must stay valid until a later event. */
	int (*copy_to_device)(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);
	/** `rows` rows of `row_bytes`. Optional. */
	int (*copy_to_device_2d)(struct h2d_stream *s, void *dst, uint64_t dst_pitch,
				 const void *src, uint64_t src_pitch, uint64_t row_bytes,
				 uint64_t rows);
	int (*copy_to_host)(struct h2d_stream *s, void *dst, const void *src, uint64_t bytes);

	int (*event_create)(struct h2d_device *dev, struct h2d_event **out);
	void (*event_destroy)(struct h2d_device *dev, struct h2d_event *e);
	int (*event_record)(struct h2d_event *e, struct h2d_stream *s);
	/** 1 completed, 0 not yet, negative: a copy before it failed (and is attributed to it).
	 */
	int (*event_query)(struct h2d_event *e);
	/** Wait up to `timeout_ns`. 0 completed; H2D_E_DEVICE_LOST when the time ran out; or
	 * the failure of a copy before it. */
	int (*event_wait)(struct h2d_event *e, uint64_t timeout_ns);

	/** Whether read_file() can be used, opening what it needs at the first call (which may
	 *  take long). Needed with H2D_DEV_READ_FILE.
	 *  @param why  (out) one line when it cannot
	 *  @return 0 or H2D_E_UNSUPPORTED */
	int (*read_file_check)(struct h2d_device *dev, char *why, size_t why_bytes);
	/** Storage to device, without host memory of ours. Returns when the bytes are at `dst`:
	 *  several are under way when several threads call, each with a stream of its own.
	 *  Any offset and size; the fast way needs offset, size and `dst` in multiples of 4096.
	 *  What it keeps of a file goes with the stream. `bytes` must lie within the file: less
	 *  than all of them is H2D_E_IO. Optional. */
	int (*read_file)(struct h2d_stream *s, int fd, uint64_t offset, uint64_t bytes,
			 void *dst);
	/** Reset and read the HMM counters. Optional. */
	void (*hmm_count)(struct h2d_device *dev, struct h2d_hmm_count *out);
};

/** Host memory of a device that nobody uses just now, kept for the next load: pinning takes
 *  longer than copying what it holds. */
struct h2d_spare {
	void *p;
	uint64_t bytes;
};

enum { H2D_SPARE_MAX = 4 };

/** Sizes of a staging ring that a calibration chose; `chunk_bytes` 0: none. */
struct h2d_calibrated {
	uint64_t chunk_bytes;
	uint32_t slots; /**< of each reader */
	bool cached;	/**< by an earlier process, from the user's cache */
};

struct h2d_device {
	const struct h2d_backend *backend;
	unsigned caps;
	struct h2d_device_facts facts;
	pthread_mutex_t facts_lock; /**< of what describe() fills, and of `calibrated` */
	bool described;
	struct h2d_calibrated calibrated;
	struct h2d_log log;
	uint64_t copy_timeout_ns;
	_Atomic int lost; /**< set once, never cleared */
	_Atomic uint64_t
		quarantined_bytes; /**< buffers left under copies that never completed */
	pthread_mutex_t spare_lock;
	struct h2d_spare spares[H2D_SPARE_MAX];
	void *native_context; /**< of h2d_device_opts */
	void *priv;
};

/** The table (table.c), ended by NULL. */
extern const struct h2d_backend *const h2d_backends[];

/** Host memory by host_alloc(), or what an earlier caller gave back: at least `*bytes` and at
 *  most `most` bytes of it. What was kept and does not fit is released. Thread-safe.
 *  @param bytes  (in, out) wanted; got
 *  @return 0, or what host_alloc() answered */
int h2d_device_host_get(struct h2d_device *dev, uint64_t *bytes, uint64_t most, void **out);
/** Give it back, to be kept for the next h2d_device_host_get(). */
void h2d_device_host_put(struct h2d_device *dev, void *p, uint64_t bytes);
/** Release everything that is kept. On a lost device it is quarantined and counted. */
void h2d_device_host_trim(struct h2d_device *dev);

/** Check that a back-end has what its capabilities promise. @return 0 or H2D_E_INTERNAL with
 * the missing member named. */
int h2d_backend_validate(const struct h2d_backend *b, const struct h2d_log *log);

/** Read the index from a back-end's arguments: ":2,x=1" gives 2 and ",x=1"; without one, 0 and
 *  all of it. @return 0, or H2D_E_INVALID (over 65535, or followed by anything but ':' or ',')
 */
int h2d_device_index(const char *args, unsigned *index, const char **rest);

#endif
