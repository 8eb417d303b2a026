/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the document h2d.repro; keys in results/schema/h2d.repro.schema.json. */
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "repro/repro.h"

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_verdict(struct h2d_json *j, const struct h2d_verdict *v)
{
	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "value", h2d_verdict_value_name(v->value));
	h2d_json_string(j, "retry_policy", h2d_retry_policy_name(v->retry_policy));
	h2d_json_string(j, "permission_rule", h2d_permission_rule_name(v->permission_rule));
	if (v->cow_penalty_ratio > 0)
		h2d_json_double(j, "cow_penalty_ratio", v->cow_penalty_ratio);
	else
		write_null(j, "cow_penalty_ratio",
			   "needs ro-present and rw-present or rw-absent");
	h2d_json_string(j, "confidence", h2d_confidence_name(v->confidence));
	h2d_json_array_begin(j, "evidence");
	for (size_t i = 0; i < v->evidence_count; i++)
		h2d_json_string(j, NULL, v->evidence[i]);
	h2d_json_array_end(j);
	h2d_json_object_end(j);
}

static void write_window(struct h2d_json *j, const struct h2d_repro_result *r)
{
	const uint64_t jiffy = h2d_jiffy_ns(r->clock.hz), window = h2d_window_ns(r->clock);
	const struct h2d_window_clock fitted = {r->clock.timeout_ms, r->fitted_hz};

	h2d_json_object_begin(j, "window");
	h2d_json_u64(j, "timeout_ms", r->clock.timeout_ms);
	if (jiffy)
		h2d_json_double(j, "jiffy_ms", (double)jiffy / 1e6);
	else
		write_null(j, "jiffy_ms", "CONFIG_HZ can neither be read nor fitted");
	h2d_json_string(j, "jiffy_source", h2d_hz_source_name(r->hz_source));
	if (window)
		h2d_json_double(j, "length_ms", (double)window / 1e6);
	else
		write_null(j, "length_ms", "CONFIG_HZ can neither be read nor fitted");
	if (r->fitted_hz)
		h2d_json_double(j, "fitted_ms", (double)h2d_window_ns(fitted) / 1e6);
	else
		write_null(j, "fitted_ms",
			   "no copy took windows, or two values of CONFIG_HZ fit alike");
	h2d_json_object_end(j);
}

static void write_count(struct h2d_json *j, const struct h2d_hmm_count *c)
{
	h2d_json_object_begin(j, "hmm");
	h2d_json_u64(j, "request_count", c->requests);
	h2d_json_u64(j, "restart_count", c->restarts);
	h2d_json_u64(j, "window_count", c->windows);
	h2d_json_string(j, "window_source", c->windows_counted ? "driver" : "attempt_duration");
	h2d_json_u64(j, "notifier_callback_count", c->notifier_callbacks);
	h2d_json_u64(j, "foreign_callback_count", c->foreign_callbacks);
	h2d_json_u64(j, "callback_page_count", c->callback_pages);
	h2d_json_u64(j, "invalidated_span_count", c->spans_invalidated);
	h2d_json_u64(j, "valid_page_count", c->pages_valid);
	h2d_json_u64(j, "writable_page_count", c->pages_writable);
	h2d_json_i64(j, "last_code", c->last_code);
	h2d_json_object_end(j);
}

static void write_samples(struct h2d_json *j, const struct h2d_repro_result *r,
			  const struct h2d_repro_cell *cell)
{
	const int64_t window = (int64_t)h2d_window_ns(r->clock);

	h2d_json_array_begin(j, "samples");
	for (size_t i = 0; i < cell->sample_count; i++) {
		const struct h2d_repro_sample *s = &cell->samples[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "elapsed_ns", s->elapsed_ns);
		if (cell->windows[i] >= 0) {
			h2d_json_i64(j, "windows", cell->windows[i]);
			h2d_json_i64(j, "residual_ns",
				     (int64_t)s->elapsed_ns - cell->windows[i] * window);
		} else {
			write_null(j, "windows",
				   "the copy is too slow by itself to be divided");
			write_null(j, "residual_ns", "windows are not known");
		}
		h2d_json_u64(j, "expected_windows", s->expected_windows);
		h2d_json_i64(j, "rss_anon_delta_bytes", s->rss_anon_delta_bytes);
		if (r->restarts_visible)
			write_count(j, &cell->counts[i]);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static void write_bins(struct h2d_json *j, const struct h2d_repro_cell *cell)
{
	const size_t n = cell->sample_count;
	uint64_t *elapsed = h2d_mem->calloc(n + 1, sizeof(*elapsed));
	struct h2d_window_bin *bins = h2d_mem->calloc(n + 1, sizeof(*bins));
	size_t used = 0;

	if (elapsed && bins) {
		for (size_t i = 0; i < n; i++)
			elapsed[i] = cell->samples[i].elapsed_ns;
		used = h2d_window_bins(elapsed, n, bins, n);
	}
	h2d_json_array_begin(j, "bins");
	for (size_t i = 0; i < used; i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "from_ms", bins[i].from_ms);
		h2d_json_u64(j, "to_ms", bins[i].to_ms);
		h2d_json_u64(j, "count", bins[i].count);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	free(elapsed);
	free(bins);
}

static void write_restarts(struct h2d_json *j, const struct h2d_repro_result *r,
			   const struct h2d_repro_cell *cell)
{
	if (r->restarts_visible && cell->sample_count)
		h2d_json_i64(j, "restarts", cell->samples[0].restarts);
	else
		write_null(j, "restarts",
			   r->restarts_visible ? "not measured"
					       : "the device does not show them");
}

static void write_cell(struct h2d_json *j, const struct h2d_repro_result *r,
		       const struct h2d_repro_cell *cell)
{
	const bool measured = !cell->invalid[0] && cell->sample_count;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "cell", cell->cell->name);
	h2d_json_u64(j, "size_bytes", cell->size_bytes);
	h2d_json_string(j, "state", measured ? "measured" : "invalid");
	if (!measured)
		h2d_json_string(j, "state_why",
				cell->invalid[0] ? cell->invalid : "not reached");
	if (cell->permissions[0])
		h2d_json_string(j, "permissions", cell->permissions);
	else
		write_null(j, "permissions", "not mapped");
	h2d_json_u64(j, "present_bytes", cell->present_bytes);
	h2d_json_u64(j, "present_file_bytes", cell->file_bytes);
	h2d_json_u64(j, "anonymous_bytes", cell->anonymous_bytes);
	h2d_json_u64(j, "span_count", cell->span_count);
	h2d_json_u64(j, "present_span_count", cell->present_span_count);
	h2d_json_u64(j, "expected_windows", cell->expected_windows);
	h2d_json_u64(j, "expected_anon_delta_bytes", cell->expected_anon_bytes);
	write_restarts(j, r, cell);
	if (measured) {
		h2d_json_i64(j, "rss_anon_delta_bytes", cell->rss_anon_delta_bytes);
		h2d_json_i64(j, "rss_delta_bytes", cell->rss_delta_bytes);
	} else {
		write_null(j, "rss_anon_delta_bytes", "not measured");
		write_null(j, "rss_delta_bytes", "not measured");
	}
	h2d_json_bool(j, "verified", cell->verified);
	write_samples(j, r, cell);
	write_bins(j, cell);
	h2d_json_object_end(j);
}

void h2d_repro_write(struct h2d_json *j, const struct h2d_repro_result *r)
{
	h2d_json_object_begin(j, "device");
	h2d_json_string(j, "name", r->device_name);
	h2d_json_string(j, "backend", r->backend);
	h2d_json_string(j, "hardware", r->device_hardware);
	h2d_json_bool(j, "restarts_visible", r->restarts_visible);
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "source");
	h2d_json_string(j, "filesystem", r->filesystem);
	h2d_json_object_end(j);
	write_verdict(j, &r->verdict);
	write_window(j, r);
	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; i < r->cell_count; i++)
		write_cell(j, r, &r->cells[i]);
	h2d_json_array_end(j);
}
