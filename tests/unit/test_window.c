/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <stdint.h>

#include "repro/window.h"
#include "test.h"

#define MS(x) ((uint64_t)((x)*1e6 + 0.5))
#define MIB   (UINT64_C(1) << 20)

static const struct h2d_window_clock hz1000 = {1000, 1000}, hz250 = {1000, 250};

static void length_is_timeout_and_one_jiffy(void)
{
	CHECK_EQ(h2d_window_ns(hz1000), MS(1001));
	CHECK_EQ(h2d_window_ns(hz250), MS(1004));
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){1000, 100}), MS(1010));
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){1000, 300}), 1003333333);
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){40, 250}), MS(44));
	/* A timeout that is no whole number of jiffies is rounded up. */
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){41, 250}), MS(48));
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){1, 100}), MS(20));
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){1000, 0}), 0);
	CHECK_EQ(h2d_window_ns((struct h2d_window_clock){0, 250}), 0);
	CHECK_EQ(h2d_jiffy_ns(250), 4000000);
	CHECK_EQ(h2d_jiffy_ns(300), 3333333);
	CHECK_EQ(h2d_jiffy_ns(0), 0);
}

/* Figures that others published, and those of the laboratory. */
static void published_figures(void)
{
	static const struct {
		double elapsed_ms;
		uint32_t hz;
		uint64_t windows;
		double residual_ms;
	} rows[] = {
		{16019.6, 1000, 16, 3.6}, {16019.3, 1000, 16, 3.3},   {17020, 1000, 17, 3},
		{16064.2, 250, 16, 0.2},  {17109.4, 250, 17, 41.4},   {17109.8, 250, 17, 41.8},
		{16067, 250, 16, 3},	  {17067, 250, 17, -1},	      {4004.7, 1000, 4, 0.7},
		{4034.8, 1000, 4, 30.8},  {4018.7, 250, 4, 2.7},      {4013.8, 250, 4, -2.2},
		{5020.4, 250, 5, 0.4},	  {5023.9, 250, 5, 3.9},      {1005, 1000, 1, 4},
		{1042, 1000, 1, 41},	  {1522, 1000, 1, 521},	      {1522, 250, 1, 518},
		{15.3, 1000, 0, 15.3},	  {15.3, 250, 0, 15.3},	      {3.1, 1000, 0, 3.1},
		{235, 250, 0, 235},	  {128131.5, 1000, 128, 3.5}, {0, 250, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct h2d_window_clock clock = {1000, rows[i].hz};
		struct h2d_windows w = h2d_windows_from_elapsed(MS(rows[i].elapsed_ms), clock);
		double residual = (double)w.residual_ns / 1e6 - rows[i].residual_ms;

		CHECK_EQ(w.count, rows[i].windows);
		CHECK(residual > -0.001 && residual < 0.001);
		if (w.count != rows[i].windows)
			fprintf(stderr, "  row %zu: %.1f ms\n", i, rows[i].elapsed_ms);
	}
}

static void first_window_may_lack_a_jiffy(void)
{
	CHECK_EQ(h2d_windows_from_elapsed(MS(1000), hz250).count, 1);
	CHECK_EQ(h2d_windows_from_elapsed(MS(999.9), hz250).count, 0);
	CHECK_EQ(h2d_windows_from_elapsed(MS(16 * 1004 - 4), hz250).count, 16);
	CHECK_EQ(h2d_windows_from_elapsed(MS(16 * 1004 - 4) - 1, hz250).count, 15);
	/* Many windows do not add up to another one. */
	CHECK_EQ(h2d_windows_from_elapsed(MS(1004.0 * 1000), hz250).count, 1000);
	CHECK_EQ(h2d_windows_from_elapsed(MS(1001.0 * 5000 + 3), hz1000).count, 5000);
}

static void unknown_clock_and_wild_times(void)
{
	struct h2d_windows w;

	w = h2d_windows_from_elapsed(MS(16019), (struct h2d_window_clock){1000, 0});
	CHECK_EQ(w.count, 0);
	CHECK_EQ(w.residual_ns, MS(16019));
	w = h2d_windows_from_elapsed(UINT64_MAX, hz250);
	CHECK(w.count > 0 && w.residual_ns >= -4000000);
}

static void fits(void)
{
	uint64_t report[] = {MS(16019.6)}, lab[] = {MS(16064.2), MS(17109.8)};
	uint64_t small[] = {MS(4004.7), MS(4034.8)}, fit = 0;
	uint64_t plain[] = {MS(15.3), MS(3.1), MS(16)};
	uint64_t one[] = {MS(1002)}, ambiguous[] = {MS(4013.8)};
	uint64_t slow[] = {MS(16 * 1010 + 2), MS(17 * 1010 - 3)};
	uint64_t odd[] = {MS(16 * 1003.3333 + 1)};

	CHECK_EQ(h2d_window_fit_hz(report, 1, 1000, &fit), 1000);
	CHECK_EQ(fit, MS(3.6));
	CHECK_EQ(h2d_window_fit_hz(lab, 2, 1000, NULL), 250);
	CHECK_EQ(h2d_window_fit_hz(small, 2, 1000, NULL), 1000);
	CHECK_EQ(h2d_window_fit_hz(slow, 2, 1000, NULL), 100);
	CHECK_EQ(h2d_window_fit_hz(odd, 1, 1000, NULL), 300);
	CHECK_EQ(h2d_window_fit_hz(plain, 3, 1000, NULL), 0);
	CHECK_EQ(h2d_window_fit_hz(one, 1, 1000, NULL), 0);
	CHECK_EQ(h2d_window_fit_hz(ambiguous, 1, 1000, NULL), 0);
	CHECK_EQ(h2d_window_fit_hz(NULL, 0, 1000, NULL), 0);
}

static void every_length_fits_itself(void)
{
	static const uint32_t hz[] = {100, 250, 300, 1000};

	for (size_t h = 0; h < 4; h++)
		for (uint64_t n = 12; n < 40; n++)
			for (unsigned rest = 0; rest < 4; rest++) {
				struct h2d_window_clock clock = {1000, hz[h]};
				uint64_t elapsed = n * h2d_window_ns(clock) + MS(rest * 0.7);

				CHECK_EQ(h2d_windows_from_elapsed(elapsed, clock).count, n);
				CHECK_EQ(h2d_window_fit_hz(&elapsed, 1, 1000, NULL), hz[h]);
			}
}

static uint32_t config(const char *text)
{
	return h2d_hz_from_config(text, strlen(text));
}

static void configuration(void)
{
	CHECK_EQ(config("CONFIG_HZ_250=y\n# CONFIG_HZ_300 is not set\nCONFIG_HZ=250\nX=y\n"),
		 250);
	CHECK_EQ(config("CONFIG_HZ=1000"), 1000);
	CHECK_EQ(config("# CONFIG_HZ=1000\n"), 0);
	CHECK_EQ(config("CONFIG_HZ=\n"), 0);
	CHECK_EQ(config("CONFIG_HZ=25x\n"), 0);
	CHECK_EQ(config("CONFIG_HZ=99999999999999999999\n"), 0);
	CHECK_EQ(config(""), 0);
	CHECK_EQ(h2d_hz_from_resolution(4000000), 250);
	CHECK_EQ(h2d_hz_from_resolution(3333333), 300);
	CHECK_EQ(h2d_hz_from_resolution(1000000), 1000);
	CHECK_EQ(h2d_hz_from_resolution(10000000), 100);
	CHECK_EQ(h2d_hz_from_resolution(1), 0);
	CHECK_EQ(h2d_hz_from_resolution(0), 0);
	CHECK_EQ(h2d_hz_from_resolution(UINT64_MAX), 0);
}

static void agreement(void)
{
	CHECK_EQ(h2d_windows_agree(16, MS(16064.2), MS(220), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(0, MS(229), MS(220), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(16, MS(229), MS(220), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(0, MS(16019.6), MS(3), hz1000), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(15, MS(16064.2), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(17, MS(16064.2), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(16, MS(17068), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(16, MS(17067), MS(3), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(INT64_MAX, MS(17067), MS(3), hz250), H2D_DISAGREE);
	/* Windows that ended some milliseconds early, as under a busy hypervisor. */
	CHECK_EQ(h2d_windows_agree(16, MS(16064 - 200), MS(3), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(16, MS(16064 - 260), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(1, MS(1004 - 10), MS(3), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(1, MS(980), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(1000, MS(1004000.0 - 240), MS(3), hz250), H2D_AGREE);
	CHECK_EQ(h2d_windows_agree(1000, MS(1004000.0 - 260), MS(3), hz250), H2D_DISAGREE);
	CHECK_EQ(h2d_windows_agree(-1, MS(16019.6), MS(3), hz1000), H2D_ONE_SIDED);
	/* A copy that is slow by itself cannot be divided into windows. */
	CHECK_EQ(h2d_windows_agree(0, MS(1500), MS(1400), hz250), H2D_ONE_SIDED);
	CHECK_EQ(h2d_windows_agree(-1, MS(1500), MS(1400), hz250), H2D_NO_COUNTING);
	CHECK_EQ(h2d_windows_agree(-1, MS(16019.6), 0, (struct h2d_window_clock){1000, 0}),
		 H2D_NO_COUNTING);
}

static void spans(void)
{
	const uint64_t base = UINT64_C(0x7f0000000000);

	CHECK_EQ(h2d_spans_touched(base, 32 * MIB), 16);
	CHECK_EQ(h2d_spans_touched(base + 4096, 32 * MIB), 17);
	CHECK_EQ(h2d_spans_touched(base + 2 * MIB - 4096, 32 * MIB), 17);
	CHECK_EQ(h2d_spans_touched(base, 8 * MIB), 4);
	CHECK_EQ(h2d_spans_touched(base + 4096, 8 * MIB), 5);
	CHECK_EQ(h2d_spans_touched(base, 1), 1);
	CHECK_EQ(h2d_spans_touched(base, 2 * MIB), 1);
	CHECK_EQ(h2d_spans_touched(base, 2 * MIB + 1), 2);
	CHECK_EQ(h2d_spans_touched(base + 2 * MIB - 1, 2), 2);
	CHECK_EQ(h2d_spans_touched(base, 0), 0);
	CHECK_EQ(h2d_spans_touched(UINT64_MAX - 1, 10), 1);
	CHECK_EQ(h2d_spans_touched(0, UINT64_MAX), UINT64_MAX / (2 * MIB) + 1);
}

static bool every_512th(const void *user, uint64_t page)
{
	return page % 512 == *(const uint64_t *)user;
}

static bool none(const void *user, uint64_t page)
{
	(void)user;
	(void)page;
	return false;
}

static bool all(const void *user, uint64_t page)
{
	(void)user;
	(void)page;
	return true;
}

static bool first_only(const void *user, uint64_t page)
{
	(void)user;
	return page == 0;
}

static void sparse_spans(void)
{
	const uint64_t base = UINT64_C(0x7f0000000000), pages = 16 * 512;
	uint64_t where = 0;

	CHECK_EQ(h2d_spans_holding(base, pages, 4096, all, NULL), 16);
	CHECK_EQ(h2d_spans_holding(base + 4096, pages, 4096, all, NULL), 17);
	CHECK_EQ(h2d_spans_holding(base, pages, 4096, none, NULL), 0);
	CHECK_EQ(h2d_spans_holding(base, pages, 4096, first_only, NULL), 1);
	CHECK_EQ(h2d_spans_holding(base, 0, 4096, all, NULL), 0);
	/* One page of 512 in every span: all spans, a thirty-second by bytes at 64 KiB each. */
	CHECK_EQ(h2d_spans_holding(base, pages, 4096, every_512th, &where), 16);
	where = 511;
	CHECK_EQ(h2d_spans_holding(base, pages, 4096, every_512th, &where), 16);
	CHECK_EQ(h2d_spans_holding(base + 4096, pages, 4096, every_512th, &where), 16);
	CHECK_EQ(h2d_spans_holding(base, 512, 65536, all, NULL), 16);
}

static void bins(void)
{
	uint64_t samples[] = {MS(16064), MS(3), MS(16019), MS(999.999), MS(4004), MS(1000)};
	struct h2d_window_bin bin[6];
	size_t n = h2d_window_bins(samples, 6, bin, 6);

	REQUIRE(n == 4);
	CHECK_EQ(bin[0].from_ms, 0);
	CHECK_EQ(bin[0].to_ms, 1000);
	CHECK_EQ(bin[0].count, 2);
	CHECK_EQ(bin[1].from_ms, 1000);
	CHECK_EQ(bin[1].count, 1);
	CHECK_EQ(bin[2].from_ms, 4000);
	CHECK_EQ(bin[3].from_ms, 16000);
	CHECK_EQ(bin[3].count, 2);
	CHECK_EQ(h2d_window_bins(samples, 0, bin, 6), 0);
	CHECK_EQ(h2d_window_bins(samples, 6, bin, 1), 1);
}

static void median(void)
{
	uint64_t odd[] = {5, 1, 9}, even[] = {4, 2, 8, 6},
		 huge[] = {UINT64_MAX, UINT64_MAX - 2};

	CHECK_EQ(h2d_median_u64(odd, 3), 5);
	CHECK_EQ(h2d_median_u64(even, 4), 5);
	CHECK(h2d_median_u64(huge, 2) == UINT64_MAX - 1);
	CHECK_EQ(h2d_median_u64(odd, 0), 0);
}

int main(void)
{
	RUN(length_is_timeout_and_one_jiffy);
	RUN(published_figures);
	RUN(first_window_may_lack_a_jiffy);
	RUN(unknown_clock_and_wild_times);
	RUN(fits);
	RUN(every_length_fits_itself);
	RUN(configuration);
	RUN(agreement);
	RUN(spans);
	RUN(sparse_spans);
	RUN(bins);
	RUN(median);
	return TEST_DONE();
}
