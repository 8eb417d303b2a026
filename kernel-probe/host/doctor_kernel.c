/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's verdict in the words of the doctor. */
#include <stdio.h>
#include <string.h>

#include "host/doctor.h"

static void add(struct h2d_doctor_kernel *k, const struct h2d_kernel_opinion *o, bool *by)
{
	if (!o->given || k->statement_count == 3)
		return;
	*by = o->policy != H2D_RETRY_UNKNOWN || o->stall != H2D_STALL_UNKNOWN;
	snprintf(k->statements[k->statement_count++], sizeof(k->statements[0]), "%s",
		 o->statement);
}

static void why_unknown(struct h2d_doctor_kernel *k, const struct h2d_kernel_verdict *v)
{
	if (!v->file.given && v->file.why[0])
		snprintf(k->why, sizeof(k->why), "%s", v->file.why);
	else if (!v->prior.given && v->prior.why[0])
		snprintf(k->why, sizeof(k->why), "%s", v->prior.why);
}

/* Copies that did not wait, on a device that shows no restarts: which policy that is cannot be
 * told, but that they did not wait can. */
static void ask_clean_measurement(const struct h2d_doctor_measured *m,
				  struct h2d_doctor_kernel *k)
{
	if (!m->done || m->policy != H2D_RETRY_UNKNOWN)
		return;
	if (k->stall == H2D_STALL_YES)
		snprintf(
			k->conflict, sizeof(k->conflict),
			"the kernel is held to have the bug, but copies were measured and none "
			"waited");
	k->confidence = k->stall == H2D_STALL_YES ? H2D_CONFIDENCE_LOW : m->confidence;
	k->stall = H2D_STALL_NO;
	k->only_table = false;
	k->by_measurement = true;
	if (k->statement_count < 3)
		snprintf(k->statements[k->statement_count++], sizeof(k->statements[0]), "%s",
			 m->statement);
}

/* Copies of pageable memory go through SVM where the driver has it, else through userptr. */
static void ask_callers(const struct h2d_module_report *m, struct h2d_doctor_kernel *out)
{
	bool svm = m->callers[H2D_CALLER_SVM].is_present;

	out->without_svm = !svm && m->callers[H2D_CALLER_USERPTR].is_present;
	if (out->permission == H2D_PERMISSION_UNKNOWN)
		out->permission = m->callers[svm ? H2D_CALLER_SVM : H2D_CALLER_USERPTR].rule;
}

void h2d_doctor_kernel_unread(const struct h2d_doctor_measured *m, const char *why,
			      struct h2d_doctor_kernel *out)
{
	memset(out, 0, sizeof(*out));
	snprintf(out->why, sizeof(out->why), "%s", why);
	ask_clean_measurement(m, out);
	if (!m->done || m->policy == H2D_RETRY_UNKNOWN)
		return;
	out->policy = m->policy;
	out->stall = m->policy == H2D_RETRY_STALE ? H2D_STALL_YES : H2D_STALL_NO;
	out->confidence = m->confidence;
	out->permission = m->permission;
	out->by_measurement = true;
}

void h2d_doctor_kernel_read(const char *root, const struct h2d_doctor_measured *measured,
			    const struct h2d_log *log, struct h2d_doctor_kernel *out)
{
	struct h2d_kernel_measured m = {0};
	struct h2d_kernel_verdict_options options = {
		.size = sizeof(options),
		.log = log->fn,
		.log_user = log->user,
		.root = root,
	};
	struct h2d_kernel_verdict *v = NULL;
	char why[128];
	int rc;

	memset(out, 0, sizeof(*out));
	if (measured->done && measured->policy != H2D_RETRY_UNKNOWN) {
		m.policy = measured->policy;
		m.affected = measured->policy == H2D_RETRY_STALE;
		snprintf(m.statement, sizeof(m.statement), "%s", measured->statement);
		options.measured = &m;
	}
	rc = h2d_kernel_verdict_get(&options, &v);
	if (rc) {
		snprintf(why, sizeof(why), "the kernel's verdict: %s", h2d_status_string(rc));
		h2d_doctor_kernel_unread(measured, why, out);
		return;
	}
	out->policy = v->policy;
	out->stall = v->stall;
	out->only_table = v->is_prior_only;
	out->confidence = v->confidence;
	add(out, &v->measured, &out->by_measurement);
	add(out, &v->file, &out->by_file);
	add(out, &v->prior, &out->by_table);
	out->by_measurement |= measured->done && measured->policy != H2D_RETRY_UNKNOWN;
	out->other_driver = v->driver_checked && !v->driver_is_file;
	why_unknown(out, v);
	snprintf(out->conflict, sizeof(out->conflict), "%s", v->conflict);
	snprintf(out->upgrade_to, sizeof(out->upgrade_to), "%s", v->upgrade_to);
	snprintf(out->upgrade_source, sizeof(out->upgrade_source), "%s", v->upgrade_source);
	out->permission = measured->permission;
	if (v->module)
		ask_callers(v->module, out);
	ask_clean_measurement(measured, out);
	h2d_kernel_verdict_free(v);
}
