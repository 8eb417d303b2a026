/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_run_core */
/* Pages and blocks, with pages of every size; and patterns. */
#include "run/glob.h"
#include "run/pages.h"
#include "test.h"

static const size_t sizes[] = {4096, 16384, 65536};

static void touched_pages(void)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t page = sizes[i], n;
		struct ro_span s;

		CHECK(!ro_pages_touched(page, 0, page, &s));
		CHECK(ro_pages_touched(10 * page, 1, page, &s));
		CHECK(s.start == 10 * page && s.end == 11 * page);
		CHECK(ro_pages_touched(10 * page - 1, 2, page, &s));
		CHECK(s.start == 9 * page && s.end == 11 * page);
		CHECK(ro_pages_touched(10 * page, page, page, &s));
		CHECK(s.start == 10 * page && s.end == 11 * page);
		CHECK(!ro_pages_touched(UINTPTR_MAX - 5, 100, page, &s));
		CHECK(!ro_pages_touched(UINTPTR_MAX - 5, 6, page, &s));
		CHECK(ro_pages_round(1, page, &n) && n == page);
		CHECK(ro_pages_round(page, page, &n) && n == page);
		CHECK(ro_pages_round(0, page, &n) && n == 0);
		CHECK(!ro_pages_round(SIZE_MAX, page, &n));
	}
}

static void blocks(void)
{
	const uintptr_t mib = 1 << 20;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t page = sizes[i];
		struct ro_span within = {101 * mib + page, 400 * mib - page}, b;

		b = ro_pages_block(201 * mib + 77, within, 0, page);
		CHECK(b.start == 200 * mib && b.end == 202 * mib);
		/* Cut off at both ends of the mapping. */
		b = ro_pages_block(within.start, within, 0, page);
		CHECK(b.start == within.start && b.end == 102 * mib);
		b = ro_pages_block(within.end - 1, within, 0, page);
		CHECK(b.start == 398 * mib && b.end == within.end);
		/* Growing, and no further than the limit. */
		b = ro_pages_block(201 * mib, within, RO_BLOCK_GROWTH - 1, page);
		CHECK_EQ(b.end - b.start, 2 * mib);
		b = ro_pages_block(201 * mib, within, RO_BLOCK_GROWTH, page);
		CHECK_EQ(b.end - b.start, 4 * mib);
		b = ro_pages_block(201 * mib, within, 1000000, page);
		CHECK(b.start == 192 * mib && b.end == 256 * mib);
		/* At the end of the address space nothing overflows. */
		within = (struct ro_span){UINTPTR_MAX - 3 * mib + 1, UINTPTR_MAX - page + 1};
		b = ro_pages_block(UINTPTR_MAX - mib, within, 0, page);
		CHECK(b.end == within.end && b.start == (UINTPTR_MAX & ~(2 * mib - 1)));
	}
}

/* Pages larger than a block are blocks. */
static void huge_pages(void)
{
	const size_t page = 16 << 20;
	struct ro_span b =
		ro_pages_block(5 * page + 3, (struct ro_span){page, 9 * page}, 0, page);

	CHECK(b.start == 5 * page && b.end == 6 * page);
}

static void patterns(void)
{
	CHECK(ro_glob("*.bin", "/models/a.bin"));
	CHECK(!ro_glob("*.bin", "/models/a.bin.txt"));
	CHECK(ro_glob("*.txt:*.bin", "/models/a.bin"));
	CHECK(ro_glob("::a.bin:", "/models/a.bin"));
	CHECK(!ro_glob("", "/models/a.bin") && !ro_glob("::", ""));
	CHECK(ro_glob("/models/*", "/models/deep/er/a.bin"));
	CHECK(!ro_glob("/model/*", "/models/a.bin"));
	CHECK(ro_glob("?.b[h-j]n", "/a.bin") && !ro_glob("?.b[!h-j]n", "/a.bin"));
	CHECK(ro_glob("[]x]", "/]") && ro_glob("[^a]", "/b") && ro_glob("[a-]", "/-"));
	CHECK(ro_glob("a\\*", "/a*") && !ro_glob("a\\*", "/ab"));
	CHECK(ro_glob("[a", "/[a"));
	CHECK(ro_glob("**a**b**", "/xxaxxbxx") && !ro_glob("*a*b*c", "/ab"));
	/* Linear, not exponential. */
	CHECK(!ro_glob(
		"*a*a*a*a*a*a*a*a*a*a*a*a*b",
		"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

int main(void)
{
	RUN(touched_pages);
	RUN(blocks);
	RUN(huge_pages);
	RUN(patterns);
	return TEST_DONE();
}
