/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cure, shown on a kernel: an unmodified program maps 32 MiB of weights as PyTorch does and
 * has a device copy them, once as it is and once under `h2d run`.
 *
 * usage: guest_run MAP-CHECKPOINT H2D LIBRARY shipped|emulated
 */
#include "programs.h"

#define SIZE_BYTES (32ll << 20)
/* What the process itself may need meanwhile, for reading /proc and the like. */
#define SLACK_BYTES (1ll << 20)

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
	json_t *j = parsed(text_of(command(0, 0), "stdout"), false);

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
	json_t *c = command(1, 0), *j = parsed(text_of(c, "stdout"), false);
	json_t *report = parsed(text_of(c, "stderr"), false), *mapping;

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
	json_t *document;

	if (argc < 5)
		return 2;
	shipped = strcmp(argv[4], "shipped") == 0;

	const char *const plain[] = {"/bin/map-checkpoint", "/mnt/ext4/model.safetensors",
				     shipped ? "shipped" : "stale",
				     shipped ? NULL : TIMEOUT_TEXT, NULL};
	const char *const cured[] = {"/bin/h2d", "run",	   "--json", "--", plain[0],
				     plain[1],	 plain[2], plain[3], NULL};
	const char *const *const commands[] = {plain, cured};

	document = run_programs(argv[4], (const char *const *)&argv[1], 3, commands, 2);
	RUN(as_it_is);
	RUN(under_h2d_run);
	json_decref(document);
	return TEST_DONE();
}
