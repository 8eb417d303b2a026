/* SPDX-License-Identifier: Apache-2.0 */
/* Three opinions on a kernel, and what they come to. */
#include "host/kernel_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hostfs.h"
#include "core/mem.h"
#include "core/opts.h"
#include "host/known_kernels.h"
#include "host/module_facts.h"

enum { RELEASE_FILE_BYTES = 16 << 10 };

const char *h2d_stall_name(enum h2d_stall stall)
{
	static const char *const names[] = {"unknown", "no", "yes"};

	return (unsigned)stall < 3 ? names[stall] : "unknown";
}

const char *h2d_kernel_agreement_name(enum h2d_kernel_agreement agreement)
{
	static const char *const names[] = {"none", "single", "agree", "conflict"};

	return (unsigned)agreement < 4 ? names[agreement] : "none";
}

/* ---- what the machine says of itself ---- */

static void read_text(const char *root, const char *path, char *out, size_t cap)
{
	if (h2d_hostfs_read(root, path, out, cap) < 0)
		out[0] = 0;
}

static void read_distribution(const char *root, struct h2d_kernel_verdict *v, char *like,
			      size_t like_bytes)
{
	char file[RELEASE_FILE_BYTES];

	like[0] = 0;
	if (h2d_hostfs_read(root, "/etc/os-release", file, sizeof(file)) < 0 &&
	    h2d_hostfs_read(root, "/usr/lib/os-release", file, sizeof(file)) < 0)
		return;
	h2d_text_field(file, "ID", v->distribution, sizeof(v->distribution));
	h2d_text_field(file, "ID_LIKE", like, like_bytes);
	h2d_text_field(file, "VERSION_ID", v->distribution_version,
		       sizeof(v->distribution_version));
	h2d_text_field(file, "PRETTY_NAME", v->distribution_name, sizeof(v->distribution_name));
}

/* The word behind `before`, up to white space. */
static bool word_behind(const char *text, const char *before, char *out, size_t cap)
{
	const char *p = strstr(text, before);

	if (!p)
		return false;
	p += strlen(before);
	snprintf(out, cap, "%.*s", (int)strcspn(p, " \t\n()"), p);
	return out[0] != 0;
}

/* Distributions write their package's version into the kernel; only of the running one. */
static void read_package_version(const char *root, struct h2d_kernel_verdict *v)
{
	char signature[256];

	read_text(root, "/proc/version_signature", signature, sizeof(signature));
	v->has_package_version = word_behind(signature, "Ubuntu ", v->package_version,
					     sizeof(v->package_version)) ||
				 word_behind(v->kernel_version, "Debian ", v->package_version,
					     sizeof(v->package_version));
	/* That of an RPM is the release without the machine. */
	if (!v->has_package_version &&
	    (strstr(v->release, ".fc") || strstr(v->release, ".el"))) {
		char *dot;

		snprintf(v->package_version, sizeof(v->package_version), "%s", v->release);
		dot = strrchr(v->package_version, '.');
		if (dot)
			*dot = 0;
		v->has_package_version = true;
	}
}

static int read_machine(const struct h2d_kernel_verdict_options *o,
			const struct h2d_known_kernels *table, struct h2d_kernel_verdict *v,
			char *like, size_t like_bytes)
{
	struct h2d_kernel_query q;

	if (o->release) {
		if (strlen(o->release) >= sizeof(v->release))
			return H2D_E_INVALID;
		snprintf(v->release, sizeof(v->release), "%s", o->release);
	} else {
		read_text(o->root, "/proc/sys/kernel/osrelease", v->release,
			  sizeof(v->release));
		read_text(o->root, "/proc/sys/kernel/version", v->kernel_version,
			  sizeof(v->kernel_version));
	}
	read_text(o->root, "/proc/sys/kernel/arch", v->machine, sizeof(v->machine));
	read_distribution(o->root, v, like, like_bytes);
	read_package_version(o->root, v);
	q = (struct h2d_kernel_query){v->release, v->distribution, like};
	if (v->release[0] && table)
		h2d_known_kernels_package(table, &q, v->package, sizeof(v->package));
	return 0;
}

/* ---- opinions ---- */

static void no_opinion(struct h2d_kernel_opinion *o, const char *why)
{
	o->given = false;
	snprintf(o->why, sizeof(o->why), "%s", why);
}

static enum h2d_stall stall_of(enum h2d_retry_policy policy)
{
	return policy == H2D_RETRY_UNKNOWN ? H2D_STALL_UNKNOWN
	       : policy == H2D_RETRY_STALE ? H2D_STALL_YES
					   : H2D_STALL_NO;
}

static void ask_table(const struct h2d_known_kernels *table, const char *like,
		      struct h2d_kernel_verdict *v)
{
	const struct h2d_kernel_query q = {v->release, v->distribution, like};
	struct h2d_known_kernel k;

	if (!v->release[0]) {
		no_opinion(&v->prior, "the kernel's release is not known");
		return;
	}
	if (!h2d_known_kernels_match(table, &q, &k)) {
		no_opinion(&v->prior, "the table of known kernels has nothing on this one");
		return;
	}
	v->prior.given = true;
	v->prior.policy = k.policy;
	v->prior.stall = k.stall;
	v->prior.confidence = k.confidence;
	snprintf(v->prior.statement, sizeof(v->prior.statement), "%s (%s, %s)", k.statement,
		 k.source, k.date);
	snprintf(v->upgrade_to, sizeof(v->upgrade_to), "%s", k.upgrade_to ? k.upgrade_to : "");
	snprintf(v->upgrade_source, sizeof(v->upgrade_source), "%s",
		 k.upgrade_to ? k.source : "");
}

/* Whether the loaded driver is the file that was read. */
static void compare_loaded(const char *root, struct h2d_kernel_verdict *v)
{
	char text[64], hex[sizeof(v->module->build_id)] = "", *note = NULL;
	size_t bytes, at;

	if (v->module->build_id[0] &&
	    !h2d_hostfs_read_all(root, "/sys/module/amdgpu/notes/.note.gnu.build-id", 4096,
				 &note, &bytes) &&
	    bytes > 16) {
		/* Elf64_Nhdr, "GNU", the id. */
		for (at = 16; at < bytes && (at - 16) * 2 + 3 < sizeof(hex); at++)
			snprintf(hex + (at - 16) * 2, 3, "%02x", (unsigned char)note[at]);
		v->driver_checked = true;
		v->driver_is_file = !strcmp(hex, v->module->build_id);
	}
	free(note);
	if (v->driver_checked || !v->module->srcversion[0])
		return;
	read_text(root, "/sys/module/amdgpu/srcversion", text, sizeof(text));
	if (!text[0])
		return;
	v->driver_checked = true;
	v->driver_is_file = !strcmp(text, v->module->srcversion);
}

/* Whether the kernel that is judged is the one of a capture. */
static bool is_captured(const struct h2d_kernel_verdict_options *o)
{
	char running[128];

	if (!o->root || !o->release)
		return o->root;
	read_text(o->root, "/proc/sys/kernel/osrelease", running, sizeof(running));
	return !strcmp(running, o->release);
}

static void ask_file(const struct h2d_kernel_verdict_options *o, const struct h2d_log *log,
		     struct h2d_kernel_verdict *v)
{
	struct h2d_kernel_opinion *f = &v->file;
	char path[H2D_HOSTFS_PATH_BYTES] = "", **names = NULL;
	const char *shown;
	int err;

	/* Only the running kernel can have it loaded. */
	v->driver_loaded =
		!o->release && h2d_hostfs_list(o->root, "/sys/module/amdgpu", &names) >= 0;
	h2d_hostfs_list_free(names);
	if (o->no_module) {
		no_opinion(f, "the module was not to be read");
		return;
	}
	/* A capture of the running kernel holds what was read in its module, and before the
	 * file: a capture that names the module may not hold it. */
	if (v->module || (is_captured(o) && !h2d_module_facts_read(o->root, &v->module)))
		err = 0;
	else if (v->release[0] && !h2d_inspect_find(o->root, v->release, path, sizeof(path)))
		err = h2d_inspect_file(path, log, &v->module);
	else
		err = H2D_E_NOT_FOUND;
	if (err == H2D_E_NOT_FOUND) {
		snprintf(f->why, sizeof(f->why),
			 "there is no amdgpu module for this kernel below /lib/modules%s%.150s",
			 o->module_why ? ", and its package: " : "",
			 o->module_why ? o->module_why : "");
		return;
	}
	if (err) {
		no_opinion(f, err == H2D_E_UNAVAILABLE
				      ? "this h2d was built without the module inspector"
				      : "the amdgpu module could not be read");
		return;
	}
	if (path[0])
		snprintf(v->module->path, sizeof(v->module->path), "%s",
			 path + (o->root ? strlen(o->root) : 0));
	shown = v->module->path;
	if (!o->root)
		h2d_module_facts_note(v->module);
	f->given = true;
	f->policy = v->module->retry_policy;
	f->stall = stall_of(f->policy);
	f->confidence =
		f->policy == H2D_RETRY_UNKNOWN ? H2D_CONFIDENCE_LOW : H2D_CONFIDENCE_HIGH;
	if (f->policy == H2D_RETRY_UNKNOWN)
		snprintf(f->statement, sizeof(f->statement),
			 "the module's code was not understood: %s", v->module->retry_why);
	else
		snprintf(f->statement, sizeof(f->statement),
			 "the machine code of %.300s (%s) has the retry policy %s", shown,
			 h2d_module_origin_name(v->module->origin),
			 h2d_retry_policy_name(f->policy));
	if (v->driver_loaded)
		compare_loaded(o->root, v);
	if (v->driver_checked && !v->driver_is_file)
		f->confidence = H2D_CONFIDENCE_LOW;
}

static void ask_measurement(const struct h2d_kernel_measured *m, struct h2d_kernel_verdict *v)
{
	if (!m) {
		no_opinion(&v->measured, "nothing was measured");
		return;
	}
	v->measured.given = true;
	v->measured.policy = m->policy;
	v->measured.stall = m->affected ? H2D_STALL_YES : stall_of(m->policy);
	v->measured.confidence = H2D_CONFIDENCE_HIGH;
	snprintf(v->measured.statement, sizeof(v->measured.statement), "%s", m->statement);
}

/* ---- together ---- */

static bool says(const struct h2d_kernel_opinion *o)
{
	return o->given && (o->policy != H2D_RETRY_UNKNOWN || o->stall != H2D_STALL_UNKNOWN);
}

static bool contradict(const struct h2d_kernel_opinion *a, const struct h2d_kernel_opinion *b)
{
	if (a->stall != H2D_STALL_UNKNOWN && b->stall != H2D_STALL_UNKNOWN &&
	    a->stall != b->stall)
		return true;
	return a->policy != H2D_RETRY_UNKNOWN && b->policy != H2D_RETRY_UNKNOWN &&
	       a->policy != b->policy;
}

static const char *words_of(const struct h2d_kernel_opinion *o)
{
	if (o->policy != H2D_RETRY_UNKNOWN)
		return h2d_retry_policy_name(o->policy);
	return o->stall == H2D_STALL_YES ? "a stall" : "no stall";
}

/* What is loaded is another driver than the one that was read: only a measurement clears it. */
static void weigh_other_driver(struct h2d_kernel_verdict *v, bool is_measured, size_t used)
{
	if (used < sizeof(v->conflict))
		snprintf(v->conflict + used, sizeof(v->conflict) - used,
			 "%sthe loaded driver is not the file that was read", used ? "; " : "");
	v->agreement = H2D_AGREEMENT_CONFLICT;
	if (is_measured || v->stall != H2D_STALL_NO)
		return;
	v->policy = H2D_RETRY_UNKNOWN;
	v->stall = H2D_STALL_UNKNOWN;
	v->confidence = H2D_CONFIDENCE_LOW;
	v->is_prior_only = false;
}

static void combine(struct h2d_kernel_verdict *v)
{
	static const char *const names[] = {"the measurement", "the module's code",
					    "the table of known kernels"};
	const struct h2d_kernel_opinion *const all[] = {&v->measured, &v->file, &v->prior};
	const struct h2d_kernel_opinion *first = NULL;
	unsigned count = 0, lead = 0;
	size_t used = 0;

	for (unsigned i = 0; i < 3; i++) {
		if (!says(all[i]))
			continue;
		count++;
		if (!first) {
			first = all[i];
			lead = i;
			continue;
		}
		/* What the stronger one leaves open, a weaker one may fill in. */
		if (v->policy == H2D_RETRY_UNKNOWN && !contradict(first, all[i]))
			v->policy = all[i]->policy;
		if (contradict(first, all[i]) && used < sizeof(v->conflict))
			used += (size_t)snprintf(v->conflict + used, sizeof(v->conflict) - used,
						 "%s%s says %s, %s says %s", used ? "; " : "",
						 names[lead], words_of(first), names[i],
						 words_of(all[i]));
	}
	if (!first)
		return;
	if (first->policy != H2D_RETRY_UNKNOWN)
		v->policy = first->policy;
	v->stall = first->stall != H2D_STALL_UNKNOWN ? first->stall : stall_of(v->policy);
	v->confidence = first->confidence;
	v->agreement = count == 1	? H2D_AGREEMENT_SINGLE
		       : v->conflict[0] ? H2D_AGREEMENT_CONFLICT
					: H2D_AGREEMENT_AGREE;
	if (v->agreement == H2D_AGREEMENT_CONFLICT && v->confidence == H2D_CONFIDENCE_HIGH)
		v->confidence = H2D_CONFIDENCE_MEDIUM;
	/* The table alone knows versions, not this machine's driver. */
	v->is_prior_only = first == &v->prior;
	if (v->is_prior_only && v->confidence == H2D_CONFIDENCE_HIGH)
		v->confidence = H2D_CONFIDENCE_MEDIUM;
	if (v->driver_checked && !v->driver_is_file)
		weigh_other_driver(v, first == &v->measured, used);
}

static void sum_up(struct h2d_kernel_verdict *v)
{
	const char *how = v->confidence == H2D_CONFIDENCE_HIGH	   ? ""
			  : v->confidence == H2D_CONFIDENCE_MEDIUM ? "probably "
								   : "possibly ";
	const char *which = v->is_prior_only ? "By its version this " : "This ";

	switch (v->stall) {
	case H2D_STALL_YES:
		snprintf(v->summary, sizeof(v->summary),
			 "%skernel %shas the one-second copy bug.", which, how);
		break;
	case H2D_STALL_NO:
		snprintf(v->summary, sizeof(v->summary),
			 "%skernel %sdoes not have the one-second copy bug.", which, how);
		break;
	case H2D_STALL_UNKNOWN:
		snprintf(v->summary, sizeof(v->summary),
			 "Whether this kernel has the one-second copy bug is not known%s.",
			 v->driver_checked && !v->driver_is_file
				 ? ": the loaded driver is not the file that was read"
				 : "");
		break;
	}
	if (v->stall != H2D_STALL_YES)
		v->upgrade_to[0] = v->upgrade_source[0] = 0;
}

int h2d_kernel_verdict_get(const struct h2d_kernel_verdict_options *options,
			   struct h2d_kernel_verdict **out)
{
	struct h2d_kernel_verdict_options o;
	struct h2d_known_kernels *table = NULL;
	struct h2d_kernel_verdict *v;
	struct h2d_log log;
	char like[128];
	int err;

	*out = NULL;
	if (h2d_opts_read(&o, sizeof(o), options))
		return H2D_E_INVALID;
	log = (struct h2d_log){o.log, o.log_user};
	v = h2d_mem->calloc(1, sizeof(*v));
	if (!v) {
		h2d_module_report_free(o.module);
		return h2d_fail(&log, H2D_E_NOMEM, "the kernel's verdict");
	}
	v->module = o.module;
	err = h2d_known_kernels_open(o.table, &log, &table);
	if (!err)
		err = read_machine(&o, table, v, like, sizeof(like));
	if (err)
		goto out;
	ask_table(table, like, v);
	ask_file(&o, &log, v);
	ask_measurement(o.measured, v);
	combine(v);
	sum_up(v);
out:
	h2d_known_kernels_close(table);
	if (err) {
		h2d_kernel_verdict_free(v);
		return err;
	}
	*out = v;
	return 0;
}

void h2d_kernel_verdict_free(struct h2d_kernel_verdict *v)
{
	if (!v)
		return;
	h2d_module_report_free(v->module);
	free(v);
}
