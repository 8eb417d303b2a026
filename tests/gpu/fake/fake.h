/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file fake.h
 * Fakes of libamdhip64 and libcuda: no GPU, no vendor's code. They stand in for order of calls,
 * error paths and accounts of live objects; they say nothing about real hardware.
 *
 * Device memory is an address range that nobody can touch, with its bytes elsewhere: whoever
 * treats a device pointer as a host pointer faults. Every stream has a thread; copies run
 * there, later than they were asked for. Misuse that a real driver may let pass in silence (a
 * buffer freed under a copy, a device pointer out of bounds, a stream of another device) is
 * counted in `violation_count`.
 *
 * A script, from control()->script() or from the environment variable H2D_FAKE_GPU when the
 * library is loaded, is a list of rules separated by ';':
 *
 *     CALL=CODE         the first call of that entry point returns CODE
 *     CALL=CODE@N       … the N-th one, counted since the script was set
 *     CALL=CODE@N+      … and all that follow
 *     copy=CODE@N       the N-th copy that is executed fails, asynchronously
 *     hang@N            the N-th copy that is executed does not end before release()
 *     delay_us=N        every copy takes at least that long
 *     devices=N  memory_bytes=N  integrated=N  register_read_only=N  map_host=N
 */
#ifndef H2D_FAKE_H
#define H2D_FAKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct fake_live {
	uint64_t context_count; /**< retained primary contexts */
	uint64_t alloc_count, alloc_bytes;
	uint64_t host_alloc_count, register_count, register_bytes;
	uint64_t stream_count, event_count;
	uint64_t file_count, driver_count; /**< of the storage fakes */
	/* not objects */
	uint64_t violation_count;
	uint64_t copy_count, pinned_copy_count; /**< … whose host side was pinned */
	uint64_t max_pending_count;
	uint64_t read_only_register_count;
};

struct fake_control {
	void (*script)(const char *text); /**< replaces the last one; counters start again */
	void (*release)(void);		  /**< let hanging copies end */
	/** Forget every object, whoever holds it, and every error that a device is in. */
	void (*sweep)(void);
	void (*live)(struct fake_live *out);
	uint64_t (*calls)(const char *name); /**< since the script was set */
	const char *const *names;	     /**< of all entry points, ended by NULL */
	/** A native stream on a device, made without the library under test; `other` gives one
	 *  of another context (CUDA). Freed by stream_free(). */
	void *(*stream_new)(int device, bool other);
	void (*stream_free)(void *s);
	/** The calling thread's current device (HIP) or context (CUDA), as a number. */
	uintptr_t (*current)(void);
	void (*set_current)(uintptr_t value);
	/** The bytes behind a device pointer, or NULL. */
	void *(*bytes)(const void *p, uint64_t bytes);
};

/** Exported by every fake. */
const struct fake_control *fake_control(void);

/* ---- for the shims (hip.c, cuda.c): what a runtime is made of */

enum { FAKE_DEVICES_MAX = 8 };

struct fake_stream;
struct fake_event;

/** Every entry point first: counts the call. @return the scripted code, or 0 */
int fake_call(const char *name);
int fake_device_count(void);
/** The error that device `d` is in for good, or 0. */
int fake_sticky(int d);
int fake_parameter(const char *name); /**< of the script */
uint64_t fake_memory_bytes(void);
void fake_memory_info(int d, size_t *available, size_t *total);
void fake_retain(int d, int count);
int fake_retained(int d);
int fake_alloc(int d, void **p, size_t bytes);
int fake_free(int d, void *p);
int fake_host_alloc(void **p, size_t bytes);
int fake_host_free(void *p);
int fake_register(void *p, size_t bytes, bool read_only);
int fake_unregister(void *p);
struct fake_stream *fake_stream_new(int d, bool other);
int fake_stream_free(struct fake_stream *s);
bool fake_stream_is_other(const struct fake_stream *s);
struct fake_event *fake_event_new(int d);
int fake_event_free(struct fake_event *e);
int fake_event_record(int d, struct fake_event *e, struct fake_stream *s);
int fake_event_query(struct fake_event *e);
/** `to_device`: `dst` is device memory, else `src` is. */
int fake_copy(int d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
	      size_t row_bytes, size_t rows, bool to_device, struct fake_stream *s);
/** Where `bytes` bytes at device address `p` really lie, or NULL. */
void *fake_bytes(const void *p, uint64_t bytes);
void fake_violation(const char *what);
void fake_count_file(int files, int drivers);

/** Defined by the shim. */
extern const char *const fake_names[];
uintptr_t fake_current(void);
void fake_set_current(uintptr_t value);

enum {
	FAKE_INVALID_VALUE = 1,
	FAKE_OUT_OF_MEMORY = 2,
	FAKE_INVALID_DEVICE = 101,
	FAKE_INVALID_CONTEXT = 201,
	FAKE_INVALID_HANDLE = 400,
	FAKE_NOT_READY = 600,
	FAKE_ALREADY_REGISTERED = 712,
	FAKE_NOT_REGISTERED = 713,
};

#define FAKE_API __attribute__((visibility("default")))

#endif
