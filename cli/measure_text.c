/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "measure.h"
#include "path/table.h"
#include "text.h"

static void label(FILE *out, const char *name)
{
	fprintf(out, "%-12s", name);
}

static void print_path(FILE *out, const struct h2d_transfer_values *v,
		       const struct h2d_sample *s)
{
	char size[32];

	label(out, "path");
	fputs(s->path_used ? s->path_used : "?", out);
	if (v->path && s->path_used && strcmp(v->path, s->path_used))
		fprintf(out, " for %s", v->path);
	if (s->reason && s->reason[0]) {
		fputs(": ", out);
		h2d_text_safe(out, s->reason, strlen(s->reason));
	}
	fputc('\n', out);
	for (uint32_t i = 0; s->extent_count > 1 && i < s->extent_count; i++) {
		h2d_text_bytes(size, sizeof(size), s->extent_bytes[i]);
		fprintf(out, "%-12s%s by %s\n", "", size, s->extent_path[i]);
	}
}

static void print_time(FILE *out, const struct h2d_measurement *m, const struct h2d_sample *s)
{
	char open[32], plan[32], allocate[32], transfer[32], total[32];

	h2d_text_ns(open, sizeof(open), m->in.open_ns);
	h2d_text_ns(plan, sizeof(plan), s->plan_ns);
	h2d_text_ns(allocate, sizeof(allocate), s->allocate_ns);
	h2d_text_ns(transfer, sizeof(transfer), s->transfer_ns);
	h2d_text_ns(total, sizeof(total), m->in.open_ns + s->total_ns);
	label(out, "time");
	fprintf(out, "%s (open %s, plan %s, allocate %s, transfer %s)\n", total, open, plan,
		allocate, transfer);
}

static void print_throughput(FILE *out, const struct h2d_measurement *m,
			     const struct h2d_sample *s)
{
	const char *what = m->device_count > 1 ? "part" : "tensor";
	char size[32], rate[32];

	h2d_text_bytes(size, sizeof(size), s->loaded_bytes);
	label(out, "loaded");
	fprintf(out, "%s in %llu %s%s", size, (unsigned long long)s->tensor_count, what,
		s->tensor_count == 1 ? "" : "s");
	if (s->path_used && strcmp(s->path_used, "view") && s->total_ns) {
		h2d_text_bytes(rate, sizeof(rate),
			       (uint64_t)((double)s->loaded_bytes * 1e9 / (double)s->total_ns));
		fprintf(out, ", %s/s", rate);
	}
	fputc('\n', out);
}

static void print_memory(FILE *out, const struct h2d_measurement *m, const struct h2d_sample *s)
{
	char staging[32], anon[32], file[32];

	h2d_text_bytes(staging, sizeof(staging), s->staging_bytes);
	h2d_text_bytes(anon, sizeof(anon), m->memory.peak.rss_anon_bytes);
	h2d_text_bytes(file, sizeof(file), m->memory.peak.rss_file_bytes);
	label(out, "memory");
	fprintf(out, "staging %s, peak RssAnon %s, peak RssFile %s\n", staging, anon, file);
}

static void print_cache(FILE *out, const struct h2d_sample *s)
{
	label(out, "page cache");
	if (s->cache_before.method == H2D_CACHE_UNKNOWN)
		fprintf(out, "unknown: %s\n",
			s->cache_before.why ? s->cache_before.why : "no reason");
	else if (s->cache_after.method == H2D_CACHE_UNKNOWN)
		fprintf(out, "%.4g %% before, after unknown\n",
			h2d_cache_pct(&s->cache_before));
	else
		fprintf(out, "%.4g %% before, %.4g %% after (%s)\n",
			h2d_cache_pct(&s->cache_before), h2d_cache_pct(&s->cache_after),
			h2d_cache_method_name(s->cache_after.method));
}

const char *h2d_measurement_exposure(const struct h2d_sample *s)
{
	const struct h2d_path *p = s->path_used ? h2d_path_find(s->path_used) : NULL;

	if (!p || p->source == H2D_SOURCE_AUTO || p->source == H2D_SOURCE_DEVICE)
		return "depends on the path of each extent";
	if (p->staging == H2D_STAGING_RING)
		return "immune: the sources are memory pinned by the device, which HMM never "
		       "sees";
	if (p->staging != H2D_STAGING_NONE || p->source == H2D_SOURCE_WHOLE)
		return "immune: the sources are anonymous memory of the load's own, whose "
		       "entries are writable already";
	if (p->source == H2D_SOURCE_MAP_WRITABLE)
		return "exposed: the mapping is writable, so every present page of a copy has "
		       "to be replaced";
	return "immune: the mapping is read-only, so write access is never asked for";
}

static void print_hmm(FILE *out, const struct h2d_sample *s)
{
	label(out, "HMM");
	fprintf(out, "%llu windows, %llu restarts in %llu requests\n%-12s%s\n",
		(unsigned long long)s->hmm.windows, (unsigned long long)s->hmm.restarts,
		(unsigned long long)s->hmm.requests, "", h2d_measurement_exposure(s));
}

static void print_verify(FILE *out, const struct h2d_measurement *m, const struct h2d_sample *s)
{
	char name[256];

	label(out, s->verified ? "verified" : "MISMATCH");
	if (s->verified)
		fprintf(out, "%llu %s%s equal%s an independent read (%s)\n",
			(unsigned long long)s->verify.tensor_count,
			m->device_count > 1 ? "part" : "tensor",
			s->verify.tensor_count == 1 ? "" : "s",
			s->verify.tensor_count == 1 ? "s" : "", s->verify.algorithm);
	else
		fprintf(out, "tensor %s differs from byte %llu on\n",
			h2d_input_name(&m->in, s->verify.mismatch_tensor, name, sizeof(name)),
			(unsigned long long)s->verify.mismatch_offset);
}

static void print_tensors(FILE *out, const struct h2d_measurement *m,
			  const struct h2d_sample *s)
{
	char size[32], time[32], present[32];
	struct h2d_tensor_info t = H2D_OPTS(t);

	fprintf(out, "\n%12s  %12s  %12s  %7s  %s\n", "size", "present", "time", "windows",
		"name");
	for (uint64_t i = 0; i < s->tensor_count; i++) {
		const struct h2d_tensor_report *r = &s->tensors[i];

		if (h2d_checkpoint_tensor(m->in.ckpt, s->tensor_indexes[i], &t))
			continue;
		h2d_text_bytes(size, sizeof(size), t.size_bytes);
		h2d_text_ns(time, sizeof(time), r->elapsed_ns);
		if (r->present_before_bytes == UINT64_MAX)
			snprintf(present, sizeof(present), "-");
		else
			h2d_text_bytes(present, sizeof(present), r->present_before_bytes);
		fprintf(out, "%12s  %12s  %12s  ", size, present, time);
		if (r->windows < 0)
			fprintf(out, "%7s  ", "-");
		else
			fprintf(out, "%7lld  ", (long long)r->windows);
		h2d_text_safe(out, t.name, t.name_bytes);
		fputc('\n', out);
	}
}

static void print_samples(FILE *out, const struct h2d_measurement *m)
{
	uint64_t least = UINT64_MAX, most = 0;
	char low[32], high[32];

	for (size_t i = 0; i < m->sample_count; i++) {
		uint64_t t = m->samples[i].total_ns;

		least = t < least ? t : least;
		most = t > most ? t : most;
	}
	h2d_text_ns(low, sizeof(low), least);
	h2d_text_ns(high, sizeof(high), most);
	label(out, "samples");
	fprintf(out, "%zu, from %s to %s; this is the median one\n", m->sample_count, low,
		high);
}

static void print_devices(FILE *out, const struct h2d_transfer_values *v,
			  const struct h2d_measurement *m, const struct h2d_sample *s)
{
	for (uint32_t d = 0; d < m->device_count; d++) {
		const struct h2d_device_info *info = &m->devices[d];
		const struct h2d_sample_part *part = &s->parts[d];
		char size[32];

		label(out, d ? "" : "device");
		/* As --split counts them. */
		if (m->device_count > 1)
			fprintf(out, "%u: ", d);
		fprintf(out, "%s%s%s%s", info->name,
			info->hardware && info->hardware[0] ? ", " : "",
			info->hardware ? info->hardware : "", v->device ? "" : " (by default)");
		h2d_text_bytes(size, sizeof(size), part->loaded_bytes);
		if (m->device_count > 1)
			fprintf(out, ": %s in %llu tensor%s", size,
				(unsigned long long)part->tensor_count,
				part->tensor_count == 1 ? "" : "s");
		fputc('\n', out);
	}
}

void h2d_measurement_print(struct h2d_cli *cli, const struct h2d_transfer_values *v,
			   const struct h2d_measurement *m)
{
	const struct h2d_sample *s = h2d_measurement_reported(m);
	FILE *out = cli->out;

	label(out, "checkpoint");
	h2d_input_print(cli, &m->in);
	print_devices(out, v, m, s);
	print_path(out, v, s);
	print_time(out, m, s);
	print_throughput(out, m, s);
	print_memory(out, m, s);
	print_cache(out, s);
	label(out, "faults");
	fprintf(out, "%llu major, %llu minor\n", (unsigned long long)s->major_faults,
		(unsigned long long)s->minor_faults);
	if (s->hmm_visible)
		print_hmm(out, s);
	if (v->verify)
		print_verify(out, m, s);
	if (v->repeat > 1)
		print_samples(out, m);
	if (v->per_tensor)
		print_tensors(out, m, s);
}
