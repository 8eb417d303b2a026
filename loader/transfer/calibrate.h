/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file calibrate.h
 * How large the chunks of a staging ring must be, and how many of them, until a device copies
 * as fast as it can: a few sizes are tried, and the smallest ring that is nearly as fast as the
 * fastest is taken. Knows nothing of checkpoints and files.
 */
#ifndef H2D_TRANSFER_CALIBRATE_H
#define H2D_TRANSFER_CALIBRATE_H

#include "device/device.h"

enum {
	H2D_CALIBRATE_BYTES = 64 << 20,	      /**< copied at most, the first touch included */
	H2D_CALIBRATE_TIME_NS = 100000000,    /**< no copy is begun later than this */
	H2D_CALIBRATE_REGION_BYTES = 8 << 20, /**< of host and of device memory, each */
	H2D_CALIBRATE_SIZES = 5,
};

/** One size that is tried, and what came of it. */
struct h2d_calibrate_try {
	uint64_t chunk_bytes;
	uint32_t slots;
	uint64_t bytes_per_s; /**< 0: the time was up before */
};

struct h2d_calibrate_result {
	struct h2d_calibrate_try tries[H2D_CALIBRATE_SIZES]; /**< from small to large rings */
	int chosen; /**< index into `tries`: 0 also when the time was up before the first */
	uint64_t elapsed_ns, copied_bytes;
};

/**
 * Try all sizes on an opened device, in memory of its own that is released again.
 * @return 0; H2D_E_NOMEM and the device's answers, after which everything is released;
 *         H2D_E_DEVICE_LOST when a copy did not end in time: the device is marked, the memory
 *         under the copy is quarantined and counted. Thread-safe. @since 0.1
 */
int h2d_calibrate(struct h2d_device *dev, struct h2d_calibrate_result *out);
/** The smallest ring within 5 % of the best rate. @return index, or -1 when none has a rate */
int h2d_calibrate_pick(const struct h2d_calibrate_try *tries, int count);
/** Whether such a pair is among those that are tried. */
bool h2d_calibrate_knows(uint64_t chunk_bytes, uint64_t slots);

/** h2d_now_ns(); only tests point it elsewhere, before any other thread runs. */
extern uint64_t (*h2d_calibrate_now)(void);

#endif
