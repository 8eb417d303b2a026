/* SPDX-License-Identifier: Apache-2.0 */
/* Our own loader behind the protocol of docs/bench-protocol.md: what `h2d bench run` starts. */
#include <stdlib.h>
#include <string.h>

#include "bench/value.h"
#include "commands.h"
#include "core/clock.h"
#include "measure.h"

struct cell {
	struct h2d_cli *cli;
	json_t *request;
	struct h2d_transfer_values v;
	uint64_t chunk_bytes, staging_bytes;
	bool present; /**< mapping presence is part of the cell */
	struct h2d_device *dev;
	struct h2d_device_info device;
	struct h2d_checkpoint *ckpt;
	struct h2d_weights *weights;
	struct h2d_report report;
	uint64_t repeat_count;
	json_t *repeats; /* ns, in order */
	struct times {
		uint64_t begin_ns, opened_ns, end_ns;
		uint64_t plan_ns, allocate_ns, transfer_ns;
		uint64_t elapsed_ns; /* what counts: of the copies alone where presence is
					part of the cell */
	} now, best;
	double present_pct; /* negative: unknown; of the last load */
	struct h2d_hmm_total hmm;
	bool hmm_visible;
};

static void begin(struct h2d_json *j, const char *event)
{
	h2d_json_init_memory(j, false);
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "event", event);
}

static int say(struct cell *c, struct h2d_json *j)
{
	char *text;
	int rc;

	h2d_json_object_end(j);
	rc = h2d_json_finish(j);
	text = h2d_json_take(j);
	if (!rc && text) {
		fputs(text, c->cli->out);
		fflush(c->cli->out);
	}
	free(text);
	return rc || !text || c->cli->out_errno ? -1 : 0;
}

static const char *kind_of(int status)
{
	switch (status) {
	case H2D_E_INVALID:
	case H2D_E_UNSUPPORTED:
	case H2D_E_UNAVAILABLE:
		return "unsupported";
	case H2D_E_NOMEM:
	case H2D_E_DEVICE_MEMORY:
		return "out_of_memory";
	default:
		return "failed";
	}
}

/* Told in a line: the runner is who listens. */
static int refuse(struct cell *c, int status, const char *what)
{
	struct h2d_json j;

	begin(&j, "error");
	h2d_json_string(&j, "kind", kind_of(status));
	if (c->cli->have_message)
		h2d_json_string(&j, "message", c->cli->message);
	else
		h2d_json_stringf(&j, "message", "%s: %s", what, h2d_status_string(status));
	say(c, &j);
	return status;
}

static json_t *read_line(void)
{
	char *line = NULL;
	size_t room = 0;
	json_t *json = NULL;

	if (getline(&line, &room, stdin) > 0)
		json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	free(line);
	return json;
}

static const char *size_option(const json_t *options, const char *key, uint64_t *out)
{
	const char *text = h2d_get_text(options, key);

	return text ? h2d_size_parse(text, out) : NULL;
}

static int read_request(struct cell *c)
{
	const json_t *options;

	c->request = read_line();
	if (h2d_get_u64(c->request, "protocol") != 1 || !h2d_get_text(c->request, "checkpoint"))
		return h2d_cli_error(c->cli, H2D_EXIT_INPUT,
				     "the first line is no request of protocol 1: this command "
				     "is started by 'h2d bench run'");
	options = json_object_get(c->request, "options");
	c->v.path = h2d_get_text(c->request, "path");
	c->v.device = h2d_get_text(c->request, "device");
	c->v.present = h2d_get_text(c->request, "present");
	c->present = c->v.present != NULL;
	c->v.cache = h2d_get_text(options, "cache");
	c->v.calibrate = "never"; /* one cell must not decide the sizes of the next */
	c->v.threads = h2d_get_u64(options, "threads");
	c->repeat_count = h2d_get_u64(options, "repeat");
	c->repeat_count += !c->repeat_count;
	c->v.verify = json_is_true(json_object_get(c->request, "verify"));
	/* Presence is proven tensor by tensor. */
	c->v.per_tensor = c->present || json_is_true(json_object_get(options, "per_tensor"));
	if (size_option(options, "chunk", &c->v.chunk_bytes) ||
	    size_option(options, "staging", &c->v.staging_bytes))
		return refuse(c, H2D_E_INVALID, "chunk or staging");
	return 0;
}

static int open_device(struct cell *c)
{
	struct h2d_device_opts opts = H2D_OPTS(opts);
	int rc;

	opts.log = h2d_cli_log;
	opts.log_user = c->cli;
	rc = h2d_device_open(c->v.device, &opts, &c->dev);
	c->device = (struct h2d_device_info)H2D_OPTS(c->device);
	if (!rc)
		rc = h2d_device_info(c->dev, &c->device);
	if (rc)
		/* "Not found" of a device is no failure of the loader. */
		return refuse(c, rc == H2D_E_NOT_FOUND ? H2D_E_UNAVAILABLE : rc, "device");
	return 0;
}

static int say_ready(struct cell *c)
{
	struct h2d_json j;

	begin(&j, "ready");
	h2d_json_string(&j, "name", "h2d");
	h2d_json_stringf(&j, "version", "%d.%d.%d", H2D_VERSION_MAJOR, H2D_VERSION_MINOR,
			 H2D_VERSION_PATCH);
	h2d_json_bool(&j, "verifiable", c->device.readable);
	h2d_json_object_begin(&j, "details");
	h2d_json_string(&j, "backend", c->device.backend);
	if (c->device.hardware && c->device.hardware[0])
		h2d_json_string(&j, "hardware", c->device.hardware);
	h2d_json_object_end(&j);
	return say(c, &j);
}

static struct h2d_hmm_total hmm_total(struct cell *c)
{
	struct h2d_hmm_count count = {0};

	c->hmm_visible = (c->dev->caps & H2D_DEV_HMM) && c->dev->backend->hmm_count;
	if (c->hmm_visible)
		c->dev->backend->hmm_count(c->dev, &count);
	return count.total;
}

/* Of the copies alone, and how much of their sources was present before them. */
static int take_tensors(struct cell *c)
{
	uint64_t present = 0, bytes = 0;

	c->now.elapsed_ns = 0;
	c->present_pct = -1;
	for (uint64_t i = 0; i < h2d_weights_count(c->weights); i++) {
		struct h2d_tensor_report r = H2D_OPTS(r);
		uint64_t size;
		int rc = h2d_weights_tensor_report(c->weights, i, &r);

		if (!rc)
			rc = h2d_weights_data(c->weights, i, NULL, NULL, &size);
		if (rc)
			return rc;
		c->now.elapsed_ns += r.elapsed_ns;
		if (r.present_before_bytes == UINT64_MAX)
			continue;
		present += r.present_before_bytes;
		bytes += size;
	}
	if (bytes)
		c->present_pct = 100 * (double)present / (double)bytes;
	return 0;
}

static void drop_weights(struct cell *c)
{
	h2d_weights_free(c->weights);
	h2d_checkpoint_close(c->ckpt);
	c->weights = NULL;
	c->ckpt = NULL;
}

static int load_once(struct cell *c)
{
	struct h2d_open_opts open_opts = H2D_OPTS(open_opts);
	struct h2d_hmm_total before;
	struct h2d_load_opts opts;
	int rc;

	before = hmm_total(c);
	h2d_transfer_opts(c->cli, &c->v, &opts);
	open_opts.log = h2d_cli_log;
	open_opts.log_user = c->cli;
	c->now.begin_ns = h2d_now_ns();
	rc = h2d_checkpoint_open(h2d_get_text(c->request, "checkpoint"), &open_opts, &c->ckpt);
	c->now.opened_ns = h2d_now_ns();
	if (!rc)
		rc = h2d_load(c->ckpt, c->dev, &opts, &c->weights);
	c->now.end_ns = h2d_now_ns();
	if (rc)
		return refuse(c, rc, "load");
	c->hmm = hmm_total(c);
	c->hmm.requests -= before.requests;
	c->hmm.restarts -= before.restarts;
	c->hmm.windows -= before.windows;
	c->hmm.notifier_callbacks -= before.notifier_callbacks;
	c->report = (struct h2d_report)H2D_OPTS(c->report);
	rc = h2d_weights_report(c->weights, &c->report);
	c->now.plan_ns = c->report.plan_ns;
	c->now.allocate_ns = c->report.allocate_ns;
	c->now.transfer_ns = c->report.transfer_ns;
	c->now.elapsed_ns = c->now.end_ns - c->now.begin_ns;
	if (!rc && c->present)
		rc = take_tensors(c);
	if (!rc && c->present && c->present_pct < 0)
		return refuse(c, H2D_E_UNSUPPORTED, "there is no mapping to look at");
	return rc ? refuse(c, rc, "report") : 0;
}

/* The least disturbed of them counts: others on the machine only ever add time. */
static int load(struct cell *c)
{
	c->repeats = json_array();
	for (uint64_t i = 0; i < c->repeat_count; i++) {
		int rc;

		drop_weights(c);
		rc = load_once(c);
		if (rc)
			return rc;
		if (!i || c->now.elapsed_ns < c->best.elapsed_ns)
			c->best = c->now;
		json_array_append_new(c->repeats, json_integer((json_int_t)c->now.elapsed_ns));
	}
	return 0;
}

static void phase(struct h2d_json *j, const char *name, uint64_t *at, uint64_t length,
		  uint64_t end)
{
	const uint64_t from = *at, to = end - from < length ? end : from + length;

	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", name);
	h2d_json_u64(j, "begin_ns", from);
	h2d_json_u64(j, "end_ns", to);
	h2d_json_object_end(j);
	*at = to;
}

static void write_details(struct h2d_json *j, const struct cell *c)
{
	const struct h2d_report *r = &c->report;

	h2d_json_object_begin(j, "details");
	h2d_json_string(j, "path_used", r->path_used);
	h2d_json_string(j, "reason", r->reason ? r->reason : "");
	h2d_json_u64(j, "thread_count", r->threads);
	h2d_json_u64(j, "chunk_bytes", r->chunk_bytes);
	h2d_json_u64(j, "staging_bytes", r->staging_bytes);
	h2d_json_u64(j, "read_bytes", r->read_bytes);
	h2d_json_u64(j, "chunk_count", r->chunk_count);
	h2d_json_u64(j, "copy_count", r->copy_count);
	if (c->hmm_visible) {
		h2d_json_object_begin(j, "hmm");
		h2d_json_u64(j, "request_count", c->hmm.requests);
		h2d_json_u64(j, "restart_count", c->hmm.restarts);
		h2d_json_u64(j, "window_count", c->hmm.windows);
		h2d_json_u64(j, "notifier_callback_count", c->hmm.notifier_callbacks);
		h2d_json_object_end(j);
	}
	h2d_json_object_end(j);
}

static int say_loaded(struct cell *c)
{
	const struct times *t = &c->best;
	uint64_t at = t->begin_ns;
	struct h2d_json j;

	begin(&j, "loaded");
	h2d_json_u64(&j, "begin_ns", t->begin_ns);
	h2d_json_u64(&j, "end_ns", t->end_ns);
	h2d_json_u64(&j, "loaded_bytes", c->report.loaded_bytes);
	if (c->repeat_count > 1)
		h2d_value_write(&j, "repeats_ns", c->repeats, false);
	if (c->present) {
		h2d_json_u64(&j, "elapsed_ns", t->elapsed_ns);
		if (c->present_pct >= 0)
			h2d_json_double(&j, "present_pct", c->present_pct);
	}
	h2d_json_array_begin(&j, "phases");
	phase(&j, "open", &at, t->opened_ns - t->begin_ns, t->end_ns);
	phase(&j, "plan", &at, t->plan_ns, t->end_ns);
	phase(&j, "allocate", &at, t->allocate_ns, t->end_ns);
	phase(&j, "transfer", &at, t->transfer_ns, t->end_ns);
	h2d_json_array_end(&j);
	write_details(&j, c);
	return say(c, &j);
}

static int verify(struct cell *c)
{
	struct h2d_verify_result result = H2D_OPTS(result);
	struct h2d_load_opts opts;
	struct h2d_json j;
	int rc;

	h2d_transfer_opts(c->cli, &c->v, &opts);
	rc = h2d_verify(c->weights, &opts, &result);
	if (rc && rc != H2D_E_MISMATCH)
		return refuse(c, rc, "verify");
	begin(&j, "verified");
	h2d_json_bool(&j, "ok", !rc);
	h2d_json_stringf(&j, "xxh3_128", "%016llx%016llx", (unsigned long long)result.hash_high,
			 (unsigned long long)result.hash_low);
	return say(c, &j);
}

/* Commands until stdin ends. */
static int obey(struct cell *c)
{
	for (;;) {
		json_t *line = read_line();
		const char *command = h2d_get_text(line, "command");
		int rc = 0;

		if (!line)
			return 0;
		if (command && !strcmp(command, "load") && !c->weights) {
			rc = load(c);
			if (!rc)
				rc = say_loaded(c);
		} else if (command && !strcmp(command, "verify") && c->weights) {
			rc = verify(c);
		} else {
			rc = -1;
		}
		json_decref(line);
		if (rc)
			return rc;
	}
}

static int run(struct h2d_cli *cli, void *values, int count, char **words)
{
	struct cell c = {.cli = cli, .present_pct = -1};
	int rc;

	(void)values;
	(void)count;
	(void)words;
	cli->document_begun = true; /* stdout speaks the protocol */
	rc = read_request(&c);
	if (!rc)
		rc = open_device(&c);
	if (!rc)
		rc = say_ready(&c);
	if (!rc)
		rc = obey(&c);
	drop_weights(&c);
	json_decref(c.repeats);
	h2d_device_close(c.dev);
	json_decref(c.request);
	return rc > 0 ? rc : rc == 0 ? H2D_EXIT_OK : H2D_EXIT_SYSTEM;
}

const struct h2d_command h2d_command_bench_cell = {
	.name = "cell",
	.summary = "one load, spoken to in lines: what bench run starts",
	.arguments = "",
	.description =
		(const char *const[]){
			"Reads a request and commands as lines of JSON on stdin and answers on "
			"stdout, as docs/bench-protocol.md says. It is started by h2d bench "
			"run, "
			"once per sample; adapters of other loaders do the same.",
			NULL,
		},
	.run = run,
};
