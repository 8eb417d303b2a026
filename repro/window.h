/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file window.h
 * The arithmetic of windows and spans: pure functions, no I/O, thread-safe. Since 0.1.
 *
 * A span is a 2 MiB-aligned PMD range. A window is one full timeout that the driver spends in
 * its retry loop. The loop of amdgpu_hmm_range_get_pages() (drivers/gpu/drm/amd/amdgpu/
 * amdgpu_hmm.c) compares jiffies with time_after(), so it is left at the first tick that is
 * *past* the deadline: the timeout in whole jiffies, plus one. The walker of mm/hmm.c faults
 * the rest of one PMD range before it looks at the notifier's sequence again; therefore one
 * span that holds an entry which the fault must replace costs one window, however many such
 * entries it holds.
 *
 * Windows that follow each other start at a tick, the first one anywhere between two: a copy of
 * n windows can be up to one jiffy shorter than n times the window's length.
 */
#ifndef H2D_REPRO_WINDOW_H
#define H2D_REPRO_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define H2D_SPAN_BYTES (UINT64_C(1) << 21)

enum {
	H2D_WINDOW_TIMEOUT_MS = 1000, /**< HMM_RANGE_DEFAULT_TIMEOUT, include/linux/hmm.h */
};

/** What a window lasts on one kernel. */
struct h2d_window_clock {
	uint32_t timeout_ms; /**< 0: unknown */
	uint32_t hz;	     /**< CONFIG_HZ; 0: unknown */
};

/** Length of one window in ns: the timeout rounded up to jiffies, plus one jiffy; 0 when
 *  either is unknown. */
uint64_t h2d_window_ns(struct h2d_window_clock clock);
/** Length of one jiffy in ns, rounded to nearest; 0 when unknown. */
uint64_t h2d_jiffy_ns(uint32_t hz);

struct h2d_windows {
	uint64_t count;
	/** What is left of the elapsed time; down to minus one jiffy, see above. */
	int64_t residual_ns;
};

/** Windows in an elapsed time; count 0 and everything residual when the clock is unknown. */
struct h2d_windows h2d_windows_from_elapsed(uint64_t elapsed_ns, struct h2d_window_clock clock);

/**
 * CONFIG_HZ out of 100, 250, 300 and 1000 under which the samples leave the smallest sum of
 * residuals.
 * @param fit_ns  (out, may be NULL) that sum
 * @return 0 when no sample is as long as a window, or when two candidates explain the samples
 *         equally well: within a jiffy for each, the part that the first window may lack
 */
uint32_t h2d_window_fit_hz(const uint64_t *elapsed_ns, size_t count, uint32_t timeout_ms,
			   uint64_t *fit_ns);

/** Value of CONFIG_HZ in the text of a kernel's configuration, or 0. */
uint32_t h2d_hz_from_config(const char *text, size_t bytes);
/** CONFIG_HZ from the resolution of the coarse clocks, which is one tick (KTIME_LOW_RES,
 *  include/linux/jiffies.h), or 0 when that is no plausible tick. */
uint32_t h2d_hz_from_resolution(uint64_t resolution_ns);

/** How many windows each of two independent ways of counting found. */
enum h2d_agreement {
	H2D_AGREE,	 /**< the same */
	H2D_ONE_SIDED,	 /**< only one of them could be used */
	H2D_DISAGREE,	 /**< different: nothing follows from either */
	H2D_NO_COUNTING, /**< neither could be used */
};

/**
 * Compare windows counted by restarts (`by_restart`, -1: restarts not visible) with those in
 * the elapsed time. `plain_ns` is what the same copy takes without any window: where that is
 * more than half a window, elapsed time cannot be divided into windows and is not used. They
 * agree when the elapsed time has room for that many windows and not for one more; a
 * sixty-fourth of each (at most a quarter of one in all) may be missing.
 */
enum h2d_agreement h2d_windows_agree(int64_t by_restart, uint64_t elapsed_ns, uint64_t plain_ns,
				     struct h2d_window_clock clock);

/** Number of spans that [address, address + bytes) overlaps; 0 for no bytes. A range that wraps
 *  ends at the top of the address space. */
uint64_t h2d_spans_touched(uint64_t address, uint64_t bytes);

/** Spans of a range of pages for which `flag(user, i)` holds for at least one page `i`. */
uint64_t h2d_spans_holding(uint64_t address, uint64_t page_count, uint64_t page_bytes,
			   bool (*flag)(const void *user, uint64_t page), const void *user);

/** One bar of the presentation histogram: samples in [from_ms, to_ms). */
struct h2d_window_bin {
	uint64_t from_ms, to_ms, count;
};
enum { H2D_WINDOW_BIN_MS = 1000 };

/**
 * Non-empty 1000 ms bins of the samples, in order.
 * @param bins  (out) room for `capacity`; `count` is always enough
 * @return bins written
 */
size_t h2d_window_bins(const uint64_t *elapsed_ns, size_t count, struct h2d_window_bin *bins,
		       size_t capacity);

/** Median of the values, which are reordered; 0 for none. */
uint64_t h2d_median_u64(uint64_t *values, size_t count);

#endif
