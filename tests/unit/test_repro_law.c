/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_repro */
#include <jansson.h>

#include "fake_hmm.h"
#include "repro/experiment/law.h"

static struct h2d_device devices[2];

static void open_two(enum h2d_retry_policy policy)
{
	open_fake(&devices[0], policy, H2D_PERMISSION_VMA);
	open_fake(&devices[1], policy, H2D_PERMISSION_VMA);
}

static void close_two(void)
{
	fake.close(&devices[0]);
	fake.close(&devices[1]);
}

static int run(const char *const *rows, size_t count, struct h2d_law_result **r)
{
	struct h2d_law_opts o = {
		.devs = {&devices[0], &devices[1]},
		.file = scratch(),
		.size_bytes = 4 * MIB,
		.rows = rows,
		.row_count = count,
	};

	return h2d_law_run(&o, r);
}

static const char *const few[] = {
	"full-2MiB",   "full-8MiB",	"shifted",	"sparse",	  "one-touch",
	"absent",      "read-only",	"anon-written", "anon-forked",	  "anon-zero-page",
	"shared-file", "memfd-private", "memfd-shared", "read-only-alias"};
enum { FEW = sizeof(few) / sizeof(few[0]) };

static struct h2d_law_outcome *row(struct h2d_law_result *r, const char *name)
{
	for (size_t i = 0; i < r->row_count; i++)
		if (!strcmp(r->rows[i].row->name, name))
			return &r->rows[i];
	return NULL;
}

/* The fake follows the law, so the law must be found; and the rules that it replaces refuted.
 */
static void the_law_is_found(void)
{
	static const struct {
		const char *name;
		uint64_t law, presence;
		double bytes;
	} expected[] = {
		{"full-2MiB", 1, 1, 1},	       {"full-8MiB", 4, 4, 4},
		{"shifted", 3, 3, 2},	       {"sparse", 2, 2, 2.0 / 32},
		{"one-touch", 1, 1, 1.0 / 32}, {"absent", 0, 0, 0},
		{"read-only", 0, 0, 0},	       {"anon-written", 0, 2, 2},
		{"anon-forked", 2, 2, 2},      {"anon-zero-page", 2, 2, 2},
		{"shared-file", 0, 2, 2},      {"memfd-private", 2, 2, 2},
		{"memfd-shared", 0, 2, 2},     {"read-only-alias", 0, 0, 0},
	};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_STALE);
	REQUIRE(!run(few, FEW, &r));
	CHECK_EQ(r->value, H2D_LAW_HOLDS);
	CHECK_EQ(r->run_count, FEW);
	CHECK_EQ(r->disagree_count, 0);
	for (size_t i = 0; i < FEW; i++) {
		struct h2d_law_outcome *o = row(r, expected[i].name);

		REQUIRE(o);
		CHECK_STR(o->not_run, "");
		CHECK_EQ(o->by_law_min, expected[i].law);
		CHECK_EQ(o->by_law_max, expected[i].law);
		CHECK_EQ(o->by_presence, expected[i].presence);
		CHECK(o->by_bytes <= expected[i].bytes);
		CHECK_EQ(o->windows, expected[i].law);
		CHECK(o->agrees);
	}
	CHECK_EQ(row(r, "read-only-alias")->alias_anon_bytes, 0);
	CHECK_EQ(row(r, "full-8MiB")->rss_anon_delta_bytes, (int64_t)(8 * MIB));
	h2d_law_free(r);
	close_two();
}

static void restarts_serve_as_well(void)
{
	static const char *const one[] = {"full-8MiB", "read-only"};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_NONE);
	REQUIRE(!run(one, 2, &r));
	CHECK_EQ(r->value, H2D_LAW_HOLDS);
	CHECK_EQ(r->rows[0].windows, 0);
	CHECK_EQ(r->rows[0].restarts, 4);
	h2d_law_free(r);
	close_two();

	open_two(H2D_RETRY_REFRESH);
	REQUIRE(!run(one, 2, &r));
	CHECK_EQ(r->value, H2D_LAW_UNDECIDED);
	h2d_law_free(r);
	close_two();
}

static void two_threads(void)
{
	static const char *const both[] = {"two-threads", "two-threads-same"};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_STALE);
	REQUIRE(!run(both, 2, &r));
	CHECK_EQ(r->rows[0].copy_count, 2);
	CHECK_EQ(r->rows[0].by_law_min, 4);
	CHECK_EQ(r->rows[0].restarts, 4);
	CHECK(r->rows[0].agrees);
	CHECK(r->rows[1].by_law_max == UINT64_MAX);
	h2d_law_free(r);
	close_two();
}

/* A driver that does not do what the law says is found out. */
static void a_refuted_law_is_told(void)
{
	static const char *const rows[] = {"full-8MiB", "invalidated"};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_STALE);
	REQUIRE(!run(rows, 2, &r));
	/* Nobody interrupts the fake. */
	CHECK(!r->rows[1].agrees);
	CHECK(r->rows[1].invalidation_count > 0);
	CHECK_EQ(r->value, H2D_LAW_FAILS);
	h2d_law_free(r);
	close_two();
}

/* Where the driver counts nothing, a window that a busy host hid is told by the time it took.
 */
static void a_hidden_window_is_told_by_time(void)
{
	static const char *const one[] = {"full-8MiB"};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_STALE);
	kernel.hide_window = true;
	REQUIRE(!run(one, 1, &r));
	CHECK_EQ(r->rows[0].windows, 3);
	CHECK_EQ(r->rows[0].restarts, 4);
	CHECK(!r->rows[0].agrees); /* 4 s cannot have passed */
	h2d_law_free(r);
	close_two();

	open_two(H2D_RETRY_STALE);
	kernel.timeout_ms = 1;
	kernel.slow_ms = 8;
	kernel.hide_window = true;
	REQUIRE(!run(one, 1, &r));
	CHECK(r->rows[0].agrees);
	h2d_law_free(r);
	close_two();
	kernel.hide_window = false;
	kernel.timeout_ms = kernel.slow_ms = 0;
}

static void bad_options(void)
{
	static const char *const unknown[] = {"full-3MiB"};
	struct h2d_law_opts o = {.devs = {&devices[0], &devices[1]}, .size_bytes = 4096};
	struct h2d_law_result *r;

	open_two(H2D_RETRY_STALE);
	CHECK_EQ(h2d_law_run(&o, &r), H2D_E_INVALID);
	CHECK_EQ(run(unknown, 1, &r), H2D_E_NOT_FOUND);
	devices[1].caps &= ~(unsigned)H2D_DEV_HMM;
	CHECK_EQ(run(few, 1, &r), H2D_E_UNSUPPORTED);
	CHECK(!r);
	close_two();
}

static void document(void)
{
	struct h2d_law_result *r;
	struct h2d_json j;
	json_t *root;
	char *text;

	open_two(H2D_RETRY_STALE);
	REQUIRE(!run(few, FEW, &r));
	h2d_json_init_memory(&j, false);
	h2d_json_object_begin(&j, NULL);
	h2d_law_write(&j, r);
	h2d_json_object_end(&j);
	CHECK_EQ(h2d_json_finish(&j), 0);
	text = h2d_json_take(&j);
	REQUIRE(text);
	root = json_loads(text, 0, NULL);
	REQUIRE(root);
	CHECK_STR(json_string_value(json_object_get(json_object_get(root, "verdict"), "value")),
		  "holds");
	CHECK_EQ(json_array_size(json_object_get(root, "rows")), FEW);
	json_decref(root);
	free(text);
	h2d_law_free(r);
	close_two();
}

int main(void)
{
	if (!pagemap_works())
		SKIP("no /proc/self/pagemap here");
	RUN(the_law_is_found);
	RUN(restarts_serve_as_well);
	RUN(two_threads);
	RUN(a_refuted_law_is_told);
	RUN(a_hidden_window_is_told_by_time);
	RUN(bad_options);
	RUN(document);
	return TEST_DONE();
}
