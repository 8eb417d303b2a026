/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file stats.h
 * Statistics of samples: pure functions, deterministic (the bootstrap is seeded), thread-safe.
 * Nothing here drops a sample. Since 0.1.
 */
#ifndef H2D_BENCH_STATS_H
#define H2D_BENCH_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Generator of the shuffles and bootstraps (splitmix64, Steele, Lea and Flood 2014). */
struct h2d_random {
	uint64_t state;
};
uint64_t h2d_random_next(struct h2d_random *r);
/** Uniform in [0, bound), without the bias of a plain remainder; `bound` > 0. */
uint64_t h2d_random_below(struct h2d_random *r, uint64_t bound);
/** Fisher-Yates: order[i] becomes a permutation of 0 … count-1. */
void h2d_random_order(struct h2d_random *r, size_t *order, size_t count);

/** Of fewer samples no interval holds the median with 95 %: the widest, lowest to highest,
 * holds it with 1 - 2^(1-n). */
enum { H2D_INTERVAL_LEAST_COUNT = 6 };

/** A summary; all members 0 when there is no sample. */
struct h2d_spread {
	size_t count;
	double median, min, max;
	double mad;	      /**< median absolute deviation from the median, not scaled */
	double low, high;     /**< bootstrap percentile interval of the median, 95 % */
	double variation_pct; /**< standard deviation (n-1) over mean */
};

/** The median: the mean of the two middle values when the count is even. NaN for none. */
double h2d_median(const double *x, size_t count);
/** @return 0, or H2D_E_NOMEM */
int h2d_spread_of(const double *x, size_t count, uint64_t seed, struct h2d_spread *out);
/** Modified z-score of one value, 0.6745 (x - median) / MAD (Iglewicz and Hoaglin 1993); 0 when
 *  the MAD is 0 and the value is the median, infinite when it is not. */
double h2d_modified_z(double x, const struct h2d_spread *s);
/** A sample is flagged (never dropped) from this on. */
#define H2D_OUTLIER_Z 3.5

/** Mann-Whitney's rank test of two independent sets of samples, two-sided. */
struct h2d_rank_test {
	double u;	   /**< pairs in which the sample of B is larger, ties counting half */
	double p;	   /**< chance of a U at least as far from the middle */
	double p_b_larger; /**< u / (n m), the effect size */
	bool exact;	   /**< counted; else the normal approximation corrected for ties */
};
/** Exact where there are no ties and n·m ≤ 2500. @return 0, H2D_E_INVALID (a set is empty), or
 *  H2D_E_NOMEM */
int h2d_rank_test_of(const double *a, size_t n, const double *b, size_t m,
		     struct h2d_rank_test *out);

/**
 * Adjust the p of several tests for their number (Holm 1979, a simple sequentially rejective
 * procedure): below a level then is any by chance with that probability at most. In place.
 * @return 0 or H2D_E_NOMEM
 */
int h2d_holm(double *p, size_t count);

/** Median of B over median of A, with its bootstrap interval: both sets are resampled. */
struct h2d_ratio {
	double value, low, high;
};
/** @return 0, H2D_E_INVALID (a set is empty or a median of A is not positive), H2D_E_NOMEM */
int h2d_ratio_of(const double *a, size_t n, const double *b, size_t m, uint64_t seed,
		 struct h2d_ratio *out);

#endif
