/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_bench */
/* Statistics against values that can be worked out by hand or are in tables. */
#include <math.h>

#include "bench/stats.h"
#include "h2d/h2d.h"
#include "test.h"

static int near(double a, double b, double by)
{
	if (fabs(a - b) <= by)
		return 1;
	fprintf(stderr, "%.12g is not %.12g\n", a, b);
	return 0;
}

static void medians(void)
{
	const double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, one[] = {7};

	CHECK(near(h2d_median(odd, 3), 5, 0));
	CHECK(near(h2d_median(even, 4), 2.5, 0));
	CHECK(near(h2d_median(one, 1), 7, 0));
	CHECK(isnan(h2d_median(one, 0)));
}

static void a_spread(void)
{
	const double x[] = {1, 2, 3, 4, 100};
	struct h2d_spread s, again;

	CHECK_EQ(h2d_spread_of(x, 5, 1, &s), 0);
	CHECK_EQ(s.count, 5);
	CHECK(near(s.median, 3, 0));
	CHECK(near(s.min, 1, 0) && near(s.max, 100, 0));
	CHECK(near(s.mad, 1, 0)); /* of 2 1 0 1 97 */
	/* Mean 22, squares 441+400+361+324+6084 = 7610, deviation sqrt(7610/4) = 43.617 */
	CHECK(near(s.variation_pct, 198.26, 0.01));
	CHECK(s.low >= 1 && s.low <= 3 && s.high >= 3 && s.high <= 100);
	CHECK_EQ(h2d_spread_of(x, 5, 1, &again), 0);
	CHECK(!memcmp(&s, &again, sizeof(s)));
	CHECK_EQ(h2d_spread_of(x, 0, 1, &s), 0);
	CHECK_EQ(s.count, 0);
	CHECK_EQ(h2d_spread_of(x, 1, 1, &s), 0);
	CHECK(near(s.low, 1, 0) && near(s.high, 1, 0) && near(s.mad, 0, 0));
}

/* The interval holds the true median about as often as it says. Percentile bootstraps of
 * medians are a little off and 100 sets scatter, so that 86 % is asked for. */
static void the_interval_covers(void)
{
	struct h2d_random r = {42};
	int covered = 0;

	for (int set = 0; set < 100; set++) {
		struct h2d_spread s;
		double x[15];

		for (int i = 0; i < 15; i++)
			x[i] = 1 + (double)(h2d_random_next(&r) >> 11) / 9007199254740992.0;
		CHECK_EQ(h2d_spread_of(x, 15, (uint64_t)set, &s), 0);
		covered += s.low <= 1.5 && s.high >= 1.5;
		CHECK(s.low <= s.median && s.median <= s.high);
	}
	CHECK(covered >= 86);
	CHECK(covered < 100); /* else it would be too wide to say anything */
}

static void outliers_are_flagged(void)
{
	const double x[] = {10, 10.1, 9.9, 10.05, 9.95, 10.02, 9.98, 30};
	const double flat[] = {5, 5, 5, 5, 6};
	struct h2d_spread s;

	CHECK_EQ(h2d_spread_of(x, 8, 1, &s), 0);
	CHECK(h2d_modified_z(30, &s) > H2D_OUTLIER_Z);
	CHECK(fabs(h2d_modified_z(10.1, &s)) < H2D_OUTLIER_Z);
	CHECK_EQ(s.count, 8); /* and kept */
	CHECK(near(s.max, 30, 0));
	CHECK_EQ(h2d_spread_of(flat, 5, 1, &s), 0);
	CHECK(isinf(h2d_modified_z(6, &s)));
	CHECK(near(h2d_modified_z(5, &s), 0, 0));
}

static double p_of(const double *a, size_t n, const double *b, size_t m, double *u, bool *exact)
{
	struct h2d_rank_test t;

	CHECK_EQ(h2d_rank_test_of(a, n, b, m, &t), 0);
	*u = t.u;
	*exact = t.exact;
	return t.p;
}

static void rank_tests(void)
{
	const double low[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
	const double high[] = {11, 12, 13, 14, 15, 16, 17, 18, 19};
	const double mixed[] = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5};
	const double ties_a[] = {1, 1, 2, 2, 3}, ties_b[] = {2, 3, 3, 4, 4};
	double u;
	bool exact;

	/* Separated: 2 of the C(6,3) = 20, C(10,5) = 252 and C(18,9) = 48620 mixtures. */
	CHECK(near(p_of(low, 3, high, 3, &u, &exact), 0.1, 1e-12));
	CHECK(exact && near(u, 9, 0));
	CHECK(near(p_of(low, 5, high, 5, &u, &exact), 2.0 / 252, 1e-12));
	CHECK(near(p_of(low, 9, high, 9, &u, &exact), 2.0 / 48620, 1e-12));
	CHECK(near(p_of(high, 9, low, 9, &u, &exact), 2.0 / 48620, 1e-12));
	CHECK(near(u, 0, 0));
	/* Interleaved 1 1.5 2 2.5 …: U of B is 45, of A 36. P(U <= 36) = 0.36522 (counted by
	 * brute force over the 48620 mixtures). */
	CHECK(near(p_of(low, 9, mixed, 9, &u, &exact), 0.730440, 1e-5));
	CHECK(near(u, 45, 0));
	/* Critical value of the two-sided 5 % test for 5 and 5: U <= 2 (p = 0.0317); 3 is not
	 * significant (p = 0.0556). */
	{
		const double a[] = {1, 2, 3, 4, 7}, b[] = {5, 6, 8, 9, 10};
		const double c[] = {1, 2, 3, 5, 7}, d[] = {4, 6, 8, 9, 10};

		CHECK(near(p_of(a, 5, b, 5, &u, &exact), 8.0 / 252, 1e-9));
		CHECK(near(p_of(c, 5, d, 5, &u, &exact), 14.0 / 252, 1e-9));
	}
	/* Ties: the normal approximation with its correction. U of B is 22, mean 12.5,
	 * variance 25/12 (11 - (6+24+24+6)/90) = 21.528; z = 9 / 4.640 = 1.940. */
	CHECK(near(p_of(ties_a, 5, ties_b, 5, &u, &exact), 0.0524, 1e-4));
	CHECK(!exact && near(u, 22, 0));
	{
		const double same[] = {3, 3, 3};

		CHECK(near(p_of(same, 3, same, 3, &u, &exact), 1, 0));
	}
}

static void empty_sets(void)
{
	const double x[] = {1, 2};
	struct h2d_rank_test t;
	struct h2d_ratio r;

	CHECK_EQ(h2d_rank_test_of(x, 0, x, 2, &t), H2D_E_INVALID);
	CHECK_EQ(h2d_rank_test_of(x, 2, x, 0, &t), H2D_E_INVALID);
	CHECK_EQ(h2d_ratio_of(x, 0, x, 2, 1, &r), H2D_E_INVALID);
	{
		const double zero[] = {0, 0};

		CHECK_EQ(h2d_ratio_of(zero, 2, x, 2, 1, &r), H2D_E_INVALID);
	}
}

static void ratios(void)
{
	const double a[] = {100, 101, 99, 100, 102, 98, 100, 101, 99};
	double b[9];
	struct h2d_ratio r;

	for (int i = 0; i < 9; i++)
		b[i] = a[i] * 1.15;
	CHECK_EQ(h2d_ratio_of(a, 9, b, 9, 1, &r), 0);
	CHECK(near(r.value, 1.15, 1e-9));
	CHECK(r.low > 1.1 && r.low <= r.value && r.high >= r.value && r.high < 1.2);
	CHECK_EQ(h2d_ratio_of(a, 9, a, 9, 1, &r), 0);
	CHECK(r.low > 0.95 && r.high < 1.05);
}

static void many_tests(void)
{
	/* By hand: 0.01 · 4, 0.02 · 3, 0.03 · 2 (not below the one before), 0.9. */
	double p[] = {0.03, 0.9, 0.01, 0.02}, one[] = {4.1e-15}, large[] = {0.6, 0.7};

	CHECK_EQ(h2d_holm(p, 4), 0);
	CHECK(near(p[2], 0.04, 1e-15));
	CHECK(near(p[3], 0.06, 1e-15));
	CHECK(near(p[0], 0.06, 1e-15));
	CHECK(near(p[1], 0.9, 1e-15));
	CHECK_EQ(h2d_holm(one, 1), 0);
	CHECK(near(one[0], 4.1e-15, 0));
	CHECK_EQ(h2d_holm(large, 2), 0);
	CHECK(near(large[0], 1, 0) && near(large[1], 1, 0));
	CHECK_EQ(h2d_holm(one, 0), 0);
}

static void the_generator(void)
{
	/* First outputs of splitmix64 from 0, of the authors' reference. */
	struct h2d_random r = {0};
	size_t order[10];
	int seen[10] = {0}, counts[3] = {0};

	CHECK(h2d_random_next(&r) == UINT64_C(0xe220a8397b1dcdaf));
	CHECK(h2d_random_next(&r) == UINT64_C(0x6e789e6aa1b965f4));
	h2d_random_order(&r, order, 10);
	for (int i = 0; i < 10; i++)
		seen[order[i]]++;
	for (int i = 0; i < 10; i++)
		CHECK_EQ(seen[i], 1);
	for (int i = 0; i < 30000; i++)
		counts[h2d_random_below(&r, 3)]++;
	for (int i = 0; i < 3; i++)
		CHECK(counts[i] > 9700 && counts[i] < 10300);
}

int main(void)
{
	RUN(medians);
	RUN(a_spread);
	RUN(the_interval_covers);
	RUN(outliers_are_flagged);
	RUN(rank_tests);
	RUN(empty_sets);
	RUN(ratios);
	RUN(many_tests);
	RUN(the_generator);
	return TEST_DONE();
}
