/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's verdict as JSON. */
#include <stdio.h>

#include "host/kernel_verdict.h"

static void text(struct h2d_json *j, const char *key, const char *value, const char *why)
{
	char name[64];

	if (value[0]) {
		h2d_json_string(j, key, value);
		return;
	}
	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void opinion(struct h2d_json *j, const char *key, const struct h2d_kernel_opinion *o)
{
	char name[32];

	if (!o->given) {
		snprintf(name, sizeof(name), "%s_why", key);
		h2d_json_null(j, key);
		h2d_json_string(j, name, o->why);
		return;
	}
	h2d_json_object_begin(j, key);
	h2d_json_string(j, "retry_policy", h2d_retry_policy_name(o->policy));
	h2d_json_string(j, "stall", h2d_stall_name(o->stall));
	h2d_json_string(j, "confidence", h2d_confidence_name(o->confidence));
	h2d_json_string(j, "statement", o->statement);
	h2d_json_object_end(j);
}

static void write_kernel(struct h2d_json *j, const struct h2d_kernel_verdict *v)
{
	h2d_json_object_begin(j, "kernel");
	text(j, "release", v->release, "/proc/sys/kernel/osrelease could not be read");
	text(j, "version", v->kernel_version, "it is not the running kernel, or not told");
	text(j, "machine", v->machine, "/proc/sys/kernel/arch could not be read");
	text(j, "package", v->package, "not in the table of known kernels");
	text(j, "package_version", v->package_version, "this kernel does not carry it");
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "distribution");
	text(j, "id", v->distribution, "no os-release");
	text(j, "version_id", v->distribution_version, "os-release does not tell");
	text(j, "name", v->distribution_name, "os-release does not tell");
	h2d_json_object_end(j);
}

static void write_driver(struct h2d_json *j, const struct h2d_kernel_verdict *v)
{
	h2d_json_object_begin(j, "driver");
	h2d_json_bool(j, "loaded", v->driver_loaded);
	if (v->driver_checked) {
		h2d_json_bool(j, "is_file", v->driver_is_file);
	} else {
		h2d_json_null(j, "is_file");
		h2d_json_string(j, "is_file_why",
				v->driver_loaded
					? "neither build-id nor srcversion is there to "
					  "compare"
					: "the driver is not loaded");
	}
	if (v->module)
		h2d_module_report_write(j, "module", v->module);
	else
		text(j, "module", "", v->file.why);
	h2d_json_object_end(j);
}

void h2d_kernel_verdict_write(struct h2d_json *j, const struct h2d_kernel_verdict *v)
{
	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "retry_policy", h2d_retry_policy_name(v->policy));
	h2d_json_string(j, "stall", h2d_stall_name(v->stall));
	text(j, "confidence",
	     v->agreement == H2D_AGREEMENT_NONE ? "" : h2d_confidence_name(v->confidence),
	     "nothing is known");
	h2d_json_bool(j, "prior_only", v->is_prior_only);
	h2d_json_string(j, "agreement", h2d_kernel_agreement_name(v->agreement));
	text(j, "conflict", v->conflict, "there is none");
	h2d_json_string(j, "summary", v->summary);
	text(j, "upgrade_to", v->upgrade_to,
	     v->stall == H2D_STALL_YES ? "no good version is known" : "there is no need");
	text(j, "upgrade_source", v->upgrade_source,
	     v->stall == H2D_STALL_YES ? "no good version is known" : "there is no need");
	h2d_json_object_end(j);
	write_kernel(j, v);
	h2d_json_object_begin(j, "opinions");
	opinion(j, "prior", &v->prior);
	opinion(j, "file", &v->file);
	opinion(j, "measured", &v->measured);
	h2d_json_object_end(j);
	write_driver(j, v);
}
