/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"
#include "test.h"

static char last[1024];

static void keep(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	(void)level;
	snprintf(last, sizeof(last), "%s", line);
}

static int open_spec(const char *spec)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;
	int rc;

	o.log = keep;
	last[0] = 0;
	rc = h2d_device_open(spec, &o, &dev);
	h2d_device_close(dev);
	return rc;
}

/* Told as such whether or not the module is here. */
static void malformed_specs_are_invalid(void)
{
	static const char *const wrong[] = {
		"hmm:",
		"hmm:bogus",
		"hmm:stale,",
		"hmm:stale,,permission=vma",
		"hmm:stale permission=vma",
		"hmm:stale:vma",
		"hmm:stale,permission=",
		"hmm:stale,permission=both",
		"hmm:stale,timeout_ms=",
		"hmm:stale,timeout_ms=0",
		"hmm:stale,timeout_ms=-1",
		"hmm:stale,timeout_ms=4x",
		"hmm:stale,timeout_ms=10001",
		"hmm:stale,timeout_ms=99999999999999999999",
		"hmm:shipped,timeout_ms=40",
		"hmm,",
		"hmm:0",
		"hmm:Stale",
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_EQ(open_spec(wrong[i]), H2D_E_INVALID);
		CHECK(strstr(last, "hmm"));
	}
}

/* Without the module the reason names what is missing. */
static void well_formed_specs(void)
{
	static const char *const right[] = {
		"hmm",
		"hmm:stale",
		"hmm:refresh,permission=access",
		"hmm:no_retry,timeout_ms=1,permission=vma",
		"hmm,permission=access",
		"hmm:shipped",
	};

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		int rc = open_spec(right[i]);

		CHECK(rc == 0 || rc == H2D_E_UNAVAILABLE || rc == H2D_E_PERMISSION);
		if (rc == H2D_E_UNAVAILABLE)
			CHECK(strstr(last, "h2d_hmm") || strstr(last, "shipped"));
	}
}

int main(void)
{
	RUN(malformed_specs_are_invalid);
	RUN(well_formed_specs);
	return TEST_DONE();
}
