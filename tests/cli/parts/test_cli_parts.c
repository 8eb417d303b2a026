/* SPDX-License-Identifier: Apache-2.0 */
/* What the command is made of, where a run of it would not reach every case. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "../../unit/test.h"
#include "memory.h"
#include "text.h"

static void every_status_has_an_exit(void)
{
	for (int status = 0; status >= H2D_E_INTERNAL; status--)
		for (int stage = H2D_STAGE_USAGE; stage <= H2D_STAGE_LOAD; stage++) {
			int exit = h2d_exit_status(status, (enum h2d_stage)stage);

			CHECK(h2d_exit_meaning(exit) != NULL);
			CHECK((status == 0) == (exit == 0));
		}
	CHECK(h2d_exit_meaning(7) == NULL);
}

static void exits_of_the_contract(void)
{
	static const struct {
		int status;
		enum h2d_stage stage;
		int exit;
	} cases[] = {
		{H2D_E_MISMATCH, H2D_STAGE_LOAD, 1},
		{H2D_E_INVALID, H2D_STAGE_LOAD, 2},
		{H2D_E_INVALID, H2D_STAGE_DEVICE, 2},
		{H2D_E_UNSUPPORTED, H2D_STAGE_LOAD, 77},
		{H2D_E_NOT_FOUND, H2D_STAGE_INPUT, 3},
		{H2D_E_FORMAT, H2D_STAGE_INPUT, 3},
		{H2D_E_UNSUPPORTED, H2D_STAGE_INPUT, 3},
		{H2D_E_CHANGED, H2D_STAGE_LOAD, 3},
		{H2D_E_NOT_FOUND, H2D_STAGE_DEVICE, 4},
		{H2D_E_UNAVAILABLE, H2D_STAGE_DEVICE, 4},
		{H2D_E_DEVICE, H2D_STAGE_LOAD, 4},
		{H2D_E_DEVICE_LOST, H2D_STAGE_LOAD, 4},
		{H2D_E_DEVICE_MEMORY, H2D_STAGE_LOAD, 4},
		{H2D_E_IO, H2D_STAGE_INPUT, 5},
		{H2D_E_NOMEM, H2D_STAGE_LOAD, 5},
		{H2D_E_PERMISSION, H2D_STAGE_INPUT, 5},
		{H2D_E_CANCELLED, H2D_STAGE_LOAD, 6},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_EQ(h2d_exit_status(cases[i].status, cases[i].stage), cases[i].exit);
}

static void sizes(void)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"0", 0},
		    {"7", 7},
		    {"7B", 7},
		    {"8KiB", 8192},
		    {"8MiB", 8 << 20},
		    {"3GiB", UINT64_C(3) << 30},
		    {"2TiB", UINT64_C(2) << 40},
		    {"18446744073709551615", UINT64_MAX},
		    {"17179869183GiB", UINT64_C(17179869183) << 30}};
	static const char *const bad[] = {"",
					  " 8",
					  "-1",
					  "+1",
					  "8mib",
					  "8 MiB",
					  "8MB",
					  "1.5GiB",
					  "0x10",
					  "17179869184GiB",
					  "18446744073709551616",
					  "MiB"};
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		CHECK(!h2d_size_parse(good[i].text, &bytes));
		CHECK(bytes == good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(h2d_size_parse(bad[i], &bytes) != NULL);
}

static void suggestions(void)
{
	static const char *const words[] = {"load", "ls", "verify", "devices", NULL};

	CHECK_STR(h2d_suggest("laod", words), "load");
	CHECK_STR(h2d_suggest("verfy", words), "verify");
	CHECK_STR(h2d_suggest("device", words), "devices");
	CHECK_STR(h2d_suggest("dev", words), "devices");
	CHECK(h2d_suggest("xyzzy", words) == NULL);
	CHECK(h2d_suggest("", words) == NULL);
}

static void numbers_for_people(void)
{
	static const struct {
		uint64_t n;
		const char *bytes, *ns;
	} cases[] = {{0, "0 B", "0 ns"},
		     {999, "999 B", "999 ns"},
		     {1023, "1023 B", "1.02 us"},
		     {1024, "1.00 KiB", "1.02 us"},
		     {1048575, "1.00 MiB", "1.05 ms"},
		     {1500000000, "1.40 GiB", "1.50 s"}};
	char text[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		h2d_text_bytes(text, sizeof(text), cases[i].n);
		CHECK_STR(text, cases[i].bytes);
		h2d_text_ns(text, sizeof(text), cases[i].n);
		CHECK_STR(text, cases[i].ns);
	}
	h2d_text_bytes(text, sizeof(text), UINT64_MAX);
	CHECK_STR(text, "16.00 EiB");
}

static void safe_text(void)
{
	char text[16];

	h2d_text_safe_copy(text, sizeof(text), "a\x1b[1m\xff", 6);
	CHECK_STR(text, "a\\x1b[1m\\xff");
	h2d_text_safe_copy(text, 6, "abcdefgh", 8);
	CHECK_STR(text, "abcde");
	h2d_text_safe_copy(text, 6, "abc\x01", 4); /* not half an escape */
	CHECK_STR(text, "abc");
	CHECK(h2d_text_is_safe("\xc3\xa9", 2));
	CHECK(!h2d_text_is_safe("\xc2\x85", 2));
	CHECK(!h2d_text_is_safe("\xe2\x80\xae", 3));
}

/* The sampler must see memory that is gone again when the load has ended. */
static void memory_peaks(void)
{
	enum { BYTES = 64 << 20 };
	struct h2d_memory_sampler s;
	volatile char *p;

	h2d_memory_start(&s);
	p = malloc(BYTES);
	REQUIRE(p);
	for (size_t i = 0; i < BYTES; i += 4096)
		p[i] = 1;
	h2d_memory_sample(&s);
	free((void *)p);
	h2d_memory_stop(&s);
	CHECK(s.peak.rss_anon_bytes >= s.before.rss_anon_bytes + BYTES / 8 * 7);
	CHECK(s.sample_count >= 3);
}

/* The first signal is noted, also of another kind the second one kills. */
static void second_signal_kills(void)
{
	static const int pairs[][2] = {{SIGINT, SIGINT}, {SIGTERM, SIGINT}, {SIGINT, SIGTERM}};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		pid_t pid = fork();
		int status = 0;

		if (!pid) {
			h2d_signals_install();
			raise(pairs[i][0]);
			if (h2d_signals_caught() != pairs[i][0])
				_exit(1);
			raise(pairs[i][1]);
			_exit(2);
		}
		REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == pairs[i][1]);
	}
}

int main(void)
{
	RUN(every_status_has_an_exit);
	RUN(exits_of_the_contract);
	RUN(sizes);
	RUN(suggestions);
	RUN(numbers_for_people);
	RUN(safe_text);
	RUN(memory_peaks);
	RUN(second_signal_kills);
	return TEST_DONE();
}
