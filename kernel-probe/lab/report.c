/* SPDX-License-Identifier: Apache-2.0 */
/* The "h2d.lab" document. */
#include "internal.h"

#include <string.h>

#include "core/json_value.h"

static const char *const not_exercised[] = {
	"svm_range_validate_and_map(): the laboratory's module asks in its place, by the rule "
	"that "
	"is told with the verdict",
	"splitting of SVM ranges",
	"eviction and restore of queues",
	"the user-space runtime",
	"a GPU",
};

const char *h2d_lab_verdict_name(enum h2d_lab_verdict verdict)
{
	switch (verdict) {
	case H2D_LAB_CLEAN:
		return "clean";
	case H2D_LAB_COW_PENALTY:
		return "cow_penalty";
	case H2D_LAB_AFFECTED:
		return "affected";
	case H2D_LAB_INCONCLUSIVE:
		return "inconclusive";
	case H2D_LAB_NOT_VERIFIED:
		return "not_verified";
	}
	return "inconclusive";
}

/* Windows anywhere decide; else what could not be told does; else the worst of the rest. */
enum h2d_lab_verdict h2d_lab_result_verdict(const struct h2d_lab_result *result)
{
	static const enum h2d_lab_verdict order[] = {
		H2D_LAB_AFFECTED,    H2D_LAB_NOT_VERIFIED, H2D_LAB_INCONCLUSIVE,
		H2D_LAB_COW_PENALTY, H2D_LAB_CLEAN,
	};

	for (size_t v = 0; v < sizeof(order) / sizeof(order[0]); v++)
		for (size_t i = 0; i < result->count; i++)
			if (result->kernels[i].verdict == order[v])
				return order[v];
	return H2D_LAB_NOT_VERIFIED;
}

static void write_lines(struct h2d_json *j, const char *key, const char *lines)
{
	h2d_json_array_begin(j, key);
	while (lines && *lines) {
		size_t n = strcspn(lines, "\n");

		h2d_json_bytes(j, NULL, lines, n);
		lines += n + (lines[n] == '\n');
	}
	h2d_json_array_end(j);
}

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_text(struct h2d_json *j, const char *key, const char *text, const char *why)
{
	if (text)
		h2d_json_string(j, key, text);
	else
		write_null(j, key, why);
}

static void write_package(struct h2d_json *j, const struct lab_kernel *kernel)
{
	const struct lab_package *image = &kernel->image;

	if (!image->path) {
		write_null(j, "package",
			   kernel->missing ? kernel->missing : "the kernel is no package");
		return;
	}
	h2d_json_object_begin(j, "package");
	h2d_json_string(j, "name", image->name);
	h2d_json_string(j, "version", image->version);
	h2d_json_string(j, "format", lab_package_format_name(image->format));
	h2d_json_string(j, "origin", lab_origin_name(kernel->origin));
	h2d_json_string(j, "layout", kernel->measured ? "measured" : "unmeasured");
	h2d_json_object_end(j);
}

static void write_cell(struct h2d_json *j, const struct lab_cell *cell,
		       const struct lab_steps *steps)
{
	const struct lab_step *step = &steps->steps[cell->step];
	const char *name;
	json_t *item;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "filesystem", cell->filesystem);
	h2d_json_string(j, "driver", cell->driver);
	if (strcmp(cell->policy, "none") == 0)
		write_null(j, "policy", "the shipped driver has its own");
	else
		h2d_json_string(j, "policy", cell->policy);
	h2d_json_string(j, "permission", cell->permission);
	h2d_json_string(j, "state", cell->state);
	h2d_json_string(j, "status", cell->report ? "ok" : "failed");
	if (cell->problem)
		h2d_json_string(j, "problem", cell->problem);
	if (cell->report) {
		json_object_foreach(cell->report, name, item)
			/* What names the cell stands above already. */
			if (strcmp(name, "driver") != 0 && strcmp(name, "policy") != 0 &&
			    strcmp(name, "permission") != 0 && strcmp(name, "state") != 0)
				h2d_value_write(j, name, item, false);
	}
	write_lines(j, "kernel_log", step->kmsg);
	h2d_json_object_end(j);
}

/* What a program printed: the document where it is one of ours, else the text. */
static void write_output(struct h2d_json *j, const struct lab_step *step)
{
	json_error_t error;
	json_t *document = step->out ? json_loadb(step->out, step->out_bytes,
						  JSON_REJECT_DUPLICATES, &error)
				     : NULL;
	const char *schema = json_string_value(json_object_get(document, "schema"));

	if (schema && strncmp(schema, "h2d.", 4) == 0) {
		h2d_value_write(j, "document", document, false);
		write_null(j, "stdout", "it is the document");
	} else {
		write_null(j, "document", "standard output is no document of h2d");
		h2d_json_bytes(j, "stdout", step->out ? step->out : "", step->out_bytes);
	}
	json_decref(document);
}

/* Members of a command that ran, or did not, in an open object. */
static void write_step(struct h2d_json *j, const struct lab_step *step)
{
	h2d_json_bool(j, "ran", step->ended && !(step->end.flags & LAB_END_SKIPPED));
	h2d_json_i64(j, "status", step->end.status);
	h2d_json_bool(j, "timed_out", (step->end.flags & LAB_END_TIMED_OUT) != 0);
	h2d_json_u64(j, "elapsed_ns", step->end.elapsed_ns);
	h2d_json_u64(j, "dropped_bytes", step->end.dropped_bytes);
	write_output(j, step);
	h2d_json_bytes(j, "stderr", step->err ? step->err : "", step->err_bytes);
	write_lines(j, "kernel_log", step->kmsg);
}

static void write_reproductions(struct h2d_json *j, const struct lab_kernel_result *r)
{
	h2d_json_array_begin(j, "reproductions");
	for (size_t i = 0; r->steps.steps && i < r->reproduction_count; i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "filesystem", r->reproductions[i].filesystem);
		h2d_json_string(j, "device", r->reproductions[i].device);
		write_step(j, &r->steps.steps[r->reproductions[i].step]);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static void write_command(struct h2d_json *j, const char *const *argv,
			  const struct lab_step *step)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_array_begin(j, "argv");
	for (size_t i = 0; argv[i]; i++)
		h2d_json_string(j, NULL, argv[i]);
	h2d_json_array_end(j);
	write_step(j, step);
	h2d_json_object_end(j);
}

static const char *end_name(enum lab_guest_end end)
{
	switch (end) {
	case LAB_GUEST_OFF:
		return "switched_off";
	case LAB_GUEST_PANIC:
		return "panic";
	case LAB_GUEST_HUNG:
		return "hung";
	case LAB_GUEST_FLOODED:
		return "console_flooded";
	case LAB_GUEST_DIED:
		return "emulator_failed";
	}
	return "unknown";
}

/* Modules loaded, mounts and the dynamic program: only what failed is of interest. */
static void write_preparation(struct h2d_json *j, const struct lab_kernel_result *r)
{
	const struct lab_steps *steps = &r->steps;

	h2d_json_array_begin(j, "failed_steps");
	for (uint32_t i = 0; steps->steps && i <= r->dynamic_step && i < steps->count; i++) {
		const struct lab_step *step = &steps->steps[i];

		if (step->ended && step->end.status == 0)
			continue;
		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "step", i);
		h2d_json_bool(j, "ended", step->ended);
		h2d_json_i64(j, "status", step->end.status);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static void write_guest(struct h2d_json *j, const struct lab_kernel_result *r)
{
	uint64_t log_lost = 0;

	if (!r->ran) {
		write_null(j, "guest", "none was started");
		return;
	}
	for (uint32_t i = 0; i < r->steps.count; i++)
		log_lost += r->steps.steps[i].end.kmsg_lost;
	h2d_json_object_begin(j, "guest");
	h2d_json_string(j, "accelerator", lab_accel_name(r->accel));
	h2d_json_string(j, "accelerator_reason", r->accel_reason);
	h2d_json_string(j, "end", end_name(r->guest.end));
	h2d_json_u64(j, "elapsed_ns", r->guest.elapsed_ns);
	h2d_json_bool(j, "job_done", r->steps.done);
	h2d_json_u64(j, "console_bytes", r->guest.console_bytes);
	h2d_json_u64(j, "log_overrun_count", log_lost);
	write_preparation(j, r);
	write_lines(j, "notes", r->steps.notes);
	if (r->guest.end != LAB_GUEST_OFF || !r->steps.done) {
		h2d_json_string(j, "console", r->guest.console);
		h2d_json_string(j, "emulator_errors", r->guest.errors);
	}
	h2d_json_object_end(j);
}

static void write_verdict(struct h2d_json *j, const struct lab_kernel_result *r)
{
	bool evidence = r->evidence != NULL;

	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "value", h2d_lab_verdict_name(r->verdict));
	h2d_json_string(j, "retry_policy", r->retry_policy ? r->retry_policy : "unknown");
	h2d_json_string(j, "permission_rule", h2d_permission_rule_name(r->permission_rule));
	if (r->permission_rule == H2D_PERMISSION_UNKNOWN)
		h2d_json_string(j, "permission_rule_assumed", "vma");
	else
		write_null(j, "permission_rule_assumed", "the module's own is known");
	if (r->permission_why)
		h2d_json_string(j, "permission_rule_why", r->permission_why);
	h2d_json_string(j, "confidence",
			!evidence || r->verdict == H2D_LAB_INCONCLUSIVE ? "low"
			: r->reasons					? "medium"
									: "high");
	write_lines(j, "evidence", r->evidence);
	write_lines(j, "reasons", r->reasons);
	h2d_json_object_end(j);
	if (r->window_fitted_ms > 0) {
		h2d_json_object_begin(j, "window");
		h2d_json_double(j, "timeout_ms", r->window_timeout_ms);
		h2d_json_double(j, "jiffy_ms", r->window_jiffy_ms);
		h2d_json_double(j, "fitted_ms", r->window_fitted_ms);
		h2d_json_object_end(j);
	} else {
		write_null(j, "window", "no window was seen");
	}
}

static void write_kernel(struct h2d_json *j, const struct h2d_lab_result *result,
			 const struct lab_kernel_result *r)
{
	const struct h2d_lab_options *o = &result->options;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "request", r->kernel.request);
	write_text(j, "release", r->release ? r->release : r->kernel.release,
		   "it is not known before the package is unpacked");
	write_package(j, &r->kernel);
	write_text(j, "driver", r->driver, "the kernel was not looked into");
	h2d_json_bool(j, "has_amdgpu", r->has_amdgpu);
	write_text(j, "prototype", r->prototype, "the shipped driver was not asked for");
	write_verdict(j, r);
	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; r->steps.steps && i < r->cell_count; i++)
		write_cell(j, &r->cells[i], &r->steps);
	h2d_json_array_end(j);
	write_reproductions(j, r);
	h2d_json_array_begin(j, "commands");
	for (size_t i = 0; r->steps.steps && i < o->command_count; i++)
		write_command(j, o->commands[i], &r->steps.steps[r->first_command + i]);
	h2d_json_array_end(j);
	write_guest(j, r);
	h2d_json_object_end(j);
}

void h2d_lab_result_write(struct h2d_json *json, const struct h2d_lab_result *result)
{
	const struct h2d_lab_options *o = &result->options;

	h2d_json_object_begin(json, "verdict");
	h2d_json_string(json, "value", h2d_lab_verdict_name(h2d_lab_result_verdict(result)));
	h2d_json_u64(json, "kernel_count", result->count);
	h2d_json_object_end(json);
	h2d_json_object_begin(json, "options");
	h2d_json_u64(json, "size_bytes", o->size_bytes);
	h2d_json_u64(json, "stale_timeout_ms", o->timeout_ms ? o->timeout_ms : 1000);
	h2d_json_object_end(json);
	h2d_json_array_begin(json, "kernels");
	for (size_t i = 0; i < result->count; i++)
		write_kernel(json, result, &result->kernels[i]);
	h2d_json_array_end(json);
	h2d_json_array_begin(json, "not_exercised");
	for (size_t i = 0; i < sizeof(not_exercised) / sizeof(not_exercised[0]); i++)
		h2d_json_string(json, NULL, not_exercised[i]);
	h2d_json_array_end(json);
}

static void print_lines(FILE *out, const char *indent, const char *lines)
{
	while (lines && *lines) {
		size_t n = strcspn(lines, "\n");

		fprintf(out, "%s%.*s\n", indent, (int)n, lines);
		lines += n + (lines[n] == '\n');
	}
}

void h2d_lab_result_reasons(FILE *out, const struct h2d_lab_result *result)
{
	for (size_t i = 0; i < result->count; i++) {
		const struct lab_kernel_result *r = &result->kernels[i];

		if (r->verdict != H2D_LAB_NOT_VERIFIED && r->verdict != H2D_LAB_INCONCLUSIVE)
			continue;
		fprintf(out, "%s: %s: %.*s\n", r->release ? r->release : r->kernel.request,
			h2d_lab_verdict_name(r->verdict),
			r->reasons ? (int)strcspn(r->reasons, "\n") : 0,
			r->reasons ? r->reasons : "");
	}
}

static void print_tail(FILE *out, const char *text, size_t lines)
{
	const char *p = text + strlen(text);

	while (p > text && lines) {
		p--;
		if (*p == '\n' && p[1])
			lines--;
	}
	for (p += *p == '\n'; *p; p += *p == '\n') {
		size_t n = strcspn(p, "\n");

		fprintf(out, "    | %.*s%s\n", n > 160 ? 160 : (int)n, p, n > 160 ? " …" : "");
		p += n;
	}
}

void h2d_lab_result_print(FILE *out, const struct h2d_lab_result *result)
{
	for (size_t i = 0; i < result->count; i++) {
		const struct lab_kernel_result *r = &result->kernels[i];

		fprintf(out, "%s: %s", r->release ? r->release : r->kernel.request,
			h2d_lab_verdict_name(r->verdict));
		if (r->ran && strcmp(r->driver, "shipped") == 0)
			fprintf(out, " (shipped driver, retry policy %s; permission rule %s)",
				r->retry_policy,
				r->permission_rule == H2D_PERMISSION_UNKNOWN ? "vma assumed"
				: r->permission_rule == H2D_PERMISSION_VMA
					? "vma, read in its module"
					: "access, read in its module");
		else if (r->ran)
			fprintf(out, " (the emulated driver, as it was told to be: this says nothing of "
				     "the kernel's own)");
		if (r->kernel.image.path && !r->kernel.measured)
			fprintf(out, " [package layout unmeasured]");
		fputc('\n', out);
		print_lines(out, "  ", r->evidence);
		if (r->window_fitted_ms > 0)
			fprintf(out,
				"  window: %.1f ms (timeout %.0f ms + one jiffy of %.0f ms)\n",
				r->window_fitted_ms, r->window_timeout_ms, r->window_jiffy_ms);
		print_lines(out, "  ! ", r->reasons);
		if (r->ran && r->guest.end != LAB_GUEST_OFF && r->guest.console) {
			fprintf(out, "  the end of its console:\n");
			print_tail(out, r->guest.console, 30);
		}
	}
	fprintf(out, "Not exercised: ");
	for (size_t i = 0; i < sizeof(not_exercised) / sizeof(not_exercised[0]); i++)
		fprintf(out, "%s%s", i ? "; " : "", not_exercised[i]);
	fprintf(out, ".\n");
}
