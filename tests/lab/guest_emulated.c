/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The emulated driver's whole matrix in one guest, with the stale policy's timeout shortened.
 * Asserts on counters and anonymous memory, each zero beside a control; never on time.
 */
#include "document.h"
#include "unit/test.h"

enum { SIZE_BYTES = 32 << 20, PAGES = SIZE_BYTES / 4096 };

static json_t *kernel;

/* Mappings of ext4 and xfs begin on a span, those of plain tmpfs do not; overlayfs did on some
 * kernels only, so it is held against where its mapping began. */
static const struct {
	const char *name;
	int spans; /* 0: by where it begins */
} filesystems[] = {{"ext4", 16}, {"xfs", 16}, {"tmpfs", 17}, {"overlay", 0}};

static const struct {
	const char *name;
	bool windows, restarts;
} policies[] = {{"refresh", false, false}, {"stale", true, true}, {"no_retry", false, true}};

static long long copied(const json_t *cell)
{
	return (number_of(cell, "anonymous_after_bytes") -
		number_of(cell, "anonymous_before_bytes")) /
	       4096;
}

static void check_clean(const json_t *cell)
{
	REQUIRE(cell);
	CHECK_STR(text_of(cell, "status"), "ok");
	CHECK_EQ(number_of(cell, "last_code"), 0);
	CHECK_EQ(number_of(cell, "valid_page_count"), PAGES);
	CHECK_EQ(number_of(cell, "mapping_count"), 1);
	CHECK_EQ(json_array_size(json_object_get(cell, "kernel_log")), 0);
}

static void check_zero(const char *filesystem, const char *policy, const char *permission,
		       const char *state)
{
	const json_t *cell = find_cell(kernel, filesystem, policy, permission, state);

	check_clean(cell);
	CHECK_EQ(number_of(cell, "windows"), 0);
	CHECK_EQ(number_of(cell, "restart_count"), 0);
	CHECK_EQ(number_of(cell, "callback_count"), 0);
	CHECK_EQ(number_of(cell, "writable_page_count"), 0);
	CHECK_EQ(number_of(cell, "fault_call_count"), 1);
	CHECK_EQ(copied(cell), 0);
}

static void check_present(size_t f, size_t p)
{
	const json_t *cell =
		find_cell(kernel, filesystems[f].name, policies[p].name, "vma", "rw-present");
	long long spans = number_of(cell, "span_count");

	check_clean(cell);
	CHECK_STR(text_of(cell, "permissions"), "rw-p");
	CHECK_EQ(number_of(cell, "present_before_bytes"), SIZE_BYTES);
	if (filesystems[f].spans)
		CHECK_EQ(spans, filesystems[f].spans);
	else
		CHECK_EQ(spans, number_of(cell, "span_offset_bytes") ? 17 : 16);
	CHECK_EQ(number_of(cell, "windows"), policies[p].windows ? spans : 0);
	CHECK_EQ(number_of(cell, "restart_count"), policies[p].restarts ? spans : 0);
	CHECK_EQ(number_of(cell, "callback_count"), PAGES);
	CHECK_EQ(number_of(cell, "invalidated_span_count"), spans);
	CHECK_EQ(number_of(cell, "writable_page_count"), PAGES);
	CHECK_EQ(copied(cell), PAGES);
	if (policies[p].windows)
		CHECK(number_of(cell, "fault_ebusy_count") >= spans);
	else
		CHECK_EQ(number_of(cell, "fault_ebusy_count"), spans);
}

/* Nothing is present, so nothing is invalidated, although everything is copied. */
static void check_absent(size_t f, size_t p)
{
	const json_t *cell =
		find_cell(kernel, filesystems[f].name, policies[p].name, "vma", "rw-absent");

	check_clean(cell);
	CHECK_EQ(number_of(cell, "present_before_bytes"), 0);
	CHECK_EQ(number_of(cell, "windows"), 0);
	CHECK_EQ(number_of(cell, "restart_count"), 0);
	CHECK_EQ(number_of(cell, "callback_count"), 0);
	CHECK_EQ(copied(cell), PAGES);
}

static void matrix(void)
{
	for (size_t f = 0; f < 4; f++) {
		for (size_t p = 0; p < 3; p++) {
			check_zero(filesystems[f].name, policies[p].name, "vma", "ro-present");
			check_zero(filesystems[f].name, policies[p].name, "access",
				   "rw-absent");
			check_zero(filesystems[f].name, policies[p].name, "access",
				   "rw-present");
			check_absent(f, p);
			check_present(f, p);
		}
	}
	CHECK_EQ(json_array_size(json_object_get(kernel, "cells")), 60);
}

static void verdict(void)
{
	json_t *guest = json_object_get(kernel, "guest");

	CHECK_STR(verdict_of(kernel, "value"), "affected");
	CHECK_EQ(
		json_array_size(json_object_get(json_object_get(kernel, "verdict"), "reasons")),
		0);
	CHECK_STR(text_of(guest, "end"), "switched_off");
	CHECK(json_is_true(json_object_get(guest, "job_done")));
	CHECK_EQ(json_array_size(json_object_get(guest, "failed_steps")), 0);
}

/* A command of ours in the guest: the dynamic program, and one that is not there. */
static void commands(void)
{
	json_t *list = json_object_get(kernel, "commands");

	REQUIRE(json_array_size(list) == 2);
	CHECK_EQ(number_of(json_array_get(list, 0), "status"), 0);
	CHECK_STR(text_of(json_array_get(list, 0), "stdout"),
		  "dynamic: libc mapped, loader mapped\n");
	CHECK_EQ(number_of(json_array_get(list, 1), "status"), 127);
}

int main(void)
{
	static const char *const dynamic[] = {"/bin/lab-dynamic", NULL};
	static const char *const missing[] = {"/bin/not-there", NULL};
	static const char *const *const all[] = {dynamic, missing};
	const char *release = test_kernel();
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.driver = H2D_LAB_DRIVER_EMULATED,
		.timeout_ms = 40,
		.commands = all,
		.command_count = 2,
	};
	json_t *document;
	int status;

	document = run_laboratory(&options, &status);
	kernel = first_kernel(document);
	if (!kernel) {
		fprintf(stderr, "no document: %d %s\n", status, last_error);
		return 1;
	}
	RUN(matrix);
	RUN(verdict);
	RUN(commands);
	json_decref(document);
	return TEST_DONE();
}
