/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "core/hostfs.h"
#include "core/mem.h"
#include "host/module_facts.h"
#include "host/root.h"
#include "inspect/inspect.h"
#include "package_module.h"
#include "text.h"

struct values {
	struct h2d_texts releases;
	const char *kernel_dir, *root;
	bool offline;
};
#define AT(member) offsetof(struct values, member)

static const struct h2d_option options[] = {
	{"kernel", 0, H2D_OPTION_TEXTS, "RELEASE",
	 "The module of this kernel. Below /lib/modules, else of its packages.", NULL, 0,
	 AT(releases), 0, 0},
	{"kernel-dir", 0, H2D_OPTION_TEXT, "DIR",
	 "Folder of packages. The default is $H2D_KERNEL_DIR. Then the cache is looked "
	 "through, then the distribution's archive is asked.",
	 NULL, H2D_WORD_FILE, AT(kernel_dir), 0, 0},
	{"offline", 0, H2D_OPTION_FLAG, NULL, "Do not ask the archive.", NULL, 0, AT(offline),
	 0, 0},
	{"root", 0, H2D_OPTION_TEXT, "ARCHIVE|DIR",
	 "Look at a capture of another machine. See h2d probe capture. Of its kernel's module "
	 "it "
	 "holds the verdicts.",
	 NULL, H2D_WORD_FILE, AT(root), 0, 0},
	{0},
};
static const struct h2d_option_table table = {"Module options", options};

/* One module that was asked for. */
struct entry {
	char *request;
	char *why; /* why there is no report */
	char *package_name, *package_version, *package_architecture, *package_origin;
	struct h2d_module_report *report;
};

struct asked {
	struct h2d_cli *cli;
	const struct values *v;
	struct h2d_log log;
	struct h2d_root root;
	struct entry *entries;
	size_t count, room;
};

static struct entry *add(struct asked *a, const char *request)
{
	struct entry *e;

	if (a->count == a->room)
		return NULL;
	e = &a->entries[a->count];
	e->request = strdup(request);
	if (!e->request)
		return NULL;
	a->count++;
	return e;
}

static int no_memory(struct asked *a)
{
	return h2d_cli_error(a->cli, H2D_EXIT_SYSTEM, "out of memory");
}

static bool ends(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a >= b && !strcmp(text + a - b, end);
}

static bool is_module_file(const char *word)
{
	return ends(word, ".ko") || ends(word, ".ko.xz") || ends(word, ".ko.zst") ||
	       ends(word, ".ko.gz");
}

static bool is_package_file(const char *word)
{
	return ends(word, ".deb") || ends(word, ".rpm") || strstr(word, ".pkg.tar");
}

/* "NAME" or "NAME=VERSION" as an archive could have it (Debian policy 5.6.1, 5.6.12). */
static bool is_package_name(const char *word)
{
	static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ+-.~:";
	size_t name = strcspn(word, "=");

	for (size_t i = 0; word[i]; i++)
		if (i != name && !strchr(lower, word[i]) && !strchr(more, word[i]))
			return false;
	return name && strchr(lower, word[0]);
}

static int inspect_file(struct asked *a, const char *request, const char *path)
{
	struct entry *e = add(a, request);
	int err;

	if (!e)
		return no_memory(a);
	err = h2d_inspect_file(path, &a->log, &e->report);
	if (err == H2D_E_UNAVAILABLE)
		return h2d_cli_error(a->cli, H2D_EXIT_UNKNOWN, "%s", a->cli->message);
	return err ? h2d_cli_fail(a->cli, H2D_STAGE_INPUT, err, "%s", path) : 0;
}

/* What the word is, by the file of that name where there is one. */
static int take_word(struct asked *a, const char *word, const char **package, char **owned)
{
	unsigned char front[4] = {0};
	struct stat st;
	int fd;

	*package = *owned = NULL;
	if (is_module_file(word))
		return inspect_file(a, word, word);
	/* O_NONBLOCK: a FIFO is refused, not waited for. */
	fd = open(word, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0) {
		bool elf = !fstat(fd, &st) && S_ISREG(st.st_mode) &&
			   pread(fd, front, 4, 0) == 4 && !memcmp(front, "\177ELF", 4);

		close(fd);
		if (elf)
			return inspect_file(a, word, word);
		/* With a slash it cannot be taken for a name; nor can these. */
		if (!strchr(word, '/') && !is_package_file(word) &&
		    asprintf(owned, "./%s", word) < 0)
			return no_memory(a);
	} else if (errno != ENOENT) {
		return h2d_cli_fail(a->cli, H2D_STAGE_INPUT,
				    h2d_fail_errno(&a->log, errno, "%s", word), "%s", word);
	} else if (!strchr(word, '/') && !is_package_name(word)) {
		return h2d_cli_error(
			a->cli, H2D_EXIT_INPUT,
			"%s: there is no such file, and no package can have that name", word);
	}
	*package = *owned ? *owned : word;
	return 0;
}

/* The first of a kernel's packages that holds the module. */
static int inspect_packages(struct asked *a, const struct h2d_lab_packages *p)
{
	struct entry *e = add(a, p->request);

	if (!e)
		return no_memory(a);
	e->package_name = p->name ? strdup(p->name) : NULL;
	e->package_version = p->version ? strdup(p->version) : NULL;
	e->package_architecture = p->architecture ? strdup(p->architecture) : NULL;
	e->package_origin = p->origin ? strdup(p->origin) : NULL;
	return h2d_cli_packages_module(a->cli, p, &e->report, &e->why);
}

static int find_packages(struct asked *a, const char *const *packages, size_t package_count,
			 const char *const *releases, size_t release_count)
{
	struct h2d_lab_options o = H2D_OPTS(o);
	struct h2d_lab_packages *found;
	size_t count;
	int exit = 0, err;

	o.log = h2d_cli_log;
	o.log_user = a->cli;
	o.packages = packages;
	o.package_count = package_count;
	o.releases = releases;
	o.release_count = release_count;
	o.kernel_dir = a->v->kernel_dir;
	o.offline = a->v->offline;
	err = h2d_lab_find_packages(&o, &found, &count);
	if (err == H2D_E_UNAVAILABLE)
		return h2d_cli_error(a->cli, H2D_EXIT_UNKNOWN, "%s", a->cli->message);
	if (err)
		return h2d_cli_fail(a->cli, H2D_STAGE_INPUT, err, "looking for packages");
	for (size_t i = 0; !exit && i < count; i++)
		exit = inspect_packages(a, &found[i]);
	h2d_lab_packages_free(found, count);
	return exit;
}

/* A capture holds what was read in the module of its kernel.
 * @return false when it does not */
static bool take_recorded(struct asked *a, const char *release, int *exit)
{
	struct h2d_module_report *r = NULL;
	char running[256];
	struct entry *e;

	if (!a->root.path ||
	    h2d_hostfs_read(a->root.path, "/proc/sys/kernel/osrelease", running,
			    sizeof(running)) <= 0 ||
	    strcmp(running, release) != 0 || h2d_module_facts_read(a->root.path, &r))
		return false;
	e = add(a, release);
	if (e)
		e->report = r;
	else
		h2d_module_report_free(r);
	*exit = e ? 0 : no_memory(a);
	return true;
}

static int inspect_release(struct asked *a, const char *release)
{
	char path[H2D_HOSTFS_PATH_BYTES];
	int exit;

	if (take_recorded(a, release, &exit))
		return exit;
	if (!h2d_inspect_find(a->root.path, release, path, sizeof(path)))
		return inspect_file(a, release, path);
	return find_packages(a, NULL, 0, &release, 1);
}

/* No word and no release: this kernel's. */
static int inspect_running(struct asked *a)
{
	char release[256], path[H2D_HOSTFS_PATH_BYTES];
	struct entry *e;
	int exit, n = h2d_hostfs_read(a->root.path, "/proc/sys/kernel/osrelease", release,
				      sizeof(release));

	if (n <= 0)
		return h2d_cli_error(a->cli, H2D_EXIT_UNKNOWN,
				     "the running kernel is not known: no "
				     "/proc/sys/kernel/osrelease");
	if (take_recorded(a, release, &exit))
		return exit;
	if (!h2d_inspect_find(a->root.path, release, path, sizeof(path)))
		return inspect_file(a, release, path);
	e = add(a, release);
	if (!e)
		return no_memory(a);
	e->why = strdup("there is no amdgpu module for this kernel below /lib/modules");
	return e->why ? 0 : no_memory(a);
}

static int inspect_all(struct asked *a, int count, char **words)
{
	const char **packages = h2d_mem->calloc((size_t)count + 1, sizeof(*packages));
	char **owned = h2d_mem->calloc((size_t)count + 1, sizeof(*owned));
	size_t n = 0;
	int exit = 0;

	if (!packages || !owned)
		exit = no_memory(a);
	for (int i = 0; !exit && i < count; i++) {
		exit = take_word(a, words[i], &packages[n], &owned[i]);
		n += packages[n] != NULL;
	}
	if (!exit && n)
		exit = find_packages(a, packages, n, NULL, 0);
	for (size_t i = 0; !exit && i < a->v->releases.count; i++)
		exit = inspect_release(a, a->v->releases.items[i]);
	if (!exit && !count && !a->v->releases.count)
		exit = inspect_running(a);
	for (int i = 0; owned && i < count; i++)
		free(owned[i]);
	free(owned);
	free(packages);
	return exit;
}

/* ---- what is told ---- */

static void write_package(struct h2d_json *j, const struct entry *e)
{
	if (!e->package_name) {
		h2d_cli_null(j, "package", "the module was not taken from a package");
		return;
	}
	h2d_json_object_begin(j, "package");
	h2d_json_string(j, "name", e->package_name);
	h2d_json_string(j, "version", e->package_version);
	h2d_json_string(j, "architecture", e->package_architecture);
	h2d_json_string(j, "origin", e->package_origin);
	h2d_json_object_end(j);
}

/* Where one module was asked for, its answers stand at the top as well. */
static void write_top(struct h2d_json *j, const struct asked *a)
{
	static const char *const keys[] = {"retry_policy", "permission_rule", "unknown",
					   "timeout", "evidence"};
	const struct h2d_module_report *r = a->count == 1 ? a->entries[0].report : NULL;

	if (r) {
		h2d_module_report_write_verdict(j, r);
		return;
	}
	for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		h2d_cli_null(j, keys[i],
			     a->count == 1 ? a->entries[0].why : "there are several modules");
}

static int write_document(struct asked *a)
{
	struct h2d_json j;

	h2d_cli_document(a->cli, &j, "h2d.module", 1, 0);
	write_top(&j, a);
	h2d_json_array_begin(&j, "modules");
	for (size_t i = 0; i < a->count; i++) {
		const struct entry *e = &a->entries[i];

		h2d_json_object_begin(&j, NULL);
		h2d_json_string(&j, "request", e->request);
		write_package(&j, e);
		if (e->report)
			h2d_module_report_write(&j, "module", e->report);
		else
			h2d_cli_null(&j, "module", e->why);
		h2d_json_object_end(&j);
	}
	h2d_json_array_end(&j);
	return h2d_cli_document_end(a->cli, &j);
}

static void print_word(FILE *out, const char *label, const char *text)
{
	if (!text[0])
		return;
	fprintf(out, "  %-16s", label);
	h2d_text_safe(out, text, strlen(text));
	fputc('\n', out);
}

static void print_evidence(FILE *out, const struct h2d_module_report *r, bool all)
{
	char function[sizeof(r->evidence->function)] = "";

	for (size_t i = 0; i < r->evidence_count; i++) {
		const struct h2d_inspect_evidence *e = &r->evidence[i];

		if (!all && !strcmp(e->kind, "cycle") && i &&
		    !strcmp(r->evidence[i - 1].kind, "cycle"))
			continue;
		if (strcmp(function, e->function)) {
			fputs("  in ", out);
			h2d_text_safe(out, e->function, strlen(e->function));
			fprintf(out, " (%s)\n", e->section);
			memcpy(function, e->function, sizeof(function));
		}
		if (e->section[0])
			fprintf(out, "    0x%-8llx ", (unsigned long long)e->address);
		else
			fputs("    ", out);
		h2d_text_safe(out, e->statement, strlen(e->statement));
		fputc('\n', out);
	}
}

static void print_module(FILE *out, const struct h2d_module_report *r, bool all)
{
	char origin[128];

	fprintf(out, "  retry policy    %s", h2d_retry_policy_name(r->retry_policy));
	fprintf(out, "%s%s\n", r->retry_why[0] ? ": " : "", r->retry_why);
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++) {
		const struct h2d_caller_report *c = &r->callers[i];

		fprintf(out, "  permission rule %s: %s%s%s\n",
			h2d_permission_caller_name((enum h2d_permission_caller)i),
			h2d_permission_rule_name(c->rule), c->why[0] ? ": " : "", c->why);
	}
	if (r->is_recorded && !r->marks_told)
		snprintf(origin, sizeof(origin), "%s", h2d_module_origin_name(r->origin));
	else
		snprintf(origin, sizeof(origin), "%s%s%s%s", h2d_module_origin_name(r->origin),
			 r->in_tree ? ", marked in-tree" : ", not marked in-tree",
			 r->is_signed ? ", signed" : ", not signed",
			 r->has_btf ? ", with BTF" : "");
	print_word(out, "file", r->path);
	print_word(out, "origin", origin);
	print_word(out, "version", r->version);
	print_word(out, "srcversion", r->srcversion);
	print_word(out, "for", r->vermagic);
	print_word(out, "compiler", r->compiler);
	if (r->is_recorded)
		print_word(out, "evidence", "not part of a capture");
	print_evidence(out, r, all);
}

static void print_all(const struct asked *a)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct entry *e = &a->entries[i];

		h2d_text_safe(a->cli->out, e->request, strlen(e->request));
		fputc('\n', a->cli->out);
		if (e->report)
			print_module(a->cli->out, e->report, a->cli->common.verbose > 0);
		else
			fprintf(a->cli->out, "  not inspected: %s\n", e->why);
	}
}

static int exit_of(const struct asked *a)
{
	int exit = H2D_EXIT_OK;

	for (size_t i = 0; i < a->count; i++) {
		const struct entry *e = &a->entries[i];

		if (e->report && e->report->retry_policy == H2D_RETRY_STALE)
			return H2D_EXIT_NEGATIVE;
		if (!e->report || e->report->retry_policy == H2D_RETRY_UNKNOWN)
			exit = H2D_EXIT_UNKNOWN;
	}
	for (size_t i = 0; exit && i < a->count; i++) {
		const struct entry *e = &a->entries[i];

		if (!e->report)
			h2d_cli_reason(a->cli, "%s: %s", e->request, e->why);
		else if (e->report->retry_policy == H2D_RETRY_UNKNOWN)
			h2d_cli_reason(a->cli, "%s: unknown: %s", e->request,
				       e->report->retry_why);
	}
	return exit;
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct asked a = {.cli = cli, .v = values, .log = {h2d_cli_log, cli}};
	int exit, err;

	a.room = (size_t)count + a.v->releases.count + 1;
	a.entries = h2d_mem->calloc(a.room, sizeof(*a.entries));
	if (!a.entries)
		return no_memory(&a);
	err = h2d_root_open(a.v->root, &a.log, &a.root);
	if (err)
		exit = h2d_cli_fail(cli, H2D_STAGE_INPUT, err, "%s", a.v->root);
	else
		exit = inspect_all(&a, count, words);
	if (!exit) {
		cli->root = a.root.path;
		if (cli->common.json)
			exit = write_document(&a);
		else if (!cli->common.quiet)
			print_all(&a);
		if (!exit)
			exit = exit_of(&a);
	}
	h2d_root_close(&a.root);
	for (size_t i = 0; i < a.count; i++) {
		struct entry *e = &a.entries[i];

		free(e->request);
		free(e->why);
		free(e->package_name);
		free(e->package_version);
		free(e->package_architecture);
		free(e->package_origin);
		h2d_module_report_free(e->report);
	}
	free(a.entries);
	return exit;
}

const struct h2d_command h2d_command_probe_module = {
	.name = "module",
	.summary = "read an amdgpu module's retry policy and permission rules in its code",
	.arguments = "[FILE.ko[.xz|.zst|.gz] | PACKAGE…]",
	.word = H2D_WORD_FILE,
	.description =
		(const char *const[]){
			"Reads what the driver does when the kernel's hmm_range_fault says "
			"-EBUSY, and what decides whether it asks for write access, in the "
			"module's machine code, with the addresses to check it by. Nothing is "
			"loaded or run. Without arguments it is the running kernel's module.",
			"Retry policies: refresh (the notifier's sequence number is read again "
			"on every retry), stale (it is not, so that each retry loop lasts its "
			"whole timeout: the one-second copies), no_retry (the driver returns "
			"at "
			"once). Permission rules, per caller: vma (write access is asked "
			"because "
			"the mapping is writable, which copies its pages), access (what the "
			"caller said it needs).",
			"What the code does not prove is unknown. Modules of x86-64 are read, "
			"built by gcc or clang; those of other machines are unknown.",
			"The status is 1 when a module is stale, else 77 when one is unknown "
			"or "
			"could not be had, 3 for a damaged file or package.",
			NULL,
		},
	.options = (const struct h2d_option_table *const[]){&table, NULL},
	.values_bytes = sizeof(struct values),
	.examples =
		(const struct h2d_example[]){
			{"The module of the running kernel", "h2d probe module"},
			{"One of a package that is not installed",
			 "h2d probe module --kernel 6.12.115+deb12-amd64"},
			{"One that was built by hand", "h2d probe module -v ./amdgpu.ko"},
			{0},
		},
	.min_words = 0,
	.max_words = -1,
	.run = run,
};
