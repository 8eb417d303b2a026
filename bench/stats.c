/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "h2d/h2d.h"

enum {
	RESAMPLES = 10000,
	RESAMPLES_LARGE = 2000, /* of sets over LARGE_COUNT: the interval is narrow anyway */
	LARGE_COUNT = 200,
	EXACT_MAX = 2500,
};

uint64_t h2d_random_next(struct h2d_random *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t h2d_random_below(struct h2d_random *r, uint64_t bound)
{
	const uint64_t reject = -bound % bound; /* 2^64 mod bound values would be too often */
	uint64_t x;

	do
		x = h2d_random_next(r);
	while (x < reject);
	return x % bound;
}

void h2d_random_order(struct h2d_random *r, size_t *order, size_t count)
{
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count; i > 1; i--) {
		const size_t k = (size_t)h2d_random_below(r, i), swap = order[i - 1];

		order[i - 1] = order[k];
		order[k] = swap;
	}
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(const double *sorted, size_t count)
{
	return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static double *copy_of(const double *x, size_t count)
{
	double *copy = h2d_mem->calloc(count + 1, sizeof(*copy));

	if (copy && count)
		memcpy(copy, x, count * sizeof(*copy));
	return copy;
}

double h2d_median(const double *x, size_t count)
{
	double *sorted = copy_of(x, count), value = NAN;

	if (sorted && count) {
		qsort(sorted, count, sizeof(*sorted), ascending);
		value = middle(sorted, count);
	}
	free(sorted);
	return value;
}

/* Median of as many samples, drawn with replacement, as there are. */
static double redraw(struct h2d_random *r, const double *x, size_t count, double *scratch)
{
	for (size_t i = 0; i < count; i++)
		scratch[i] = x[h2d_random_below(r, count)];
	qsort(scratch, count, sizeof(*scratch), ascending);
	return middle(scratch, count);
}

static size_t resamples(size_t count)
{
	return count > LARGE_COUNT ? RESAMPLES_LARGE : RESAMPLES;
}

/* Percentiles 2.5 and 97.5 of the sorted draws. */
static void interval(double *draws, size_t count, double *low, double *high)
{
	qsort(draws, count, sizeof(*draws), ascending);
	*low = draws[(size_t)(0.025 * (double)(count - 1) + 0.5)];
	*high = draws[(size_t)(0.975 * (double)(count - 1) + 0.5)];
}

static void moments(const double *x, size_t count, struct h2d_spread *out)
{
	double mean = 0, squares = 0;

	for (size_t i = 0; i < count; i++)
		mean += x[i] / (double)count;
	for (size_t i = 0; i < count; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	if (count > 1 && mean > 0)
		out->variation_pct = 100 * sqrt(squares / (double)(count - 1)) / mean;
}

int h2d_spread_of(const double *x, size_t count, uint64_t seed, struct h2d_spread *out)
{
	struct h2d_random r = {seed};
	const size_t n = resamples(count);
	double *sorted = copy_of(x, count), *draws = h2d_mem->calloc(n, sizeof(*draws));
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (!sorted || !draws) {
		rc = H2D_E_NOMEM;
		goto out;
	}
	if (!count)
		goto out;
	out->count = count;
	qsort(sorted, count, sizeof(*sorted), ascending);
	out->median = middle(sorted, count);
	out->min = sorted[0];
	out->max = sorted[count - 1];
	moments(x, count, out);
	for (size_t i = 0; i < n; i++)
		draws[i] = redraw(&r, x, count, sorted);
	interval(draws, n, &out->low, &out->high);
	for (size_t i = 0; i < count; i++)
		sorted[i] = fabs(x[i] - out->median);
	qsort(sorted, count, sizeof(*sorted), ascending);
	out->mad = middle(sorted, count);
out:
	free(sorted);
	free(draws);
	return rc;
}

double h2d_modified_z(double x, const struct h2d_spread *s)
{
	const double distance = x - s->median;

	if (s->mad > 0)
		return 0.6745 * distance / s->mad;
	return distance > 0 ? INFINITY : distance < 0 ? -INFINITY : 0;
}

struct ranked {
	double value;
	bool of_b;
};

static int by_value(const void *a, const void *b)
{
	return ascending(&((const struct ranked *)a)->value,
			 &((const struct ranked *)b)->value);
}

/*
 * Chance of U <= u when both sets come from one distribution: of all ways to mix n and m
 * samples, the share with at most u inversions. Row by row of the recurrence of Mann and
 * Whitney (1947): f(n, m, u) = f(n-1, m, u-m) + f(n, m-1, u).
 */
static int exact_tail(size_t n, size_t m, size_t u, double *tail)
{
	const size_t width = n * m + 1;
	double *ways = h2d_mem->calloc((n + 1) * width, sizeof(*ways)), all = 0, some = 0;

	if (!ways)
		return H2D_E_NOMEM;
	for (size_t i = 0; i <= n; i++) /* no sample of B: one way, no inversion */
		ways[i * width] = 1;
	for (size_t j = 1; j <= m; j++)
		for (size_t i = 1; i <= n; i++)
			for (size_t k = width; k-- > j;)
				ways[i * width + k] += ways[(i - 1) * width + k - j];
	for (size_t k = 0; k < width; k++) {
		all += ways[n * width + k];
		if (k <= u)
			some += ways[n * width + k];
	}
	free(ways);
	*tail = some / all;
	return 0;
}

/* Ranks of B, ties at their mean rank. @return their sum; *ties gets the sum of t^3 - t */
static double rank_sum(struct ranked *all, size_t count, double *ties)
{
	double sum = 0;

	*ties = 0;
	qsort(all, count, sizeof(*all), by_value);
	for (size_t i = 0; i < count;) {
		size_t end = i + 1;
		double length;

		while (end < count && !(all[end].value > all[i].value))
			end++;
		length = (double)(end - i);
		for (size_t k = i; k < end; k++)
			if (all[k].of_b)
				sum += ((double)i + 1 + (double)end) / 2;
		*ties += length * length * length - length;
		i = end;
	}
	return sum;
}

static double normal_p(double u, double n, double m, double ties)
{
	const double count = n + m, mean = n * m / 2;
	const double variance =
		n * m / 12 * (count + 1 - ties / (count * (count > 1 ? count - 1 : 1)));
	const double distance = fabs(u - mean) - 0.5; /* continuity */

	if (variance <= 0 || distance <= 0)
		return 1;
	return erfc(distance / sqrt(variance) / sqrt(2));
}

int h2d_rank_test_of(const double *a, size_t n, const double *b, size_t m,
		     struct h2d_rank_test *out)
{
	struct ranked *all;
	double ties, tail = 1, pairs = (double)n * (double)m;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (!n || !m)
		return H2D_E_INVALID;
	all = h2d_mem->calloc(n + m, sizeof(*all));
	if (!all)
		return H2D_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		all[i].value = a[i];
	for (size_t i = 0; i < m; i++)
		all[n + i] = (struct ranked){b[i], true};
	out->u = rank_sum(all, n + m, &ties) - (double)m * ((double)m + 1) / 2;
	free(all);
	out->p_b_larger = out->u / pairs;
	out->exact = ties <= 0 && n * m <= EXACT_MAX;
	if (out->exact) {
		rc = exact_tail(n, m, (size_t)(out->u < pairs / 2 ? out->u : pairs - out->u),
				&tail);
		out->p = tail > 0.5 ? 1 : 2 * tail;
	} else {
		out->p = normal_p(out->u, (double)n, (double)m, ties);
	}
	return rc;
}

struct placed {
	double value;
	size_t place;
};

static int by_placed(const void *a, const void *b)
{
	return ascending(&((const struct placed *)a)->value,
			 &((const struct placed *)b)->value);
}

/* The smallest p is multiplied by their number, the next by one less …, and none becomes less
 * than one before it. */
int h2d_holm(double *p, size_t count)
{
	struct placed *sorted = h2d_mem->calloc(count + 1, sizeof(*sorted));
	double most = 0;

	if (!sorted)
		return H2D_E_NOMEM;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct placed){p[i], i};
	qsort(sorted, count, sizeof(*sorted), by_placed);
	for (size_t i = 0; i < count; i++) {
		const double value = sorted[i].value * (double)(count - i);

		most = value > most ? value : most;
		p[sorted[i].place] = most < 1 ? most : 1;
	}
	free(sorted);
	return 0;
}

int h2d_ratio_of(const double *a, size_t n, const double *b, size_t m, uint64_t seed,
		 struct h2d_ratio *out)
{
	struct h2d_random r = {seed};
	const size_t count = resamples(n > m ? n : m);
	double *draws, *scratch;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (!n || !m || !(h2d_median(a, n) > 0))
		return H2D_E_INVALID;
	out->value = h2d_median(b, m) / h2d_median(a, n);
	draws = h2d_mem->calloc(count, sizeof(*draws));
	scratch = h2d_mem->calloc(n > m ? n : m, sizeof(*scratch));
	if (!draws || !scratch) {
		rc = H2D_E_NOMEM;
		goto out;
	}
	for (size_t i = 0; i < count; i++) {
		const double below = redraw(&r, a, n, scratch);

		draws[i] = below > 0 ? redraw(&r, b, m, scratch) / below : INFINITY;
	}
	interval(draws, count, &out->low, &out->high);
out:
	free(draws);
	free(scratch);
	return rc;
}
