/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_print.h"

#include <inttypes.h>
#include <string.h>

#include "bench/stats.h"
#include "text.h"

/* The ceiling of a load: storage where nothing is cached, the page cache where all is. */
static uint64_t limit_of(const json_t *document, const struct h2d_bench_cell *cell,
			 const char **name)
{
	const json_t *list = json_object_get(document, "limits");

	*name = cell->cache == H2D_BENCH_COLD	? "storage_direct"
		: cell->cache == H2D_BENCH_WARM ? "page_cache_read"
						: "";
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *limit = json_array_get(list, i);

		if (h2d_get_text(limit, "name") && !strcmp(h2d_get_text(limit, "name"), *name))
			return h2d_get_u64(limit, "bytes_per_s");
	}
	return 0;
}

static void print_limit(FILE *out, const json_t *document, const struct h2d_bench_cell *cell,
			uint64_t bytes_per_s)
{
	const char *name;
	const uint64_t limit = limit_of(document, cell, &name);

	if (limit)
		fprintf(out, ", %.0f %% of %s", 100 * (double)bytes_per_s / (double)limit,
			name);
}

static void print_cell(FILE *out, const struct h2d_bench_cell *cell, const json_t *of,
		       const json_t *document)
{
	const json_t *stats = json_object_get(of, "statistics");
	const char *reason = h2d_get_text(of, "reason");
	const uint64_t bytes_per_s = h2d_get_u64(stats, "throughput_bytes_per_s");
	char name[512], median[32], low[32], high[32], rate[32];
	bool few;

	h2d_bench_cell_name(cell, name, sizeof(name));
	h2d_text_safe(out, name, strlen(name));
	if (strcmp(h2d_get_text(of, "status"), "ok")) {
		fprintf(out, ": %s", h2d_get_text(of, "status"));
		if (reason) {
			fputs(": ", out);
			h2d_text_safe(out, reason, strlen(reason));
		}
		fputc('\n', out);
		return;
	}
	few = h2d_get_u64(stats, "n_count") < H2D_INTERVAL_LEAST_COUNT;
	h2d_text_ns(median, sizeof(median), h2d_get_u64(stats, "median_ns"));
	h2d_text_ns(low, sizeof(low), h2d_get_u64(stats, few ? "min_ns" : "ci_low_ns"));
	h2d_text_ns(high, sizeof(high), h2d_get_u64(stats, few ? "max_ns" : "ci_high_ns"));
	fprintf(out, ": median %s (%s%s to %s, n=%" PRIu64 ")", median, few ? "samples " : "",
		low, high, h2d_get_u64(stats, "n_count"));
	if (bytes_per_s) {
		h2d_text_bytes(rate, sizeof(rate), bytes_per_s);
		fprintf(out, ", %s/s", rate);
	} else {
		fputs(", too short for a rate", out);
	}
	if (bytes_per_s)
		print_limit(out, document, cell, bytes_per_s);
	if (json_array_size(json_object_get(stats, "outlier_blocks")))
		fprintf(out, ", %zu far off",
			json_array_size(json_object_get(stats, "outlier_blocks")));
	fputc('\n', out);
}

static uint64_t median_of(const json_t *document, const char *id)
{
	const json_t *cells = json_object_get(document, "cells");

	for (size_t i = 0; id && i < json_array_size(cells); i++) {
		const json_t *cell = json_array_get(cells, i);

		if (!strcmp(h2d_get_text(cell, "id"), id))
			return h2d_get_u64(json_object_get(cell, "statistics"), "median_ns");
	}
	return 0;
}

/* No surer than the pairs are. */
static void print_ratio(FILE *out, const json_t *document, const struct h2d_bench_cell *cell)
{
	const json_t *list = json_object_get(document, "ratios");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *r = json_array_get(list, i), *s = json_object_get(r, "speedup");
		const double ratio = h2d_get_double(s, "median");
		const uint64_t n = h2d_get_u64(s, "n_count");
		const uint64_t ours = median_of(document, cell->id);
		const uint64_t base = median_of(document, h2d_get_text(r, "baseline_id"));
		const bool few = n < H2D_INTERVAL_LEAST_COUNT;
		const double low = h2d_get_double(s, few ? "min" : "ci_low");
		const double high = h2d_get_double(s, few ? "max" : "ci_high");

		if (strcmp(h2d_get_text(r, "id"), cell->id))
			continue;
		fprintf(out,
			"    %s: %.2f times as fast as the baseline, block by block (%s%.2f to "
			"%.2f, n=%" PRIu64 ")%s\n",
			few	   ? "too few pairs to tell"
			: low > 1  ? "faster"
			: high < 1 ? "slower"
				   : "no difference shown",
			ratio, few ? "pairs " : "95 %: ", low, high, n,
			ours && base && (ratio > 1) != (base > ours) && base != ours
				? "; the medians above say the opposite: the samples vary too "
				  "much"
				: "");
	}
}

void h2d_bench_print_result(struct h2d_cli *cli, struct h2d_bench_matrix *m,
			    const json_t *document, const char *path)
{
	const json_t *cells = json_object_get(document, "cells");
	const json_t *warnings = json_object_get(document, "warnings");

	for (size_t i = 0; i < json_array_size(cells); i++) {
		const json_t *of = json_array_get(cells, i);
		const struct h2d_bench_cell *cell =
			h2d_bench_cell_find(m, h2d_get_text(of, "id"));

		if (!cell)
			continue;
		print_cell(cli->out, cell, of, document);
		print_ratio(cli->out, document, cell);
	}
	for (size_t i = 0; i < json_array_size(warnings); i++)
		h2d_cli_warn(cli, "%s", json_string_value(json_array_get(warnings, i)));
	fprintf(cli->out, "Result: %s\n", path);
}
