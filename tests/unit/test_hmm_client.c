/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_abi */
/* What of the h2d_hmm client needs no kernel: requests, windows out of a log, refusals. */
#include <errno.h>

#include "abi/hmm_client.h"
#include "test.h"

static void request_of_whole_pages(void)
{
	static const struct {
		uint64_t address, bytes, begin, length;
	} cases[] = {
		{0x10000, 4096, 0x10000, 4096},
		{0x10000, 0, 0x10000, 4096},
		{0x10001, 4096, 0x10000, 8192},
		{0x10fff, 1, 0x10000, 4096},
		{0x10fff, 2, 0x10000, 8192},
		{0x10000, 4097, 0x10000, 8192},
		/* Nonsense stays nonsense, and does not become small. */
		{0x10001, UINT64_MAX, 0x10000, 0},
	};
	struct h2d_hmm_copy_source r;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		h2d_hmm_request_init(&r, (void *)(uintptr_t)cases[i].address, cases[i].bytes);
		CHECK_EQ(r.address, cases[i].begin);
		if (cases[i].length)
			CHECK_EQ(r.length, cases[i].length);
		else
			CHECK(r.length == 0 || r.length > H2D_HMM_LENGTH_MAX);
		CHECK_EQ(r.size, sizeof(r));
		CHECK_EQ(r.abi_version, H2D_HMM_ABI_VERSION);
		CHECK(r.driver && r.policy && r.permission && r.access);
	}
	r.timeout_ms = 40;
	h2d_hmm_request_shipped(&r);
	CHECK_EQ(r.policy, H2D_HMM_POLICY_NONE);
	CHECK_EQ(r.timeout_ms, 0);
}

/* The structures are an interface between two programs: their layout is written down here. */
static void layout(void)
{
	CHECK_EQ(sizeof(struct h2d_hmm_query), 96);
	CHECK_EQ(sizeof(struct h2d_hmm_attempt), 40);
	CHECK_EQ(sizeof(struct h2d_hmm_copy_source), 368);
	CHECK_EQ(offsetof(struct h2d_hmm_copy_source, attempt_log_count), 96);
	CHECK_EQ(offsetof(struct h2d_hmm_copy_source, callbacks_by_event), 192);
}

static void windows_of_a_log(void)
{
	const uint64_t ms = 1000000;
	const struct h2d_hmm_attempt log[] = {
		{.return_code = -EAGAIN, .idle_ns = 990 * ms, .spans_new = 1},
		{.return_code = -EBUSY, .idle_ns = 500 * ms, .spans_new = 1},
		{.return_code = -EAGAIN, .idle_ns = 499 * ms, .elapsed_ns = 1600 * ms},
		{.return_code = -EAGAIN, .idle_ns = 1004 * ms, .spans_new = 5},
		{.return_code = -EAGAIN, .idle_ns = 1004 * ms, .spans_new = 0},
		{.return_code = -EFAULT, .idle_ns = 1004 * ms, .spans_new = 1},
		{.return_code = 0, .idle_ns = 2000 * ms, .spans_new = 1},
	};
	struct h2d_hmm_copy_source r = {.attempt_log_count = 7, .windows = 40};

	CHECK_EQ(h2d_hmm_windows(&r, log, 1000), 3);
	r.attempt_log_count = 1;
	CHECK_EQ(h2d_hmm_windows(&r, log, 1000), 1);
	CHECK_EQ(h2d_hmm_windows(&r, NULL, 1000), 0);
	r.valid = H2D_HMM_VALID_WINDOWS;
	CHECK_EQ(h2d_hmm_windows(&r, log, 1000), 40);
}

static void refusals(void)
{
	const struct h2d_log silent = {0};
	struct h2d_hmm hmm = {.fd = 7};

	CHECK_EQ(h2d_hmm_open("/nowhere/h2d_hmm", &silent, &hmm), H2D_E_UNAVAILABLE);
	CHECK_EQ(hmm.fd, -1);
	/* A device that is not ours. */
	CHECK_EQ(h2d_hmm_open("/dev/null", &silent, &hmm), H2D_E_UNAVAILABLE);
	CHECK_EQ(hmm.fd, -1);
	h2d_hmm_close(&hmm);
	CHECK_STR(h2d_hmm_driver_state_string(H2D_HMM_DRIVER_READY), "ready");
	CHECK_STR(h2d_hmm_driver_state_string(99), "unknown");
}

int main(void)
{
	RUN(request_of_whole_pages);
	RUN(layout);
	RUN(windows_of_a_log);
	RUN(refusals);
	return TEST_DONE();
}
