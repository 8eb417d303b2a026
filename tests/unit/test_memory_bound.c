/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_bound.h"

static struct fixture f;

static void bounded(void)
{
	static const char *const paths[] = {"pinned", "direct", "mmap", "pread", "clone", NULL};

	bound_check_all(&f, paths, true);
}

int main(void)
{
	if (BOUND_SANITIZED)
		SKIP("a thread sanitizer's shadow counts as memory of the process");
	if (bound_fixture(&f, 320 << 20)) {
		fprintf(stderr, "no fixture\n");
		return 1;
	}
	RUN(bounded);
	fixture_close(&f);
	return TEST_DONE();
}
