/* SPDX-License-Identifier: Apache-2.0 */
/* Packing into device allocations, on a device that counts them. */
#include "h2d/h2d.h"
#include "test.h"
#include "transfer/placement.h"

enum { MAX = 64 };

static struct {
	uint64_t bytes[MAX];
	unsigned count, freed, fail_at;
} seen;

static int fake_alloc(struct h2d_device *dev, uint64_t bytes, struct h2d_devmem *out)
{
	(void)dev;
	if (seen.count + 1 == seen.fail_at)
		return H2D_E_DEVICE_MEMORY;
	/* Apart, and aligned to 256 but to nothing more. */
	out->ptr = (void *)(uintptr_t)(((uint64_t)seen.count + 1) << 40 | 0x100);
	out->bytes = bytes;
	seen.bytes[seen.count++] = bytes;
	return 0;
}

static void fake_free(struct h2d_device *dev, struct h2d_devmem *mem)
{
	(void)dev;
	(void)mem;
	seen.freed++;
}

static const struct h2d_backend backend = {
	.name = "fake", .alloc = fake_alloc, .free = fake_free};
static struct h2d_device dev = {.backend = &backend};

static int place(struct h2d_placement *pl, struct h2d_plan_target *t, const uint64_t *sizes,
		 uint64_t n, uint64_t align, uint64_t arena)
{
	memset(&seen, 0, sizeof(seen));
	for (uint64_t i = 0; i < n; i++)
		t[i] = (struct h2d_plan_target){.tensor = i, .bytes = sizes[i]};
	return h2d_placement_make(pl, &dev, t, n, align, arena, NULL);
}

static void packs_in_order(void)
{
	static const uint64_t sizes[] = {1, 0, 255, 256, 257, 0, 1000};
	struct h2d_plan_target t[7];
	struct h2d_placement pl;

	REQUIRE(!place(&pl, t, sizes, 7, 256, 1 << 20));
	CHECK_EQ(seen.count, 1);
	CHECK_EQ(seen.bytes[0], 256 * 5 + 1000);
	CHECK(t[1].dst == NULL && t[5].dst == NULL);
	CHECK_EQ((uintptr_t)t[0].dst, (1ull << 40) + 256);
	CHECK_EQ(t[2].dst - t[0].dst, 256);
	CHECK_EQ(t[3].dst - t[0].dst, 512);
	CHECK_EQ(t[4].dst - t[0].dst, 768);
	CHECK_EQ(t[6].dst - t[0].dst, 1280);
	h2d_placement_free(&pl, &dev);
	CHECK_EQ(seen.freed, 1);
}

static void never_splits_a_tensor(void)
{
	static const uint64_t sizes[] = {600, 600, 5000, 100, 200, 1024, 1};
	struct h2d_plan_target t[7];
	struct h2d_placement pl;

	REQUIRE(!place(&pl, t, sizes, 7, 1, 1024));
	CHECK_EQ(seen.count, 6);
	CHECK_EQ(seen.bytes[2], 5000);
	CHECK_EQ(seen.bytes[3], 300);
	for (int i = 0; i < 7; i++) {
		uintptr_t base = (uintptr_t)pl.arenas[t[i].arena].ptr;

		CHECK((uintptr_t)t[i].dst >= base);
		CHECK((uintptr_t)t[i].dst + sizes[i] <= base + seen.bytes[t[i].arena]);
	}
	h2d_placement_free(&pl, &dev);
	CHECK_EQ(seen.freed, 6);
}

static void wide_alignment(void)
{
	static const uint64_t sizes[] = {1, 1, 1};
	struct h2d_plan_target t[3];
	struct h2d_placement pl;

	REQUIRE(!place(&pl, t, sizes, 3, 65536, 1 << 20));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ((uintptr_t)t[i].dst % 65536, 0);
		CHECK((uintptr_t)t[i].dst + 1 <=
		      (uintptr_t)pl.arenas[0].ptr + pl.arenas[0].bytes);
	}
	h2d_placement_free(&pl, &dev);
}

static void failure_releases(void)
{
	static const uint64_t sizes[] = {100, 100, 100, 100};
	struct h2d_plan_target t[4];
	struct h2d_placement pl;

	memset(&seen, 0, sizeof(seen));
	for (unsigned n = 1; n <= 4; n++) {
		memset(&seen, 0, sizeof(seen));
		seen.fail_at = n;
		for (int i = 0; i < 4; i++)
			t[i] = (struct h2d_plan_target){.bytes = sizes[i]};
		CHECK_EQ(h2d_placement_make(&pl, &dev, t, 4, 256, 100, NULL),
			 H2D_E_DEVICE_MEMORY);
		CHECK_EQ(seen.freed, n - 1);
		CHECK(pl.arenas == NULL);
	}
}

static void overflow_is_refused(void)
{
	static const uint64_t sizes[] = {UINT64_MAX - 10, 100};
	struct h2d_plan_target t[2];
	struct h2d_placement pl;

	CHECK_EQ(place(&pl, t, sizes, 2, 256, 1 << 20), H2D_E_INVALID);
	CHECK_EQ(seen.count, 0);
}

static void nothing(void)
{
	static const uint64_t sizes[] = {0, 0};
	struct h2d_plan_target t[2];
	struct h2d_placement pl;

	CHECK_EQ(place(&pl, t, sizes, 2, 256, 1 << 20), 0);
	CHECK_EQ(seen.count, 0);
	h2d_placement_free(&pl, &dev);
}

static void lost_device_keeps_its_memory(void)
{
	static const uint64_t sizes[] = {100, 5000};
	struct h2d_plan_target t[2];
	struct h2d_placement pl;

	REQUIRE(!place(&pl, t, sizes, 2, 256, 1024));
	atomic_store(&dev.lost, 1);
	h2d_placement_free(&pl, &dev);
	CHECK_EQ(seen.freed, 0);
	CHECK_EQ(atomic_load(&dev.quarantined_bytes), 5100);
	atomic_store(&dev.lost, 0);
}

int main(void)
{
	RUN(packs_in_order);
	RUN(never_splits_a_tensor);
	RUN(wide_alignment);
	RUN(failure_releases);
	RUN(overflow_is_refused);
	RUN(nothing);
	RUN(lost_device_keeps_its_memory);
	return TEST_DONE();
}
