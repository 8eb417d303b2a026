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

/* A cell of times or windows that both have: a verdict of a document is none. */
static bool measured(const struct h2d_compare_cell *c)
{
	return !c->a.verdict && c->a.there && c->b.there && !strcmp(c->a.status, "ok") &&
	       !strcmp(c->b.status, "ok");
}

static void sum_up(struct h2d_compare *c)
{
	/* The first of these that some cell has is the verdict of all. */
	static const enum h2d_compare_verdict order[] = {
		H2D_COMPARE_REGRESSED,	  H2D_COMPARE_MISSING,	H2D_COMPARE_INCOMPARABLE,
		H2D_COMPARE_INCONCLUSIVE, H2D_COMPARE_IMPROVED, H2D_COMPARE_SAME,
	};

	c->nothing_measured = true;
	for (size_t i = 0; i < c->cell_count; i++) {
		c->counts[c->cells[i].verdict]++;
		c->windows_only_count += c->cells[i].windows_only;
		c->nothing_measured &= !measured(&c->cells[i]);
	}
	c->verdict = H2D_COMPARE_INCONCLUSIVE;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (c->counts[order[i]]) {
			c->verdict = order[i];
			break;
		}
	/* That all was left out of both is no evidence that nothing changed. */
	if (c->verdict == H2D_COMPARE_SAME && c->nothing_measured)
		c->verdict = H2D_COMPARE_INCONCLUSIVE;
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
	rc = h2d_compare_judge(out);
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
