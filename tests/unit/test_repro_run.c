/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <jansson.h>
#include <stdint.h>
#include <unistd.h>

#include "core/clock.h"
#include "device/engine_thread.h"
#include "repro/repro.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

/*
 * A back-end that does to its sources what the kernel does, without a kernel module: where the
 * mapping is private and writable it replaces every page by writing it, and counts the spans
 * for which a driver would have restarted.
 */
static struct {
	enum h2d_retry_policy policy;
	enum h2d_permission_rule rule;
	bool corrupt; /* a byte on its way */
	bool refuse_zero_page;
	int64_t extra_windows;
	struct h2d_hmm_count count;
} kernel;

static void replace_pages(unsigned char *p, uint64_t bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct h2d_page_state pages;
	struct h2d_smaps smaps;

	kernel.count.requests++;
	if (h2d_smaps_read(p, bytes, NULL, &smaps) || h2d_pages_read(p, bytes, NULL, &pages))
		return;
	if (kernel.rule == H2D_PERMISSION_ACCESS || smaps.permissions[1] != 'w')
		return;
	if (kernel.policy != H2D_RETRY_REFRESH)
		kernel.count.restarts += pages.replaced_span_count;
	if (kernel.policy == H2D_RETRY_STALE)
		kernel.count.windows += pages.replaced_span_count;
	for (uint64_t at = 0; at < bytes; at += page) {
		volatile unsigned char *byte = p + at;

		*byte = *byte;
	}
}

static struct {
	uintptr_t begin, end;
} ours[64];

static bool is_ours(const void *p)
{
	for (size_t i = 0; i < 64; i++)
		if ((uintptr_t)p >= ours[i].begin && (uintptr_t)p < ours[i].end)
			return true;
	return false;
}

static void *take(uint64_t bytes)
{
	void *p = aligned_alloc(4096, (size_t)bytes);

	for (size_t i = 0; p && i < 64; i++)
		if (!ours[i].end) {
			ours[i].begin = (uintptr_t)p;
			ours[i].end = (uintptr_t)p + bytes;
			break;
		}
	return p;
}

static void give(void *p)
{
	for (size_t i = 0; p && i < 64; i++)
		if (ours[i].begin == (uintptr_t)p)
			ours[i].begin = ours[i].end = 0;
	free(p);
}

static int fake_move(void *ctx, void *dst, const void *src, uint64_t bytes)
{
	const bool pageable = !is_ours(src);

	(void)ctx;
	if (pageable && kernel.refuse_zero_page && !((const unsigned char *)src)[0] &&
	    !((const unsigned char *)src)[1])
		return H2D_E_DEVICE;
	if (pageable)
		replace_pages((unsigned char *)(uintptr_t)src, bytes);
	memcpy(dst, src, bytes);
	if (pageable && kernel.corrupt)
		((unsigned char *)dst)[bytes / 2] ^= 0x10;
	return 0;
}

static int fake_open(struct h2d_device *dev, const char *args)
{
	struct h2d_soft *soft;
	int rc = h2d_soft_create(&dev->log, fake_move, NULL, NULL, &soft);

	(void)args;
	dev->priv = soft;
	return rc;
}

static void fake_close(struct h2d_device *dev)
{
	h2d_soft_release(dev->priv);
}

static int fake_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	(void)dev;
	out->ptr = take(bytes);
	out->bytes = bytes;
	return out->ptr ? 0 : H2D_E_DEVICE_MEMORY;
}

static void fake_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	(void)dev;
	give(mem->ptr);
}

static int fake_host_alloc(struct h2d_device *dev, uint64_t bytes, void **out)
{
	(void)dev;
	*out = take(bytes);
	return *out ? 0 : H2D_E_NOMEM;
}

static void fake_host_free(struct h2d_device *dev, void *p, uint64_t bytes)
{
	(void)dev;
	(void)bytes;
	give(p);
}

static void fake_count(struct h2d_device *dev, struct h2d_hmm_count *out)
{
	(void)dev;
	*out = kernel.count;
	out->timeout_ms = 1000;
	out->hz = 250;
	out->windows_counted = true;
	memset(&kernel.count, 0, sizeof(kernel.count));
}

static const struct h2d_backend fake = {
	.name = "hmm-fake",
	.summary = "replaces pages as the kernel would",
	.abi = H2D_BACKEND_ABI,
	.caps = H2D_DEV_READABLE | H2D_DEV_HMM,
	.open = fake_open,
	.close = fake_close,
	.alloc = fake_alloc,
	.free = fake_free,
	.host_alloc = fake_host_alloc,
	.host_free = fake_host_free,
	.stream_create = h2d_soft_stream_create,
	.stream_destroy = h2d_soft_stream_destroy,
	.copy_to_device = h2d_soft_copy,
	.copy_to_host = h2d_soft_copy,
	.event_create = h2d_soft_event_create,
	.event_destroy = h2d_soft_event_destroy,
	.event_record = h2d_soft_event_record,
	.event_query = h2d_soft_event_query,
	.event_wait = h2d_soft_event_wait,
	.hmm_count = fake_count,
};

static struct h2d_device device;

static void open_fake(enum h2d_retry_policy policy, enum h2d_permission_rule rule)
{
	memset(&kernel, 0, sizeof(kernel));
	kernel.policy = policy;
	kernel.rule = rule;
	memset(&device, 0, sizeof(device));
	device.backend = &fake;
	device.caps = fake.caps;
	device.copy_timeout_ns = 30000000000ull;
	snprintf(device.facts.name, sizeof(device.facts.name), "hmm-fake");
	if (fake.open(&device, ""))
		exit(1);
}

static const uint64_t sizes[] = {2 * MIB, 4 * MIB};

static int run(const struct h2d_repro_opts *more, struct h2d_repro_result **r)
{
	struct h2d_repro_opts o = {0};

	if (more)
		o = *more;
	if (!o.size_count) {
		o.sizes = sizes;
		o.size_count = 2;
	}
	if (!o.file)
		o.file = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
	return h2d_repro_run(&device, &o, r);
}

static struct h2d_repro_cell *cell(struct h2d_repro_result *r, const char *name, uint64_t bytes)
{
	for (size_t i = 0; i < r->cell_count; i++)
		if (!strcmp(r->cells[i].cell->name, name) && r->cells[i].size_bytes == bytes)
			return &r->cells[i];
	return NULL;
}

/*
 * The fake does not wait, so a stale kernel's restarts and its elapsed time contradict each
 * other: exactly what must never be called affected.
 */
static void windows_without_seconds_are_inconclusive(void)
{
	struct h2d_repro_result *r;

	open_fake(H2D_RETRY_STALE, H2D_PERMISSION_VMA);
	REQUIRE(!run(NULL, &r));
	CHECK_EQ(r->verdict.value, H2D_VERDICT_INCONCLUSIVE);
	CHECK_EQ(r->cells[3].samples[0].windows, (int64_t)r->cells[3].expected_windows);
	h2d_repro_free(r);
	fake.close(&device);
}

static void policies(void)
{
	static const struct {
		enum h2d_retry_policy policy;
		enum h2d_permission_rule rule;
		enum h2d_verdict_value value;
		enum h2d_retry_policy said;
	} rows[] = {
		{H2D_RETRY_REFRESH, H2D_PERMISSION_VMA, H2D_VERDICT_COW_PENALTY,
		 H2D_RETRY_REFRESH},
		{H2D_RETRY_NONE, H2D_PERMISSION_VMA, H2D_VERDICT_COW_PENALTY, H2D_RETRY_NONE},
		{H2D_RETRY_STALE, H2D_PERMISSION_ACCESS, H2D_VERDICT_CLEAN, H2D_RETRY_UNKNOWN},
	};

	for (size_t i = 0; i < 3; i++) {
		struct h2d_repro_result *r;

		open_fake(rows[i].policy, rows[i].rule);
		REQUIRE(!run(NULL, &r));
		CHECK_EQ(r->verdict.value, rows[i].value);
		CHECK_EQ(r->verdict.retry_policy, rows[i].said);
		CHECK_EQ(r->verdict.permission_rule, rows[i].rule);
		CHECK_EQ(r->cell_count, 24);
		for (size_t k = 0; k < r->cell_count; k++) {
			CHECK_STR(r->cells[k].invalid, "");
			CHECK_EQ(r->cells[k].sample_count, 1);
			CHECK(r->cells[k].verified);
			CHECK(r->cells[k].samples[0].elapsed_ns > 0);
		}
		h2d_repro_free(r);
		fake.close(&device);
	}
}

/* What each cell's copy does to the memory of this process. */
static void memory_moves_where_it_must(void)
{
	static const struct {
		const char *name;
		bool moves, requests;
	} rows[] = {
		{"ro-present", false, true},  {"ro-absent", false, true},
		{"rw-absent", true, true},    {"rw-present", true, true},
		{"anon", false, true},	      {"anon-zero-page", true, true},
		{"anon-forked", false, true}, {"pinned", false, false},
		{"rw-then-ro", false, true},  {"rw-populated", false, true},
		{"rw-sparse", true, true},    {"rw-shifted", true, true},
	};
	struct h2d_repro_result *r;

	open_fake(H2D_RETRY_NONE, H2D_PERMISSION_VMA);
	REQUIRE(!run(NULL, &r));
	for (size_t i = 0; i < 12; i++) {
		struct h2d_repro_cell *c = cell(r, rows[i].name, 4 * MIB);

		REQUIRE(c);
		CHECK_EQ(c->rss_anon_delta_bytes, rows[i].moves ? (int64_t)(4 * MIB) : 0);
		CHECK_EQ(c->samples[0].requests, rows[i].requests);
		CHECK_EQ(c->samples[0].restarts, (int64_t)c->expected_windows);
		CHECK_EQ(c->windows[0], 0);
	}
	CHECK_EQ(cell(r, "rw-shifted", 4 * MIB)->expected_windows, 3);
	CHECK_EQ(cell(r, "anon-forked", 4 * MIB)->expected_windows, 2);
	CHECK(cell(r, "rw-sparse", 4 * MIB)->present_bytes < MIB);
	h2d_repro_free(r);
	fake.close(&device);
}

static void repeats_and_selection(void)
{
	static const char *const names[] = {"rw-present", "ro-present"};
	struct h2d_repro_opts o = {.cells = names, .cell_count = 2, .repeat = 3};
	struct h2d_repro_result *r;

	open_fake(H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
	REQUIRE(!run(&o, &r));
	CHECK_EQ(r->cell_count, 4);
	for (size_t i = 0; i < r->cell_count; i++)
		CHECK_EQ(r->cells[i].sample_count, 3);
	/* Each repeat in a fresh mapping: every one of them replaces the pages again. */
	for (size_t s = 0; s < 3; s++)
		CHECK_EQ(cell(r, "rw-present", 2 * MIB)->samples[s].rss_anon_delta_bytes,
			 (int64_t)(2 * MIB));
	CHECK_EQ(r->verdict.value, H2D_VERDICT_COW_PENALTY);
	h2d_repro_free(r);
	o.cell_count = 1;
	REQUIRE(!run(&o, &r));
	CHECK_EQ(r->verdict.value, H2D_VERDICT_INCONCLUSIVE);
	h2d_repro_free(r);
	fake.close(&device);
}

static void failures(void)
{
	static const char *const unknown[] = {"rw-preset"};
	static const uint64_t odd[] = {MIB + 1}, twice[] = {MIB, MIB}, zero[] = {0};
	struct h2d_repro_opts o = {.cells = unknown, .cell_count = 1};
	struct h2d_repro_result *r = (void *)1;

	open_fake(H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
	CHECK_EQ(run(&o, &r), H2D_E_NOT_FOUND);
	CHECK(!r);
	o = (struct h2d_repro_opts){.sizes = odd, .size_count = 1};
	CHECK_EQ(run(&o, &r), H2D_E_INVALID);
	o = (struct h2d_repro_opts){.sizes = twice, .size_count = 2};
	CHECK_EQ(run(&o, &r), H2D_E_INVALID);
	o = (struct h2d_repro_opts){.sizes = zero, .size_count = 1};
	CHECK_EQ(run(&o, &r), H2D_E_INVALID);
	o = (struct h2d_repro_opts){.repeat = H2D_REPRO_REPEAT_MAX + 1};
	CHECK_EQ(run(&o, &r), H2D_E_INVALID);
	o = (struct h2d_repro_opts){.file = "/proc/nothing/here"};
	CHECK_EQ(run(&o, &r), H2D_E_NOT_FOUND);
	o = (struct h2d_repro_opts){.file = "/proc/self/status"};
	CHECK_EQ(run(&o, &r), H2D_E_INVALID);

	/* A byte that changed on its way is never a timing. */
	kernel.corrupt = true;
	CHECK_EQ(run(NULL, &r), H2D_E_MISMATCH);
	kernel.corrupt = false;

	/* A driver that refuses one cell takes nothing from the others. */
	kernel.refuse_zero_page = true;
	REQUIRE(!run(NULL, &r));
	CHECK(strstr(cell(r, "anon-zero-page", 4 * MIB)->invalid, "the copy failed"));
	CHECK_EQ(r->verdict.value, H2D_VERDICT_COW_PENALTY);
	h2d_repro_free(r);
	fake.close(&device);
}

static int stop_at_third(void *user, const char *name, uint64_t size, size_t done, size_t total)
{
	(void)name;
	(void)size;
	*(size_t *)user = total;
	return done == 2;
}

static void cancelled(void)
{
	size_t total = 0;
	struct h2d_repro_opts o = {.progress = stop_at_third, .progress_user = &total};
	struct h2d_repro_result *r;

	open_fake(H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
	CHECK_EQ(run(&o, &r), H2D_E_CANCELLED);
	CHECK(!r);
	CHECK_EQ(total, 24);
	fake.close(&device);
}

static void plain_devices_never_reach_hmm(void)
{
	static const char *const specs[] = {"host", "null"};
	struct h2d_repro_opts o = {.sizes = sizes, .size_count = 2};

	for (size_t i = 0; i < 2; i++) {
		struct h2d_repro_result *r;
		struct h2d_device *dev;

		REQUIRE(!h2d_device_open(specs[i], NULL, &dev));
		o.file = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
		REQUIRE(!h2d_repro_run(dev, &o, &r));
		CHECK_EQ(r->verdict.value, H2D_VERDICT_NOT_APPLICABLE);
		CHECK_EQ(r->restarts_visible, false);
		CHECK_EQ(cell(r, "rw-present", 4 * MIB)->rss_anon_delta_bytes, 0);
		CHECK_EQ(cell(r, "rw-present", 4 * MIB)->samples[0].restarts, -1);
		CHECK_EQ(cell(r, "rw-present", 4 * MIB)->verified, i == 0);
		h2d_repro_free(r);
		h2d_device_close(dev);
	}
}

static void document(void)
{
	struct h2d_repro_result *r;
	json_t *root, *c;
	struct h2d_json j;
	char *text;

	open_fake(H2D_RETRY_NONE, H2D_PERMISSION_VMA);
	REQUIRE(!run(NULL, &r));
	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_repro_write(&j, r);
	h2d_json_object_end(&j);
	CHECK_EQ(h2d_json_finish(&j), 0);
	text = h2d_json_take(&j);
	REQUIRE(text);
	root = json_loads(text, 0, NULL);
	REQUIRE(root);
	CHECK_STR(json_string_value(json_object_get(json_object_get(root, "verdict"), "value")),
		  "cow_penalty");
	CHECK_STR(json_string_value(
			  json_object_get(json_object_get(root, "verdict"), "retry_policy")),
		  "no_retry");
	CHECK_EQ(json_integer_value(
			 json_object_get(json_object_get(root, "window"), "timeout_ms")),
		 1000);
	c = json_array_get(json_object_get(root, "cells"), 3);
	CHECK_STR(json_string_value(json_object_get(c, "cell")), "rw-present");
	CHECK_STR(json_string_value(json_object_get(c, "permissions")), "rw-p");
	CHECK_EQ(json_integer_value(json_object_get(c, "present_bytes")), 2 * MIB);
	CHECK_EQ(json_integer_value(json_object_get(c, "restarts")),
		 json_integer_value(json_object_get(c, "expected_windows")));
	CHECK_EQ(json_array_size(json_object_get(c, "samples")), 1);
	CHECK_EQ(json_array_size(json_object_get(c, "bins")), 1);
	json_decref(root);
	free(text);
	h2d_repro_free(r);
	fake.close(&device);
}

static bool pagemap_works(void)
{
	static char here[2 * 4096];
	struct h2d_page_state s;
	uintptr_t page = ((uintptr_t)here + 4095) & ~(uintptr_t)4095;

	*(volatile char *)page = 1;
	return !h2d_pages_read((void *)page, 4096, NULL, &s) && s.present_count == 1;
}

int main(void)
{
	if (!pagemap_works())
		SKIP("no /proc/self/pagemap here");
	RUN(windows_without_seconds_are_inconclusive);
	RUN(policies);
	RUN(memory_moves_where_it_must);
	RUN(repeats_and_selection);
	RUN(failures);
	RUN(cancelled);
	RUN(plain_devices_never_reach_hmm);
	RUN(document);
	return TEST_DONE();
}
