/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <jansson.h>

#include "fake_hmm.h"

static struct h2d_device device;

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
		o.file = scratch();
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

	open_fake(&device, H2D_RETRY_STALE, H2D_PERMISSION_VMA);
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

		open_fake(&device, rows[i].policy, rows[i].rule);
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

	open_fake(&device, H2D_RETRY_NONE, H2D_PERMISSION_VMA);
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

	open_fake(&device, H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
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

	open_fake(&device, H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
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

	open_fake(&device, H2D_RETRY_REFRESH, H2D_PERMISSION_VMA);
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
		o.file = scratch();
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

	open_fake(&device, H2D_RETRY_NONE, H2D_PERMISSION_VMA);
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
