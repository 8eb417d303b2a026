/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/calibrate.h"

#include <string.h>

#include "core/clock.h"

#define MIB (UINT64_C(1) << 20)

enum { SLOTS_MAX = 4, NEAR_PCT = 95 };

uint64_t (*h2d_calibrate_now)(void) = h2d_now_ns;

/* Each fills its slots twice or more. Their bytes and those of the first touch come to
 * H2D_CALIBRATE_BYTES. */
static const struct {
	uint64_t chunk_bytes, copied_bytes;
	uint32_t slots;
} sizes[H2D_CALIBRATE_SIZES] = {
	{1 * MIB, 8 * MIB, 2},	{1 * MIB, 8 * MIB, 4},	{2 * MIB, 8 * MIB, 2},
	{2 * MIB, 16 * MIB, 4}, {4 * MIB, 16 * MIB, 2},
};

struct bench {
	struct h2d_device *dev;
	const struct h2d_backend *ops;
	struct h2d_devmem dst;
	unsigned char *src;
	uint64_t src_bytes;
	struct h2d_stream *stream;
	struct h2d_event *events[SLOTS_MAX];
	bool pending[SLOTS_MAX];
	bool lost; /* nobody knows when a copy ends */
	uint64_t deadline_ns, copied_bytes;
};

static int wait_slot(struct bench *b, uint32_t slot)
{
	int rc;

	if (!b->pending[slot])
		return 0;
	b->pending[slot] = false;
	rc = b->ops->event_wait(b->events[slot], b->dev->copy_timeout_ns);
	b->lost |= rc == H2D_E_DEVICE_LOST;
	return rc;
}

static int submit(struct bench *b, uint32_t slot, uint64_t offset, uint64_t bytes)
{
	int rc = b->ops->copy_to_device(b->stream, (unsigned char *)b->dst.ptr + offset,
					b->src + offset, bytes);

	if (rc) {
		b->lost |= rc == H2D_E_DEVICE_LOST;
		return rc;
	}
	b->copied_bytes += bytes;
	rc = b->ops->event_record(b->events[slot], b->stream);
	b->pending[slot] = !rc;
	b->lost |= rc != 0;
	return rc;
}

/* Every size goes over the same memory, so that no cache favours one. The time is that from
 * the first copy's end on: how long a copy takes to begin is paid once in a load. @return 0,
 * with a rate of 0 when the time was up */
static int copy_all(struct bench *b, uint64_t chunk, uint32_t slots, uint64_t total,
		    uint64_t *bytes_per_s)
{
	uint64_t start = 0, done = 0, elapsed;
	int rc = 0, waited;

	for (uint32_t i = 0; !rc && done < total; i++) {
		rc = wait_slot(b, i % slots);
		if (i == slots)
			start = h2d_calibrate_now();
		if (rc || h2d_calibrate_now() >= b->deadline_ns)
			break;
		rc = submit(b, i % slots, done % H2D_CALIBRATE_REGION_BYTES, chunk);
		done += chunk;
	}
	for (uint32_t i = 0; i < slots && !b->lost; i++) {
		waited = wait_slot(b, i);
		rc = rc ? rc : waited;
	}
	elapsed = h2d_calibrate_now() - start;
	*bytes_per_s = 0;
	if (!rc && done == total)
		*bytes_per_s = (uint64_t)((double)(total - chunk) * 1e9 /
					  (double)(elapsed ? elapsed : 1));
	return rc;
}

static int prepare(struct bench *b)
{
	void *p = NULL;
	int rc;

	b->src_bytes = H2D_CALIBRATE_REGION_BYTES;
	rc = h2d_device_host_get(b->dev, &b->src_bytes, UINT64_MAX, &p);
	if (rc)
		return rc;
	b->src = p;
	memset(b->src, 0, H2D_CALIBRATE_REGION_BYTES);
	rc = b->ops->alloc(b->dev, H2D_CALIBRATE_REGION_BYTES, &b->dst);
	if (rc)
		memset(&b->dst, 0, sizeof(b->dst));
	if (!rc)
		rc = b->ops->stream_create(b->dev, &b->stream);
	for (int i = 0; !rc && i < SLOTS_MAX; i++)
		rc = b->ops->event_create(b->dev, &b->events[i]);
	return rc;
}

static void release(struct bench *b)
{
	if (b->lost)
		atomic_store(&b->dev->lost, 1);
	for (int i = 0; i < SLOTS_MAX; i++)
		if (b->events[i])
			b->ops->event_destroy(b->dev, b->events[i]);
	if (b->stream)
		b->ops->stream_destroy(b->dev, b->stream);
	if (b->lost) {
		atomic_fetch_add(&b->dev->quarantined_bytes, b->src_bytes + b->dst.bytes);
		return;
	}
	if (b->dst.ptr)
		b->ops->free(b->dev, &b->dst);
	if (b->src)
		h2d_device_host_put(b->dev, b->src, b->src_bytes);
}

int h2d_calibrate_pick(const struct h2d_calibrate_try *tries, int count)
{
	uint64_t best = 0;

	for (int i = 0; i < count; i++)
		best = tries[i].bytes_per_s > best ? tries[i].bytes_per_s : best;
	for (int i = 0; best && i < count; i++)
		if ((double)tries[i].bytes_per_s * 100 >= (double)best * NEAR_PCT)
			return i;
	return -1;
}

bool h2d_calibrate_knows(uint64_t chunk_bytes, uint64_t slots)
{
	for (int i = 0; i < H2D_CALIBRATE_SIZES; i++)
		if (sizes[i].chunk_bytes == chunk_bytes && sizes[i].slots == slots)
			return true;
	return false;
}

int h2d_calibrate(struct h2d_device *dev, struct h2d_calibrate_result *out)
{
	struct bench b = {.dev = dev, .ops = dev->backend};
	uint64_t start = h2d_calibrate_now(), rate;
	int rc;

	*out = (struct h2d_calibrate_result){.chosen = -1};
	for (int i = 0; i < H2D_CALIBRATE_SIZES; i++) {
		out->tries[i].chunk_bytes = sizes[i].chunk_bytes;
		out->tries[i].slots = sizes[i].slots;
	}
	rc = prepare(&b);
	b.deadline_ns = h2d_calibrate_now() + H2D_CALIBRATE_TIME_NS;
	/* Pages and threads come into being with the first copies. */
	if (!rc)
		rc = copy_all(&b, sizes[0].chunk_bytes, sizes[0].slots,
			      H2D_CALIBRATE_REGION_BYTES, &rate);
	for (int i = 0; !rc && i < H2D_CALIBRATE_SIZES; i++)
		rc = copy_all(&b, sizes[i].chunk_bytes, sizes[i].slots, sizes[i].copied_bytes,
			      &out->tries[i].bytes_per_s);
	release(&b);
	out->copied_bytes = b.copied_bytes;
	out->elapsed_ns = h2d_calibrate_now() - start;
	if (!rc)
		out->chosen = h2d_calibrate_pick(out->tries, H2D_CALIBRATE_SIZES);
	/* So slow that no ring is too small. */
	if (!rc && out->chosen < 0)
		out->chosen = 0;
	return b.lost ? H2D_E_DEVICE_LOST : rc;
}
