/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/compare.h"
#include "commands.h"
#include "text.h"

struct values {
	const char *margin, *alpha, *markdown, *junit;
	struct h2d_texts require, ignore;
	uint64_t min_count;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"margin", 0, H2D_OPTION_TEXT, "PCT",
	 "What counts as the same: a difference of so many per cent. The default is 5. Declare "
	 "it "
	 "before the second measurement.",
	 NULL, 0, AT(margin), 0, 0},
	{"alpha", 0, H2D_OPTION_TEXT, "P",
	 "Level of the rank tests: the chance that any cell of two equal programs is called "
	 "slower or faster. The default is 0.05.",
	 NULL, 0, AT(alpha), 0, 0},
	{"min-n", 0, H2D_OPTION_NUMBER, "N",
	 "Say nothing about times of cells with fewer samples. The default is 9.", NULL, 0,
	 AT(min_count), 2, 1000000},
	{"require", 0, H2D_OPTION_TEXTS, "FACT",
	 "Refuse to compare where this differs too. May be repeated; one of kernel, "
	 "distribution, "
	 "driver, huge_pages, h2d, compiler.",
	 NULL, 0, AT(require), 0, 0},
	{"ignore", 0, H2D_OPTION_TEXTS, "FACT",
	 "Compare although this differs. May be repeated; one of cpu, memory, gpu, storage, "
	 "scheduling, build.",
	 NULL, 0, AT(ignore), 0, 0},
	{"markdown", 0, H2D_OPTION_TEXT, "FILE", "Also write a table in markdown.", NULL,
	 H2D_WORD_FILE, AT(markdown), 0, 0},
	{"junit", 0, H2D_OPTION_TEXT, "FILE",
	 "Also write a report in JUnit's XML. Regressed and missing cells are failures, "
	 "undecided "
	 "ones are skipped.",
	 NULL, H2D_WORD_FILE, AT(junit), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Comparison options", options};

static int parse_share(struct h2d_cli *cli, const char *name, const char *text, double most,
		       double *out)
{
	char *end;

	if (!text)
		return H2D_EXIT_OK;
	*out = strtod(text, &end);
	if (end == text || *end || !(*out > 0 && *out < most))
		return h2d_cli_usage(cli, "--%s: '%s' is no number between 0 and %g", name,
				     text, most);
	return H2D_EXIT_OK;
}

static int check_facts(struct h2d_cli *cli, const char *option, const struct h2d_texts *list)
{
	const char *const *names = h2d_compare_fact_names();

	for (size_t i = 0; i < list->count; i++) {
		const char *meant;

		if (h2d_word_in(names, list->items[i], strlen(list->items[i])))
			continue;
		meant = h2d_suggest(list->items[i], names);
		return h2d_cli_usage(cli, "--%s: there is no '%s'%s%s%s", option,
				     list->items[i], meant ? "; did you mean '" : "",
				     meant ? meant : "", meant ? "'?" : "");
	}
	return H2D_EXIT_OK;
}

static int write_file(struct h2d_cli *cli, const char *path, const struct h2d_compare *c,
		      void (*print)(FILE *out, const struct h2d_compare *c))
{
	int err = 0;
	FILE *out;

	if (!path)
		return H2D_EXIT_OK;
	out = fopen(path, "we");
	if (!out)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "%s: %s", path, strerror(errno));
	print(out, c);
	if (fflush(out) || ferror(out))
		err = errno ? errno : EIO;
	if (fclose(out) && !err)
		err = errno;
	if (err)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "%s: %s", path, strerror(err));
	return H2D_EXIT_OK;
}

static void print_cell(FILE *out, const struct h2d_compare_cell *c)
{
	fprintf(out, "%-12s  ", h2d_compare_verdict_name(c->verdict));
	h2d_text_safe(out, c->name, strlen(c->name));
	fputs(": ", out);
	h2d_text_safe(out, c->reason, strlen(c->reason));
	fputc('\n', out);
}

static void print(struct h2d_cli *cli, const struct h2d_compare *c)
{
	for (size_t i = 0; i < c->cell_count; i++)
		print_cell(cli->out, &c->cells[i]);
	for (size_t i = 0; i < c->difference_count; i++) {
		const struct h2d_compare_difference *d = &c->differences[i];

		fprintf(cli->out, "%s differs: ", d->name);
		h2d_text_safe(cli->out, d->a, strlen(d->a));
		fputs(" / ", cli->out);
		h2d_text_safe(cli->out, d->b, strlen(d->b));
		fputs(d->required ? " (so they cannot be compared)\n" : "\n", cli->out);
	}
	if (c->windows_only_count)
		fprintf(cli->out,
			"Cells of which windows alone were compared, not times: %zu.\n",
			c->windows_only_count);
	fprintf(cli->out, "Verdict: %s (margin %.3g %%, p < %.3g, n >= %llu)\n",
		h2d_compare_verdict_name(c->verdict), 100 * c->opts.margin, c->opts.alpha,
		(unsigned long long)c->opts.min_count);
}

static int exit_of(const struct h2d_compare *c)
{
	switch (c->verdict) {
	case H2D_COMPARE_REGRESSED:
	case H2D_COMPARE_MISSING:
		return H2D_EXIT_NEGATIVE;
	case H2D_COMPARE_INCONCLUSIVE:
	case H2D_COMPARE_INCOMPARABLE:
		return H2D_EXIT_UNKNOWN;
	default:
		return H2D_EXIT_OK;
	}
}

static void explain(struct h2d_cli *cli, const struct h2d_compare *c, int exit)
{
	if (exit != H2D_EXIT_UNKNOWN)
		return;
	for (size_t i = 0; i < c->cell_count; i++) {
		const struct h2d_compare_cell *cell = &c->cells[i];

		if (cell->verdict != H2D_COMPARE_INCONCLUSIVE &&
		    cell->verdict != H2D_COMPARE_INCOMPARABLE)
			continue;
		h2d_cli_reason(cli, "%s: %s: %s", h2d_compare_verdict_name(cell->verdict),
			       cell->name, cell->reason);
		return;
	}
	h2d_cli_reason(cli, "%s: no cell was measured in both",
		       h2d_compare_verdict_name(c->verdict));
}

static int report(struct h2d_cli *cli, const struct values *v, const struct h2d_compare *c)
{
	const int status = exit_of(c);
	struct h2d_json j;
	int exit = write_file(cli, v->markdown, c, h2d_compare_markdown);

	if (!exit)
		exit = write_file(cli, v->junit, c, h2d_compare_junit);
	if (exit)
		return exit;
	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.bench-compare", 1, 0);
		h2d_compare_write(&j, c, status, cli->common.redact);
		exit = h2d_cli_document_end(cli, &j);
	} else if (!cli->common.quiet) {
		print(cli, c);
	}
	if (exit)
		return exit;
	explain(cli, c, status);
	return status;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_log log = {h2d_cli_log, cli};
	double margin = 5, alpha = 0.05;
	struct h2d_compare c;
	int rc, exit = parse_share(cli, "margin", v->margin, 1000, &margin);

	(void)count;
	if (!exit)
		exit = parse_share(cli, "alpha", v->alpha, 1, &alpha);
	if (!exit)
		exit = check_facts(cli, "require", &v->require);
	if (!exit)
		exit = check_facts(cli, "ignore", &v->ignore);
	if (exit)
		return exit;
	{
		const struct h2d_compare_opts opts = {
			.margin = margin / 100,
			.alpha = alpha,
			.min_count = v->min_count ? v->min_count : 9,
			.seed = 1,
			.require = v->require.items,
			.require_count = v->require.count,
			.ignore = v->ignore.items,
			.ignore_count = v->ignore.count,
		};

		rc = h2d_compare_files(words[0], words[1], &opts, &log, &c);
	}
	if (rc)
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "compare");
	else
		exit = report(cli, v, &c);
	h2d_compare_release(&c);
	return exit;
}

const struct h2d_command h2d_command_bench_compare = {
	.name = "compare",
	.summary = "hold two results against each other, cell by cell",
	.arguments = "A.json B.json",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Compares two results of h2d bench run, two documents of h2d repro "
			"--json, or two of h2d probe lab --json. Cells are matched by their "
			"whole key. A cell is improved or regressed only when the rank test of "
			"Mann and Whitney and the size of the effect both say so: the ratio of "
			"the medians is past the margin, and its interval does not hold 1. The "
			"p of the test is adjusted for the number of cells that are tested "
			"(Holm), since of many some are below any level by chance. A cell is "
			"the same when the interval lies wholly within the margin, and "
			"inconclusive else.",
			"Cells without times are judged by their status: one that failed, was "
			"killed, timed out or was invalid in both is inconclusive; one that "
			"was skipped, is unsupported or did not fit in both is the same. "
			"Where no cell was measured in both, all is inconclusive.",
			"Results of two machines are incomparable, and the fact that differs "
			"is named; so are cells whose bytes or scheduling differ, and "
			"documents that tell nothing of their machine. The kernel, the driver "
			"and h2d itself may differ: they are what is compared.",
			"Of h2d repro and the laboratory, windows are compared first: one "
			"where there was none needs no statistics. Where they are equal and "
			"there are too few samples for the times, \"same\" is said of the "
			"windows alone, and the report says so; but a cell that took ten times "
			"as long, and 100 ms longer, is inconclusive. The laboratory's windows "
			"are compared across machines; its times only of the same accelerator "
			"and processor.",
			"The status is 1 when a cell regressed or is missing, else 77 when one "
			"is inconclusive or incomparable or nothing was measured, else 0.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Did the update slow anything down?",
			 "h2d bench compare before/result.json after/result.json"},
			{"The stall, across a kernel update, in CI",
			 "h2d bench compare old-repro.json new-repro.json --junit stall.xml"},
			{0},
		},
	.min_words = 2,
	.max_words = 2,
	.run = run,
};
