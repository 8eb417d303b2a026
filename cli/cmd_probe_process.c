/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "host/process.h"
#include "host/root.h"
#include "host/sample.h"
#include "text.h"

struct values {
	const char *root;
	uint64_t watch_s, interval_ms;
	bool all;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"watch", 0, H2D_OPTION_NUMBER, "SECONDS",
	 "Sample the process for so long. Memory by kind, faults, bytes read; ends with the "
	 "process.",
	 NULL, 0, AT(watch_s), 1, 86400},
	{"interval-ms", 0, H2D_OPTION_NUMBER, "N",
	 "Time between two samples. The default is 1000.", NULL, 0, AT(interval_ms), 10,
	 3600000},
	{"all", 0, H2D_OPTION_FLAG, NULL, "List mappings of files that are no checkpoints too.",
	 NULL, 0, AT(all), 0, 0},
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Look at a capture of another machine. See h2d probe capture.", NULL, H2D_WORD_FILE,
	 AT(root), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Process options", options};

struct watched {
	struct h2d_sample *samples;
	size_t count, cap;
};

/* ---- for people ---- */

static void cell(FILE *out, uint64_t value)
{
	char text[32];

	h2d_text_bytes(text, sizeof(text), value);
	fprintf(out, "  %10s", text);
}

static void amount(FILE *out, const char *before, uint64_t value, const char *after)
{
	char text[32];

	h2d_text_bytes(text, sizeof(text), value);
	fprintf(out, "%s%s%s", before, text, after);
}

static void print_sample(struct h2d_cli *cli, const struct watched *w)
{
	const struct h2d_sample *s = &w->samples[w->count - 1];
	double at = (double)(s->time_ns - w->samples[0].time_ns) / 1e9;

	if (cli->common.json || cli->common.quiet)
		return;
	if (w->count == 1)
		fprintf(cli->out, "%8s  %10s  %10s  %10s  %10s  %10s  %8s  %s\n", "time",
			"RssAnon", "RssFile", "swap", "read", "device", "majflt", "state");
	fprintf(cli->out, "%6.1f s", at);
	if (s->gone) {
		fputs("  ended\n", cli->out);
		return;
	}
	cell(cli->out, s->rss_anon_bytes.value);
	cell(cli->out, s->rss_file_bytes.value);
	cell(cli->out, s->swap_bytes.value);
	cell(cli->out, s->read_storage_bytes.value);
	if (s->vram_bytes.known)
		cell(cli->out, s->vram_bytes.value);
	else
		fprintf(cli->out, "  %10s", "-");
	fprintf(cli->out, "  %8" PRIu64 "  %c\n", s->major_fault_count, s->state);
	fflush(cli->out);
}

static void print_mapping(struct h2d_cli *cli, const struct h2d_process *p,
			  const struct h2d_file_mapping *m)
{
	const struct h2d_mapped_file *f = &p->files[m->file];
	const char *name = h2d_cli_path(cli, f->path);

	fprintf(cli->out, "%s", m->permissions);
	cell(cli->out, m->end - m->begin);
	cell(cli->out, m->present_bytes);
	if (m->cached_known)
		cell(cli->out, m->cached_bytes);
	else
		fprintf(cli->out, "  %10s", "?");
	cell(cli->out, m->anonymous_bytes);
	cell(cli->out, m->swap_bytes);
	fputs("  ", cli->out);
	h2d_text_safe(cli->out, name, strlen(name));
	if (f->deleted)
		fputs(" (deleted)", cli->out);
	if (m->advice & H2D_ADVICE_RANDOM)
		fputs(", no read-ahead", cli->out);
	if (m->huge_bytes)
		amount(cli->out, ", huge pages ", m->huge_bytes, "");
	if (!f->content_known) {
		fputs(", content unknown: ", cli->out);
		h2d_text_safe(cli->out, f->why, strlen(f->why));
	}
	if (h2d_mapping_is_copied(p, m))
		fputs("  <- copied", cli->out);
	fputc('\n', cli->out);
}

static void print_process(struct h2d_cli *cli, const struct h2d_process *p,
			  const struct h2d_memory *mem, bool all)
{
	bool head = false;

	fprintf(cli->out, "process %d (", p->pid);
	h2d_text_safe(cli->out, p->name, strlen(p->name));
	fprintf(cli->out, "), %u thread%s%s\n", p->threads, p->threads == 1 ? "" : "s",
		p->exited ? "; it ended while it was looked at" : "");
	for (size_t i = 0; i < p->file_count; i++) {
		const struct h2d_mapped_file *f = &p->files[i];
		const char *name = h2d_cli_path(cli, f->path);

		if (!f->checkpoint)
			continue;
		fputs("checkpoint ", cli->out);
		h2d_text_safe(cli->out, name, strlen(name));
		if (f->size_known)
			amount(cli->out, ", ", f->size_bytes, "");
		fprintf(cli->out, " on %s%s", f->mount.type[0] ? f->mount.type : "?",
			f->mount.network ? " (network)" : "");
		if (f->mount.have_read_ahead)
			amount(cli->out, ", read-ahead ", f->mount.read_ahead_bytes, "");
		fputc('\n', cli->out);
	}
	for (size_t i = 0; i < p->mapping_count; i++) {
		const struct h2d_mapped_file *f = &p->files[p->mappings[i].file];

		if (!all && !f->checkpoint && !f->named_like_one)
			continue;
		if (!head)
			fprintf(cli->out, "%s  %10s  %10s  %10s  %10s  %10s  %s\n", "perm",
				"size", "present", "cached", "anonymous", "swap", "file");
		head = true;
		print_mapping(cli, p, &p->mappings[i]);
	}
	if (mem->available_bytes.known)
		amount(cli->out, "memory available ", mem->available_bytes.value, "");
	if (mem->group_limit_bytes.known)
		amount(cli->out, ", limit of the control group ", mem->group_limit_bytes.value,
		       "");
	if (mem->memory.known)
		fprintf(cli->out, ", pressure %.1f %%", mem->memory.some_pct);
	if (mem->available_bytes.known)
		fputc('\n', cli->out);
}

static void print_trend(struct h2d_cli *cli, const struct h2d_trend *t)
{
	static const char *const words[] = {
		[H2D_PROGRESS_UNKNOWN] = "cannot tell whether it moves",
		[H2D_PROGRESS_MOVING] = "moving",
		[H2D_PROGRESS_SLOW] = "slow but moving, not hung",
		[H2D_PROGRESS_BUSY] = "busy, but no bytes arrive",
		[H2D_PROGRESS_STILL] = "nothing moves: it waits or hangs",
		[H2D_PROGRESS_EXITED] = "it ended",
	};

	fprintf(cli->out, "%s", words[t->progress]);
	if (t->elapsed_ns) {
		amount(cli->out, ": ", t->bytes_per_s, "/s");
		fprintf(cli->out,
			", %" PRIu64 " major faults/s, %.0f %% of a processor (%.0f "
			"%% in the kernel)",
			t->major_faults_per_s, t->cpu_pct, t->kernel_pct);
	}
	if (t->threads_stuck)
		fprintf(cli->out, ", %u thread%s in the kernel and cannot be interrupted",
			t->threads_stuck, t->threads_stuck == 1 ? " waits" : "s wait");
	fputc('\n', cli->out);
}

/* ---- the command ---- */

static int add_sample(struct h2d_cli *cli, struct watched *w, const struct h2d_sample *s)
{
	if (w->count == w->cap) {
		size_t cap = w->cap ? w->cap * 2 : 64;
		struct h2d_sample *more = realloc(w->samples, cap * sizeof(*more));

		if (!more)
			return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
		w->samples = more;
		w->cap = cap;
	}
	w->samples[w->count++] = *s;
	h2d_sample_must_be(&w->samples[w->count - 1], w->samples[0].start_ticks);
	print_sample(cli, w);
	return 0;
}

/* Samples at fixed times, so that slow ones do not stretch the whole. */
static int watch(struct h2d_cli *cli, const struct values *v, int pid, struct watched *w)
{
	uint64_t interval_ms = v->interval_ms ? v->interval_ms : 1000;
	uint64_t count = v->watch_s * 1000 / interval_ms + 1;
	struct timespec next;
	struct h2d_sample s;
	int exit = 0;

	if (count < 2)
		count = 2;
	if (count > H2D_SAMPLES_MAX)
		return h2d_cli_usage(cli, "--watch: more than %d samples; use --interval-ms",
				     H2D_SAMPLES_MAX);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (uint64_t i = 0; i < count && !exit; i++) {
		h2d_sample_take(NULL, pid, &s);
		exit = add_sample(cli, w, &s);
		if (exit || w->samples[w->count - 1].gone || i + 1 == count)
			break;
		next.tv_sec += (time_t)(interval_ms / 1000);
		next.tv_nsec += (long)(interval_ms % 1000) * 1000000;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		while (!h2d_signals_caught() &&
		       clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL))
			;
		if (h2d_signals_caught())
			return h2d_cli_error(cli, H2D_EXIT_CANCELLED, "cancelled");
	}
	return exit;
}

static int recorded(struct h2d_cli *cli, const char *root, int pid, struct watched *w)
{
	struct h2d_sample s;
	int exit = 0;

	for (unsigned k = 0; !exit && k < H2D_SAMPLES_MAX; k++) {
		if (!h2d_sample_recorded(root, k, pid, &s))
			break;
		exit = add_sample(cli, w, &s);
	}
	return exit;
}

static int verdict(const struct h2d_process *p, const char **value)
{
	const char *why = h2d_process_unknown(p);

	if (p->copied.mapping_count) {
		*value = "copied";
		return H2D_EXIT_NEGATIVE;
	}
	if (why) {
		*value = "unknown";
		return H2D_EXIT_UNKNOWN;
	}
	*value = p->checkpoint_count ? "not_copied" : "no_checkpoint";
	return H2D_EXIT_OK;
}

static int report(struct h2d_cli *cli, const struct values *v, const struct h2d_process *p,
		  const struct h2d_memory *mem, const struct watched *w)
{
	struct h2d_trend trend;
	const char *value;
	int exit = verdict(p, &value), end;
	struct h2d_json j;

	h2d_trend_of(w->samples, w->count, &trend);
	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.process", 1, 0);
		h2d_json_object_begin(&j, "verdict");
		h2d_json_string(&j, "value", value);
		if (exit == H2D_EXIT_UNKNOWN)
			h2d_json_string(&j, "reason", h2d_process_unknown(p));
		h2d_json_object_end(&j);
		h2d_process_write(&j, p, v->all, cli->common.redact);
		h2d_memory_write(&j, "memory", mem);
		if (w->count)
			h2d_samples_write(&j, w->samples, w->count, &trend);
		end = h2d_cli_document_end(cli, &j);
		if (end)
			return end;
		if (exit == H2D_EXIT_UNKNOWN)
			h2d_cli_reason(cli, "cannot tell: %s", h2d_process_unknown(p));
		return exit;
	}
	if (exit == H2D_EXIT_UNKNOWN)
		h2d_cli_reason(cli, "cannot tell: %s", h2d_process_unknown(p));
	if (cli->common.quiet)
		return exit;
	print_process(cli, p, mem, v->all);
	if (w->count)
		print_trend(cli, &trend);
	if (!strcmp(value, "copied")) {
		amount(cli->out, "", p->copied.anonymous_bytes + p->copied.swap_bytes,
		       " of a checkpoint were copied into anonymous memory");
		fprintf(cli->out, ": it %s mapped private and writable\n",
			p->writable.mapping_count ? "is" : "was");
	} else if (!strcmp(value, "not_copied")) {
		fputs("no page of a checkpoint was copied into anonymous memory\n", cli->out);
	} else if (!strcmp(value, "no_checkpoint")) {
		fputs("it maps no checkpoint\n", cli->out);
	} else {
		fputs("cannot tell whether pages of a checkpoint were copied: ", cli->out);
		h2d_text_safe(cli->out, h2d_process_unknown(p), strlen(h2d_process_unknown(p)));
		fputc('\n', cli->out);
	}
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_process p = {0};
	struct watched w = {0};
	struct h2d_memory mem;
	struct h2d_root root;
	char *end;
	long pid = strtol(words[0], &end, 10);
	int exit, rc;

	(void)count;
	if (*end || end == words[0] || pid < 1 || pid > 1 << 30)
		return h2d_cli_usage(cli, "'%s' is no process number", words[0]);
	if (v->root && v->watch_s)
		return h2d_cli_usage(cli, "--watch: a capture has the samples it has");
	rc = h2d_root_open(v->root, &log, &root);
	if (rc) {
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "%s", v->root);
		goto out;
	}
	cli->root = root.path;
	if (v->watch_s) {
		h2d_signals_install();
		exit = watch(cli, v, (int)pid, &w);
	} else {
		exit = root.path ? recorded(cli, root.path, (int)pid, &w) : 0;
	}
	if (exit)
		goto out;
	rc = h2d_process_read(root.path, (int)pid, &log, &p);
	if (rc) {
		/* What may not be looked at is no bad input. */
		exit = h2d_cli_fail(cli,
				    rc == H2D_E_PERMISSION ? H2D_STAGE_LOAD : H2D_STAGE_INPUT,
				    rc, "process %ld", pid);
		goto out;
	}
	if (w.count && p.start_ticks != w.samples[0].start_ticks) {
		exit = h2d_cli_error(cli, H2D_EXIT_INPUT,
				     "process %ld ended while it was watched, and another one "
				     "has its number now",
				     pid);
		goto out;
	}
	h2d_memory_read(root.path, (int)pid, &mem);
	exit = report(cli, v, &p, &mem, &w);
out:
	h2d_process_free(&p);
	free(w.samples);
	cli->root = NULL;
	h2d_root_close(&root);
	return exit;
}

const struct h2d_command h2d_command_probe_process = {
	.name = "process",
	.summary = "which checkpoints a process maps, how, and what that costs",
	.arguments = "PID",
	.description =
		(const char *const[]){
			"Shows how a process maps checkpoints, told by their content: "
			"permissions, pages present, cached, anonymous and in swap, huge pages "
			"and madvise state. Needs no root for one's own processes.",
			"A page of a private, writable mapping that was written, also by a "
			"driver that asks for write access where the device only reads, is "
			"copied into anonymous memory. Dirty pages of the file itself are no "
			"evidence and are not counted.",
			"The status is 1 when a private mapping of a checkpoint has anonymous "
			"or swapped pages, also when it is no longer writable, 3 when there is "
			"no such process, 5 when it may not be looked at (another user's), and "
			"77 when it cannot be told, for example because the process ended "
			"meanwhile.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Look at a program that loads slowly, for ten seconds",
			 "h2d probe process --watch 10 4242"},
			{0},
		},
	.min_words = 1,
	.max_words = 1,
	.run = run,
};
