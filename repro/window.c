/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

static const uint32_t candidates[] = {100, 250, 300, 1000};

uint64_t h2d_jiffy_ns(uint32_t hz)
{
	return hz ? (NS_PER_S + hz / 2) / hz : 0;
}

/* In ticks first: at 300 Hz a jiffy is no whole number of nanoseconds. */
uint64_t h2d_window_ns(struct h2d_window_clock clock)
{
	uint64_t ticks;

	if (!clock.hz || !clock.timeout_ms)
		return 0;
	ticks = ((uint64_t)clock.timeout_ms * clock.hz + 999) / 1000 + 1;
	return (ticks * NS_PER_S + clock.hz / 2) / clock.hz;
}

struct h2d_windows h2d_windows_from_elapsed(uint64_t elapsed_ns, struct h2d_window_clock clock)
{
	struct h2d_windows w = {0};
	const uint64_t window = h2d_window_ns(clock);
	const uint64_t limit = (uint64_t)INT64_MAX / 2;

	if (elapsed_ns > limit)
		elapsed_ns = limit;
	if (window)
		w.count = (elapsed_ns + h2d_jiffy_ns(clock.hz)) / window;
	w.residual_ns = (int64_t)elapsed_ns - (int64_t)(w.count * window);
	return w;
}

uint32_t h2d_window_fit_hz(const uint64_t *elapsed_ns, size_t count, uint32_t timeout_ms,
			   uint64_t *fit_ns)
{
	uint64_t best = UINT64_MAX, second = UINT64_MAX;
	uint32_t hz = 0, second_hz = 0;

	for (size_t c = 0; c < sizeof(candidates) / sizeof(candidates[0]); c++) {
		const struct h2d_window_clock clock = {timeout_ms, candidates[c]};
		uint64_t sum = 0, windows = 0;

		for (size_t i = 0; i < count; i++) {
			struct h2d_windows w = h2d_windows_from_elapsed(elapsed_ns[i], clock);

			windows += w.count;
			sum += (uint64_t)llabs((long long)w.residual_ns);
		}
		if (!windows)
			continue;
		if (sum < best) {
			second = best;
			second_hz = hz;
			best = sum;
			hz = candidates[c];
		} else if (sum < second) {
			second = sum;
			second_hz = candidates[c];
		}
	}
	if (!hz)
		return 0;
	/* The first window of each sample is short by an unknown part of a jiffy. */
	if (second_hz && second - best <= count * h2d_jiffy_ns(hz < second_hz ? hz : second_hz))
		return 0;
	if (fit_ns)
		*fit_ns = best;
	return hz;
}

uint32_t h2d_hz_from_config(const char *text, size_t bytes)
{
	static const char key[] = "CONFIG_HZ=";
	const size_t length = sizeof(key) - 1;
	const char *end = text + bytes, *line = text;

	while (line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		uint32_t hz = 0;

		if (!stop)
			stop = end;
		if ((size_t)(stop - line) > length && !memcmp(line, key, length)) {
			for (const char *p = line + length; p < stop; p++) {
				if (*p < '0' || *p > '9' || hz > 100000)
					return 0;
				hz = hz * 10 + (uint32_t)(*p - '0');
			}
			return hz;
		}
		line = stop + 1;
	}
	return 0;
}

uint32_t h2d_hz_from_resolution(uint64_t resolution_ns)
{
	uint64_t hz;

	if (!resolution_ns)
		return 0;
	hz = (NS_PER_S + resolution_ns / 2) / resolution_ns;
	/* Kernels can be built for 24 to 1200 Hz; a fine clock is no tick. */
	return hz >= 24 && hz <= 1200 ? (uint32_t)hz : 0;
}

/* Ticks that a busy machine missed are made up for later, so that some windows end early. */
static uint64_t slack_ns(uint64_t windows, uint64_t window, uint64_t jiffy)
{
	const uint64_t most = window / 4;
	uint64_t slack = windows * (window / 64);

	if (windows > 64 || slack > most)
		slack = most;
	return slack > jiffy ? slack : jiffy;
}

enum h2d_agreement h2d_windows_agree(int64_t by_restart, uint64_t elapsed_ns, uint64_t plain_ns,
				     struct h2d_window_clock clock)
{
	const uint64_t window = h2d_window_ns(clock);
	const bool usable = window && plain_ns <= window / 2;
	uint64_t windows, least;

	if (by_restart < 0)
		return usable ? H2D_ONE_SIDED : H2D_NO_COUNTING;
	if (!usable)
		return H2D_ONE_SIDED;
	windows = (uint64_t)by_restart;
	if (windows > UINT64_MAX / window - 1)
		return H2D_DISAGREE;
	least = windows * window;
	if (windows)
		least -= slack_ns(windows, window, h2d_jiffy_ns(clock.hz));
	return elapsed_ns >= least && elapsed_ns < (windows + 1) * window ? H2D_AGREE
									  : H2D_DISAGREE;
}

uint64_t h2d_spans_touched(uint64_t address, uint64_t bytes)
{
	uint64_t last;

	if (!bytes)
		return 0;
	if (__builtin_add_overflow(address, bytes - 1, &last))
		last = UINT64_MAX;
	return last / H2D_SPAN_BYTES - address / H2D_SPAN_BYTES + 1;
}

uint64_t h2d_spans_holding(uint64_t address, uint64_t page_count, uint64_t page_bytes,
			   bool (*flag)(const void *user, uint64_t page), const void *user)
{
	uint64_t spans = 0, counted = UINT64_MAX;

	for (uint64_t i = 0; i < page_count; i++) {
		uint64_t span = (address + i * page_bytes) / H2D_SPAN_BYTES;

		if (span == counted || !flag(user, i))
			continue;
		counted = span;
		spans++;
	}
	return spans;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

size_t h2d_window_bins(const uint64_t *elapsed_ns, size_t count, struct h2d_window_bin *bins,
		       size_t capacity)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		const uint64_t ms = elapsed_ns[i] / NS_PER_MS;
		const uint64_t from = ms / H2D_WINDOW_BIN_MS * H2D_WINDOW_BIN_MS;
		size_t at = 0;

		while (at < used && bins[at].from_ms < from)
			at++;
		if (at < used && bins[at].from_ms == from) {
			bins[at].count++;
			continue;
		}
		if (used == capacity)
			continue;
		memmove(&bins[at + 1], &bins[at], (used - at) * sizeof(*bins));
		bins[at] = (struct h2d_window_bin){from, from + H2D_WINDOW_BIN_MS, 1};
		used++;
	}
	return used;
}

uint64_t h2d_median_u64(uint64_t *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_u64);
	if (count % 2)
		return values[count / 2];
	return values[count / 2 - 1] + (values[count / 2] - values[count / 2 - 1]) / 2;
}
