/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "host/capture.h"
#include "host/doctor.h"
#include "text.h"

struct values {
	struct h2d_texts pids;
	bool tree;
};
#define AT(member) offsetof(struct values, member)

enum { PIDS_MAX = 64, SAMPLES = 3, INTERVAL_MS = 750 };

static const struct h2d_option options[] = {
	{"pid", 0, H2D_OPTION_TEXTS, "PID",
	 "Look at this process too. May be repeated; the default is the one that h2d doctor "
	 "would look at.",
	 NULL, 0, AT(pids), 0, 0},
	{"tree", 0, H2D_OPTION_FLAG, NULL, "Write a directory. Without it, a tar archive.",
	 NULL, 0, AT(tree), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Capture options", options};

static int parse_pids(struct h2d_cli *cli, const struct h2d_texts *texts, int *pids,
		      size_t *count)
{
	if (texts->count > PIDS_MAX)
		return h2d_cli_usage(cli, "at most %d processes", PIDS_MAX);
	for (size_t i = 0; i < texts->count; i++) {
		char *end;
		long pid = strtol(texts->items[i], &end, 10);

		if (*end || end == texts->items[i] || pid < 1 || pid > 1 << 30)
			return h2d_cli_usage(cli, "--pid '%s' is no process number",
					     texts->items[i]);
		pids[(*count)++] = (int)pid;
	}
	if (!*count) {
		pids[0] = h2d_doctor_find_process(NULL, UINT64_C(1500000000));
		*count = pids[0] ? 1 : 0;
	}
	return 0;
}

static int stop(void *user)
{
	(void)user;
	return h2d_signals_caught();
}

static int tell(struct h2d_cli *cli, const char *output, const struct h2d_capture_opts *o,
		const struct h2d_capture_result *r)
{
	char size[32];
	struct h2d_json j;

	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.capture", 1, 0);
		h2d_json_string(&j, "path", h2d_cli_path(cli, output));
		h2d_json_bool(&j, "redacted", o->redact);
		h2d_json_u64(&j, "file_count", r->file_count);
		h2d_json_u64(&j, "link_count", r->link_count);
		h2d_json_u64(&j, "unreadable_count", r->unreadable_count);
		h2d_json_u64(&j, "content_bytes", r->text_bytes);
		h2d_json_u64(&j, "size_bytes", r->size_bytes);
		h2d_json_array_begin(&j, "processes");
		for (size_t i = 0; i < r->process_count; i++)
			h2d_json_u64(&j, NULL, (uint64_t)o->pids[i]);
		h2d_json_array_end(&j);
		return h2d_cli_document_end(cli, &j);
	}
	if (cli->common.quiet)
		return H2D_EXIT_OK;
	h2d_text_bytes(size, sizeof(size), r->size_bytes);
	fputs("wrote ", cli->out);
	h2d_text_safe(cli->out, output, strlen(output));
	fprintf(cli->out, ", %s: %zu files, %zu of which could not be read\n", size,
		r->file_count + r->unreadable_count, r->unreadable_count);
	for (size_t i = 0; i < o->pid_count; i++)
		fprintf(cli->out, "with process %d\n", o->pids[i]);
	if (!o->redact)
		fputs("It names this machine, its user and command lines; --redact leaves them "
		      "out.\n",
		      cli->out);
	return H2D_EXIT_OK;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const char *output = count ? words[0] : v->tree ? "h2d-capture" : "h2d-capture.tar.gz";
	int pids[PIDS_MAX], exit, rc;
	struct h2d_switches *switches = NULL;
	struct h2d_capture_opts opts = {
		.pids = pids,
		.redact = cli->common.redact,
		.as_tree = v->tree,
		.samples = SAMPLES,
		.interval_ms = INTERVAL_MS,
		.stop = stop,
		.log = {h2d_cli_log, cli},
	};
	struct h2d_capture_result result;

	h2d_signals_install();
	opts.found = !v->pids.count;
	exit = parse_pids(cli, &v->pids, pids, &opts.pid_count);
	if (exit)
		return exit;
	rc = h2d_switches_open(NULL, &opts.log, &switches);
	opts.switches = switches;
	if (!rc)
		rc = h2d_capture(&opts, output, &result);
	h2d_switches_close(switches);
	if (rc == H2D_E_INVALID || rc == H2D_E_UNAVAILABLE)
		return h2d_cli_error(cli, H2D_EXIT_USAGE, "%s", cli->message);
	if (rc)
		return h2d_cli_fail(cli,
				    rc == H2D_E_NOT_FOUND ? H2D_STAGE_INPUT : H2D_STAGE_LOAD,
				    rc, "%s", output);
	return tell(cli, output, &opts, &result);
}

const struct h2d_command h2d_command_probe_capture = {
	.name = "capture",
	.summary = "pack what the probes read here, to run them elsewhere",
	.arguments = "[OUTPUT]",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Runs the probes and packs exactly what they read of /proc and /sys, a "
			"few hundred small files, and of files that processes map their kind "
			"and size, never their content. Every probe runs on the archive with "
			"--root, and so does h2d doctor.",
			"With --redact the names of host and user, serial numbers, command "
			"lines, folders and control groups are left out; of command lines the "
			"names of known programs and their switches stay. Look through the "
			"archive before you publish it.",
			"OUTPUT must not exist; its default is h2d-capture.tar.gz.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"Send somebody what a slow program looks like",
			 "h2d probe capture --redact --pid 4242 slow.tar.gz"},
			{"Look at what was sent", "h2d doctor --root slow.tar.gz"},
			{0},
		},
	.max_words = 1,
	.run = run,
};
