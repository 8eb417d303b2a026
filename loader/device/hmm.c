/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory behind the kernel's HMM code: before the software copy engine moves a copy, its
 * source goes through /dev/h2d_hmm, which treats it as the AMD driver treats the source of a
 * copy from pageable memory. Memory of our own host_alloc() stands for pinned memory and is
 * never taken there, as the GPU runtimes do not pin it a second time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/hmm_client.h"
#include "core/mem.h"
#include "device/engine_thread.h"
#include "device/hostmem.h"

enum { LOG_SLACK = 64 };
/* A window is a second and a copy may meet many: not a sign that the device is lost. */
static const uint64_t copy_timeout_min_ns = UINT64_C(3600) * 1000000000;

/** Memory that this device handed out. */
struct range {
	struct range *next;
	uintptr_t begin, end;
};

struct hmm {
	struct h2d_log log;
	struct h2d_hmm kernel;
	struct h2d_hmm_copy_source model; /* what every request has in common */
	pthread_mutex_t lock;		  /* of what follows */
	struct range *ranges;
	struct h2d_hmm_count count;
};

/* ---- the spec's arguments ---- */

static int parse_timeout(const char *text, size_t bytes, uint32_t *ms)
{
	uint32_t n = 0;

	if (!bytes)
		return H2D_E_INVALID;
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9')
			return H2D_E_INVALID;
		n = n * 10 + (uint32_t)(text[i] - '0');
		if (n > H2D_HMM_TIMEOUT_MS_MAX)
			return H2D_E_INVALID;
	}
	*ms = n;
	return n ? 0 : H2D_E_INVALID;
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
	return bytes == strlen(word) && !memcmp(text, word, bytes);
}

static int parse_driver(const char *text, size_t bytes, struct h2d_hmm_copy_source *model)
{
	static const struct {
		const char *name;
		uint32_t policy;
	} policies[] = {
		{"refresh", H2D_HMM_POLICY_REFRESH},
		{"stale", H2D_HMM_POLICY_STALE},
		{"no_retry", H2D_HMM_POLICY_NO_RETRY},
	};

	if (is_word(text, bytes, "shipped")) {
		h2d_hmm_request_shipped(model);
		return 0;
	}
	for (size_t i = 0; i < 3; i++)
		if (is_word(text, bytes, policies[i].name)) {
			model->policy = policies[i].policy;
			return 0;
		}
	return H2D_E_INVALID;
}

static int parse_option(const char *text, size_t bytes, struct h2d_hmm_copy_source *model)
{
	static const char timeout[] = "timeout_ms=";
	const size_t prefix = sizeof(timeout) - 1;

	if (is_word(text, bytes, "permission=vma")) {
		model->permission = H2D_HMM_PERMISSION_VMA;
		return 0;
	}
	if (is_word(text, bytes, "permission=access")) {
		model->permission = H2D_HMM_PERMISSION_ACCESS;
		return 0;
	}
	if (bytes > prefix && !memcmp(text, timeout, prefix) &&
	    model->driver == H2D_HMM_DRIVER_EMULATED)
		return parse_timeout(text + prefix, bytes - prefix, &model->timeout_ms);
	return H2D_E_INVALID;
}

/* [:DRIVER][,OPTION]… without `ready`, the driver that was not named is the emulated one. */
static int parse_args(const char *args, bool ready, struct h2d_hmm_copy_source *model,
		      const struct h2d_log *log)
{
	const char *p = args;
	size_t n;
	int rc = 0;

	if (*p == ':') {
		n = strcspn(++p, ",");
		rc = parse_driver(p, n, model);
		p += n;
	} else if (ready) {
		h2d_hmm_request_shipped(model);
	}
	while (!rc && *p) {
		n = *p == ',' ? strcspn(p + 1, ",") : 0;
		rc = n ? parse_option(p + 1, n, model) : H2D_E_INVALID;
		p += n + 1;
	}
	if (!rc)
		return 0;
	return h2d_fail(log, H2D_E_INVALID,
			"hmm: \"%s\" is not [:shipped|refresh|stale|no_retry]"
			"[,permission=vma|access][,timeout_ms=1…%d]; the shipped driver has "
			"its own timeout",
			args, H2D_HMM_TIMEOUT_MS_MAX);
}

/* ---- opening ---- */

static const char *why_not_shipped(const struct h2d_hmm_query *facts)
{
	switch (facts->driver_state) {
	case H2D_HMM_DRIVER_ABSENT:
		return "no amdgpu module was loaded before h2d_hmm";
	case H2D_HMM_DRIVER_NO_SIGNATURE:
		return "h2d_hmm was loaded without the prototype of amdgpu's function";
	case H2D_HMM_DRIVER_NO_SYMBOL:
		return "this amdgpu has no amdgpu_hmm_range_get_pages()";
	default:
		return "it is in an unknown state";
	}
}

static int check_driver(const struct hmm *h)
{
	const struct h2d_hmm_query *facts = &h->kernel.facts;

	if (h->model.driver == H2D_HMM_DRIVER_SHIPPED) {
		if (facts->driver_state == H2D_HMM_DRIVER_READY)
			return 0;
		return h2d_fail(&h->log, H2D_E_UNAVAILABLE,
				"hmm: the shipped driver cannot be called: %s",
				why_not_shipped(facts));
	}
	if (facts->features & H2D_HMM_FEATURE_EMULATED)
		return 0;
	return h2d_fail(&h->log, H2D_E_UNAVAILABLE,
			"hmm: this h2d_hmm was built without the emulated driver");
}

static void describe(const struct hmm *h, struct h2d_device *dev)
{
	static const char *const policies[] = {"?", "refresh", "stale", "no_retry"};
	const char *permission =
		h->model.permission == H2D_HMM_PERMISSION_VMA ? "vma" : "access";

	if (h->model.driver == H2D_HMM_DRIVER_SHIPPED)
		snprintf(dev->facts.hardware, sizeof(dev->facts.hardware),
			 "shipped amdgpu driver, permission %s", permission);
	else
		snprintf(dev->facts.hardware, sizeof(dev->facts.hardware),
			 "emulated driver, policy %s, permission %s, timeout %u ms",
			 policies[h->model.policy], permission, h->count.timeout_ms);
}

static void free_context(void *ctx)
{
	struct hmm *h = ctx;

	h2d_hmm_close(&h->kernel);
	while (h->ranges) {
		struct range *next = h->ranges->next;

		free(h->ranges);
		h->ranges = next;
	}
	pthread_mutex_destroy(&h->lock);
	free(h);
}

static int hmm_move(void *ctx, void *dst, const void *src, uint64_t bytes);

static int hmm_open(struct h2d_device *dev, const char *args)
{
	const char page = 0;
	struct h2d_soft *soft;
	struct hmm *h = h2d_mem->calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return h2d_fail(&dev->log, H2D_E_NOMEM, "hmm: out of memory");
	h->log = dev->log;
	h->kernel.fd = -1;
	pthread_mutex_init(&h->lock, NULL);
	h2d_hmm_request_init(&h->model, &page, 1);
	/* A wrong argument is told even where there is no module. */
	rc = parse_args(args, false, &h->model, &h->log);
	if (!rc)
		rc = h2d_hmm_open(NULL, &h->log, &h->kernel);
	if (rc)
		goto out;
	if (args[0] != ':')
		rc = parse_args(args, h->kernel.facts.driver_state == H2D_HMM_DRIVER_READY,
				&h->model, &h->log);
	if (!rc)
		rc = check_driver(h);
	if (rc)
		goto out;
	h->count.hz = h->kernel.facts.hz;
	h->count.timeout_ms =
		h->model.timeout_ms ? h->model.timeout_ms : h->kernel.facts.default_timeout_ms;
	describe(h, dev);
	rc = h2d_soft_create(&dev->log, hmm_move, h, free_context, &soft);
	if (rc)
		goto out;
	dev->priv = soft;
	dev->facts.unified = 0;
	if (dev->copy_timeout_ns < copy_timeout_min_ns)
		dev->copy_timeout_ns = copy_timeout_min_ns;
	return 0;
out:
	free_context(h);
	return rc;
}

static void hmm_close(struct h2d_device *dev)
{
	h2d_soft_release(dev->priv);
}

static struct hmm *context(struct h2d_device *dev)
{
	return h2d_soft_context(dev->priv);
}

/* ---- memory ---- */

static int add_range(struct hmm *h, void *p, uint64_t bytes)
{
	struct range *r = h2d_mem->malloc(sizeof(*r));

	if (!r)
		return h2d_fail(&h->log, H2D_E_NOMEM, "hmm: out of memory");
	r->begin = (uintptr_t)p;
	r->end = (uintptr_t)p + bytes;
	pthread_mutex_lock(&h->lock);
	r->next = h->ranges;
	h->ranges = r;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

static void remove_range(struct hmm *h, const void *p)
{
	struct range **at, *found;

	pthread_mutex_lock(&h->lock);
	for (at = &h->ranges; *at && (*at)->begin != (uintptr_t)p; at = &(*at)->next)
		;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&h->lock);
	free(found);
}

static bool is_ours(struct hmm *h, const void *p)
{
	const uintptr_t at = (uintptr_t)p;
	bool ours = false;

	pthread_mutex_lock(&h->lock);
	for (const struct range *r = h->ranges; r && !ours; r = r->next)
		ours = at >= r->begin && at < r->end;
	pthread_mutex_unlock(&h->lock);
	return ours;
}

static int hmm_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	int rc;

	memset(out, 0, sizeof(*out));
	if (!bytes)
		return h2d_fail(&dev->log, H2D_E_INVALID, "hmm: an allocation of 0 bytes");
	out->ptr = h2d_hostmem_alloc(bytes);
	if (!out->ptr)
		return h2d_fail_errno(&dev->log, errno, "hmm: %" PRIu64 " bytes of memory",
				      bytes);
	rc = add_range(context(dev), out->ptr, bytes);
	if (rc) {
		h2d_hostmem_free(out->ptr, bytes);
		out->ptr = NULL;
		return rc;
	}
	out->bytes = bytes;
	h2d_soft_account(dev->priv, false, 1, bytes);
	return 0;
}

static void hmm_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	if (!mem->ptr)
		return;
	remove_range(context(dev), mem->ptr);
	h2d_hostmem_free(mem->ptr, mem->bytes);
	h2d_soft_account(dev->priv, false, -1, mem->bytes);
	memset(mem, 0, sizeof(*mem));
}

static int hmm_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	int rc = h2d_soft_host_alloc(dev, bytes, out);

	if (rc)
		return rc;
	rc = add_range(context(dev), *out, bytes);
	if (rc) {
		h2d_soft_host_free(dev, *out, bytes);
		*out = NULL;
	}
	return rc;
}

static void hmm_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	if (p)
		remove_range(context(dev), p);
	h2d_soft_host_free(dev, p, bytes);
}

/* ---- copies ---- */

static void add_counts(struct hmm *h, const struct h2d_hmm_copy_source *req,
		       const struct h2d_hmm_attempt *log, bool first)
{
	const bool counted = req->valid & H2D_HMM_VALID_WINDOWS;
	struct h2d_hmm_count *c = &h->count;
	uint64_t windows;

	pthread_mutex_lock(&h->lock);
	windows = h2d_hmm_windows(req, log, c->timeout_ms);
	c->requests += first;
	c->restarts += req->restarts;
	c->windows += windows;
	c->total.requests += first;
	c->total.restarts += req->restarts;
	c->total.windows += windows;
	c->total.notifier_callbacks += req->callbacks;
	c->windows_counted = counted;
	c->notifier_callbacks += req->callbacks;
	c->foreign_callbacks += req->callbacks_foreign;
	c->callback_pages += req->callback_pages;
	c->spans_invalidated += req->spans_invalidated;
	c->pages_valid += req->pfns_valid;
	c->pages_writable += req->pfns_writable;
	if (req->last_code)
		c->last_code = req->last_code;
	pthread_mutex_unlock(&h->lock);
}

/* libhsakmt repeats its ioctl after EINTR for ever, so a request that a signal ended goes on.
 */
static int take_source(struct hmm *h, const void *src, uint64_t bytes)
{
	struct h2d_hmm_copy_source req;
	struct h2d_hmm_attempt *log;
	uint64_t entries;
	bool first = true;
	int rc;

	h2d_hmm_request_init(&req, src, bytes);
	entries = req.length / H2D_HMM_SPAN_BYTES * 2 + LOG_SLACK;
	if (entries > H2D_HMM_ATTEMPT_LOG_MAX)
		entries = H2D_HMM_ATTEMPT_LOG_MAX;
	log = h2d_mem->malloc(entries * sizeof(*log));
	if (!log)
		return h2d_fail(&h->log, H2D_E_NOMEM, "hmm: out of memory");
	do {
		h2d_hmm_request_init(&req, src, bytes);
		req.driver = h->model.driver;
		req.policy = h->model.policy;
		req.permission = h->model.permission;
		req.timeout_ms = h->model.timeout_ms;
		req.attempt_log = (uintptr_t)log;
		req.attempt_log_capacity = (uint32_t)entries;
		rc = h2d_hmm_copy_source(&h->kernel, &h->log, &req);
		if (!rc || rc == H2D_E_CANCELLED) {
			add_counts(h, &req, log, first);
			first = false;
		}
	} while (rc == H2D_E_CANCELLED);
	free(log);
	if (!rc && req.last_code)
		rc = h2d_fail(&h->log, H2D_E_DEVICE,
			      "hmm: the driver refused %" PRIu64 " bytes at %p: %s%s", bytes,
			      src, strerror(-req.last_code),
			      req.ended & H2D_HMM_ENDED_RESTART_MAX ? ", after all restarts"
								    : "");
	return rc;
}

static int hmm_move(void *ctx, void *dst, const void *src, uint64_t bytes)
{
	int rc = is_ours(ctx, src) ? 0 : take_source(ctx, src, bytes);

	if (!rc)
		memcpy(dst, src, bytes);
	return rc;
}

static void hmm_count(struct h2d_device *dev, struct h2d_hmm_count *out)
{
	struct hmm *h = context(dev);

	pthread_mutex_lock(&h->lock);
	*out = h->count;
	h->count = (struct h2d_hmm_count){
		.timeout_ms = out->timeout_ms,
		.hz = out->hz,
		.windows_counted = out->windows_counted,
		.total = out->total,
	};
	pthread_mutex_unlock(&h->lock);
}

const struct h2d_backend h2d_backend_hmm = {
	.name = "hmm",
	.summary = "host memory behind the kernel's HMM code (module h2d_hmm)",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_PINNED | H2D_DEV_HMM | H2D_DEV_CALLER_STREAM,
	.open = hmm_open,
	.close = hmm_close,
	.alloc = hmm_alloc,
	.free = hmm_free,
	.host_alloc = hmm_host_alloc,
	.host_free = hmm_host_free,
	.stream_create = h2d_soft_stream_create,
	.stream_destroy = h2d_soft_stream_destroy,
	.stream_wrap = h2d_soft_stream_wrap,
	.copy_to_device = h2d_soft_copy,
	.copy_to_host = h2d_soft_copy,
	.event_create = h2d_soft_event_create,
	.event_destroy = h2d_soft_event_destroy,
	.event_record = h2d_soft_event_record,
	.event_query = h2d_soft_event_query,
	.event_wait = h2d_soft_event_wait,
	.hmm_count = hmm_count,
};
