/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "path/table.h"
#include "progress.h"
#include "text.h"

static char *copy(const char *s)
{
	return s ? strdup(s) : NULL;
}

static void take_report(struct h2d_sample *s, const struct h2d_report *r)
{
	s->plan_ns = r->plan_ns;
	s->allocate_ns = r->allocate_ns;
	s->transfer_ns = r->transfer_ns;
	s->total_ns = r->total_ns;
	s->loaded_bytes = r->loaded_bytes;
	s->read_bytes = r->read_bytes;
	s->tensor_count = r->tensor_count;
	s->chunk_count = r->chunk_count;
	s->copy_count = r->copy_count;
	s->chunk_bytes = r->chunk_bytes;
	s->staging_bytes = r->staging_bytes;
	s->max_in_flight_count = r->max_in_flight_count;
	s->quarantined_bytes = r->quarantined_bytes;
	s->thread_count = r->threads;
	s->sizes_from = r->sizes_from;
	s->path_requested = copy(r->path_requested);
	s->path_used = copy(r->path_used);
	s->reason = copy(r->reason);
	for (uint32_t i = 0; i < r->extent_count && i < H2D_EXTENT_KINDS; i++) {
		s->extent_path[i] = copy(r->extent_path[i]);
		s->extent_bytes[i] = r->extent_bytes[i];
		s->extent_count = i + 1;
	}
}

/* What --per-tensor measured. */
static int take_tensors(struct h2d_sample *s, const struct h2d_weights *weights)
{
	uint64_t count = h2d_weights_count(weights);

	s->tensors = calloc(count + 1, sizeof(*s->tensors));
	s->tensor_indexes = calloc(count + 1, sizeof(*s->tensor_indexes));
	if (!s->tensors || !s->tensor_indexes)
		return H2D_E_NOMEM;
	s->tensor_count = count;
	for (uint64_t i = 0; i < count; i++) {
		int rc;

		s->tensors[i] = (struct h2d_tensor_report)H2D_OPTS(s->tensors[i]);
		rc = h2d_weights_data(weights, i, &s->tensor_indexes[i], NULL, NULL);
		if (!rc)
			rc = h2d_weights_tensor_report(weights, i, &s->tensors[i]);
		if (rc)
			return rc;
	}
	return 0;
}

static int verify_part(struct h2d_cli *cli, const struct h2d_load_opts *load_opts,
		       const struct h2d_weights *weights, struct h2d_sample_part *part)
{
	struct h2d_load_opts opts = *load_opts;
	struct h2d_progress progress;
	uint64_t begin = h2d_now_ns();
	int rc;

	h2d_progress_begin(&progress, cli, "verify");
	opts.progress = h2d_progress_update;
	opts.progress_user = &progress;
	part->verify = (struct h2d_verify_result)H2D_OPTS(part->verify);
	rc = h2d_verify(weights, &opts, &part->verify);
	h2d_progress_end(&progress, !rc);
	part->verify_ns = h2d_now_ns() - begin;
	part->verified = !rc;
	return rc == H2D_E_MISMATCH ? 0 : rc;
}

static int verify(struct h2d_cli *cli, struct h2d_measurement *m, struct h2d_sample *s,
		  const struct h2d_load_opts *opts, struct h2d_weights *const *weights)
{
	int rc = 0;

	s->verified = true;
	for (uint32_t d = 0; !rc && d < m->device_count; d++) {
		struct h2d_sample_part *part = &s->parts[d];
		struct h2d_verify_result sum;

		rc = verify_part(cli, opts, weights[d], part);
		sum = part->verify;
		sum.tensor_count += s->verify.tensor_count;
		sum.compared_bytes += s->verify.compared_bytes;
		if (!s->verified) {
			sum.mismatch_tensor = s->verify.mismatch_tensor;
			sum.mismatch_offset = s->verify.mismatch_offset;
		}
		s->verify = sum;
		s->verify_ns += part->verify_ns;
		s->verified &= part->verified;
	}
	m->mismatch |= !rc && !s->verified;
	return rc;
}

static bool counts_hmm(const struct h2d_device *dev)
{
	return (dev->caps & H2D_DEV_HMM) && dev->backend->hmm_count;
}

/* Since the devices were opened; zeros where they do not count. */
static struct h2d_hmm_total hmm_total(const struct h2d_measurement *m)
{
	struct h2d_hmm_total sum = {0};

	for (uint32_t d = 0; d < m->device_count; d++) {
		struct h2d_hmm_count count = {0};

		if (counts_hmm(m->devs[d]))
			m->devs[d]->backend->hmm_count(m->devs[d], &count);
		sum.requests += count.total.requests;
		sum.restarts += count.total.restarts;
		sum.windows += count.total.windows;
		sum.notifier_callbacks += count.total.notifier_callbacks;
	}
	return sum;
}

static void take_hmm(struct h2d_sample *s, const struct h2d_measurement *m,
		     const struct h2d_hmm_total *before)
{
	const struct h2d_hmm_total after = hmm_total(m);

	for (uint32_t d = 0; d < m->device_count; d++)
		s->hmm_visible |= counts_hmm(m->devs[d]);
	s->hmm = (struct h2d_hmm_total){
		.requests = after.requests - before->requests,
		.restarts = after.restarts - before->restarts,
		.windows = after.windows - before->windows,
		.notifier_callbacks = after.notifier_callbacks - before->notifier_callbacks,
	};
}

/* The reports of several devices speak of the load as a whole, except what each of them got. */
static int take_reports(struct h2d_sample *s, struct h2d_measurement *m,
			struct h2d_weights *const *weights)
{
	uint64_t loaded = 0, tensors = 0;
	int rc = 0;

	s->parts = calloc(m->device_count, sizeof(*s->parts));
	if (!s->parts)
		return H2D_E_NOMEM;
	for (uint32_t d = 0; !rc && d < m->device_count; d++) {
		struct h2d_report report = H2D_OPTS(report);

		rc = h2d_weights_report(weights[d], &report);
		if (!rc && !d)
			take_report(s, &report);
		s->parts[d].loaded_bytes = report.loaded_bytes;
		s->parts[d].tensor_count = report.tensor_count;
		loaded += report.loaded_bytes;
		tensors += report.tensor_count;
	}
	s->loaded_bytes = loaded;
	s->tensor_count = tensors;
	return rc;
}

static int load_weights(struct h2d_measurement *m, const struct h2d_load_opts *opts,
			struct h2d_weights **weights)
{
	if (m->device_count == 1)
		return h2d_load(m->in.ckpt, m->devs[0], opts, weights);
	return h2d_load_split(m->in.ckpt, m->devs, m->device_count, h2d_split_part, &m->split,
			      opts, weights);
}

static int load_once(struct h2d_cli *cli, struct h2d_transfer_values *v,
		     struct h2d_measurement *m, struct h2d_sample *s)
{
	struct h2d_weights *weights[H2D_DEVICES_MAX] = {NULL};
	struct h2d_progress progress;
	struct h2d_load_opts opts;
	struct rusage before, after;
	struct h2d_hmm_total hmm;
	uint64_t begin;
	int rc;

	if (h2d_signals_caught())
		return H2D_E_CANCELLED;
	h2d_transfer_opts(cli, v, &opts);
	h2d_progress_begin(&progress, cli, "load");
	opts.progress = h2d_progress_update;
	opts.progress_user = &progress;
	h2d_input_cache_all(&m->in, &s->cache_before);
	hmm = hmm_total(m);
	getrusage(RUSAGE_SELF, &before);
	rc = load_weights(m, &opts, weights);
	getrusage(RUSAGE_SELF, &after);
	take_hmm(s, m, &hmm);
	h2d_progress_end(&progress, !rc);
	if (rc)
		return rc;
	h2d_memory_sample(&m->memory);
	h2d_input_cache_all(&m->in, &s->cache_after);
	s->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
	s->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	rc = take_reports(s, m, weights);
	if (!rc && v->per_tensor)
		rc = take_tensors(s, weights[0]);
	if (!rc && v->verify)
		rc = verify(cli, m, s, &opts, weights);
	begin = h2d_now_ns();
	for (uint32_t d = 0; d < m->device_count; d++)
		h2d_weights_free(weights[d]);
	s->free_ns = h2d_now_ns() - begin;
	return rc;
}

/* Whether --trace can be written at all, before a long load finds out. */
static int check_trace(struct h2d_cli *cli, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char folder[4096];
	size_t bytes = slash ? (size_t)(slash - path) + 1 : 0;

	if (!path)
		return H2D_EXIT_OK;
	if (bytes >= sizeof(folder))
		return h2d_cli_usage(cli, "--trace: the path is too long");
	memcpy(folder, slash ? path : "./", slash ? bytes : 2);
	folder[slash ? bytes : 2] = 0;
	if (access(folder, W_OK | X_OK))
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "--trace: %s: %s", path,
				     strerror(errno));
	return H2D_EXIT_OK;
}

/* What makes no sense on any machine. What cannot run on this one the library refuses. */
static int check_words(struct h2d_cli *cli, const struct h2d_transfer_values *v)
{
	const struct h2d_path *path = h2d_path_find(v->path ? v->path : "auto");

	if (v->present && strcmp(v->present, "none") && !(path->flags & H2D_PATH_PRESENT))
		return h2d_cli_usage(cli, "path %s has no mapping that could be made present",
				     path->name);
	if (v->trace && path->source == H2D_SOURCE_VIEW)
		return h2d_cli_usage(cli,
				     "path %s reads and copies nothing that could be traced",
				     path->name);
	return check_trace(cli, v->trace);
}

/* With several devices: who gets what. */
static int share(struct h2d_cli *cli, const struct h2d_transfer_values *v,
		 struct h2d_measurement *m)
{
	const struct h2d_path *path = h2d_path_find(v->path ? v->path : "auto");

	if (m->device_count == 1) {
		if (v->split.count)
			return h2d_cli_usage(cli, "--split divides among several devices: "
						  "name them with --device, for example "
						  "--device cuda:0,cuda:1");
		return H2D_EXIT_OK;
	}
	if (v->per_tensor)
		return h2d_cli_usage(cli, "--per-tensor: tensors are timed on one device at a "
					  "time");
	if (h2d_path_one_device(path))
		return h2d_cli_usage(cli, "--path %s fills one device at a time", path->name);
	return h2d_split_decide(cli, &m->in, &v->selection, &v->split, m->device_count,
				&m->split);
}

static void warn_of_empty(struct h2d_cli *cli, const struct h2d_measurement *m)
{
	for (uint32_t d = 0; d < m->device_count; d++)
		if (!m->samples[0].parts[d].tensor_count && m->device_count > 1)
			h2d_cli_warn(cli, "device %s (number %u) gets no tensor by this split",
				     m->devices[d].name, d);
}

int h2d_measure(struct h2d_cli *cli, struct h2d_transfer_values *v, const char *checkpoint,
		struct h2d_measurement *m)
{
	uint64_t begin, repeat = v->repeat ? v->repeat : 1;
	int exit, rc = 0;

	memset(m, 0, sizeof(*m));
	exit = check_words(cli, v);
	if (exit)
		return exit;
	exit = h2d_input_open(cli, checkpoint, &m->in);
	if (!exit)
		exit = h2d_selection_check(cli, &m->in, &v->selection);
	if (exit)
		return exit;
	begin = h2d_now_ns();
	exit = h2d_transfer_devices(cli, v, v->verify, m->devs, m->devices, &m->device_count);
	m->device_open_ns = h2d_now_ns() - begin;
	if (!exit)
		exit = share(cli, v, m);
	if (exit)
		return exit;
	v->retry_policy = h2d_kernel_policy(cli, v, m->devs, m->device_count);
	m->samples = calloc(repeat, sizeof(*m->samples));
	if (!m->samples)
		return h2d_cli_error(cli, H2D_EXIT_SYSTEM, "--repeat: out of memory");
	h2d_memory_start(&m->memory);
	for (uint64_t i = 0; i < repeat && !rc; i++) {
		m->sample_count++;
		rc = load_once(cli, v, m, &m->samples[i]);
	}
	h2d_memory_stop(&m->memory);
	if (rc)
		return h2d_cli_fail(cli, H2D_STAGE_LOAD, rc, "%s", checkpoint);
	warn_of_empty(cli, m);
	return m->mismatch ? H2D_EXIT_NEGATIVE : H2D_EXIT_OK;
}

void h2d_measurement_release(struct h2d_measurement *m)
{
	for (size_t i = 0; i < m->sample_count; i++) {
		struct h2d_sample *s = &m->samples[i];

		free(s->path_requested);
		free(s->path_used);
		free(s->reason);
		for (uint32_t k = 0; k < s->extent_count; k++)
			free(s->extent_path[k]);
		free(s->parts);
		free(s->tensors);
		free(s->tensor_indexes);
	}
	free(m->samples);
	for (uint32_t d = 0; d < m->device_count; d++)
		h2d_device_close(m->devs[d]);
	h2d_split_release(&m->split);
	h2d_input_close(&m->in);
	memset(m, 0, sizeof(*m));
}

static int by_total(const void *a, const void *b)
{
	const struct h2d_sample *const *x = a, *const *y = b;

	return ((*x)->total_ns > (*y)->total_ns) - ((*x)->total_ns < (*y)->total_ns);
}

const struct h2d_sample *h2d_measurement_reported(const struct h2d_measurement *m)
{
	const struct h2d_sample **order, *median = &m->samples[0];

	for (size_t i = 0; m->mismatch && i < m->sample_count; i++)
		if (!m->samples[i].verified)
			return &m->samples[i];
	order = calloc(m->sample_count, sizeof(*order));
	if (!order)
		return median;
	for (size_t i = 0; i < m->sample_count; i++)
		order[i] = &m->samples[i];
	qsort(order, m->sample_count, sizeof(*order), by_total);
	median = order[(m->sample_count - 1) / 2];
	free(order);
	return median;
}

static int report(struct h2d_cli *cli, const struct h2d_transfer_values *v,
		  const struct h2d_measurement *m, int exit, const char *schema)
{
	const struct h2d_sample *s = h2d_measurement_reported(m);
	char name[256], where[192] = "";

	if (cli->common.json) {
		int rc = h2d_measurement_document(cli, v, m, schema);

		if (rc)
			return rc;
	} else if (!cli->common.quiet) {
		h2d_measurement_print(cli, v, m);
	}
	for (uint32_t d = 0; exit == H2D_EXIT_NEGATIVE && d < m->device_count; d++)
		if (!s->parts[d].verified) {
			const struct h2d_verify_result *r = &s->parts[d].verify;

			h2d_input_name(&m->in, r->mismatch_tensor, name, sizeof(name));
			if (m->device_count > 1)
				snprintf(where, sizeof(where), " on device %s (number %u)",
					 m->devices[d].name, d);
			h2d_cli_error(
				cli, exit,
				"%s: tensor %s%s differs from byte %llu on: it was not "
				"delivered right, or the file was written through a mapping "
				"meanwhile, which need not move its times",
				m->in.info.path, name, where,
				(unsigned long long)r->mismatch_offset);
			break;
		}
	return exit;
}

int h2d_measure_command(struct h2d_cli *cli, struct h2d_transfer_values *v,
			const char *checkpoint, const char *schema)
{
	struct h2d_measurement m;
	int exit = h2d_measure(cli, v, checkpoint, &m);

	if (exit == H2D_EXIT_OK || exit == H2D_EXIT_NEGATIVE)
		exit = report(cli, v, &m, exit, schema);
	h2d_measurement_release(&m);
	return exit;
}
