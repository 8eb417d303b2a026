/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/placement.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/mem.h"

/* What every back-end's allocations are aligned to at least. */
enum { DEVICE_ALIGN_BYTES = 256 };

/* Give each target an arena and, in `dst`, its offset there; sizes go to `sizes` unless NULL.
 */
static int assign(struct h2d_plan_target *targets, uint64_t count, uint64_t align,
		  uint64_t arena_bytes, uint64_t *sizes, uint32_t *arena_count,
		  const struct h2d_log *log)
{
	uint64_t used = 0, at, end;
	bool open = false;

	*arena_count = 0;
	for (uint64_t i = 0; i < count; i++) {
		struct h2d_plan_target *t = &targets[i];

		t->dst = NULL;
		if (!t->bytes)
			continue;
		if (!h2d_align_up_u64(used, align, &at) || !h2d_add_u64(at, t->bytes, &end) ||
		    end > SIZE_MAX / 2)
			return h2d_fail(log, H2D_E_INVALID,
					"placement: %llu bytes of tensor %llu overflow",
					(unsigned long long)t->bytes,
					(unsigned long long)t->tensor);
		if (!open || (end > arena_bytes && used)) {
			open = true;
			if (*arena_count == UINT32_MAX)
				return h2d_fail(log, H2D_E_INVALID,
						"placement: too many allocations");
			++*arena_count;
			at = 0;
			end = t->bytes;
		}
		used = end;
		t->arena = *arena_count - 1;
		t->dst = (unsigned char *)(uintptr_t)at;
		if (sizes)
			sizes[t->arena] = used;
	}
	return 0;
}

static void release(struct h2d_placement *pl, struct h2d_device *dev, uint32_t count)
{
	while (count--)
		dev->backend->free(dev, &pl->arenas[count]);
	free(pl->arenas);
	memset(pl, 0, sizeof(*pl));
}

int h2d_placement_make(struct h2d_placement *pl, struct h2d_device *dev,
		       struct h2d_plan_target *targets, uint64_t count, uint64_t align_bytes,
		       uint64_t arena_bytes, const struct h2d_log *log)
{
	uint64_t slack = align_bytes > DEVICE_ALIGN_BYTES ? align_bytes : 0, *sizes = NULL;
	uint32_t n;
	int rc;

	memset(pl, 0, sizeof(*pl));
	rc = assign(targets, count, align_bytes, arena_bytes, NULL, &n, log);
	if (rc || !n)
		return rc;
	pl->arenas = h2d_mem->calloc(n, sizeof(*pl->arenas));
	sizes = h2d_mem->calloc(n, sizeof(*sizes));
	if (!pl->arenas || !sizes) {
		rc = h2d_fail(log, H2D_E_NOMEM, "placement: out of memory");
		goto out;
	}
	rc = assign(targets, count, align_bytes, arena_bytes, sizes, &n, log);
	for (; !rc && pl->arena_count < n; pl->arena_count++) {
		uint64_t bytes = sizes[pl->arena_count];

		if (!h2d_add_u64(bytes, slack, &bytes) ||
		    !h2d_add_u64(pl->total_bytes, bytes, &pl->total_bytes)) {
			rc = h2d_fail(log, H2D_E_INVALID, "placement: the sum overflows");
			break;
		}
		rc = dev->backend->alloc(dev, bytes, &pl->arenas[pl->arena_count]);
		if (rc) {
			h2d_fail(log, rc, "device %s: %llu bytes cannot be allocated",
				 dev->facts.name, (unsigned long long)bytes);
			break;
		}
	}
	for (uint64_t i = 0; !rc && i < count; i++) {
		struct h2d_plan_target *t = &targets[i];
		uintptr_t base;

		if (!t->bytes)
			continue;
		base = (uintptr_t)pl->arenas[t->arena].ptr;
		if (slack)
			base = (base + align_bytes - 1) & ~(uintptr_t)(align_bytes - 1);
		t->dst = (unsigned char *)(base + (uintptr_t)t->dst);
	}
out:
	if (rc)
		release(pl, dev, pl->arena_count);
	free(sizes);
	return rc;
}

void h2d_placement_free(struct h2d_placement *pl, struct h2d_device *dev)
{
	if (dev && atomic_load(&dev->lost)) {
		atomic_fetch_add(&dev->quarantined_bytes, pl->total_bytes);
		pl->arena_count = 0;
	}
	release(pl, dev, pl->arena_count);
}
