/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "lab/lab.h"
#include "text.h"

struct values {
	struct h2d_texts packages, releases, policies, filesystems, permissions, states;
	struct h2d_texts programs, commands;
	const char *image, *modules, *headers, *kernel_dir, *driver, *accel;
	uint64_t size_bytes, timeout_ms, guest_timeout_s;
	bool offline, keep, count_calls, repro;
};

#define AT(member) offsetof(struct values, member)

static const struct h2d_option kernel_options[] = {
	{"kernel-package", 0, H2D_OPTION_TEXTS, "PACKAGE",
	 "Package file, or NAME or NAME=VERSION of a package. Further words are packages too. "
	 "Each kernel image among them is one kernel; the others are parts of it.",
	 NULL, H2D_WORD_FILE, AT(packages), 0, 0},
	{"kernel", 0, H2D_OPTION_TEXTS, "RELEASE",
	 "Kernel by its release. For example 6.12.117+deb12-amd64.", NULL, 0, AT(releases), 0,
	 0},
	{"image", 0, H2D_OPTION_TEXT, "FILE",
	 "Kernel that is no package. Goes with --modules and --headers.", NULL, H2D_WORD_FILE,
	 AT(image), 0, 0},
	{"modules", 0, H2D_OPTION_TEXT, "DIR", "Its lib/modules/RELEASE, or the root of that.",
	 NULL, H2D_WORD_FILE, AT(modules), 0, 0},
	{"headers", 0, H2D_OPTION_TEXT, "DIR", "Where modules are built against.", NULL,
	 H2D_WORD_FILE, AT(headers), 0, 0},
	{"kernel-dir", 0, H2D_OPTION_TEXT, "DIR",
	 "Folder of packages. The default is $H2D_KERNEL_DIR. Then the cache is looked "
	 "through, "
	 "then the distribution's archive is asked.",
	 NULL, H2D_WORD_FILE, AT(kernel_dir), 0, 0},
	{"offline", 0, H2D_OPTION_FLAG, NULL, "Do not ask the archive.", NULL, 0, AT(offline),
	 0, 0},
	{0},
};
static const struct h2d_option_table kernel_table = {"Kernels", kernel_options};

static const struct h2d_option cell_options[] = {
	{"driver", 0, H2D_OPTION_CHOICE, "DRIVER",
	 "Which driver resolves pages. The default is shipped, the kernel's own amdgpu; emulated "
	 "is h2d's own.",
	 (const char *const[]){"shipped", "emulated", NULL}, 0, AT(driver), 0, 0},
	{"policy", 0, H2D_OPTION_TEXTS, "POLICY[,…]",
	 "Retry policies of the emulated driver. Of refresh, stale, no_retry; the default is "
	 "all.",
	 NULL, 0, AT(policies), 0, 0},
	{"fs", 0, H2D_OPTION_TEXTS, "FS[,…]",
	 "Filesystems. Of ext4, xfs, tmpfs, overlay; the default is all.", NULL, 0,
	 AT(filesystems), 0, 0},
	{"permission", 0, H2D_OPTION_TEXTS, "RULE[,…]",
	 "How write access is asked for. Of vma (the mapping is writable, as the driver does) "
	 "and "
	 "access (what the copy needs); the default is both.",
	 NULL, 0, AT(permissions), 0, 0},
	{"state", 0, H2D_OPTION_TEXTS, "STATE[,…]",
	 "Mapping states. Of ro-present, rw-absent, rw-present; the default is all.", NULL, 0,
	 AT(states), 0, 0},
	{"size", 0, H2D_OPTION_SIZE, "SIZE", "Size of each copy. The default is 32MiB.", NULL,
	 0, AT(size_bytes), 4096, 0},
	{"timeout-ms", 0, H2D_OPTION_NUMBER, "N",
	 "Timeout of the emulated policy stale. The default is the kernel's, 1000. That of a "
	 "shipped driver is compiled in.",
	 NULL, 0, AT(timeout_ms), 1, 10000},
	{"count-calls", 0, H2D_OPTION_FLAG, NULL,
	 "Count the shipped driver's calls of hmm_range_fault. By a probe, which slows them "
	 "down "
	 "and changes no count.",
	 NULL, 0, AT(count_calls), 0, 0},
	{0},
};
static const struct h2d_option_table cell_table = {"Cells", cell_options};

static const struct h2d_option guest_options[] = {
	{"accel", 0, H2D_OPTION_CHOICE, "ACCEL",
	 "How guests run. The default is kvm where a guest really runs under it, else tcg.",
	 (const char *const[]){"kvm", "tcg", NULL}, 0, AT(accel), 0, 0},
	{"guest-timeout", 0, H2D_OPTION_NUMBER, "SECONDS",
	 "Time after which a guest is killed. The default follows from the cells.", NULL, 0,
	 AT(guest_timeout_s), 1, 86400},
	{"repro", 0, H2D_OPTION_FLAG, NULL,
	 "Run h2d repro in each guest as well. On the hmm device, for each filesystem and "
	 "policy; "
	 "its documents are part of the report.",
	 NULL, 0, AT(repro), 0, 0},
	{"guest-program", 0, H2D_OPTION_TEXTS, "FILE",
	 "Program that guests get as /bin/NAME. Its loader and libraries come along.", NULL,
	 H2D_WORD_FILE, AT(programs), 0, 0},
	{"guest-command", 0, H2D_OPTION_TEXTS, "COMMAND",
	 "Command to run in each guest after the cells. Words are separated by blanks; the "
	 "first "
	 "is a path of the guest. Filesystems are below /mnt.",
	 NULL, 0, AT(commands), 0, 0},
	{"keep", 0, H2D_OPTION_FLAG, NULL, "Keep the temporary directory.", NULL, 0, AT(keep),
	 0, 0},
	{0},
};
static const struct h2d_option_table guest_table = {"Guests", guest_options};

struct bit {
	const char *name;
	unsigned bit;
};

static const struct bit policy_bits[] = {{"refresh", H2D_LAB_POLICY_REFRESH},
					 {"stale", H2D_LAB_POLICY_STALE},
					 {"no_retry", H2D_LAB_POLICY_NO_RETRY},
					 {0}};
static const struct bit filesystem_bits[] = {{"ext4", H2D_LAB_FS_EXT4},
					     {"xfs", H2D_LAB_FS_XFS},
					     {"tmpfs", H2D_LAB_FS_TMPFS},
					     {"overlay", H2D_LAB_FS_OVERLAY},
					     {0}};
static const struct bit permission_bits[] = {
	{"vma", H2D_LAB_PERMISSION_VMA}, {"access", H2D_LAB_PERMISSION_ACCESS}, {0}};
static const struct bit state_bits[] = {{"ro-present", H2D_LAB_STATE_RO_PRESENT},
					{"rw-absent", H2D_LAB_STATE_RW_ABSENT},
					{"rw-present", H2D_LAB_STATE_RW_PRESENT},
					{0}};

/* "a,b" or repeated. Returns 0, or an exit status after a usage error was told. */
static int collect(struct h2d_cli *cli, const char *option, const struct h2d_texts *texts,
		   const struct bit *bits, unsigned *set)
{
	for (size_t i = 0; i < texts->count; i++) {
		const char *p = texts->items[i];

		do {
			size_t n = strcspn(p, ",");
			const struct bit *b = bits;

			while (b->name && (strlen(b->name) != n || strncmp(b->name, p, n) != 0))
				b++;
			if (!b->name)
				return h2d_cli_usage(cli, "--%s: there is no '%.*s'", option,
						     (int)n, p);
			*set |= b->bit;
			p += n;
		} while (*p++);
	}
	return 0;
}

/* What is allocated for one run. */
struct arguments {
	const char **packages;
	const char *const **commands;
	char **texts;
	size_t command_count;
};

/* Splits one command at its blanks. */
static int split(struct h2d_cli *cli, struct arguments *a, size_t i, const char *text)
{
	const char **argv = calloc(66, sizeof(*argv));
	size_t n = 0;
	char *save = NULL;

	a->texts[i] = strdup(text);
	a->commands[i] = argv;
	a->command_count = i + 1;
	if (!argv || !a->texts[i])
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
	for (char *word = strtok_r(a->texts[i], " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (n == 64)
			return h2d_cli_usage(cli, "--guest-command: more than 64 words");
		argv[n++] = word;
	}
	if (!n || argv[0][0] != '/')
		return h2d_cli_usage(cli, "--guest-command: '%s' does not begin with a path",
				     text);
	return 0;
}

static int make_arguments(struct h2d_cli *cli, const struct values *v, int count, char **words,
			  struct arguments *a, struct h2d_lab_options *o)
{
	size_t n = v->packages.count;
	int exit = 0;

	a->packages = calloc(n + (size_t)count + 1, sizeof(*a->packages));
	a->commands = calloc(v->commands.count + 1, sizeof(*a->commands));
	a->texts = calloc(v->commands.count + 1, sizeof(*a->texts));
	if (!a->packages || !a->commands || !a->texts)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		a->packages[i] = v->packages.items[i];
	for (int i = 0; i < count; i++)
		a->packages[n++] = words[i];
	for (size_t i = 0; !exit && i < v->commands.count; i++)
		exit = split(cli, a, i, v->commands.items[i]);
	o->packages = a->packages;
	o->package_count = n;
	o->commands = a->commands;
	o->command_count = a->command_count;
	return exit;
}

static void free_arguments(struct arguments *a)
{
	for (size_t i = 0; i < a->command_count; i++) {
		free((void *)a->commands[i]);
		free(a->texts[i]);
	}
	free(a->packages);
	free(a->commands);
	free(a->texts);
}

static int cancelled(void *user)
{
	(void)user;
	return h2d_signals_caught();
}

static int fill_options(struct h2d_cli *cli, const struct values *v, struct h2d_lab_options *o)
{
	int exit = collect(cli, "policy", &v->policies, policy_bits, &o->policies);

	if (!exit)
		exit = collect(cli, "fs", &v->filesystems, filesystem_bits, &o->filesystems);
	if (!exit)
		exit = collect(cli, "permission", &v->permissions, permission_bits,
			       &o->permissions);
	if (!exit)
		exit = collect(cli, "state", &v->states, state_bits, &o->states);
	o->log = h2d_cli_log;
	o->log_user = cli;
	o->cancelled = cancelled;
	o->releases = v->releases.items;
	o->release_count = v->releases.count;
	o->image = v->image;
	o->modules_dir = v->modules;
	o->headers_dir = v->headers;
	o->kernel_dir = v->kernel_dir;
	o->offline = v->offline;
	if (v->driver)
		o->driver = strcmp(v->driver, "shipped") ? H2D_LAB_DRIVER_EMULATED
							 : H2D_LAB_DRIVER_SHIPPED;
	o->size_bytes = v->size_bytes;
	o->timeout_ms = (uint32_t)v->timeout_ms;
	if (v->accel)
		o->accel = strcmp(v->accel, "kvm") ? H2D_LAB_ACCEL_TCG : H2D_LAB_ACCEL_KVM;
	o->guest_timeout_s = (uint32_t)v->guest_timeout_s;
	o->keep = v->keep;
	o->reproducer = v->repro ? "/proc/self/exe" : NULL;
	o->count_calls = v->count_calls;
	o->guest_files = v->programs.items;
	o->guest_file_count = v->programs.count;
	return exit;
}

/* A guest's console and the names of packages may hold anything. */
static int print(struct h2d_cli *cli, const struct h2d_lab_result *result,
		 void (*write)(FILE *, const struct h2d_lab_result *), bool reasons)
{
	size_t bytes = 0;
	char *text = NULL, *next;
	FILE *memory = open_memstream(&text, &bytes);

	if (memory)
		write(memory, result);
	if (!memory || fclose(memory)) {
		free(text);
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "out of memory");
	}
	if (!reasons)
		h2d_text_safe_lines(cli->out, text, bytes);
	for (char *line = text; reasons && (next = strchr(line, '\n')); line = next + 1) {
		*next = 0;
		h2d_cli_reason(cli, "%s", line);
	}
	free(text);
	return 0;
}

static int tell(struct h2d_cli *cli, const struct h2d_lab_result *result)
{
	enum h2d_lab_verdict verdict = h2d_lab_result_verdict(result);
	struct h2d_json j;
	int exit = 0;

	if (cli->common.json) {
		h2d_cli_document(cli, &j, "h2d.lab", 1, 0);
		h2d_lab_result_write(&j, result);
		exit = h2d_cli_document_end(cli, &j);
	} else if (!cli->common.quiet) {
		exit = print(cli, result, h2d_lab_result_print, false);
	}
	if (exit)
		return exit;
	switch (verdict) {
	case H2D_LAB_CLEAN:
	case H2D_LAB_COW_PENALTY:
		return H2D_EXIT_OK;
	case H2D_LAB_AFFECTED:
		return H2D_EXIT_NEGATIVE;
	case H2D_LAB_INCONCLUSIVE:
	case H2D_LAB_NOT_VERIFIED:
		break;
	}
	exit = print(cli, result, h2d_lab_result_reasons, true);
	return exit ? exit : H2D_EXIT_UNKNOWN;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct h2d_lab_options options = H2D_OPTS(options);
	struct h2d_lab_result *result = NULL;
	struct arguments arguments = {0};
	int exit, err;

	exit = fill_options(cli, values, &options);
	if (!exit)
		exit = make_arguments(cli, values, count, words, &arguments, &options);
	if (exit)
		goto out;
	err = h2d_lab_run(&options, &result);
	if (err == H2D_E_UNAVAILABLE)
		exit = h2d_cli_error(cli, H2D_EXIT_UNKNOWN, "%s", cli->message);
	else if (err)
		exit = h2d_cli_fail(cli,
				    err == H2D_E_NOT_FOUND ? H2D_STAGE_INPUT : H2D_STAGE_USAGE,
				    err, "the laboratory");
	else
		exit = tell(cli, result);
	h2d_lab_result_free(result);
out:
	free_arguments(&arguments);
	return exit;
}

const struct h2d_command h2d_command_probe_lab = {
	.name = "lab",
	.summary = "run kernels in guests without a GPU and count windows",
	.arguments = "[PACKAGE…]",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Boots kernels of distributions in QEMU and takes mappings of files "
			"through "
			"their amdgpu driver as the sources of copies, counting restarts, "
			"windows and "
			"invalidations. Needs no GPU, no reboot and no root; nothing is "
			"installed.",
			"Packages are .deb (also Ubuntu's split ones), .rpm and .pkg.tar.zst. "
			"Only "
			"Debian's layout has been run; the others are said to be unmeasured in "
			"the "
			"report. A kernel that cannot be had or run is not verified, never "
			"passed.",
			"The status is 1 when windows were seen, 77 when a kernel could not be "
			"verified or its counters do not agree, 3 for a wrong or damaged "
			"package. With "
			"the emulated driver windows are what the policy stale makes, so that "
			"its "
			"status is 1 by design.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&kernel_table, &cell_table,
							    &guest_table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"The old kernel against the new one",
			 "h2d probe lab --kernel 6.12.115+deb12-amd64 --kernel "
			 "6.12.117+deb12-amd64"},
			{"The law of windows on any kernel, in seconds",
			 "h2d probe lab --driver emulated --timeout-ms 40 --kernel "
			 "6.12.117+deb12-amd64"},
			{0},
		},
	.min_words = 0,
	.max_words = -1,
	.run = run,
};
