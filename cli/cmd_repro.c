/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "progress.h"
#include "repro/experiment/law.h"
#include "text.h"
#include "transfer_options.h"

struct values {
	const char *device, *file, *experiment;
	struct h2d_texts sizes, cells;
	uint64_t repeat;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"device", 0, H2D_OPTION_TEXT, "DEVICE",
	 "Device that is copied to. Without it: hip, else cuda, else an OpenCL GPU, else host. "
	 "Without a GPU, hmm shows what the kernel does.",
	 NULL, H2D_WORD_DEVICE, AT(device), 0, 0},
	{"size", 0, H2D_OPTION_TEXTS, "SIZE",
	 "Size of a copy. May be repeated; the default is 8MiB and 32MiB.", NULL, 0, AT(sizes),
	 0, 0},
	{"file", 0, H2D_OPTION_TEXT, "PATH",
	 "Where the file of known bytes is made. A name that does not exist yet, or a "
	 "directory: its filesystem decides how the mappings are aligned. The file is removed "
	 "again.",
	 NULL, H2D_WORD_FILE, AT(file), 0, 0},
	{"repeat", 0, H2D_OPTION_NUMBER, "N", "Measure every cell N times.", NULL, 0,
	 AT(repeat), 1, H2D_REPRO_REPEAT_MAX},
	{"cell", 0, H2D_OPTION_TEXTS, "NAME",
	 "Measure only this cell. May be repeated; a verdict needs rw-present and a control.",
	 NULL, 0, AT(cells), 0, 0},
	{"experiment", 0, H2D_OPTION_CHOICE, "NAME",
	 "Run an experiment instead of the cells. With law, each of a list of sources is "
	 "copied "
	 "once and its windows are compared with what three rules predict; --cell then names "
	 "rows, and --size the size of those without one of their own. Needs a device that "
	 "shows restarts, such as hmm.",
	 (const char *const[]){"law", NULL}, 0, AT(experiment), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Reproducer options", options};

/* Names of cells, or of the rows of an experiment. */
static int check_names(struct h2d_cli *cli, const struct values *v)
{
	const char *names[64], *what = v->experiment ? "row" : "cell";
	size_t n = 0;

	for (; !v->experiment && h2d_cells[n].name && n < 63; n++)
		names[n] = h2d_cells[n].name;
	for (; v->experiment && h2d_law_rows[n].name && n < 63; n++)
		names[n] = h2d_law_rows[n].name;
	names[n] = NULL;
	for (size_t i = 0; i < v->cells.count; i++) {
		const char *name = v->cells.items[i], *meant;

		if (h2d_word_in(names, name, strlen(name)))
			continue;
		meant = h2d_suggest(name, names);
		return h2d_cli_usage(cli, "there is no %s '%s'%s%s%s", what, name,
				     meant ? "; did you mean '" : "", meant ? meant : "",
				     meant ? "'?" : "");
	}
	return H2D_EXIT_OK;
}

static int parse_sizes(struct h2d_cli *cli, const struct h2d_texts *texts, uint64_t *sizes)
{
	if (texts->count > H2D_REPRO_SIZE_MAX_COUNT)
		return h2d_cli_usage(cli, "at most %d sizes", H2D_REPRO_SIZE_MAX_COUNT);
	for (size_t i = 0; i < texts->count; i++) {
		const char *wrong = h2d_size_parse(texts->items[i], &sizes[i]);

		if (wrong)
			return h2d_cli_usage(cli, "--size: '%s' %s", texts->items[i], wrong);
	}
	return H2D_EXIT_OK;
}

static int show_progress(void *user, const char *cell, uint64_t size_bytes, size_t done,
			 size_t total)
{
	(void)cell;
	(void)size_bytes;
	return h2d_progress_update(user, done, total);
}

static int measure(struct h2d_cli *cli, const struct values *v, struct h2d_repro_result **r)
{
	struct h2d_transfer_values transfer = {.device = v->device};
	uint64_t sizes[H2D_REPRO_SIZE_MAX_COUNT];
	struct h2d_progress progress;
	struct h2d_repro_opts opts = {
		.sizes = sizes,
		.size_count = v->sizes.count,
		.cells = v->cells.items,
		.cell_count = v->cells.count,
		.file = v->file,
		.repeat = (unsigned)v->repeat,
		.progress = show_progress,
		.progress_user = &progress,
		.log = {h2d_cli_log, cli},
	};
	struct h2d_device_info info;
	struct h2d_device *dev;
	int rc, exit = check_names(cli, v);

	if (!exit)
		exit = parse_sizes(cli, &v->sizes, sizes);
	if (!exit)
		exit = h2d_transfer_device(cli, &transfer, false, &dev, &info);
	if (exit)
		return exit;
	h2d_signals_install();
	h2d_progress_begin(&progress, cli, "repro");
	rc = h2d_repro_run(dev, &opts, r);
	h2d_progress_end(&progress, !rc);
	h2d_device_close(dev);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "repro");
	return H2D_EXIT_OK;
}

/* ---- for people ---- */

static void print_delta(FILE *out, int64_t bytes)
{
	char text[32];

	h2d_text_bytes(text, sizeof(text), (uint64_t)(bytes < 0 ? -bytes : bytes));
	fprintf(out, "  %10s", bytes ? text : "0");
}

static void print_cell(FILE *out, const struct h2d_repro_cell *c, bool applicable)
{
	char size[32], time[32], expected[24] = "-";

	h2d_text_bytes(size, sizeof(size), c->size_bytes);
	fprintf(out, "%-15s %9s  %4s", c->cell->name, size, c->permissions);
	if (c->invalid[0]) {
		fprintf(out, "  not measured: %s\n", c->invalid);
		return;
	}
	if (applicable)
		snprintf(expected, sizeof(expected), "%" PRIu64, c->expected_windows);
	fprintf(out, "  %3.0f %%  %5" PRIu64 "  %8s",
		100.0 * (double)c->present_bytes / (double)c->size_bytes, c->span_count,
		expected);
	if (c->windows[0] >= 0)
		fprintf(out, "  %7" PRId64, c->windows[0]);
	else
		fputs("        ?", out);
	if (c->samples[0].restarts >= 0)
		fprintf(out, "  %8" PRId64, c->samples[0].restarts);
	else
		fputs("         -", out);
	print_delta(out, c->rss_anon_delta_bytes);
	for (size_t i = 0; i < c->sample_count; i++) {
		h2d_text_ns(time, sizeof(time), c->samples[i].elapsed_ns);
		fprintf(out, "  %10s", time);
	}
	fputc('\n', out);
}

static void print(FILE *out, const struct h2d_repro_result *r)
{
	const struct h2d_verdict *v = &r->verdict;
	const bool applicable = v->value != H2D_VERDICT_NOT_APPLICABLE;

	fputs("Device: ", out);
	h2d_text_safe(out, r->device_name, strlen(r->device_name));
	if (r->device_hardware[0]) {
		fputs(" (", out);
		h2d_text_safe(out, r->device_hardware, strlen(r->device_hardware));
		fputc(')', out);
	}
	fprintf(out, ", file on %s\n", r->filesystem);
	if (applicable && r->clock.hz)
		fprintf(out,
			"A window lasts %.1f ms: timeout %u ms and one jiffy of %.2f ms (%s)\n",
			(double)h2d_window_ns(r->clock) / 1e6, r->clock.timeout_ms,
			(double)h2d_jiffy_ns(r->clock.hz) / 1e6,
			h2d_hz_source_name(r->hz_source));
	fprintf(out,
		"\ncell                 size  perm  pres.  spans  expected  windows  restarts"
		"    RssAnon        %s\n",
		r->cell_count && r->cells[0].sample_count > 1 ? "times, in order" : "time");
	for (size_t i = 0; i < r->cell_count; i++)
		print_cell(out, &r->cells[i], applicable);
	if (applicable)
		fputs("Expected: windows of a driver that goes by the mapping's permissions "
		      "and waits for\nwhat it disturbed itself\n",
		      out);
	fprintf(out, "\nVerdict: %s", h2d_verdict_value_name(v->value));
	if (v->retry_policy)
		fprintf(out, ", retry policy %s", h2d_retry_policy_name(v->retry_policy));
	if (v->permission_rule)
		fprintf(out, ", permission rule %s",
			h2d_permission_rule_name(v->permission_rule));
	fprintf(out, " (confidence %s)\n", h2d_confidence_name(v->confidence));
	if (v->cow_penalty_ratio > 0)
		fprintf(out, "Copy-on-write makes the copy %.1f times as long\n",
			v->cow_penalty_ratio);
	for (size_t i = 0; i < v->evidence_count; i++)
		fprintf(out, "  %s\n", v->evidence[i]);
}

static int report(struct h2d_cli *cli, const struct h2d_repro_result *r)
{
	struct h2d_json j;

	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.repro", 1, 0);
		h2d_repro_write(&j, r);
		return h2d_cli_document_end(cli, &j);
	}
	if (!cli->common.quiet)
		print(cli->out, r);
	return H2D_EXIT_OK;
}

static int verdict_exit(struct h2d_cli *cli, const struct h2d_verdict *v)
{
	switch (v->value) {
	case H2D_VERDICT_AFFECTED:
		return H2D_EXIT_NEGATIVE;
	case H2D_VERDICT_COW_PENALTY:
	case H2D_VERDICT_CLEAN:
		return H2D_EXIT_OK;
	default:
		h2d_cli_reason(cli, "%s: %s", h2d_verdict_value_name(v->value),
			       v->evidence_count ? v->evidence[v->evidence_count - 1]
						 : "no reason");
		return H2D_EXIT_UNKNOWN;
	}
}

/* ---- the experiment ---- */

static int show_row(void *user, const char *row, size_t done, size_t total)
{
	(void)row;
	return h2d_progress_update(user, done, total);
}

static void print_law(FILE *out, const struct h2d_law_result *r)
{
	fputs("Device: ", out);
	h2d_text_safe(out, r->device_name, strlen(r->device_name));
	fprintf(out, ", file on %s, window %.1f ms\n\n", r->filesystem,
		(double)h2d_window_ns(r->clock) / 1e6);
	fputs("row                      size  by bytes  by presence  by the law  windows  "
	      "restarts\n",
	      out);
	for (size_t i = 0; i < r->row_count; i++) {
		const struct h2d_law_outcome *o = &r->rows[i];
		char size[32], law[32];

		if (o->not_run[0]) {
			fprintf(out, "%-20s  not run: %s\n", o->row->name, o->not_run);
			continue;
		}
		h2d_text_bytes(size, sizeof(size), o->size_bytes);
		if (o->by_law_min == o->by_law_max)
			snprintf(law, sizeof(law), "%" PRIu64, o->by_law_min);
		else if (o->by_law_max == UINT64_MAX)
			snprintf(law, sizeof(law), "%" PRIu64 " or more", o->by_law_min);
		else
			snprintf(law, sizeof(law), "%" PRIu64 "-%" PRIu64, o->by_law_min,
				 o->by_law_max);
		fprintf(out,
			"%-20s %9s  %8.2f  %11" PRIu64 "  %10s  %7" PRIu64 "  %8" PRIu64 "%s\n",
			o->row->name, size, o->by_bytes, o->by_presence, law, o->windows,
			o->restarts, o->agrees ? "" : "  not as the law says");
	}
	fprintf(out,
		"\nThe law %s (%" PRIu64 " rows run, %" PRIu64 " not, %" PRIu64
		" not as it says)\n",
		r->value == H2D_LAW_HOLDS   ? "holds"
		: r->value == H2D_LAW_FAILS ? "does not hold"
					    : "cannot be seen here: nothing restarted",
		r->run_count, r->not_run_count, r->disagree_count);
}

static int report_law(struct h2d_cli *cli, const struct h2d_law_result *r)
{
	struct h2d_json j;

	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.window-law", 1, 0);
		h2d_law_write(&j, r);
		return h2d_cli_document_end(cli, &j);
	}
	if (!cli->common.quiet)
		print_law(cli->out, r);
	return H2D_EXIT_OK;
}

static int measure_law(struct h2d_cli *cli, const struct values *v, uint64_t size_bytes,
		       struct h2d_law_result **r)
{
	struct h2d_transfer_values transfer = {.device = v->device};
	struct h2d_progress progress;
	struct h2d_law_opts opts = {
		.file = v->file,
		.size_bytes = size_bytes,
		.rows = v->cells.items,
		.row_count = v->cells.count,
		.progress = show_row,
		.progress_user = &progress,
		.log = {h2d_cli_log, cli},
	};
	struct h2d_device_info info;
	int rc, exit = H2D_EXIT_OK;

	for (size_t i = 0; i < H2D_LAW_COPIES_MAX && !exit; i++)
		exit = h2d_transfer_device(cli, &transfer, false, &opts.devs[i], &info);
	if (!exit) {
		h2d_progress_begin(&progress, cli, "law");
		rc = h2d_law_run(&opts, r);
		h2d_progress_end(&progress, !rc);
		if (rc)
			exit = h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "law");
	}
	for (size_t i = 0; i < H2D_LAW_COPIES_MAX; i++)
		h2d_device_close(opts.devs[i]);
	return exit;
}

static int run_law(struct h2d_cli *cli, const struct values *v)
{
	uint64_t sizes[H2D_REPRO_SIZE_MAX_COUNT] = {0};
	struct h2d_law_result *r = NULL;
	int exit;

	if (v->sizes.count > 1 || v->repeat > 1)
		return h2d_cli_usage(cli, "an experiment takes one size and no repeats");
	exit = check_names(cli, v);
	if (!exit)
		exit = parse_sizes(cli, &v->sizes, sizes);
	if (exit)
		return exit;
	h2d_signals_install();
	exit = measure_law(cli, v, sizes[0], &r);
	if (!exit)
		exit = report_law(cli, r);
	if (!exit && r->value == H2D_LAW_FAILS)
		exit = H2D_EXIT_NEGATIVE;
	if (!exit && r->value == H2D_LAW_UNDECIDED) {
		h2d_cli_reason(cli, "undecided: nothing was restarted on this device");
		exit = H2D_EXIT_UNKNOWN;
	}
	h2d_law_free(r);
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct values *v = values;
	struct h2d_repro_result *r = NULL;
	int exit;

	(void)count;
	(void)words;
	cli->file = v->file;
	if (v->experiment)
		return run_law(cli, v);
	exit = measure(cli, v, &r);
	if (!exit)
		exit = report(cli, r);
	if (!exit)
		exit = verdict_exit(cli, &r->verdict);
	h2d_repro_free(r);
	return exit;
}

const struct h2d_command h2d_command_repro = {
	.name = "repro",
	.summary =
		"reproduce the stall of pageable copies, and say whether this machine has it",
	.arguments = "",
	.description =
		(const char *const[]){
			"Copies the same bytes to a device from sources in different states: "
			"mapped read-only or writable, with or without page-table entries, "
			"anonymous, shared after fork, pinned. Each state is proven from /proc "
			"before it is measured, and the bytes are compared afterwards.",
			"A window is one whole timeout (1000 ms and one tick) that a driver "
			"spends waiting for a sequence number which cannot come back. Expected "
			"windows are the 2 MiB spans that hold an entry which a write has to "
			"replace; windows seen are counted by restarts where the device shows "
			"them, else from the time.",
			"The verdict is affected (windows), cow_penalty (write access is asked "
			"for where the device only reads: the source becomes anonymous "
			"memory), "
			"clean, inconclusive, or not_applicable where copies never reach the "
			"kernel's HMM code: on host, null and OpenCL, and where the runtime "
			"stages them.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Is this machine affected?", "h2d repro"},
			{"Without a GPU, by the kernel module",
			 "h2d repro --device hmm --json"},
			{"Only the defect and its control, five times",
			 "h2d repro --cell rw-present --cell ro-present --repeat 5"},
			{0},
		},
	.run = run,
};
