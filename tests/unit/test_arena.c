/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "core/arena.h"
#include "test.h"

static void alignment_and_growth(void)
{
	struct h2d_arena a = {0};
	unsigned char *last = NULL;

	for (size_t n = 1; n < 3000; n += 7) {
		unsigned char *p = h2d_arena_alloc(&a, n);

		REQUIRE(p);
		CHECK_EQ((uintptr_t)p % 8, 0);
		memset(p, (int)n, n);
		if (last)
			CHECK_EQ(last[0], (unsigned char)(n - 7));
		last = p;
	}
	CHECK(h2d_arena_alloc(&a, 1 << 20) != NULL);
	h2d_arena_free(&a);
	CHECK_EQ(a.total_bytes, 0);
}

static void refuses_overflow(void)
{
	struct h2d_arena a = {0};

	CHECK(h2d_arena_alloc(&a, SIZE_MAX) == NULL);
	CHECK(h2d_arena_alloc(&a, SIZE_MAX - 15) == NULL);
	CHECK(h2d_arena_array(&a, SIZE_MAX / 2, 3) == NULL);
	CHECK(h2d_arena_copy(&a, "", SIZE_MAX) == NULL);
	h2d_arena_free(&a);
}

static void copies_are_terminated(void)
{
	struct h2d_arena a = {0};
	char *s = h2d_arena_copy(&a, "ab\0c", 4);

	REQUIRE(s);
	CHECK_EQ(memcmp(s, "ab\0c\0", 5), 0);
	h2d_arena_free(&a);
}

int main(void)
{
	RUN(alignment_and_growth);
	RUN(refuses_overflow);
	RUN(copies_are_terminated);
	return TEST_DONE();
}
