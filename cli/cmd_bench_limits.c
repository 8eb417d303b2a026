/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "bench/limits.h"
#include "commands.h"
#include "progress.h"
#include "text.h"
#include "transfer_options.h"

struct values {
	const char *device, *dir;
	uint64_t size_bytes, repeat, threads;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"device", 0, H2D_OPTION_TEXT, "DEVICE",
	 "Device whose link is measured. Without it: hip, else cuda, else an OpenCL GPU, else "
	 "none.",
	 NULL, H2D_WORD_DEVICE, AT(device), 0, 0},
	{"dir", 0, H2D_OPTION_TEXT, "DIR",
	 "Folder on the storage to be measured. A file is made there and removed again; the "
	 "default is the working directory.",
	 NULL, H2D_WORD_FILE, AT(dir), 0, 0},
	{"size", 0, H2D_OPTION_SIZE, "SIZE",
	 "How much is read and copied at once. The default is 1GiB.", NULL, 0, AT(size_bytes),
	 1 << 20, 0},
	{"repeat", 0, H2D_OPTION_NUMBER, "N", "Samples of each. The default is 5.", NULL, 0,
	 AT(repeat), 1, H2D_LIMIT_SAMPLES},
	{"threads", 0, H2D_OPTION_NUMBER, "N",
	 "Threads of what is done by several. The default is one per CPU.", NULL, 0,
	 AT(threads), 1, 1024},
	{0},
};
static const struct h2d_option_table table = {"Limits options", options};

static int show(void *user, size_t done, size_t total)
{
	return h2d_progress_update(user, done, total);
}

static void print(FILE *out, const struct h2d_limits *l)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct h2d_limit *x = &l->limit[i];
		uint64_t low = UINT64_MAX, high = 0;
		char rate[32], least[32], most[32];

		if (!x->count) {
			fprintf(out, "%-22s  %s\n", x->name, x->why);
			continue;
		}
		for (size_t k = 0; k < x->count; k++) {
			low = x->samples[k] < low ? x->samples[k] : low;
			high = x->samples[k] > high ? x->samples[k] : high;
		}
		h2d_text_bytes(rate, sizeof(rate), h2d_limit_median(x));
		h2d_text_bytes(least, sizeof(least), low);
		h2d_text_bytes(most, sizeof(most), high);
		fprintf(out, "%-22s  %s/s (%s to %s, n=%zu)  %s\n", x->name, rate, least, most,
			x->count, x->what);
	}
}

/* Without a GPU there is no link to measure, and that is no error. */
static int open_device(struct h2d_cli *cli, const struct values *v, struct h2d_device **dev)
{
	struct h2d_transfer_values transfer = {.device = v->device};
	struct h2d_device_info info;

	*dev = NULL;
	if (!v->device && !strcmp(h2d_default_device(), "host"))
		return H2D_EXIT_OK;
	return h2d_transfer_device(cli, &transfer, false, dev, &info);
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct h2d_progress progress;
	struct h2d_limits limits;
	struct h2d_limits_opts opts = {
		.file = count ? words[0] : NULL,
		.dir = v->dir ? v->dir : ".",
		.size_bytes = v->size_bytes ? v->size_bytes : UINT64_C(1) << 30,
		.repeat = v->repeat ? (unsigned)v->repeat : 5,
		.threads = v->threads ? (unsigned)v->threads
			   : cpus > 0 ? (unsigned)cpus
				      : 1,
		.progress = show,
		.user = &progress,
		.log = {h2d_cli_log, cli},
	};
	struct h2d_json j;
	int rc, exit = open_device(cli, v, &opts.dev);

	if (exit)
		return exit;
	cli->file = opts.file ? opts.file : opts.dir;
	h2d_progress_begin(&progress, cli, "limits");
	rc = h2d_limits_measure(&opts, &limits);
	h2d_progress_end(&progress, !rc);
	h2d_device_close(opts.dev);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_INPUT, rc, "limits");
	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.bench-limits", 1, 0);
		h2d_limits_write(&j, &limits);
		return h2d_cli_document_end(cli, &j);
	}
	if (!cli->common.quiet)
		print(cli->out, &limits);
	return H2D_EXIT_OK;
}

const struct h2d_command h2d_command_bench_limits = {
	.name = "limits",
	.summary = "measure what this machine could do at best",
	.arguments = "[FILE]",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Measures the ceilings of this machine by the plainest code that can "
			"reach them: storage by O_DIRECT at its best block and depth, the page "
			"cache by pread, memory by memcpy, the link to a device by copies from "
			"pinned memory. A load can then be said to run at so much of its "
			"limit.",
			"Without a file one of random bytes is made and removed again. What "
			"cannot be measured here says why.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"The disk that the models lie on, and the GPU's link",
			 "h2d bench limits model.safetensors"},
			{0},
		},
	.max_words = 1,
	.run = run,
};
