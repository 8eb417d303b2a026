/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as a document, as markdown and as JUnit's XML. */
#include <string.h>

#include "bench/compare.h"
#include "core/envelope.h"

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_side(struct h2d_json *j, const char *key, const struct h2d_compare_side *s)
{
	struct h2d_spread spread = {0};

	if (!s->there || !s->status)
		return;
	h2d_json_object_begin(j, key);
	h2d_json_u64(j, "n_count", s->count);
	h2d_json_string(j, "status", s->status);
	for (size_t i = 0; i < s->count; i++) {
		spread.min = !i || s->times[i] < spread.min ? s->times[i] : spread.min;
		spread.max = s->times[i] > spread.max ? s->times[i] : spread.max;
	}
	if (s->count) {
		h2d_json_u64(j, "median_ns", (uint64_t)(h2d_median(s->times, s->count) + 0.5));
		h2d_json_u64(j, "min_ns", (uint64_t)spread.min);
		h2d_json_u64(j, "max_ns", (uint64_t)spread.max);
	}
	if (s->windows >= 0)
		h2d_json_u64(j, "window_count", (uint64_t)s->windows);
	h2d_json_object_end(j);
}

static void write_cell(struct h2d_json *j, const struct h2d_compare_cell *c)
{
	h2d_json_object_begin(j, NULL);
	h2d_value_write(j, "key", c->key, false);
	h2d_json_string(j, "verdict", h2d_compare_verdict_name(c->verdict));
	h2d_json_string(j, "reason", c->reason);
	if (c->windows_only)
		h2d_json_bool(j, "windows_only", true);
	write_side(j, "a", &c->a);
	write_side(j, "b", &c->b);
	if (c->tested) {
		h2d_json_object_begin(j, "ratio");
		h2d_json_double(j, "value", c->ratio.value);
		h2d_json_double(j, "ci_low", c->ratio.low);
		h2d_json_double(j, "ci_high", c->ratio.high);
		h2d_json_object_end(j);
		h2d_json_object_begin(j, "rank_test");
		h2d_json_string(j, "name", "mann_whitney");
		h2d_json_double(j, "u", c->rank.u);
		h2d_json_double(j, "p", c->rank.p);
		if (c->adjusted)
			h2d_json_double(j, "p_adjusted", c->p_adjusted);
		h2d_json_bool(j, "exact", c->rank.exact);
		h2d_json_object_end(j);
		h2d_json_object_begin(j, "effect");
		h2d_json_double(j, "b_slower_probability", c->rank.p_b_larger);
		h2d_json_object_end(j);
	}
	h2d_json_object_end(j);
}

static void write_source(struct h2d_json *j, const char *key, const json_t *document,
			 const char *path, bool redact)
{
	const json_t *tool = json_object_get(document, "tool");
	const json_t *env = json_object_get(document, "environment");
	const char *version = h2d_get_text(tool, "version"),
		   *time = h2d_get_text(env, "time_utc");
	const char *kernel = h2d_get_text(json_object_get(env, "kernel"), "release");

	h2d_json_object_begin(j, key);
	h2d_json_string(j, "path", h2d_redacted_path(path, redact));
	h2d_json_string(j, "schema", h2d_get_text(document, "schema"));
	h2d_json_string(j, "tool_version", version ? version : "unknown");
	h2d_json_string(j, "time_utc", time ? time : "unknown");
	if (kernel)
		h2d_json_string(j, "kernel_release", kernel);
	else
		write_null(j, "kernel_release", "the document does not tell");
	h2d_json_object_end(j);
}

void h2d_compare_write(struct h2d_json *j, const struct h2d_compare *c, int status, bool redact)
{
	char key[64];

	h2d_json_object_begin(j, "compare");
	h2d_json_string(j, "kind", h2d_compare_kind_name(c->kind));
	h2d_json_double(j, "margin_pct", 100 * c->opts.margin);
	h2d_json_double(j, "alpha", c->opts.alpha);
	h2d_json_u64(j, "n_min_count", c->opts.min_count);
	h2d_json_array_begin(j, "require");
	for (const char *const *name = h2d_compare_fact_names(); *name; name++)
		if (h2d_compare_requires(c, *name))
			h2d_json_string(j, NULL, *name);
	h2d_json_array_end(j);
	h2d_json_object_end(j);
	write_source(j, "a", c->a, c->a_path, redact);
	write_source(j, "b", c->b, c->b_path, redact);
	h2d_json_array_begin(j, "differences");
	for (size_t i = 0; i < c->difference_count; i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", c->differences[i].name);
		h2d_json_string(j, "a", c->differences[i].a);
		h2d_json_string(j, "b", c->differences[i].b);
		h2d_json_bool(j, "required", c->differences[i].required);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; i < c->cell_count; i++)
		write_cell(j, &c->cells[i]);
	h2d_json_array_end(j);
	h2d_json_object_begin(j, "summary");
	for (int v = 0; v < H2D_COMPARE_VERDICTS; v++) {
		snprintf(key, sizeof(key), "%s_count", h2d_compare_verdict_name(v));
		h2d_json_u64(j, key, c->counts[v]);
	}
	h2d_json_u64(j, "windows_only_count", c->windows_only_count);
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "value", h2d_compare_verdict_name(c->verdict));
	h2d_json_i64(j, "exit_status", status);
	h2d_json_object_end(j);
}

/* ---- markdown ---- */

/* Names come from documents: nothing of them may become markup. */
static void put_markdown(FILE *out, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (strchr("\\`*_{}[]<>()#+!|~&", *p))
			fputc('\\', out);
		fputc(*p < ' ' || *p == 0x7f ? ' ' : *p, out);
	}
}

static void put_ms(FILE *out, const struct h2d_compare_side *s)
{
	if (!s->there || !s->status)
		fputs("–", out);
	else if (strcmp(s->status, "ok") || !s->count)
		put_markdown(out, s->status);
	else
		fprintf(out, "%.4g ms (n=%zu)", h2d_median(s->times, s->count) / 1e6, s->count);
}

void h2d_compare_markdown(FILE *out, const struct h2d_compare *c)
{
	fprintf(out, "### h2d: %s\n\n", h2d_compare_verdict_name(c->verdict));
	fputs("| cell | A | B | B / A | verdict | why |\n|---|---|---|---|---|---|\n", out);
	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_compare_cell *cell = &c->cells[i];

		fputs("| ", out);
		put_markdown(out, cell->name);
		fputs(" | ", out);
		put_ms(out, &cell->a);
		fputs(" | ", out);
		put_ms(out, &cell->b);
		if (cell->tested)
			fprintf(out, " | %.3f (%.3f–%.3f)", cell->ratio.value, cell->ratio.low,
				cell->ratio.high);
		else
			fputs(" | –", out);
		fprintf(out, " | %s%s%s | ", cell->verdict == H2D_COMPARE_REGRESSED ? "**" : "",
			h2d_compare_verdict_name(cell->verdict),
			cell->verdict == H2D_COMPARE_REGRESSED ? "**" : "");
		put_markdown(out, cell->reason);
		fputs(" |\n", out);
	}
	if (c->windows_only_count)
		fprintf(out, "\nCells of which windows alone were compared, not times: %zu.\n",
			c->windows_only_count);
	if (c->difference_count)
		fputs("\nThe environments differ:\n\n", out);
	for (size_t i = 0; i < c->difference_count; i++) {
		fprintf(out, "* %s: ", c->differences[i].name);
		put_markdown(out, c->differences[i].a);
		fputs(" / ", out);
		put_markdown(out, c->differences[i].b);
		fputs(c->differences[i].required ? " (makes them incomparable)\n" : "\n", out);
	}
}

/* ---- JUnit ---- */

static void put_xml(FILE *out, const char *text)
{
	for (const char *p = text; *p;) {
		const size_t n = h2d_utf8_length(p, strlen(p));

		if (!n || (unsigned char)*p < ' ' || *p == 0x7f) {
			fputc('?', out);
			p++;
			continue;
		}
		if (*p == '<')
			fputs("&lt;", out);
		else if (*p == '>')
			fputs("&gt;", out);
		else if (*p == '&')
			fputs("&amp;", out);
		else if (*p == '"')
			fputs("&quot;", out);
		else
			fwrite(p, 1, n, out);
		p += n;
	}
}

void h2d_compare_junit(FILE *out, const struct h2d_compare *c)
{
	size_t silent = 0;

	for (size_t i = 0; i < c->cell_count; i++)
		silent += h2d_compare_silent(&c->cells[i]);
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<testsuite name=\"h2d bench compare\" tests=\"%zu\" failures=\"%zu\" "
		"errors=\"0\" skipped=\"%zu\">\n",
		c->cell_count,
		c->counts[H2D_COMPARE_REGRESSED] + c->counts[H2D_COMPARE_MISSING], silent);
	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_compare_cell *cell = &c->cells[i];
		const bool failed = cell->verdict == H2D_COMPARE_REGRESSED ||
				    cell->verdict == H2D_COMPARE_MISSING;
		const bool skipped = h2d_compare_silent(cell);

		fprintf(out, "  <testcase classname=\"h2d.%s\" name=\"",
			h2d_compare_kind_name(c->kind));
		put_xml(out, cell->name);
		if (!failed && !skipped) {
			fputs("\"/>\n", out);
			continue;
		}
		fprintf(out, "\">\n    <%s message=\"%s: ", failed ? "failure" : "skipped",
			h2d_compare_verdict_name(cell->verdict));
		put_xml(out, cell->reason);
		fputs("\"/>\n  </testcase>\n", out);
	}
	fputs("</testsuite>\n", out);
}
