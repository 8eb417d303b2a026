/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "core/hostfs.h"
#include "host/kernel_verdict.h"
#include "host/root.h"
#include "package_module.h"
#include "text.h"

struct values {
	const char *root, *release, *table, *measured, *kernel_dir;
	bool no_module, archive;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"kernel", 0, H2D_OPTION_TEXT, "RELEASE",
	 "Judge this kernel. The default is the running one. Its module is looked for below "
	 "/lib/modules, else in its package.",
	 NULL, 0, AT(release), 0, 0},
	{"kernel-dir", 0, H2D_OPTION_TEXT, "DIR",
	 "Folder of packages for --kernel. The default is $H2D_KERNEL_DIR. Then the cache is "
	 "looked through.",
	 NULL, H2D_WORD_FILE, AT(kernel_dir), 0, 0},
	{"archive", 0, H2D_OPTION_FLAG, NULL,
	 "Ask the distribution's archive for the package too. It is downloaded into the cache.",
	 NULL, 0, AT(archive), 0, 0},
	{"measured", 0, H2D_OPTION_TEXT, "FILE",
	 "Document of h2d repro or h2d probe lab, of this kernel. What it says outweighs the "
	 "rest.",
	 NULL, H2D_WORD_FILE, AT(measured), 0, 0},
	{"no-module", 0, H2D_OPTION_FLAG, NULL, "Do not read the amdgpu module.", NULL, 0,
	 AT(no_module), 0, 0},
	{"table", 0, H2D_OPTION_TEXT, "FILE",
	 "Table of known kernels. The default is the installed one.", NULL, H2D_WORD_FILE,
	 AT(table), 0, 0},
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Look at a capture of another machine. See h2d probe capture.", NULL, H2D_WORD_FILE,
	 AT(root), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Kernel options", options};

static void line(FILE *out, const char *label, const char *text)
{
	fprintf(out, "  %-14s", label);
	h2d_text_safe(out, text, strlen(text));
	fputc('\n', out);
}

static void print_opinion(FILE *out, const char *label, const struct h2d_kernel_opinion *o)
{
	char text[900];

	if (o->given)
		snprintf(text, sizeof(text), "%s (confidence %s): %s",
			 o->policy != H2D_RETRY_UNKNOWN ? h2d_retry_policy_name(o->policy)
			 : o->stall == H2D_STALL_NO	? "no stall"
			 : o->stall == H2D_STALL_YES	? "stalls"
							: "unknown",
			 h2d_confidence_name(o->confidence), o->statement);
	else
		snprintf(text, sizeof(text), "- (%s)", o->why);
	line(out, label, text);
}

static void print(FILE *out, const struct h2d_kernel_verdict *v, bool running)
{
	static const char *const agreements[] = {
		[H2D_AGREEMENT_NONE] = "nobody has an opinion",
		[H2D_AGREEMENT_SINGLE] = "one opinion, with nothing to compare it to",
		[H2D_AGREEMENT_AGREE] = "they agree",
		[H2D_AGREEMENT_CONFLICT] = "they contradict each other",
	};
	char text[640];

	fprintf(out, "%s\n", v->summary);
	snprintf(text, sizeof(text), "%s%s%s", v->release[0] ? v->release : "unknown",
		 running && v->distribution_name[0] ? " on " : "",
		 running ? v->distribution_name : "");
	line(out, "kernel", text);
	if (v->package[0] || v->package_version[0]) {
		snprintf(text, sizeof(text), "%s%s%s", v->package[0] ? v->package : "?",
			 v->package_version[0] ? " " : "", v->package_version);
		line(out, "package", text);
	}
	snprintf(text, sizeof(text), "%s%s%s%s%s", h2d_retry_policy_name(v->policy),
		 v->agreement == H2D_AGREEMENT_NONE ? "" : " (confidence ",
		 v->agreement == H2D_AGREEMENT_NONE ? "" : h2d_confidence_name(v->confidence),
		 v->agreement == H2D_AGREEMENT_NONE ? ""
		 : v->is_prior_only ? ": only the table speaks, and a version proves nothing"
				    : "",
		 v->agreement == H2D_AGREEMENT_NONE ? "" : ")");
	line(out, "retry policy", text);
	print_opinion(out, "table", &v->prior);
	print_opinion(out, "module file", &v->file);
	print_opinion(out, "measurement", &v->measured);
	line(out, "agreement", agreements[v->agreement]);
	if (v->conflict[0])
		line(out, "CONFLICT", v->conflict);
	/* Of another kernel than the running one nothing is loaded. */
	if (running)
		line(out, "driver",
		     !v->driver_loaded ? "not loaded"
		     : !v->driver_checked
			     ? "loaded; whether it is the file that was read is not known"
		     : v->driver_is_file ? "loaded, and the file that was read"
					 : "loaded, but not the file that was read");
	if (v->upgrade_to[0]) {
		snprintf(text, sizeof(text), "%s (%s)", v->upgrade_to, v->upgrade_source);
		line(out, "upgrade to", text);
	}
}

static int tell(struct h2d_cli *cli, const struct h2d_kernel_verdict *v, bool running)
{
	struct h2d_json j;

	if (cli->common.json) {
		int exit;

		h2d_cli_document(cli, &j, "h2d.kernel", 1, 0);
		h2d_kernel_verdict_write(&j, v);
		exit = h2d_cli_document_end(cli, &j);
		if (exit)
			return exit;
	} else if (!cli->common.quiet) {
		print(cli->out, v, running);
	}
	/* A version can warn, but it cannot clear: changes are carried to other versions. */
	if (v->stall == H2D_STALL_YES &&
	    (!v->is_prior_only || v->confidence != H2D_CONFIDENCE_LOW))
		return H2D_EXIT_NEGATIVE;
	if (v->stall == H2D_STALL_NO && !v->is_prior_only)
		return H2D_EXIT_OK;
	if (v->driver_checked && !v->driver_is_file)
		h2d_cli_reason(cli,
			       "not proven: the loaded driver is not the file that was read; "
			       "restart the machine, so that it is, or measure: h2d repro");
	else
		h2d_cli_reason(cli, "not proven: %s; %s",
			       v->prior.given ? v->prior.statement : v->prior.why,
			       v->file.given ? v->file.statement : v->file.why);
	return H2D_EXIT_UNKNOWN;
}

/* A measurement of all kernels is looked through for the one that is judged. */
static int read_measured(struct h2d_cli *cli, const struct values *v, const char *root,
			 const struct h2d_log *log, struct h2d_kernel_measured *out)
{
	char running[256];
	const char *release = v->release;
	int err;

	if (!release &&
	    h2d_hostfs_read(root, "/proc/sys/kernel/osrelease", running, sizeof(running)) > 0)
		release = running;
	err = h2d_kernel_measured_read(v->measured, release, log, out);
	return err ? h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "%s", v->measured) : 0;
}

/* The module of a kernel that is not installed, in its package. */
static int read_package(struct h2d_cli *cli, const struct values *v, const char *root,
			struct h2d_module_report **module, char **why)
{
	const struct h2d_package_places places = {v->kernel_dir, !v->archive};
	char path[H2D_HOSTFS_PATH_BYTES];

	int exit;

	if (!h2d_inspect_find(root, v->release, path, sizeof(path)))
		return 0;
	exit = h2d_cli_release_module(cli, &places, v->release, module, why);
	if (!exit && !*module && !v->archive) {
		free(*why);
		*why = strdup("it is not at hand (--archive would ask the archive)");
	}
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	const struct values *v = values;
	const struct h2d_log log = {h2d_cli_log, cli};
	struct h2d_kernel_verdict_options o = H2D_OPTS(o);
	struct h2d_kernel_measured measured;
	struct h2d_kernel_verdict *verdict;
	struct h2d_root root = {0};
	char *why = NULL;
	int exit = 0, err;

	(void)count;
	(void)words;
	err = h2d_root_open(v->root, &log, &root);
	if (err) {
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "%s", v->root);
		goto out;
	}
	cli->root = root.path;
	o.log = h2d_cli_log;
	o.log_user = cli;
	o.root = root.path;
	o.table = v->table;
	o.release = v->release;
	o.no_module = v->no_module;
	if (v->measured) {
		exit = read_measured(cli, v, root.path, &log, &measured);
		o.measured = &measured;
	}
	if (exit)
		goto out;
	if (v->release && !v->no_module)
		exit = read_package(cli, v, root.path, &o.module, &why);
	if (exit)
		goto out;
	o.module_why = why;
	err = h2d_kernel_verdict_get(&o, &verdict);
	if (err) {
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "the kernel's verdict");
		goto out;
	}
	exit = tell(cli, verdict, !v->release);
	h2d_kernel_verdict_free(verdict);
out:
	free(why);
	h2d_root_close(&root);
	return exit;
}

const struct h2d_command h2d_command_probe_kernel = {
	.name = "kernel",
	.summary = "what is known of this kernel: table, module file, measurement",
	.arguments = "",
	.description =
		(const char *const[]){
			"Asks three about the kernel's amdgpu driver and says where they "
			"disagree: a table of known kernels (a prior, by distribution and "
			"version), the module file that this kernel loads (see h2d probe "
			"module; that of a kernel which is not installed is read in its "
			"package where that is at hand), and a measurement, if one is given. "
			"The measurement "
			"outweighs "
			"the file, the file outweighs the table: a distribution may carry a "
			"change under any version number, and a driver can be replaced.",
			"The table is data, known-kernels.json; one of your own can be named.",
			"The status is 1 when copies stall on this kernel, 0 when they do not, "
			"77 when that is not known, also because the loaded driver is another "
			"one than the file. The table alone never makes it 0, and 1 "
			"only "
			"for kernels of which somebody measured it.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"The running kernel", "h2d probe kernel"},
			{"Before an upgrade",
			 "h2d probe kernel --kernel 7.0.12-200.fc44.x86_64"},
			{"With a measurement", "h2d repro --json >repro.json; h2d probe kernel "
					       "--measured repro.json"},
			{0},
		},
	.min_words = 0,
	.max_words = 0,
	.run = run,
};
