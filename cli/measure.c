/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
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

static int verify(struct h2d_cli *cli, struct h2d_measurement *m, struct h2d_sample *s,
		  const struct h2d_load_opts *load_opts, const struct h2d_weights *weights)
{
	struct h2d_load_opts opts = *load_opts;
	struct h2d_progress progress;
	uint64_t begin = h2d_now_ns();
	int rc;

	h2d_progress_begin(&progress, cli, "verify");
	opts.progress = h2d_progress_update;
	opts.progress_user = &progress;
	s->verify = (struct h2d_verify_result)H2D_OPTS(s->verify);
	rc = h2d_verify(weights, &opts, &s->verify);
	h2d_progress_end(&progress, !rc);
	s->verify_ns = h2d_now_ns() - begin;
	if (rc && rc != H2D_E_MISMATCH)
		return rc;
	s->verified = !rc;
	m->mismatch |= rc == H2D_E_MISMATCH;
	return 0;
}

/* Since the device was opened; zeros where it does not count. */
static struct h2d_hmm_total hmm_total(struct h2d_device *dev)
{
	struct h2d_hmm_count count = {0};

	if ((dev->caps & H2D_DEV_HMM) && dev->backend->hmm_count)
		dev->backend->hmm_count(dev, &count);
	return count.total;
}

static void take_hmm(struct h2d_sample *s, struct h2d_device *dev,
		     const struct h2d_hmm_total *before)
{
	const struct h2d_hmm_total after = hmm_total(dev);

	s->hmm_visible = (dev->caps & H2D_DEV_HMM) && dev->backend->hmm_count;
	s->hmm = (struct h2d_hmm_total){
		.requests = after.requests - before->requests,
		.restarts = after.restarts - before->restarts,
		.windows = after.windows - before->windows,
		.notifier_callbacks = after.notifier_callbacks - before->notifier_callbacks,
	};
}

static int load_once(struct h2d_cli *cli, struct h2d_transfer_values *v,
		     struct h2d_measurement *m, struct h2d_sample *s)
{
	struct h2d_report report = H2D_OPTS(report);
	struct h2d_weights *weights = NULL;
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
	hmm = hmm_total(m->dev);
	getrusage(RUSAGE_SELF, &before);
	rc = h2d_load(m->in.ckpt, m->dev, &opts, &weights);
	getrusage(RUSAGE_SELF, &after);
	take_hmm(s, m->dev, &hmm);
	h2d_progress_end(&progress, !rc);
	if (rc)
		return rc;
	h2d_memory_sample(&m->memory);
	h2d_input_cache_all(&m->in, &s->cache_after);
	s->major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt);
	s->minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt);
	rc = h2d_weights_report(weights, &report);
	if (!rc)
		take_report(s, &report);
	if (!rc && v->per_tensor)
		rc = take_tensors(s, weights);
	if (!rc && v->verify)
		rc = verify(cli, m, s, &opts, weights);
	begin = h2d_now_ns();
	h2d_weights_free(weights);
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

int h2d_measure(struct h2d_cli *cli, struct h2d_transfer_values *v, const char *checkpoint,
		struct h2d_measurement *m)
{
	uint64_t begin, repeat = v->repeat ? v->repeat : 1;
	int exit, rc = 0;

	memset(m, 0, sizeof(*m));
	exit = check_trace(cli, v->trace);
	if (exit)
		return exit;
	exit = h2d_input_open(cli, checkpoint, &m->in);
	if (!exit)
		exit = h2d_selection_check(cli, &m->in, &v->selection);
	if (exit)
		return exit;
	begin = h2d_now_ns();
	exit = h2d_transfer_device(cli, v, v->verify, &m->dev, &m->device);
	m->device_open_ns = h2d_now_ns() - begin;
	if (exit)
		return exit;
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
		free(s->tensors);
		free(s->tensor_indexes);
	}
	free(m->samples);
	h2d_device_close(m->dev);
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
	char name[256];

	if (cli->common.json) {
		int rc = h2d_measurement_document(cli, v, m, schema);

		if (rc)
			return rc;
	} else if (!cli->common.quiet) {
		h2d_measurement_print(cli, v, m);
	}
	if (exit == H2D_EXIT_NEGATIVE)
		h2d_cli_error(
			cli, exit, "%s: tensor %s differs from byte %llu on", m->in.info.path,
			h2d_input_name(&m->in, s->verify.mismatch_tensor, name, sizeof(name)),
			(unsigned long long)s->verify.mismatch_offset);
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
