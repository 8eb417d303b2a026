/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cure, shown on a kernel: an unmodified program maps 32 MiB of weights as PyTorch does and
 * has a device copy them, once as it is and once under `h2d run`.
 *
 * usage: guest_run MAP-CHECKPOINT H2D LIBRARY shipped|emulated
 */
#include "document.h"
#include "unit/test.h"

enum { SPANS = 16, TIMEOUT_MS = 40 };
#define SIZE_BYTES (32ll << 20)
/* What the process itself may need meanwhile, for reading /proc and the like. */
#define SLACK_BYTES (1ll << 20)

static json_t *kernel;
static bool shipped;

static json_t *command(size_t index)
{
	json_t *c = json_array_get(json_object_get(kernel, "commands"), index);

	CHECK(json_is_true(json_object_get(c, "ran")));
	CHECK_EQ(number_of(c, "status"), 0);
	CHECK_EQ(json_array_size(json_object_get(c, "kernel_log")), 0);
	fprintf(stderr, "%s%s", text_of(c, "stdout"), text_of(c, "stderr"));
	return c;
}

static json_t *parsed(const char *text)
{
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	CHECK(json_is_object(j));
	return j;
}

static void common(const json_t *j)
{
	CHECK_EQ(number_of(j, "size_bytes"), SIZE_BYTES);
	CHECK_EQ(number_of(j, "present_bytes"), SIZE_BYTES);
	CHECK_EQ(number_of(j, "span_count"), SPANS);
	CHECK_EQ(number_of(j, "last_code"), 0);
	CHECK_EQ(number_of(j, "valid_page_count"), SIZE_BYTES / 4096);
	CHECK_EQ(number_of(j, "anonymous_before_bytes"), 0);
	CHECK(json_is_true(json_object_get(j, "bytes_equal")));
	CHECK(json_is_true(json_object_get(j, "writable")));
}

static long long grown(const json_t *j)
{
	return number_of(j, "process_anonymous_after_bytes") -
	       number_of(j, "process_anonymous_before_bytes");
}

static void as_it_is(void)
{
	json_t *j = parsed(text_of(command(0), "stdout"));

	common(j);
	CHECK_STR(text_of(j, "permissions"), "rw-p");
	CHECK_EQ(number_of(j, "restart_count"), SPANS);
	/* Inside the shipped driver a window is told from its idle end, and a busy host has
	 * less of that; each of them has about the timeout's length. */
	CHECK_EQ(number_of(j, "timeout_count"), SPANS);
	CHECK(number_of(j, "windows") <= SPANS);
	CHECK(number_of(j, "windows") >= (shipped ? SPANS / 2 : SPANS));
	CHECK_EQ(number_of(j, "anonymous_after_bytes"), SIZE_BYTES);
	CHECK(grown(j) >= SIZE_BYTES && grown(j) < SIZE_BYTES + SLACK_BYTES);
	json_decref(j);
}

static void under_h2d_run(void)
{
	json_t *c = command(1), *j = parsed(text_of(c, "stdout"));
	json_t *report = parsed(text_of(c, "stderr")), *mapping;

	common(j);
	CHECK_STR(text_of(j, "permissions"), "r--p");
	CHECK_EQ(number_of(j, "windows"), 0);
	CHECK_EQ(number_of(j, "restart_count"), 0);
	CHECK_EQ(number_of(j, "timeout_count"), 0);
	CHECK_EQ(number_of(j, "callback_count"), 0);
	CHECK_EQ(number_of(j, "anonymous_after_bytes"), 0);
	CHECK(grown(j) < SLACK_BYTES);

	mapping = json_array_get(json_object_get(report, "mappings"), 0);
	CHECK_STR(text_of(mapping, "file"), "/mnt/ext4/model.safetensors");
	CHECK_STR(text_of(mapping, "format"), "safetensors");
	CHECK_EQ(number_of(mapping, "mapping_count"), 1);
	CHECK_EQ(number_of(mapping, "size_bytes"), SIZE_BYTES);
	/* The program's own writes at the end, one in every MiB. */
	CHECK_EQ(number_of(mapping, "written_page_count"), SIZE_BYTES >> 20);
	json_decref(report);
	json_decref(j);
}

int main(int argc, char **argv)
{
	static const char *release;
	char timeout[16];
	struct h2d_lab_options options = {
		.releases = &release,
		.release_count = 1,
		.filesystems = H2D_LAB_FS_EXT4,
		.policies = H2D_LAB_POLICY_STALE,
		.permissions = H2D_LAB_PERMISSION_ACCESS,
		.states = H2D_LAB_STATE_RW_PRESENT,
		.size_bytes = 1 << 20,
		.guest_file_count = 3,
		.command_count = 2,
	};
	json_t *document;
	int status;

	if (argc < 5)
		return 2;
	release = test_kernel();
	shipped = strcmp(argv[4], "shipped") == 0;
	options.guest_files = (const char *const *)&argv[1];
	options.driver = shipped ? H2D_LAB_DRIVER_SHIPPED : H2D_LAB_DRIVER_EMULATED;
	options.timeout_ms = shipped ? 0 : TIMEOUT_MS;
	snprintf(timeout, sizeof(timeout), "%d", TIMEOUT_MS);

	const char *const plain[] = {"/bin/map-checkpoint", "/mnt/ext4/model.safetensors",
				     shipped ? "shipped" : "stale", shipped ? NULL : timeout,
				     NULL};
	const char *const cured[] = {"/bin/h2d", "run",	   "--json", "--", plain[0],
				     plain[1],	 plain[2], plain[3], NULL};
	const char *const *const commands[] = {plain, cured};

	options.commands = commands;
	document = run_laboratory(&options, &status);
	CHECK_EQ(status, 0);
	kernel = first_kernel(document);
	RUN(as_it_is);
	RUN(under_h2d_run);
	json_decref(document);
	return TEST_DONE();
}
