/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/plan.h"
#include "bench/result.h"
#include "bench/run.h"
#include "bench_print.h"
#include "build-info.h"
#include "commands.h"
#include "core/clock.h"
#include "text.h"

struct values {
	const char *out, *lock, *limits;
	struct h2d_texts checkpoints, paths, devices;
	uint64_t blocks, pause_after;
	bool dry_run;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"out", 0, H2D_OPTION_TEXT, "DIR",
	 "Folder for the log and the result. Made when it is missing; a campaign that was "
	 "interrupted there is gone on with. The default is bench-NAME, after the matrix.",
	 NULL, H2D_WORD_FILE, AT(out), 0, 0},
	{"checkpoint", 0, H2D_OPTION_TEXTS, "FILE",
	 "Measure this checkpoint instead of those in the matrix. May be repeated; NAME=FILE "
	 "gives it another name than its file's.",
	 NULL, H2D_WORD_FILE, AT(checkpoints), 0, 0},
	{"path", 0, H2D_OPTION_TEXTS, "PATH",
	 "Measure this transfer path instead of those in the matrix. May be repeated.", NULL,
	 H2D_WORD_PATH, AT(paths), 0, 0},
	{"device", 0, H2D_OPTION_TEXTS, "DEVICE",
	 "Measure on this device instead of those in the matrix. May be repeated.", NULL,
	 H2D_WORD_DEVICE, AT(devices), 0, 0},
	{"blocks", 0, H2D_OPTION_NUMBER, "N", "Samples per cell, instead of the matrix's.",
	 NULL, 0, AT(blocks), 1, 10000},
	{"pause-after", 0, H2D_OPTION_NUMBER, "N",
	 "Stop when N blocks are measured in all, with status 0 and no result yet; the same "
	 "command without it, or with more, goes on. Two campaigns that take turns this way "
	 "meet "
	 "the same weather.",
	 NULL, 0, AT(pause_after), 1, 10000},
	{"dry-run", 0, H2D_OPTION_FLAG, NULL,
	 "Measure nothing. Print the cells, the bytes to move and about how long that may "
	 "take. "
	 "For the estimate 64 MiB of the first checkpoint are dropped from the page cache and "
	 "read; a busy machine or a loader that is slow to start can make it several times as "
	 "long.",
	 NULL, 0, AT(dry_run), 0, 0},
	{"limits", 0, H2D_OPTION_TEXT, "FILE",
	 "Keep this document of h2d bench limits --json with the result. What is printed then "
	 "says "
	 "how much of its limit each cell reached.",
	 NULL, H2D_WORD_FILE, AT(limits), 0, 0},
	{"lock", 0, H2D_OPTION_TEXT, "NAME",
	 "Name of the lock that keeps two campaigns apart. For machines that were divided so "
	 "that two do not disturb each other.",
	 NULL, 0, AT(lock), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Campaign options", options};

struct shown {
	struct h2d_cli *cli;
	const struct h2d_bench_matrix *matrix;
	bool jsonl, lines, blocks;
	size_t done, done_before, total;
	uint64_t next_block, begin_ns; /* of the first sample; 0: not yet */
};

static int stop(void *user)
{
	(void)user;
	return h2d_signals_caught();
}

static void show_sample(struct shown *s, const json_t *event)
{
	const json_t *sample = json_object_get(event, "sample");
	const char *status = h2d_get_text(sample, "status");
	struct h2d_bench_matrix *m = (struct h2d_bench_matrix *)(uintptr_t)s->matrix;
	const struct h2d_bench_cell *cell = h2d_bench_cell_find(m, h2d_get_text(event, "id"));
	char name[512], safe[600], time[32];

	if (!cell || !status)
		return;
	h2d_bench_cell_name(cell, name, sizeof(name));
	h2d_text_safe_copy(safe, sizeof(safe), name, strlen(name));
	h2d_text_ns(time, sizeof(time), h2d_get_u64(sample, "load_ns"));
	fprintf(stderr, "[%zu of %zu] %s: %s\n", s->done, s->total, safe,
		strcmp(status, "ok") ? status : time);
}

enum { SHOWN_BLOCKS = 20 };

/* Where nobody watches a terminal: a line when a block begins, and one for what went wrong. */
static void show_block(struct shown *s, const json_t *event)
{
	const json_t *sample = json_object_get(event, "sample");
	const uint64_t block = h2d_get_u64(event, "block"), count = s->matrix->block_count;
	const uint64_t step = 1 + count / (SHOWN_BLOCKS + 1);
	char left[64] = "";

	if (sample) {
		if (!h2d_get_text(sample, "status") ||
		    strcmp(h2d_get_text(sample, "status"), "ok"))
			show_sample(s, event);
		return;
	}
	if (block < s->next_block)
		return;
	s->next_block = block / step * step + step;
	if (s->done > s->done_before)
		h2d_text_about(left, sizeof(left),
			       (h2d_now_ns() - s->begin_ns) / (s->done - s->done_before) *
				       (s->total - s->done));
	fprintf(stderr, "block %" PRIu64 " of %" PRIu64 "%s%s%s\n", block + 1, count,
		left[0] ? ", " : "", left, left[0] ? " left" : "");
}

static void show(void *user, const char *line, const json_t *event)
{
	struct shown *s = user;
	const char *name = h2d_get_text(event, "event");
	const bool sample = !strcmp(name, "sample");

	if (!s->begin_ns && !strcmp(name, "sample_started")) {
		s->begin_ns = h2d_now_ns();
		s->done_before = s->done;
	}
	s->done += sample;
	if (s->jsonl)
		fputs(line, stderr);
	else if (s->lines && sample)
		show_sample(s, event);
	else if (s->blocks && (sample || !strcmp(name, "sample_started")))
		show_block(s, event);
}

/* The program that runs is the one that is measured. */
static int find_self(struct h2d_cli *cli, char *out, size_t cap)
{
	const ssize_t n = readlink("/proc/self/exe", out, cap - 1);

	if (n <= 0)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "/proc/self/exe cannot be read");
	out[n] = 0;
	return H2D_EXIT_OK;
}

/* ---- the outcome ---- */

static int judge(const json_t *document)
{
	const json_t *cells = json_object_get(document, "cells");
	size_t ok = 0, bad = 0;

	for (size_t i = 0; i < json_array_size(cells); i++) {
		const char *status = h2d_get_text(json_array_get(cells, i), "status");

		ok += !strcmp(status, "ok");
		bad += !strcmp(status, "failed") || !strcmp(status, "killed") ||
		       !strcmp(status, "timeout") || !strcmp(status, "invalid");
	}
	if (bad) {
		fprintf(stderr,
			"h2d: %zu of %zu cells failed, were killed, took too long or could "
			"not be brought into their state\n",
			bad, json_array_size(cells));
		return H2D_EXIT_NEGATIVE;
	}
	if (!ok) {
		fputs("h2d: no cell could be measured here\n", stderr);
		return H2D_EXIT_UNKNOWN;
	}
	return H2D_EXIT_OK;
}

static int report(struct h2d_cli *cli, struct h2d_bench_matrix *m,
		  const struct h2d_bench_outcome *outcome)
{
	const struct h2d_log log = {h2d_cli_log, cli};
	json_t *document;
	int rc, exit;

	if (!outcome->sample_count && outcome->kept_count && !cli->common.quiet)
		fputs("h2d: nothing was measured: this campaign was finished before\n", stderr);
	if (cli->common.json) {
		cli->document_begun = true;
		rc = h2d_bench_result_print(cli->out, isatty(STDOUT_FILENO), outcome->events,
					    &log);
		if (rc && rc != H2D_E_IO)
			return h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "writing the document");
	}
	rc = h2d_value_load(outcome->result, &log, &document);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", outcome->result);
	if (!cli->common.json && !cli->common.quiet)
		h2d_bench_print_result(cli, m, document, outcome->result);
	exit = judge(document);
	json_decref(document);
	return exit;
}

static int read_limits(struct h2d_cli *cli, const char *path, json_t **out)
{
	const struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_value root = {.log = &log, .file = path};
	int rc = h2d_value_load(path, &log, out);

	root.json = *out;
	if (!rc)
		rc = h2d_value_schema(&root, "h2d.bench-limits", 1);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", path);
	return H2D_EXIT_OK;
}

static int paused(struct h2d_cli *cli, const struct values *v, const struct h2d_bench_matrix *m)
{
	if (!cli->common.quiet)
		fprintf(cli->out,
			"Paused after block %" PRIu64 " of %" PRIu64
			"; the same command goes on\n",
			v->pause_after, m->block_count);
	return H2D_EXIT_OK;
}

static uint64_t to_measure(const struct h2d_bench_matrix *m)
{
	uint64_t count = 0;

	for (size_t i = 0; i < m->cell_count; i++)
		count += m->cells[i].status ? 0 : m->block_count;
	return count;
}

static int campaign(struct h2d_cli *cli, const struct values *v, struct h2d_bench_matrix *m,
		    const json_t *limits)
{
	const char *progress = cli->common.progress;
	const bool jsonl = progress && !strcmp(progress, "jsonl");
	const bool automatic = !progress || !strcmp(progress, "auto");
	const bool each = isatty(STDERR_FILENO) || cli->common.verbose;
	struct shown shown = {
		.cli = cli,
		.matrix = m,
		.jsonl = jsonl,
		.lines = automatic && !cli->common.quiet && each,
		.blocks = automatic && !cli->common.quiet && !each,
		.total = to_measure(m),
	};
	const struct h2d_tool tool = {
		.command = cli->command_name,
		.argc = cli->argc,
		.argv = cli->argv,
		.redact = cli->common.redact,
		.git = H2D_BUILD_GIT,
		.git_dirty = H2D_BUILD_GIT_DIRTY,
	};
	char self[4096], dir[128];
	const struct h2d_bench_run_opts opts = {
		.dir = v->out ? v->out : dir,
		.self = self,
		.tool = &tool,
		.limits = limits,
		.lock = v->lock,
		.pause_after = v->pause_after,
		.stop = stop,
		.show = show,
		.user = &shown,
		.log = {h2d_cli_log, cli},
	};
	struct h2d_bench_outcome outcome;
	int rc, exit = find_self(cli, self, sizeof(self));

	if (exit)
		return exit;
	snprintf(dir, sizeof(dir), "bench-%s", m->name);
	rc = h2d_bench_run(m, &opts, &outcome);
	if (rc == H2D_E_UNAVAILABLE) /* of a lock, not of a device */
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "%s", cli->message);
	else if (rc)
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "campaign");
	else if (outcome.paused)
		exit = paused(cli, v, m);
	else
		exit = report(cli, m, &outcome);
	if (rc == H2D_E_CANCELLED)
		fprintf(stderr, "h2d: the same command goes on where this one stopped\n");
	h2d_bench_outcome_release(&outcome);
	return exit;
}

static int dry_run(struct h2d_cli *cli, const struct h2d_bench_matrix *m)
{
	struct h2d_bench_plan plan;
	char bytes[32], time[32], name[512];

	h2d_bench_plan_make(m, &plan);
	if (cli->common.json) {
		struct h2d_json j;

		h2d_cli_document(cli, &j, "h2d.bench-plan", 1, 0);
		h2d_bench_plan_write(&j, m, &plan);
		return h2d_cli_document_end(cli, &j);
	}
	for (size_t i = 0; i < m->cell_count; i++) {
		h2d_bench_cell_name(&m->cells[i], name, sizeof(name));
		h2d_text_safe(cli->out, name, strlen(name));
		fprintf(cli->out, "%s%s%s\n", m->cells[i].status ? ": " : "",
			m->cells[i].status ? m->cells[i].status : "",
			m->cells[i].status ? " by the matrix" : "");
	}
	h2d_text_bytes(bytes, sizeof(bytes), plan.moved_bytes);
	h2d_text_about(time, sizeof(time), plan.estimated_ns);
	fprintf(cli->out,
		"%zu cells, %" PRIu64 " samples each, %" PRIu64
		" samples; %s to move, %s if nothing else runs\n",
		m->cell_count, m->block_count, plan.sample_count, bytes, time);
	return H2D_EXIT_OK;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_bench_overrides overrides = {
		.checkpoints = v->checkpoints.items,
		.checkpoint_count = v->checkpoints.count,
		.block_count = v->blocks,
		.paths = v->paths.items,
		.path_count = v->paths.count,
		.devices = v->devices.items,
		.device_count = v->devices.count,
	};
	const struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_bench_matrix m;
	json_t *limits = NULL;
	int rc, exit = v->limits ? read_limits(cli, v->limits, &limits) : H2D_EXIT_OK;

	(void)count;
	if (!exit && v->pause_after && cli->common.json)
		exit = h2d_cli_usage(cli,
				     "--pause-after has no result that --json could print");
	if (exit)
		goto out;
	rc = h2d_bench_matrix_read(words[0], &overrides, &log, &m);
	if (rc)
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", words[0]);
	else if (v->dry_run)
		exit = dry_run(cli, &m);
	else
		exit = campaign(cli, v, &m, limits);
	h2d_bench_matrix_free(&m);
out:
	json_decref(limits);
	return exit;
}

const struct h2d_command h2d_command_bench_run = {
	.name = "run",
	.summary = "run a campaign: every cell of a matrix, sample by sample",
	.arguments = "MATRIX.json",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Measures the product of the lists in a matrix: transfer paths and "
			"other loaders, checkpoints, states of the page cache, devices, limits "
			"on memory and options. Ready ones are installed with h2d and lie in "
			"bench/matrices of its source.",
			"Every sample is a fresh process. Its page cache is brought into the "
			"cell's state after the process has started, and proven; a cell that "
			"cannot be brought there is invalid and has no time. Every cell is "
			"measured once in each block, in an order that the seed shuffles. "
			"Memory "
			"of the process is sampled every 10 ms during the load, and its bytes "
			"are compared with the file's afterwards.",
			"The log events.jsonl is on disk after every sample. After an "
			"interruption the same command goes on with it; the result.json is "
			"made "
			"from it at the end. On another machine or kernel, by another build of "
			"h2d, or under other scheduling it is refused: samples of two would "
			"be one result. Where all was measured before, the result is printed "
			"again, and it is said that nothing was measured. Cells that do not "
			"fit, are not supported or are "
			"left out by the matrix are part of the result. Status 1 says that a "
			"cell failed, was killed, took too long or was invalid.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Eight paths, cold and warm",
			 "h2d bench run paths.json --checkpoint model.safetensors"},
			{"What would it do, and how long?",
			 "h2d bench run paths.json --checkpoint model.safetensors --dry-run"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
