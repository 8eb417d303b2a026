/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of each cell. Times are judged together, since of many rank tests some are
 * significant by chance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare.h"
#include "core/mem.h"

/* Single times of emulated guests scatter, but not so far on any but a halting host. */
enum { FAR_TIMES = 10, FAR_NS = 100000000 };

__attribute__((format(printf, 3, 4))) static int
say(struct h2d_compare_cell *c, enum h2d_compare_verdict verdict, const char *fmt, ...)
{
	va_list ap;

	c->verdict = verdict;
	va_start(ap, fmt);
	vsnprintf(c->reason, sizeof(c->reason), fmt, ap);
	va_end(ap);
	return 0;
}

/* Ratio and rank test, where there are times at all. */
static int test(struct h2d_compare_cell *c, const struct h2d_compare_opts *o)
{
	int rc;

	if (!c->a.count || !c->b.count)
		return 0;
	rc = h2d_ratio_of(c->a.times, c->a.count, c->b.times, c->b.count, o->seed, &c->ratio);
	if (!rc)
		rc = h2d_rank_test_of(c->a.times, c->a.count, c->b.times, c->b.count, &c->rank);
	c->tested = !rc;
	return rc;
}

static bool enough(const struct h2d_compare_cell *c, const struct h2d_compare_opts *o)
{
	return c->a.count >= o->min_count && c->b.count >= o->min_count;
}

static int judge_times(struct h2d_compare_cell *c, const struct h2d_compare_opts *o)
{
	const double most = 1 + o->margin, least = 1 / most;
	const struct h2d_ratio *r = &c->ratio;
	const double p = c->p_adjusted;
	const bool significant = p < o->alpha;

	if (!c->tested)
		return say(c, H2D_COMPARE_INCONCLUSIVE, "there are no times");
	if (!enough(c, o))
		return say(c, H2D_COMPARE_INCONCLUSIVE, "%zu and %zu samples; %llu are needed",
			   c->a.count, c->b.count, (unsigned long long)o->min_count);
	if (significant && r->value > most && r->low > 1)
		return say(c, H2D_COMPARE_REGRESSED,
			   "%.1f %% slower (%+.1f %% to %+.1f %%, p %.2g)",
			   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1), p);
	if (significant && r->value < least && r->high < 1)
		return say(c, H2D_COMPARE_IMPROVED,
			   "%.1f %% faster (%+.1f %% to %+.1f %%, p %.2g)",
			   100 * (1 - r->value), 100 * (r->low - 1), 100 * (r->high - 1), p);
	if (r->low >= least && r->high <= most)
		return say(c, H2D_COMPARE_SAME,
			   "%+.1f %% (%+.1f %% to %+.1f %%), within %.3g %%",
			   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1),
			   100 * o->margin);
	return say(c, H2D_COMPARE_INCONCLUSIVE,
		   "%+.1f %% (%+.1f %% to %+.1f %%, p %.2g): neither within %.3g %% nor surely "
		   "outside",
		   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1), p,
		   100 * o->margin);
}

static const char *const left_out[] = {"skipped", "unsupported", NULL};

static bool is(const struct h2d_compare_side *s, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(s->status, *words))
			return true;
	return false;
}

/* Windows are counted, not timed: one where there was none needs no statistics. */
static int judge_counts(struct h2d_compare_cell *c, enum h2d_compare_verdict verdict)
{
	return say(c, verdict, "%lld windows, there were %lld", (long long)c->b.windows,
		   (long long)c->a.windows);
}

/* At least one of the two has no time, or has repeats that have none. */
static int judge_statuses(struct h2d_compare_cell *c)
{
	static const char *const bad[] = {"failed", "killed", "timeout", "did_not_fit", NULL};
	static const char *const answers[] = {"skipped", "unsupported", "did_not_fit", NULL};
	static const char *const ok[] = {"ok", NULL};
	const bool a_ok = is(&c->a, ok), b_ok = is(&c->b, ok);

	if (c->a.windows >= 0 && c->b.windows > c->a.windows)
		return judge_counts(c, H2D_COMPARE_REGRESSED);
	if (!strcmp(c->a.status, c->b.status))
		return say(c, is(&c->a, answers) ? H2D_COMPARE_SAME : H2D_COMPARE_INCONCLUSIVE,
			   "%s in both", c->a.status);
	if (a_ok && is(&c->b, bad))
		return say(c, H2D_COMPARE_REGRESSED, "was ok, now %s", c->b.status);
	if (a_ok && is(&c->b, left_out))
		return say(c, H2D_COMPARE_MISSING, "was ok, now %s", c->b.status);
	if (b_ok && is(&c->a, bad))
		return say(c, H2D_COMPARE_IMPROVED, "was %s, now ok", c->a.status);
	if (b_ok && is(&c->a, left_out))
		return say(c, H2D_COMPARE_NEW, "was %s, now ok", c->a.status);
	return say(c, H2D_COMPARE_INCONCLUSIVE, "%s in A, %s in B", c->a.status, c->b.status);
}

static int judge_missing(struct h2d_compare_cell *c)
{
	if (!strcmp(c->a.status, "ok"))
		return say(c, H2D_COMPARE_MISSING, "is not in B");
	return say(c, is(&c->a, left_out) ? H2D_COMPARE_SAME : H2D_COMPARE_INCONCLUSIVE,
		   "%s in A, not in B", c->a.status);
}

static int judge_new(struct h2d_compare_cell *c)
{
	if (!strcmp(c->b.status, "ok"))
		return say(c, H2D_COMPARE_NEW, "is not in A");
	return say(c, is(&c->b, left_out) ? H2D_COMPARE_SAME : H2D_COMPARE_INCONCLUSIVE,
		   "not in A, %s in B", c->b.status);
}

static bool far_slower(const struct h2d_compare_cell *c)
{
	const double a = h2d_median(c->a.times, c->a.count),
		     b = h2d_median(c->b.times, c->b.count);

	return b - a >= FAR_NS && b >= FAR_TIMES * a;
}

static int judge_windows(const struct h2d_compare *all, struct h2d_compare_cell *c)
{
	const struct h2d_compare_opts *o = &all->opts;
	const char *apart = h2d_compare_apart(all, c);
	const long long windows = c->a.windows;
	int rc;

	if (c->b.windows > c->a.windows)
		return judge_counts(c, H2D_COMPARE_REGRESSED);
	if (c->b.windows < c->a.windows)
		return judge_counts(c, H2D_COMPARE_IMPROVED);
	c->timed = !apart && enough(c, o);
	if (c->timed)
		return 0;
	rc = apart ? 0 : test(c, o);
	if (rc)
		return rc;
	if (!apart && far_slower(c))
		return say(c, H2D_COMPARE_INCONCLUSIVE,
			   "%lld windows in both, but B took %.0f times as long; %llu samples "
			   "are needed to judge that",
			   windows, c->ratio.value, (unsigned long long)o->min_count);
	c->windows_only = true;
	if (apart)
		return say(c, H2D_COMPARE_SAME,
			   "%lld windows in both; times not compared: another %s", windows,
			   apart);
	return say(c, H2D_COMPARE_SAME,
		   "%lld windows in both; times not compared: %zu and %zu samples, %llu are "
		   "needed",
		   windows, c->a.count, c->b.count, (unsigned long long)o->min_count);
}

/* "affected" where it was "clean" is worse, whatever the cells say one by one. */
static int judge_verdicts(struct h2d_compare_cell *cell)
{
	static const char *const order[] = {"clean", "cow_penalty", "affected"};
	const char *a = cell->a.verdict, *b = cell->b.verdict;
	int rank_a = -1, rank_b = -1;

	for (int i = 0; i < 3; i++) {
		rank_a = a && !strcmp(a, order[i]) ? i : rank_a;
		rank_b = b && !strcmp(b, order[i]) ? i : rank_b;
	}
	if (rank_a < 0 || rank_b < 0)
		return say(cell, H2D_COMPARE_INCONCLUSIVE, "%s in A, %s in B", a ? a : "none",
			   b ? b : "none");
	return say(cell,
		   rank_b > rank_a   ? H2D_COMPARE_REGRESSED
		   : rank_b < rank_a ? H2D_COMPARE_IMPROVED
				     : H2D_COMPARE_SAME,
		   rank_a == rank_b ? "%s in both" : "was %s, now %s", a, b);
}

/* What makes it another measurement. @return true when it was said */
static bool incomparable(const struct h2d_compare *all, struct h2d_compare_cell *c)
{
	const char *a = c->a.fingerprint, *b = c->b.fingerprint;

	for (size_t i = 0; i < all->difference_count; i++) {
		const struct h2d_compare_difference *d = &all->differences[i];

		if (!d->required || d->of_cells)
			continue;
		if (d->untold)
			say(c, H2D_COMPARE_INCOMPARABLE, "neither tells its %s", d->name);
		else
			say(c, H2D_COMPARE_INCOMPARABLE, "%s differs: %.100s, %.100s", d->name,
			    d->a, d->b);
		return true;
	}
	if (a && b && strcmp(a, b)) {
		say(c, H2D_COMPARE_INCOMPARABLE, "the checkpoints differ");
		return true;
	}
	if (c->a.bytes && c->b.bytes && c->a.bytes != c->b.bytes) {
		say(c, H2D_COMPARE_INCOMPARABLE, "%llu bytes were loaded in A, %llu in B",
		    (unsigned long long)c->a.bytes, (unsigned long long)c->b.bytes);
		return true;
	}
	if (h2d_compare_requires(all, "scheduling") && !h2d_compare_scheduled_alike(c)) {
		say(c, H2D_COMPARE_INCOMPARABLE,
		    c->a.mixed || c->b.mixed ? "samples of %s were not scheduled alike"
					     : "scheduling differs",
		    c->a.mixed ? "A" : "B");
		return true;
	}
	return false;
}

static int judge_cell(const struct h2d_compare *all, struct h2d_compare_cell *c)
{
	const char *apart;

	if (!c->b.there)
		return judge_missing(c);
	if (!c->a.there)
		return judge_new(c);
	if (incomparable(all, c))
		return 0;
	if (c->a.verdict && c->b.verdict)
		return judge_verdicts(c);
	if (strcmp(c->a.status, "ok") || strcmp(c->b.status, "ok"))
		return judge_statuses(c);
	if (c->a.windows >= 0 && c->b.windows >= 0 && !c->a.uncounted && !c->b.uncounted)
		return judge_windows(all, c);
	apart = h2d_compare_apart(all, c);
	if (apart)
		return say(c, H2D_COMPARE_INCOMPARABLE, "the times are of another %s", apart);
	c->timed = true;
	return 0;
}

/* The tests of all cells that have enough samples are one family. */
static int adjust(struct h2d_compare *c)
{
	double *p = h2d_mem->calloc(c->cell_count + 1, sizeof(*p));
	size_t count = 0;
	int rc;

	if (!p)
		return H2D_E_NOMEM;
	for (size_t i = 0; i < c->cell_count; i++) {
		struct h2d_compare_cell *cell = &c->cells[i];

		cell->adjusted = cell->timed && cell->tested && enough(cell, &c->opts);
		if (cell->adjusted)
			p[count++] = cell->rank.p;
	}
	rc = h2d_holm(p, count);
	for (size_t i = c->cell_count; i--;)
		if (c->cells[i].adjusted)
			c->cells[i].p_adjusted = p[--count];
	free(p);
	return rc;
}

int h2d_compare_judge(struct h2d_compare *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->cell_count && !rc; i++) {
		rc = judge_cell(c, &c->cells[i]);
		if (!rc && c->cells[i].timed)
			rc = test(&c->cells[i], &c->opts);
	}
	if (!rc)
		rc = adjust(c);
	for (size_t i = 0; i < c->cell_count && !rc; i++)
		if (c->cells[i].timed)
			rc = judge_times(&c->cells[i], &c->opts);
	return rc;
}

bool h2d_compare_silent(const struct h2d_compare_cell *c)
{
	return c->verdict == H2D_COMPARE_INCONCLUSIVE ||
	       c->verdict == H2D_COMPARE_INCOMPARABLE ||
	       ((!c->a.there || is(&c->a, left_out)) && (!c->b.there || is(&c->b, left_out)));
}
