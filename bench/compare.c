/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/compare.h"

#include <stdlib.h>
#include <string.h>

const char *h2d_compare_verdict_name(enum h2d_compare_verdict v)
{
	static const char *const names[H2D_COMPARE_VERDICTS] = {
		[H2D_COMPARE_IMPROVED] = "improved",
		[H2D_COMPARE_SAME] = "same",
		[H2D_COMPARE_REGRESSED] = "regressed",
		[H2D_COMPARE_INCONCLUSIVE] = "inconclusive",
		[H2D_COMPARE_MISSING] = "missing",
		[H2D_COMPARE_INCOMPARABLE] = "incomparable",
		[H2D_COMPARE_NEW] = "new",
	};

	return names[v];
}

const char *h2d_compare_kind_name(enum h2d_compare_kind kind)
{
	return kind == H2D_COMPARE_BENCH   ? "bench"
	       : kind == H2D_COMPARE_REPRO ? "repro"
					   : "lab";
}

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

int h2d_compare_judge(struct h2d_compare_cell *c, const struct h2d_compare_opts *o)
{
	const double most = 1 + o->margin, least = 1 / most;
	const struct h2d_ratio *r = &c->ratio;
	bool significant;
	int rc;

	if (!c->a.count || !c->b.count)
		return say(c, H2D_COMPARE_INCONCLUSIVE, "there are no times");
	rc = h2d_ratio_of(c->a.times, c->a.count, c->b.times, c->b.count, o->seed, &c->ratio);
	if (!rc)
		rc = h2d_rank_test_of(c->a.times, c->a.count, c->b.times, c->b.count, &c->rank);
	if (rc)
		return rc;
	c->tested = true;
	if (c->a.count < o->min_count || c->b.count < o->min_count)
		return say(c, H2D_COMPARE_INCONCLUSIVE, "%zu and %zu samples; %llu are needed",
			   c->a.count, c->b.count, (unsigned long long)o->min_count);
	significant = c->rank.p < o->alpha;
	if (significant && r->value > most && r->low > 1)
		return say(c, H2D_COMPARE_REGRESSED,
			   "%.1f %% slower (%+.1f %% to %+.1f %%, p %.2g)",
			   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1),
			   c->rank.p);
	if (significant && r->value < least && r->high < 1)
		return say(c, H2D_COMPARE_IMPROVED,
			   "%.1f %% faster (%+.1f %% to %+.1f %%, p %.2g)",
			   100 * (1 - r->value), 100 * (r->low - 1), 100 * (r->high - 1),
			   c->rank.p);
	if (r->low >= least && r->high <= most)
		return say(c, H2D_COMPARE_SAME,
			   "%+.1f %% (%+.1f %% to %+.1f %%), within %.3g %%",
			   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1),
			   100 * o->margin);
	return say(c, H2D_COMPARE_INCONCLUSIVE,
		   "%+.1f %% (%+.1f %% to %+.1f %%, p %.2g): neither within %.3g %% nor surely "
		   "outside",
		   100 * (r->value - 1), 100 * (r->low - 1), 100 * (r->high - 1), c->rank.p,
		   100 * o->margin);
}

static bool is(const struct h2d_compare_side *s, const char *const *words)
{
	for (; *words; words++)
		if (!strcmp(s->status, *words))
			return true;
	return false;
}

/* One of the two is no time. */
static int judge_statuses(struct h2d_compare_cell *c)
{
	static const char *const bad[] = {"failed", "killed", "timeout", "did_not_fit", NULL};
	static const char *const absent[] = {"skipped", "unsupported", NULL};
	static const char *const ok[] = {"ok", NULL};
	const bool a_ok = is(&c->a, ok), b_ok = is(&c->b, ok);

	if (!strcmp(c->a.status, c->b.status))
		return say(c, H2D_COMPARE_SAME, "%s in both", c->a.status);
	if (a_ok && is(&c->b, bad))
		return say(c, H2D_COMPARE_REGRESSED, "was ok, now %s", c->b.status);
	if (a_ok && is(&c->b, absent))
		return say(c, H2D_COMPARE_MISSING, "was ok, now %s", c->b.status);
	if (b_ok && is(&c->a, bad))
		return say(c, H2D_COMPARE_IMPROVED, "was %s, now ok", c->a.status);
	if (b_ok && is(&c->a, absent))
		return say(c, H2D_COMPARE_NEW, "was %s, now ok", c->a.status);
	return say(c, H2D_COMPARE_INCONCLUSIVE, "%s in A, %s in B", c->a.status, c->b.status);
}

/* Windows are counted, not timed: one where there was none needs no statistics. */
static int judge_windows(struct h2d_compare_cell *c, const struct h2d_compare_opts *o)
{
	int rc;

	if (c->b.windows > c->a.windows)
		return say(c, H2D_COMPARE_REGRESSED, "%lld windows, there were %lld",
			   (long long)c->b.windows, (long long)c->a.windows);
	if (c->b.windows < c->a.windows)
		return say(c, H2D_COMPARE_IMPROVED, "%lld windows, there were %lld",
			   (long long)c->b.windows, (long long)c->a.windows);
	rc = h2d_compare_judge(c, o);
	if (!rc && c->verdict == H2D_COMPARE_INCONCLUSIVE &&
	    (c->a.count < o->min_count || c->b.count < o->min_count))
		return say(c, H2D_COMPARE_SAME,
			   "%lld windows in both; too few samples to compare the times",
			   (long long)c->a.windows);
	return rc;
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

static int judge_cell(const struct h2d_compare *all, struct h2d_compare_cell *c)
{
	const char *a = c->a.fingerprint, *b = c->b.fingerprint;

	if (c->a.verdict && c->b.verdict)
		return judge_verdicts(c);
	if (!c->b.there && c->a.status && strcmp(c->a.status, "ok"))
		return say(c, H2D_COMPARE_SAME, "%s in A, not in B", c->a.status);
	if (!c->b.there)
		return say(c, H2D_COMPARE_MISSING, "is not in B");
	if (!c->a.there)
		return say(c, H2D_COMPARE_NEW, "is not in A");
	for (size_t i = 0; i < all->difference_count; i++)
		if (all->differences[i].required)
			return say(c, H2D_COMPARE_INCOMPARABLE, "%s differs: %.100s, %.100s",
				   all->differences[i].name, all->differences[i].a,
				   all->differences[i].b);
	if (a && b && strcmp(a, b))
		return say(c, H2D_COMPARE_INCOMPARABLE, "the checkpoints differ");
	if (strcmp(c->a.status, "ok") || strcmp(c->b.status, "ok"))
		return judge_statuses(c);
	if (c->a.windows >= 0 && c->b.windows >= 0)
		return judge_windows(c, &all->opts);
	return h2d_compare_judge(c, &all->opts);
}

static void sum_up(struct h2d_compare *c)
{
	/* The first of these that some cell has is the verdict of all. */
	static const enum h2d_compare_verdict order[] = {
		H2D_COMPARE_REGRESSED,	  H2D_COMPARE_MISSING,	H2D_COMPARE_INCOMPARABLE,
		H2D_COMPARE_INCONCLUSIVE, H2D_COMPARE_IMPROVED, H2D_COMPARE_SAME,
	};

	for (size_t i = 0; i < c->cell_count; i++)
		c->counts[c->cells[i].verdict]++;
	c->verdict = H2D_COMPARE_INCONCLUSIVE;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (c->counts[order[i]]) {
			c->verdict = order[i];
			break;
		}
}

int h2d_compare_files(const char *a, const char *b, const struct h2d_compare_opts *opts,
		      const struct h2d_log *log, struct h2d_compare *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	out->a_path = a;
	out->b_path = b;
	out->opts = *opts;
	rc = h2d_value_load(a, log, &out->a);
	if (!rc)
		rc = h2d_value_load(b, log, &out->b);
	if (!rc)
		rc = h2d_compare_read(out, log);
	if (rc)
		return rc;
	h2d_compare_environments(out);
	for (size_t i = 0; i < out->cell_count && !rc; i++)
		rc = judge_cell(out, &out->cells[i]);
	if (rc)
		return h2d_fail(log, rc, "comparing: %s", h2d_status_string(rc));
	sum_up(out);
	return 0;
}

void h2d_compare_release(struct h2d_compare *c)
{
	for (size_t i = 0; i < c->cell_count; i++) {
		json_decref(c->cells[i].key);
		free(c->cells[i].a.times);
		free(c->cells[i].b.times);
	}
	free(c->cells);
	json_decref(c->a);
	json_decref(c->b);
	memset(c, 0, sizeof(*c));
}
