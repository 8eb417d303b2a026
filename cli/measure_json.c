/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "measure.h"

static void hardware_json(struct h2d_json *j, const struct h2d_device_info *d)
{
	if (d->hardware && d->hardware[0])
		h2d_json_string(j, "hardware", d->hardware);
	else
		h2d_cli_null(j, "hardware", "the device has no name of its own");
	if (d->memory_bytes)
		h2d_json_u64(j, "memory_bytes", d->memory_bytes);
	else
		h2d_cli_null(j, "memory_bytes", "unknown");
	if (d->memory_free_bytes)
		h2d_json_u64(j, "memory_free_bytes", d->memory_free_bytes);
	else
		h2d_cli_null(j, "memory_free_bytes", "unknown");
	if (d->numa_node >= 0)
		h2d_json_i64(j, "numa_node", d->numa_node);
	else
		h2d_cli_null(j, "numa_node", "unknown");
	if (d->pci_address && d->pci_address[0])
		h2d_json_string(j, "pci_address", d->pci_address);
	else
		h2d_cli_null(j, "pci_address", "not on a PCI bus");
	if (d->unified < 2)
		h2d_json_bool(j, "unified", d->unified);
	else
		h2d_cli_null(j, "unified", "unknown");
	h2d_json_bool(j, "readable", d->readable);
}

/* All of them as one: what they have in common. */
static void joint_json(struct h2d_json *j, const struct h2d_measurement *m)
{
	static const char *const own[] = {"hardware",  "memory_bytes", "memory_free_bytes",
					  "numa_node", "pci_address",  "unified",
					  NULL};
	char names[H2D_DEVICES_MAX * H2D_DEVICE_SPEC_BYTES] = "", backends[256] = "";
	bool readable = true;

	for (uint32_t d = 0; d < m->device_count; d++) {
		const char *backend = m->devices[d].backend;
		size_t used = strlen(names), end = strlen(backends);
		bool told = false;

		snprintf(names + used, sizeof(names) - used, "%s%s", d ? "," : "",
			 m->devices[d].name);
		for (uint32_t i = 0; i < d; i++)
			told |= !strcmp(m->devices[i].backend, backend);
		if (!told)
			snprintf(backends + end, sizeof(backends) - end, "%s%s", end ? "," : "",
				 backend);
		readable &= m->devices[d].readable != 0;
	}
	h2d_json_string(j, "name", names);
	h2d_json_string(j, "backend", backends);
	h2d_json_bool(j, "by_default", false);
	for (int i = 0; own[i]; i++)
		h2d_cli_null(j, own[i], "several devices: see devices");
	h2d_json_bool(j, "readable", readable);
}

static void device_json(struct h2d_json *j, const struct h2d_transfer_values *v,
			const struct h2d_measurement *m)
{
	h2d_json_object_begin(j, "device");
	if (m->device_count > 1) {
		joint_json(j, m);
	} else {
		h2d_json_string(j, "name", m->devices[0].name);
		h2d_json_string(j, "backend", m->devices[0].backend);
		h2d_json_bool(j, "by_default", !v->device);
		if (!v->device)
			h2d_json_string(j, "default_reason", h2d_default_device_why());
		hardware_json(j, &m->devices[0]);
	}
	h2d_json_object_end(j);
}

static void path_json(struct h2d_json *j, const struct h2d_sample *s)
{
	h2d_json_object_begin(j, "path");
	h2d_json_string(j, "requested", s->path_requested);
	h2d_json_string(j, "used", s->path_used);
	h2d_json_string(j, "reason", s->reason ? s->reason : "");
	h2d_json_object_begin(j, "extents");
	for (uint32_t i = 0; i < s->extent_count; i++) {
		h2d_json_object_begin(j, s->extent_path[i]);
		h2d_json_u64(j, "size_bytes", s->extent_bytes[i]);
		h2d_json_object_end(j);
	}
	h2d_json_object_end(j);
	h2d_json_object_end(j);
}

static void timing_json(struct h2d_json *j, const struct h2d_measurement *m,
			const struct h2d_sample *s)
{
	h2d_json_object_begin(j, "timing");
	h2d_json_u64(j, "open_ns", m->in.open_ns);
	h2d_json_u64(j, "device_open_ns", m->device_open_ns);
	h2d_json_u64(j, "plan_ns", s->plan_ns);
	h2d_json_u64(j, "allocate_ns", s->allocate_ns);
	h2d_json_u64(j, "transfer_ns", s->transfer_ns);
	h2d_json_u64(j, "load_ns", s->total_ns);
	h2d_json_u64(j, "total_ns", m->in.open_ns + s->total_ns);
	h2d_json_u64(j, "free_ns", s->free_ns);
	h2d_json_object_end(j);
}

/* Of the whole load, planning and allocating included. */
static void throughput_json(struct h2d_json *j, const struct h2d_sample *s)
{
	if (s->path_used && !strcmp(s->path_used, "view"))
		h2d_cli_null(j, "throughput_bytes_per_s", "a view moves no bytes");
	else if (!s->total_ns)
		h2d_cli_null(j, "throughput_bytes_per_s", "the load took no time");
	else
		h2d_json_u64(j, "throughput_bytes_per_s",
			     (uint64_t)((double)s->loaded_bytes * 1e9 / (double)s->total_ns));
}

static void cache_json(struct h2d_json *j, const struct h2d_sample *s)
{
	const struct h2d_cache_state *unknown =
		s->cache_before.method == H2D_CACHE_UNKNOWN  ? &s->cache_before
		: s->cache_after.method == H2D_CACHE_UNKNOWN ? &s->cache_after
							     : NULL;
	const char *why = unknown && unknown->why ? unknown->why : "unknown";

	h2d_json_object_begin(j, "page_cache");
	if (unknown) {
		h2d_cli_null(j, "before_pct", why);
		h2d_cli_null(j, "after_pct", why);
		h2d_cli_null(j, "method", why);
	} else {
		h2d_json_double(j, "before_pct", h2d_cache_pct(&s->cache_before));
		h2d_json_double(j, "after_pct", h2d_cache_pct(&s->cache_after));
		h2d_json_string(j, "method", h2d_cache_method_name(s->cache_after.method));
	}
	h2d_json_object_end(j);
}

static void faults_json(struct h2d_json *j, const struct h2d_sample *s)
{
	h2d_json_object_begin(j, "faults");
	h2d_json_u64(j, "major_count", s->major_faults);
	h2d_json_u64(j, "minor_count", s->minor_faults);
	h2d_json_object_end(j);
}

static void hmm_json(struct h2d_json *j, const struct h2d_sample *s)
{
	if (!s->hmm_visible)
		return;
	h2d_json_object_begin(j, "hmm");
	h2d_json_u64(j, "request_count", s->hmm.requests);
	h2d_json_u64(j, "restart_count", s->hmm.restarts);
	h2d_json_u64(j, "window_count", s->hmm.windows);
	h2d_json_u64(j, "notifier_callback_count", s->hmm.notifier_callbacks);
	h2d_json_string(j, "exposure", h2d_measurement_exposure(s));
	h2d_json_object_end(j);
}

/* `hashed`: all that was compared was read in one go, so that it has one hash. */
static void verify_json(struct h2d_json *j, const struct h2d_measurement *m,
			const struct h2d_verify_result *r, bool ok, uint64_t elapsed_ns,
			bool hashed)
{
	struct h2d_tensor_info t = H2D_OPTS(t);

	h2d_json_object_begin(j, "verify");
	h2d_json_string(j, "algorithm", r->algorithm);
	h2d_json_u64(j, "tensor_count", r->tensor_count);
	h2d_json_u64(j, "compared_bytes", r->compared_bytes);
	h2d_json_bool(j, "ok", ok);
	if (ok && hashed)
		h2d_json_stringf(j, "xxh3_128", "%016llx%016llx",
				 (unsigned long long)r->hash_high,
				 (unsigned long long)r->hash_low);
	h2d_json_u64(j, "elapsed_ns", elapsed_ns);
	if (!ok && !h2d_checkpoint_tensor(m->in.ckpt, r->mismatch_tensor, &t)) {
		h2d_json_object_begin(j, "mismatch");
		h2d_name_json(j, t.name, t.name_bytes);
		h2d_json_u64(j, "offset_bytes", r->mismatch_offset);
		h2d_json_object_end(j);
	}
	h2d_json_object_end(j);
}

static void verify_all_json(struct h2d_json *j, const struct h2d_measurement *m,
			    const struct h2d_sample *s)
{
	verify_json(j, m, &s->verify, s->verified, s->verify_ns, m->device_count == 1);
}

/* What each of several devices is and got. */
static void devices_json(struct h2d_json *j, const struct h2d_transfer_values *v,
			 const struct h2d_measurement *m, const struct h2d_sample *s)
{
	if (m->device_count < 2)
		return;
	h2d_json_array_begin(j, "devices");
	for (uint32_t d = 0; d < m->device_count; d++) {
		const struct h2d_sample_part *part = &s->parts[d];

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "name", m->devices[d].name);
		h2d_json_string(j, "backend", m->devices[d].backend);
		hardware_json(j, &m->devices[d]);
		h2d_json_u64(j, "tensor_count", part->tensor_count);
		h2d_json_u64(j, "loaded_bytes", part->loaded_bytes);
		if (v->verify)
			verify_json(j, m, &part->verify, part->verified, part->verify_ns, true);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "split");
	for (size_t i = 0; i < v->split.count; i++)
		h2d_json_string(j, NULL, v->split.items[i]);
	if (!v->split.count)
		h2d_json_string(j, NULL, "layers");
	h2d_json_array_end(j);
}

static void memory_json(struct h2d_json *j, const struct h2d_measurement *m,
			const struct h2d_sample *s)
{
	const struct h2d_memory_usage *before = &m->memory.before, *peak = &m->memory.peak;

	h2d_json_object_begin(j, "memory");
	h2d_json_u64(j, "staging_bytes", s->staging_bytes);
	h2d_json_u64(j, "before_rss_anon_bytes", before->rss_anon_bytes);
	h2d_json_u64(j, "before_rss_file_bytes", before->rss_file_bytes);
	h2d_json_u64(j, "before_hugetlb_bytes", before->hugetlb_bytes);
	h2d_json_u64(j, "before_pinned_bytes", before->pinned_bytes);
	h2d_json_u64(j, "peak_rss_anon_bytes", peak->rss_anon_bytes);
	h2d_json_u64(j, "peak_rss_file_bytes", peak->rss_file_bytes);
	h2d_json_u64(j, "peak_rss_shmem_bytes", peak->rss_shmem_bytes);
	h2d_json_u64(j, "peak_hugetlb_bytes", peak->hugetlb_bytes);
	h2d_json_u64(j, "peak_locked_bytes", peak->locked_bytes);
	h2d_json_u64(j, "peak_pinned_bytes", peak->pinned_bytes);
	h2d_json_u64(j, "sample_count", m->memory.sample_count);
	h2d_json_u64(j, "sample_interval_ns", H2D_MEMORY_INTERVAL_MS * UINT64_C(1000000));
	h2d_json_object_end(j);
}

static void engine_json(struct h2d_json *j, const struct h2d_transfer_values *v,
			const struct h2d_sample *s)
{
	h2d_json_object_begin(j, "engine");
	h2d_json_u64(j, "thread_count", s->thread_count);
	h2d_json_u64(j, "chunk_bytes", s->chunk_bytes);
	if (s->sizes_from)
		h2d_json_string(j, "sizes_from", s->sizes_from);
	h2d_json_string(j, "cache", v->cache ? v->cache : "keep");
	h2d_json_string(j, "present", v->present ? v->present : "none");
	h2d_json_bool(j, "per_tensor", v->per_tensor);
	h2d_json_u64(j, "tensor_count", s->tensor_count);
	h2d_json_u64(j, "loaded_bytes", s->loaded_bytes);
	h2d_json_u64(j, "read_bytes", s->read_bytes);
	h2d_json_u64(j, "chunk_count", s->chunk_count);
	h2d_json_u64(j, "copy_count", s->copy_count);
	h2d_json_u64(j, "in_flight_max_count", s->max_in_flight_count);
	h2d_json_u64(j, "quarantined_bytes", s->quarantined_bytes);
	h2d_json_object_end(j);
}

static void samples_json(struct h2d_json *j, const struct h2d_transfer_values *v,
			 const struct h2d_measurement *m)
{
	h2d_json_array_begin(j, "samples");
	for (size_t i = 0; i < m->sample_count; i++) {
		const struct h2d_sample *s = &m->samples[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "path_used", s->path_used);
		timing_json(j, m, s);
		throughput_json(j, s);
		cache_json(j, s);
		faults_json(j, s);
		hmm_json(j, s);
		if (v->verify)
			verify_all_json(j, m, s);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

static void tensors_json(struct h2d_json *j, const struct h2d_measurement *m,
			 const struct h2d_sample *s)
{
	struct h2d_tensor_info t = H2D_OPTS(t);

	h2d_json_array_begin(j, "tensors");
	for (uint64_t i = 0; i < s->tensor_count; i++) {
		const struct h2d_tensor_report *r = &s->tensors[i];

		if (h2d_checkpoint_tensor(m->in.ckpt, s->tensor_indexes[i], &t))
			continue;
		h2d_json_object_begin(j, NULL);
		h2d_name_json(j, t.name, t.name_bytes);
		h2d_json_u64(j, "size_bytes", t.size_bytes);
		if (r->present_before_bytes == UINT64_MAX)
			h2d_cli_null(j, "present_before_bytes", "the source is not mapped");
		else
			h2d_json_u64(j, "present_before_bytes", r->present_before_bytes);
		h2d_json_u64(j, "elapsed_ns", r->elapsed_ns);
		if (r->windows < 0)
			h2d_cli_null(j, "windows", "the device cannot count them");
		else
			h2d_json_i64(j, "windows", r->windows);
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}

int h2d_measurement_document(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			     const struct h2d_measurement *m, const char *schema)
{
	const struct h2d_sample *s = h2d_measurement_reported(m);
	struct h2d_json j;

	h2d_cli_document(cli, &j, schema, 1, 1);
	h2d_input_json(cli, &j, &m->in);
	device_json(&j, v, m);
	devices_json(&j, v, m, s);
	path_json(&j, s);
	timing_json(&j, m, s);
	throughput_json(&j, s);
	memory_json(&j, m, s);
	cache_json(&j, s);
	faults_json(&j, s);
	hmm_json(&j, s);
	engine_json(&j, v, s);
	if (v->verify)
		verify_all_json(&j, m, s);
	if (v->repeat)
		samples_json(&j, v, m);
	if (v->per_tensor)
		tensors_json(&j, m, s);
	return h2d_cli_document_end(cli, &j);
}
