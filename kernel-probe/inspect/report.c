/* SPDX-License-Identifier: Apache-2.0 */
/* A report as JSON. */
#include <stdio.h>
#include <string.h>

#include "inspect.h"

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

static const char untold[] = "the capture does not tell";

static void mark(struct h2d_json *j, const char *key, bool value, bool told)
{
	if (told)
		h2d_json_bool(j, key, value);
	else
		text(j, key, "", untold);
}

static void write_timeout(struct h2d_json *j, const struct h2d_module_report *r)
{
	const struct h2d_inspect_timeout *t = &r->timeout;

	if (!t->is_known) {
		h2d_json_null(j, "timeout");
		h2d_json_string(j, "timeout_why",
				r->retry_policy == H2D_RETRY_NONE ? "there is no retry loop"
				: r->is_recorded		  ? untold
								  : "not found in the code");
		return;
	}
	h2d_json_object_begin(j, "timeout");
	h2d_json_string(j, "unit",
			t->jiffies     ? "jiffies"
			: t->is_scaled ? "ms_per_step"
				       : "ms");
	if (t->jiffies)
		h2d_json_u64(j, "jiffy_count", t->jiffies);
	else
		h2d_json_u64(j, "timeout_ms", t->ms);
	if (t->is_scaled)
		h2d_json_u64(j, "step_bytes", t->step_bytes);
	h2d_json_object_end(j);
}

static void write_rules(struct h2d_json *j, const struct h2d_module_report *r)
{
	h2d_json_object_begin(j, "permission_rule");
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		h2d_json_string(j, h2d_permission_caller_name((enum h2d_permission_caller)i),
				h2d_permission_rule_name(r->callers[i].rule));
	h2d_json_object_end(j);
}

static void write_reason(struct h2d_json *j, const char *of, const char *reason)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "of", of);
	h2d_json_string(j, "reason", reason);
	h2d_json_object_end(j);
}

static void write_unknown(struct h2d_json *j, const struct h2d_module_report *r)
{
	h2d_json_array_begin(j, "unknown");
	if (r->retry_policy == H2D_RETRY_UNKNOWN)
		write_reason(j, "retry_policy", r->retry_why);
	for (unsigned i = 0; i < H2D_CALLER_COUNT; i++)
		if (r->callers[i].rule == H2D_PERMISSION_UNKNOWN)
			write_reason(j,
				     h2d_permission_caller_name((enum h2d_permission_caller)i),
				     r->callers[i].why);
	h2d_json_array_end(j);
}

static void write_evidence(struct h2d_json *j, const struct h2d_module_report *r)
{
	h2d_json_array_begin(j, "evidence");
	for (size_t i = 0; i < r->evidence_count; i++) {
		const struct h2d_inspect_evidence *e = &r->evidence[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "kind", e->kind);
		h2d_json_string(j, "section", e->section);
		h2d_json_stringf(j, "address", "0x%llx", (unsigned long long)e->address);
		h2d_json_string(j, "function", e->function);
		h2d_json_string(j, "statement", e->statement);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

void h2d_module_report_write_verdict(struct h2d_json *j, const struct h2d_module_report *r)
{
	h2d_json_string(j, "retry_policy", h2d_retry_policy_name(r->retry_policy));
	write_rules(j, r);
	write_unknown(j, r);
	write_timeout(j, r);
	write_evidence(j, r);
}

void h2d_module_report_write(struct h2d_json *j, const char *key,
			     const struct h2d_module_report *r)
{
	const char *none = r->is_recorded ? untold : "the module does not tell";
	bool told = !r->is_recorded || r->marks_told;

	h2d_json_object_begin(j, key);
	h2d_json_string(j, "path", r->path);
	h2d_json_string(j, "machine", r->machine);
	text(j, "name", r->name, none);
	text(j, "version", r->version, none);
	text(j, "srcversion", r->srcversion, none);
	text(j, "vermagic", r->vermagic, none);
	text(j, "build_id", r->build_id, none);
	text(j, "compiler", r->compiler, none);
	h2d_json_string(j, "origin", h2d_module_origin_name(r->origin));
	mark(j, "in_tree", r->in_tree, told);
	mark(j, "signed", r->is_signed, told);
	text(j, "signer", r->signer, r->is_signed || !told ? none : "it is not signed");
	mark(j, "btf", r->has_btf, told);
	mark(j, "symbols", r->has_symbols, told);
	text(j, "compression", r->compression, untold);
	h2d_module_report_write_verdict(j, r);
	h2d_json_object_end(j);
}
