/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "doctor_gather.h"
#include "host/root.h"
#include "text.h"

struct values {
	const char *root, *switches;
	bool no_measure;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"no-measure", 0, H2D_OPTION_FLAG, NULL,
	 "Copy nothing. Without it, at most 8 MiB are copied to a device that is here.", NULL,
	 0, AT(no_measure), 0, 0},
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Look at a capture of another machine. See h2d probe capture.", NULL, H2D_WORD_FILE,
	 AT(root), 0, 0},
	{"switches", 0, H2D_OPTION_TEXT, "FILE",
	 "Take what programs can do from this file. It replaces the known-switches.json that "
	 "is built in.",
	 NULL, H2D_WORD_FILE, AT(switches), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Doctor options", options};

/* ---- the page ---- */

static void line(FILE *out, const char *before, const char *text)
{
	fputs(before, out);
	h2d_text_safe(out, text, strlen(text));
	fputc('\n', out);
}

static void print_machine(FILE *out, const struct h2d_doctor_facts *f, bool recorded)
{
	const struct h2d_machine *m = &f->machine;
	char text[512], bytes[32];

	snprintf(text, sizeof(text), "kernel %s, %s%s%s",
		 m->release[0] ? m->release : "unknown",
		 m->distribution[0] ? m->distribution : "distribution unknown",
		 m->container ? ", in a container" : "", m->guest ? ", a virtual machine" : "");
	line(out, "  ", text);
	for (size_t i = 0; i < m->gpu_count; i++) {
		const struct h2d_gpu *g = &m->gpus[i];

		snprintf(text, sizeof(text), "GPU %s %04x:%04x%s%s, driver %s", g->address,
			 g->vendor, g->device, g->name[0] ? " " : "", g->name,
			 g->driver[0] ? g->driver : "none");
		line(out, "  ", text);
	}
	if (f->have_process && !f->asked_for_process) {
		snprintf(text, sizeof(text), "process %d (%s) was found%s", f->process.pid,
			 f->process.name,
			 recorded ? "" : "; give another by its number");
		line(out, "  ", text);
	}
	if (f->memory.total_bytes.known) {
		h2d_text_bytes(bytes, sizeof(bytes), f->memory.total_bytes.value);
		snprintf(text, sizeof(text), "memory %s", bytes);
		if (f->memory.available_bytes.known) {
			h2d_text_bytes(bytes, sizeof(bytes), f->memory.available_bytes.value);
			snprintf(text + strlen(text), sizeof(text) - strlen(text),
				 ", available %s", bytes);
		}
		line(out, "  ", text);
	}
}

static void print(FILE *out, const struct h2d_doctor_facts *f, const struct h2d_diagnosis *d,
		  bool recorded)
{
	const struct h2d_finding *first = &d->findings[0];

	line(out, "", first->line);
	fprintf(out, "Confidence: %s\n", h2d_confidence_name(first->confidence));
	if (first->evidence_count)
		fputs("\nBecause\n", out);
	for (size_t i = 0; i < first->evidence_count; i++)
		line(out, "  - ", first->evidence[i]);
	if (first->action[0]) {
		fputs("\nDo this\n", out);
		line(out, "  ", first->action);
		if (first->gain[0])
			line(out, "  expected: ", first->gain);
		if (first->source[0])
			line(out, "  source: ", first->source);
		if (first->otherwise[0])
			line(out, "  or: ", first->otherwise);
	}
	if (d->count > 1)
		fputs("\nAlso\n", out);
	for (size_t i = 1; i < d->count; i++) {
		line(out, "  - ", d->findings[i].line);
		if (d->findings[i].action[0])
			line(out, "    ", d->findings[i].action);
	}
	if (d->unseen_count)
		fputs("\nNot seen\n", out);
	for (size_t i = 0; i < d->unseen_count; i++)
		line(out, "  - ", d->unseen[i]);
	fputs("\nHere\n", out);
	print_machine(out, f, recorded);
}

static int report(struct h2d_cli *cli, const struct h2d_doctor_facts *f,
		  const struct h2d_diagnosis *d)
{
	struct h2d_json j;
	int exit;

	if (cli->common.json) {
		/* Where reading it may hang, nothing can be said of this machine. */
		if (f->environment_end)
			cli->root = "/nonexistent";
		h2d_cli_document(cli, &j, "h2d.doctor", 1, 0);
		h2d_doctor_write(&j, f, d);
		exit = h2d_cli_document_end(cli, &j);
		if (exit)
			return exit;
	} else if (!cli->common.quiet) {
		print(cli->out, f, d, cli->root);
	}
	switch (d->findings[0].status) {
	case H2D_DOCTOR_WELL:
		return H2D_EXIT_OK;
	case H2D_DOCTOR_AFFECTED:
		return H2D_EXIT_NEGATIVE;
	case H2D_DOCTOR_UNKNOWN:
		break;
	}
	h2d_cli_reason(cli, "%s", d->findings[0].line);
	return H2D_EXIT_UNKNOWN;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_doctor_gather what = {.cli = cli, .measure = !v->no_measure};
	struct h2d_doctor_gathered *gathered = NULL;
	struct h2d_doctor_facts *f = NULL;
	struct h2d_diagnosis *d = calloc(1, sizeof(*d));
	struct h2d_switches *switches = NULL;
	struct h2d_root root = {0};
	char *end = NULL;
	long pid = count ? strtol(words[0], &end, 10) : 0;
	int exit, rc;

	if (!d) {
		exit = h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
		goto out;
	}
	if (count && (*end || end == words[0] || pid < 1 || pid > 1 << 30)) {
		exit = h2d_cli_usage(cli, "'%s' is no process number", words[0]);
		goto out;
	}
	rc = h2d_switches_open(v->switches, &log, &switches);
	if (!rc)
		rc = h2d_root_open(v->root, &log, &root);
	if (rc) {
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "doctor");
		goto out;
	}
	cli->root = root.path;
	h2d_signals_install();
	what.root = root.path;
	what.pid = (int)pid;
	exit = h2d_doctor_gather(&what, &gathered, &f);
	if (exit)
		goto out;
	if (f->have_process)
		f->program =
			h2d_switches_program(switches, f->process.words, f->process.word_count);
	h2d_doctor_judge(f, switches, d);
	exit = report(cli, f, d);
out:
	h2d_doctor_gathered_free(gathered);
	cli->root = NULL;
	h2d_root_close(&root);
	h2d_switches_close(switches);
	free(d);
	return exit;
}

const struct h2d_command h2d_command_doctor = {
	.name = "doctor",
	.summary = "am I affected, how sure is that, and what to do: on one page",
	.arguments = "[PID]",
	.description =
		(const char *const[]){
			"Looks at the kernel's driver, the machine, and the process given by "
			"its number, or the one among those it may look at that maps a "
			"checkpoint at the highest cost. Says in the first line what is wrong "
			"and what to do; below it how sure that is, why, what to expect of the "
			"cure and who reported it, and what could not be seen. Takes less than "
			"ten seconds and needs no root.",
			"The status is 1 when something is wrong, 0 when nothing of what is "
			"known is, and 77 when it cannot be told or does not apply.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Is this machine affected?", "h2d doctor"},
			{"Why does that program load so slowly?", "h2d doctor 4242"},
			{"The same for a machine whose capture was sent",
			 "h2d doctor --root capture.tar.gz"},
			{0},
		},
	.max_words = 1,
	.run = run,
};
