/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `auto` asks the page cache about every extent. What is cached, at least half of it, is read
 * through the cache, at memory speed. What is not is read directly: the cache of a machine that
 * loads a model is better spent on something else. Dirty extents go through the cache too,
 * since a direct read would have to wait until they are written.
 *
 * Where nobody can say what is cached (cachestat refused, or no such call and not our file) the
 * cache is used: right when the file is warm, and the kernel reads ahead when it is not.
 *
 * Where memory is short other rules come first. What the system and the memory cgroup have left
 * bounds the ring; when the checkpoint is larger than that, unknown extents are read directly,
 * and pages that had to be read through the cache are given back as the load goes on: on a
 * device that shares the host's memory they would compete with the weights themselves.
 *
 * A mapping is never a source here, so that what a kernel does with one (its retry policy,
 * which is unknown unless the caller names it) cannot slow the load down. Nor is it into host
 * memory, where no kernel matters: there it was measured to be no faster than reading in place.
 *
 * A link that is slower than a few readers gets no more of them than it takes to keep it busy:
 * the processors are then left to others. Its width is what it has now, its speed what it can
 * have, since idle devices slow their link down.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/policy.h"
#include "device/pci.h"
#include "file/cache.h"
#include "path/auto.h"
#include "path/load.h"
#include "transfer/tuning.h"

enum {
	RING_SHARE = 8, /* of the memory that is left, at most this part for the ring */
	RING_MIN_BYTES = 4 << 20,
	SMALL_BYTES = 256 << 10, /* in all: not worth a second way of reading */
	READERS_MIN = 2,	 /* one reads while the other's copy is handed over */
};
/* What one reader moves from the page cache at least. */
#define READER_BYTES_PER_S UINT64_C(2000000000)

void (*h2d_auto_room)(struct h2d_room *room) = h2d_room_read;

const struct h2d_path h2d_path_auto = {
	.name = "auto",
	.summary =
		"cached extents as `pinned`, others as `direct`, by what the page cache holds",
	.source = H2D_SOURCE_AUTO,
	.staging = H2D_STAGING_RING,
	.flags = 0,
};

static int read_link(const char *address, struct h2d_pci *out)
{
	return h2d_pci_read(NULL, address, out);
}

int (*h2d_auto_link)(const char *address, struct h2d_pci *out) = read_link;

static const char *policy_of(const struct h2d_load *l)
{
	return h2d_retry_policy_name(h2d_retry_policy_from_name(l->opts.kernel_retry_policy));
}

static void append(char *text, size_t cap, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void append(char *text, size_t cap, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + n, cap - n, fmt, args);
	va_end(args);
}

static void append_link(char *text, size_t cap, const char *word, double speed, uint32_t lanes)
{
	if (speed > 0 && lanes)
		append(text, cap, ", %s %.1f GT/s x%u", word, speed, lanes);
	else if (speed > 0)
		append(text, cap, ", %s %.1f GT/s", word, speed);
	else if (lanes)
		append(text, cap, ", %s x%u", word, lanes);
}

/* For -v: what is known of the machine. */
static void tell_facts(const struct h2d_load *l, const struct h2d_room *room,
		       const struct h2d_pci *pci, uint64_t bytes)
{
	const struct h2d_device_facts *f = &l->dev->facts;
	char text[768] = "";

	append(text, sizeof(text), "auto: device %s", f->name);
	if (f->unified < 2)
		append(text, sizeof(text), "%s",
		       f->unified ? " shares the host's memory" : " has memory of its own");
	append_link(text, sizeof(text), "link now", pci->speed_gt_per_s, pci->lane_count);
	append_link(text, sizeof(text), "link at most", pci->speed_max_gt_per_s,
		    pci->lane_max_count);
	append(text, sizeof(text), "; %llu MiB to load", (unsigned long long)(bytes >> 20));
	if (room->available_bytes != UINT64_MAX)
		append(text, sizeof(text), ", %llu MiB of memory left (%s)",
		       (unsigned long long)(room->available_bytes >> 20), room->bound);
	if (l->opts.kernel_retry_policy)
		append(text, sizeof(text),
		       "; the kernel's retry policy is %s: no mapping is used", policy_of(l));
	h2d_log_line(&l->log, H2D_LOG_INFO, "%s", text);
}

static void weigh_link(struct h2d_load *l, const struct h2d_pci *pci)
{
	double speed =
		pci->speed_max_gt_per_s > 0 ? pci->speed_max_gt_per_s : pci->speed_gt_per_s;
	uint64_t bound = h2d_pci_bytes_per_s(speed, pci->lane_count), readers;

	if (!bound || l->in_place)
		return;
	readers = bound / READER_BYTES_PER_S + 1;
	readers = readers > READERS_MIN ? readers : READERS_MIN;
	h2d_load_because(l, "the link carries %.1f GB/s at most (%.1f GT/s x%u%s)",
			 (double)bound / 1e9, speed, pci->lane_count,
			 pci->lane_max_count > pci->lane_count ? ", of more lanes it could have"
							       : "");
	if (l->opts.threads || readers >= h2d_tuning->thread_max_count)
		return;
	l->reader_max = (uint32_t)readers;
}

static uint64_t wanted_bytes(const struct h2d_load *l)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < l->plan.target_count; i++)
		sum += l->plan.targets[i].bytes; /* at most the files' sizes, a few times */
	return sum;
}

/* What memory there is decides. @return whether it is short */
static bool weigh_memory(struct h2d_load *l, const struct h2d_room *room, uint64_t bytes)
{
	uint64_t share = room->available_bytes / RING_SHARE;

	if (room->available_bytes == UINT64_MAX)
		return false;
	if (!l->in_place && !l->opts.staging_bytes && share < h2d_tuning->staging_max_bytes) {
		l->sizes_from = "memory";
		l->opts.staging_bytes = share > RING_MIN_BYTES ? share : RING_MIN_BYTES;
		h2d_load_because(
			l, "%llu MiB of memory are left (%s): staging of at most %llu MiB",
			(unsigned long long)(room->available_bytes >> 20), room->bound,
			(unsigned long long)(l->opts.staging_bytes >> 20));
	}
	if (bytes <= room->available_bytes)
		return false;
	h2d_load_because(l, "%llu MiB do not fit into the memory that is left (%s)",
			 (unsigned long long)(bytes >> 20), room->bound);
	return true;
}

int h2d_auto_open(struct h2d_load *l)
{
	uint64_t bytes = wanted_bytes(l);
	const char *unknown = NULL;
	uint32_t cached = 0, used = 0;
	struct h2d_pci pci = {0};
	struct h2d_room room;
	bool scarce;

	h2d_auto_room(&room);
	if (l->dev->facts.pci_address[0])
		h2d_auto_link(l->dev->facts.pci_address, &pci);
	tell_facts(l, &room, &pci, bytes);
	scarce = weigh_memory(l, &room, bytes);
	weigh_link(l, &pci);
	if (l->opts.kernel_retry_policy)
		h2d_load_because(l, "the kernel's retry policy is %s: no mapping is used",
				 policy_of(l));
	if (bytes < SMALL_BYTES && !scarce) {
		h2d_load_because(l, "less than 256 KiB in all: read through the cache");
		return 0;
	}

	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++) {
		struct h2d_source_file *in = &l->inputs[i];
		struct h2d_cache_state st;
		int rc;

		if (in->begin == in->end)
			continue;
		used++;
		h2d_cache_query(in->file, in->begin, in->end - in->begin, &st);
		if (st.method == H2D_CACHE_UNKNOWN && !scarce) {
			unknown = st.why;
			continue;
		}
		if (st.method != H2D_CACHE_UNKNOWN && st.cached_bytes >= st.total_bytes) {
			cached++;
			continue;
		}
		rc = h2d_load_open_direct(l, in);
		if (rc)
			return rc;
	}
	if (unknown)
		h2d_load_because(l, "cache state unknown (%s): read through the cache",
				 unknown);
	if (used && cached == used)
		h2d_load_because(l, "everything is in the page cache");
	else if (scarce && l->opts.cache == H2D_CACHE_KEEP) {
		l->opts.cache = H2D_CACHE_DROP;
		h2d_load_because(l, "cached pages are given back");
	}
	l->memory_scarce = scarce;
	return 0;
}

void h2d_auto_choose(struct h2d_load *l)
{
	uint64_t warm = 0, cold = 0;

	for (uint64_t i = 0; i < l->plan.chunk_count; i++) {
		struct h2d_chunk *c = &l->plan.chunks[i];
		const struct h2d_source_file *in = &l->inputs[c->file];
		struct h2d_cache_state st;

		c->source = H2D_SOURCE_PREAD;
		if (!in->has_direct)
			continue;
		h2d_cache_query(in->file, c->file_offset, c->bytes, &st);
		if (st.method == H2D_CACHE_UNKNOWN && l->memory_scarce) {
			c->source = H2D_SOURCE_DIRECT;
			cold++;
			continue;
		}
		if (st.method == H2D_CACHE_UNKNOWN || st.dirty_bytes ||
		    st.cached_bytes >= st.total_bytes / 2 + st.total_bytes % 2) {
			warm++;
			continue;
		}
		c->source = H2D_SOURCE_DIRECT;
		cold++;
	}
	if (!cold && warm)
		h2d_load_because(l, "each extent is mostly in the page cache, or not written "
				    "back yet: read through the cache");
	else if (cold)
		h2d_load_because(
			l, "%llu of %llu extents are not in the page cache: read directly",
			(unsigned long long)cold, (unsigned long long)(warm + cold));
}
