/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring that is refused, fails, or completes reads badly. */
#include "faults.h"
#include "file/direct.h"

static struct fixture f;

static const struct way ways[] = {
	{"direct", "host", false}, {"direct", "host", true}, {"direct", "null", true}};

static void walk(enum fault_call call, uint64_t count, int error, int wanted)
{
	uint64_t hits = 0;

	for (int i = 0; i < 3; i++) {
		struct h2d_device *dev = fault_device(&f, ways[i].device, 0);
		struct h2d_load_opts o = fault_opts(&ways[i]);

		for (uint64_t n = 1;; n++) {
			int rc;

			fault_arm(call, n, count, error);
			rc = fault_load(&f, dev, &o, way_readable(&ways[i]));
			if (!atomic_load(&fault.hit)) {
				CHECK_EQ(rc, 0);
				break;
			}
			hits++;
			if (rc != wanted)
				fprintf(stderr, "way %d call %d error %d n %llu: %s\n", i, call,
					error, (unsigned long long)n, f.last_error);
			CHECK_EQ(rc, wanted);
		}
		CHECK_EQ(atomic_load(&dev->quarantined_bytes), 0);
		h2d_device_close(dev);
	}
	CHECK(hits > 0);
}

static void completions_fail(void)
{
	walk(FAULT_URING_COMPLETE, 1, EIO, H2D_E_IO);
	walk(FAULT_URING_COMPLETE, UINT64_MAX, EIO, H2D_E_IO);
}

static void completions_fall_short(void)
{
	walk(FAULT_URING_COMPLETE, 1, FAULT_SHORT, 0);
	walk(FAULT_URING_COMPLETE, UINT64_MAX, FAULT_SHORT, 0);
}

static void completions_ask_to_try_again(void)
{
	walk(FAULT_URING_COMPLETE, 3, EAGAIN, 0);
	walk(FAULT_URING_COMPLETE, UINT64_MAX, EAGAIN, 0); /* then through the cache */
	walk(FAULT_URING_COMPLETE, 2, EINTR, 0);
}

static void completions_are_invalid(void)
{
	walk(FAULT_URING_COMPLETE, 1, EINVAL, 0);
	walk(FAULT_URING_COMPLETE, UINT64_MAX, EINVAL, 0);
}

/* The kernel says that the file ends, and the buffered read says that it does not. */
static void completions_say_end_of_file(void)
{
	walk(FAULT_URING_COMPLETE, 1, FAULT_EOF, 0);
}

static void submission_fails(void)
{
	walk(FAULT_URING_SUBMIT, UINT64_MAX, EBADF, H2D_E_IO);
}

static void waiting_is_interrupted(void)
{
	walk(FAULT_URING_WAIT, 3, EINTR, 0);
}

/* A ring that cannot be waited for: the load fails; what it had is given up, never freed while
 * the kernel may still write to it, unless the reads could be waited for in the end. */
static void waiting_fails_once(void)
{
	walk(FAULT_URING_WAIT, 1, EBADF, H2D_E_IO);
}

static void waiting_fails_for_good(void)
{
	struct h2d_device *dev = fault_device(&f, "null", 0);
	struct h2d_load_opts o = fault_opts(&ways[2]);
	struct h2d_weights *w = NULL;

	fault_arm(FAULT_URING_WAIT, 2, UINT64_MAX, EBADF);
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), H2D_E_IO);
	CHECK(w == NULL);
	CHECK(atomic_load(&dev->quarantined_bytes) > 0);
	fault.call = FAULT_NONE;
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	h2d_weights_free(w);
	h2d_device_close(dev);
}

static void refused(void)
{
	struct h2d_device *dev = fault_device(&f, "host", 0);
	struct h2d_load_opts o = H2D_OPTS(o);
	struct h2d_report r = H2D_OPTS(r);
	struct h2d_weights *w = NULL;

	o.path = "direct";
	fault_arm(FAULT_URING_INIT, 1, UINT64_MAX, EPERM);
	CHECK_EQ(h2d_load(f.ckpt, dev, &o, &w), 0);
	CHECK(atomic_load(&fault.hit) > 0);
	fault.call = FAULT_NONE;
	REQUIRE(w);
	CHECK(fault_correct(&f, w));
	h2d_weights_report(w, &r);
	CHECK_STR(r.path_used, "direct");
	CHECK(strstr(r.reason, "io_uring") != NULL);
	CHECK(strstr(r.reason, "blocking") != NULL);
	h2d_weights_free(w);
	/* Granted when asked and refused when it is opened: the reader goes on without. */
	for (uint64_t n = 2; n < 4; n++) {
		fault_arm(FAULT_URING_INIT, n, UINT64_MAX, ENOMEM);
		CHECK_EQ(fault_load(&f, dev, &o, true), 0);
	}
	h2d_device_close(dev);
}

int main(void)
{
	struct h2d_direct d;
	const char *why;

	if (fixture_open(&f, FAULT_FILE_BYTES, fault_extents,
			 sizeof(fault_extents) / sizeof(fault_extents[0]))) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	if (h2d_direct_open(&d, &f.ckpt->cat.files[0], &why, NULL)) {
		fixture_close(&f);
		SKIP("the filesystem of /var/tmp has no O_DIRECT");
	}
	h2d_direct_close(&d);
	faults_install();
	RUN(refused);
	RUN(completions_fail);
	RUN(completions_fall_short);
	RUN(completions_ask_to_try_again);
	RUN(completions_are_invalid);
	RUN(completions_say_end_of_file);
	RUN(submission_fails);
	RUN(waiting_is_interrupted);
	RUN(waiting_fails_once);
	RUN(waiting_fails_for_good);
	fixture_close(&f);
	return TEST_DONE();
}
