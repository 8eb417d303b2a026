/* SPDX-License-Identifier: Apache-2.0 */
/* The members of the document h2d.window-law; keys in results/schema/. */
#include "repro/experiment/law.h"

static void write_copy(struct h2d_json *j, const struct h2d_law_copy *c)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_u64(j, "elapsed_ns", c->elapsed_ns);
	h2d_json_u64(j, "windows", c->count.windows);
	h2d_json_string(j, "window_source",
			c->count.windows_counted ? "driver" : "attempt_duration");
	h2d_json_u64(j, "restarts", c->count.restarts);
	h2d_json_u64(j, "notifier_callback_count", c->count.notifier_callbacks);
	h2d_json_u64(j, "foreign_callback_count", c->count.foreign_callbacks);
	h2d_json_u64(j, "callback_page_count", c->count.callback_pages);
	h2d_json_u64(j, "invalidated_span_count", c->count.spans_invalidated);
	h2d_json_object_end(j);
}

static void write_measured(struct h2d_json *j, const struct h2d_law_outcome *o)
{
	h2d_json_object_begin(j, "measured");
	h2d_json_u64(j, "windows", o->windows);
	h2d_json_u64(j, "restarts", o->restarts);
	h2d_json_i64(j, "rss_anon_delta_bytes", o->rss_anon_delta_bytes);
	if (o->alias_anon_bytes >= 0)
		h2d_json_i64(j, "alias_anonymous_bytes", o->alias_anon_bytes);
	if (o->row->kind == H2D_LAW_INVALIDATED) {
		h2d_json_u64(j, "invalidation_count", o->invalidation_count);
		h2d_json_u64(j, "invalidation_ns", o->invalidation_ns);
	}
	h2d_json_array_begin(j, "copies");
	for (size_t i = 0; i < o->copy_count; i++)
		write_copy(j, &o->copies[i]);
	h2d_json_array_end(j);
	h2d_json_object_end(j);
}

static void write_row(struct h2d_json *j, const struct h2d_law_outcome *o)
{
	const bool run = !o->not_run[0];

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "row", o->row->name);
	h2d_json_string(j, "question", o->row->question);
	h2d_json_string(j, "state", run ? "run" : "not_run");
	if (!run)
		h2d_json_string(j, "state_why", o->not_run);
	if (o->size_bytes) {
		h2d_json_object_begin(j, "source");
		h2d_json_string(j, "permissions", o->permissions);
		h2d_json_u64(j, "size_bytes", o->size_bytes);
		h2d_json_u64(j, "present_bytes", o->present_bytes);
		h2d_json_u64(j, "span_count", o->span_count);
		h2d_json_u64(j, "pmd_mapped_bytes", o->huge_bytes);
		h2d_json_u64(j, "contiguous_page_count", o->contiguous_count);
		h2d_json_object_end(j);
	}
	if (run) {
		h2d_json_object_begin(j, "predicted");
		h2d_json_double(j, "by_bytes", o->by_bytes);
		h2d_json_u64(j, "by_presence", o->by_presence);
		h2d_json_u64(j, "by_law_min", o->by_law_min);
		if (o->by_law_max != UINT64_MAX) {
			h2d_json_u64(j, "by_law_max", o->by_law_max);
		} else {
			h2d_json_null(j, "by_law_max");
			h2d_json_string(j, "by_law_max_why",
					"the law gives no upper bound for it");
		}
		h2d_json_object_end(j);
		write_measured(j, o);
		h2d_json_bool(j, "agrees", o->agrees);
	}
	h2d_json_object_end(j);
}

void h2d_law_write(struct h2d_json *j, const struct h2d_law_result *r)
{
	h2d_json_object_begin(j, "device");
	h2d_json_string(j, "name", r->device_name);
	h2d_json_string(j, "hardware", r->device_hardware);
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "source");
	h2d_json_string(j, "filesystem", r->filesystem);
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "window");
	h2d_json_u64(j, "timeout_ms", r->clock.timeout_ms);
	h2d_json_double(j, "jiffy_ms", (double)h2d_jiffy_ns(r->clock.hz) / 1e6);
	h2d_json_double(j, "length_ms", (double)h2d_window_ns(r->clock) / 1e6);
	h2d_json_object_end(j);
	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "value", h2d_law_value_name(r->value));
	h2d_json_u64(j, "run_count", r->run_count);
	h2d_json_u64(j, "not_run_count", r->not_run_count);
	h2d_json_u64(j, "disagree_count", r->disagree_count);
	h2d_json_object_end(j);
	h2d_json_array_begin(j, "rows");
	for (size_t i = 0; i < r->row_count; i++)
		write_row(j, &r->rows[i]);
	h2d_json_array_end(j);
}
