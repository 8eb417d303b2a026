/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/ring.h"

#include <string.h>
#include <sys/mman.h>

#include "core/checked.h"
#include "core/mem.h"

int h2d_ring_alloc(struct h2d_ring *ring, struct h2d_device *dev, uint64_t slot_count,
		   uint64_t slot_bytes, uint64_t most_bytes, bool pageable,
		   const struct h2d_log *log)
{
	void *p = NULL;
	int rc = 0;

	memset(ring, 0, sizeof(*ring));
	if (!h2d_mul_u64(slot_count, slot_bytes, &ring->bytes) || ring->bytes > SIZE_MAX / 2)
		return h2d_fail(log, H2D_E_INVALID,
				"staging: %llu slots of %llu bytes overflow",
				(unsigned long long)slot_count, (unsigned long long)slot_bytes);
	if (pageable) {
		p = h2d_mem->map(ring->bytes, PROT_READ | PROT_WRITE);
		rc = p ? 0 : H2D_E_NOMEM;
	} else {
		rc = h2d_device_host_get(dev, &ring->bytes, most_bytes, &p);
	}
	if (rc)
		return h2d_fail(log, rc, "staging: %llu bytes cannot be allocated",
				(unsigned long long)ring->bytes);
	ring->base = p;
	ring->slot_bytes = slot_bytes;
	ring->pageable = pageable;
	return 0;
}

void h2d_ring_free(struct h2d_ring *ring, struct h2d_device *dev, bool quarantine)
{
	if (ring->base && quarantine)
		atomic_fetch_add(&dev->quarantined_bytes, ring->bytes);
	else if (ring->base && ring->pageable)
		munmap(ring->base, ring->bytes);
	else if (ring->base)
		h2d_device_host_put(dev, ring->base, ring->bytes);
	memset(ring, 0, sizeof(*ring));
}
