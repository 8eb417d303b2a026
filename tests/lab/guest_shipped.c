/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's own amdgpu, as shipped, on two filesystems. What is expected follows from the
 * table of kernels below; a kernel that is not in it is only held against its own controls.
 */
#include "document.h"
#include "unit/test.h"

enum { SIZE_BYTES = 32 << 20, PAGES = SIZE_BYTES / 4096 };

static const struct {
	const char *release, *verdict, *policy;
	bool windows, restarts;
} table[] = {
	{"6.12.113+deb12-amd64", "cow_penalty", "refresh", false, false},
	{"6.12.115+deb12-amd64", "affected", "stale", true, true},
	{"6.12.117+deb12-amd64", "cow_penalty", "no_retry", false, true},
	{"6.1.0-57-amd64", "cow_penalty", "refresh", false, false},
};

static json_t *kernel;
static size_t row;

static long long copied(const json_t *cell)
{
	return (number_of(cell, "anonymous_after_bytes") -
		number_of(cell, "anonymous_before_bytes")) /
	       4096;
}

static void check(const char *filesystem, long long spans)
{
	static const struct {
		const char *permission, *state;
		bool copies, present;
	} cells[] = {
		{"vma", "ro-present", false, true},    {"vma", "rw-absent", true, false},
		{"vma", "rw-present", true, true},     {"access", "rw-absent", false, false},
		{"access", "rw-present", false, true},
	};

	for (size_t i = 0; i < 5; i++) {
		const json_t *cell = find_cell(kernel, filesystem, NULL, cells[i].permission,
					       cells[i].state);
		bool law = cells[i].copies && cells[i].present;

		REQUIRE(cell);
		CHECK_STR(text_of(cell, "status"), "ok");
		CHECK_EQ(number_of(cell, "span_count"), spans);
		CHECK_EQ(number_of(cell, "last_code"), 0);
		CHECK_EQ(copied(cell), cells[i].copies ? PAGES : 0);
		CHECK_EQ(number_of(cell, "callback_count"), law ? PAGES : 0);
		CHECK_EQ(number_of(cell, "invalidated_span_count"), law ? spans : 0);
		CHECK_EQ(number_of(cell, "restart_count"),
			 law && table[row].restarts ? spans : 0);
		CHECK_EQ(number_of(cell, "windows"), law && table[row].windows ? spans : 0);
		CHECK(json_is_null(json_object_get(cell, "fault_call_count")));
		CHECK_EQ(json_array_size(json_object_get(cell, "kernel_log")), 0);
	}
}

static void cells(void)
{
	check("ext4", 16);
	check("tmpfs", 17);
}

static void verdict(void)
{
	CHECK_STR(verdict_of(kernel, "value"), table[row].verdict);
	CHECK_STR(verdict_of(kernel, "retry_policy"), table[row].policy);
	CHECK_STR(text_of(kernel, "driver"), "shipped");
	CHECK(strstr(text_of(kernel, "prototype"), "amdgpu_hmm_range_get_pages"));
}

/* A window is the timeout and one jiffy; fitted, so within a few jiffies on a busy machine. */
static void window(void)
{
	json_t *w = json_object_get(kernel, "window");
	double fitted = json_number_value(json_object_get(w, "fitted_ms"));
	double timeout = json_number_value(json_object_get(w, "timeout_ms"));

	if (!table[row].windows) {
		CHECK(json_is_null(w));
		return;
	}
	CHECK(timeout == 1000);
	CHECK(fitted > timeout * 0.5);
}

int main(int argc, char **argv)
{
	const char *release = argc > 1 ? argv[1] : test_kernel();
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.driver = H2D_LAB_DRIVER_SHIPPED,
		.filesystems = H2D_LAB_FS_EXT4 | H2D_LAB_FS_TMPFS,
	};
	json_t *document;
	int status;

	while (row < 4 && strcmp(table[row].release, release) != 0)
		row++;
	if (row == 4) {
		printf("skipped: nothing is known of %s\n", release);
		return 77;
	}
	document = run_laboratory(&options, &status);
	kernel = first_kernel(document);
	if (!kernel) {
		fprintf(stderr, "no document: %d %s\n", status, last_error);
		return 1;
	}
	RUN(cells);
	RUN(verdict);
	RUN(window);
	json_decref(document);
	return TEST_DONE();
}
