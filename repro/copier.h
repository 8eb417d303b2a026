/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file copier.h
 * One timed copy at a time to a device, and the proof that the bytes arrived. Not thread-safe;
 * one copier for each thread, several on one device. Since 0.1.
 */
#ifndef H2D_REPRO_COPIER_H
#define H2D_REPRO_COPIER_H

#include "device/device.h"

struct h2d_copier {
	struct h2d_device *dev;
	const struct h2d_log *log;
	struct h2d_stream *stream;
	struct h2d_event *event;
	struct h2d_devmem target;
	unsigned char
		*staging; /**< pinned where the device can; for poisoning and reading back */
	uint64_t bytes;
};

/** @param bytes  largest copy. @return 0 or the device's status */
int h2d_copier_open(struct h2d_copier *c, struct h2d_device *dev, uint64_t bytes,
		    const struct h2d_log *log);
void h2d_copier_close(struct h2d_copier *c);

/** Overwrite the target, so that what is found there later came with the copy measured. */
int h2d_copier_poison(struct h2d_copier *c, uint64_t bytes);

/**
 * Copy and wait.
 * @param elapsed_ns  (out) from the call to the end of the copy
 * @param count       (out) counters of the HMM path during it; zeroed where there are none
 */
int h2d_copier_copy(struct h2d_copier *c, const void *src, uint64_t bytes, uint64_t *elapsed_ns,
		    struct h2d_hmm_count *count);

/**
 * Read the target back and compare it.
 * @param zeros  expect zeros instead of the known bytes
 * @return 0; H2D_E_MISMATCH with the first wrong byte in the message; H2D_E_UNSUPPORTED where
 *         nothing can be read back (no message)
 */
int h2d_copier_verify(struct h2d_copier *c, uint64_t bytes, bool zeros);

#endif
