/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `auto` asks the page cache about every extent. What is cached, at least half of it, is read
 * through the cache, at memory speed. What is not is read directly: the cache of a machine that
 * loads a model is better spent on something else. Dirty extents go through the cache too,
 * since a direct read would have to wait until they are written.
 *
 * Where nobody can say what is cached (cachestat refused, or no such call and not our file) the
 * cache is used: right when the file is warm, and the kernel reads ahead when it is not.
 */
#include "file/cache.h"
#include "path/load.h"

const struct h2d_path h2d_path_auto = {
	.name = "auto",
	.summary =
		"cached extents as `pinned`, others as `direct`, by what the page cache holds",
	.source = H2D_SOURCE_AUTO,
	.staging = H2D_STAGING_RING,
	.flags = 0,
};

int h2d_auto_open(struct h2d_load *l)
{
	const char *unknown = NULL;
	uint32_t cached = 0, used = 0;

	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++) {
		struct h2d_source_file *in = &l->inputs[i];
		struct h2d_cache_state st;
		int rc;

		if (in->begin == in->end)
			continue;
		used++;
		h2d_cache_query(in->file, in->begin, in->end - in->begin, &st);
		if (st.method == H2D_CACHE_UNKNOWN) {
			unknown = st.why;
			continue;
		}
		if (st.cached_bytes >= st.total_bytes) {
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
		if (st.method == H2D_CACHE_UNKNOWN || st.dirty_bytes ||
		    st.cached_bytes >= st.total_bytes / 2 + st.total_bytes % 2) {
			warm++;
			continue;
		}
		c->source = H2D_SOURCE_DIRECT;
		cold++;
	}
	if (cold)
		h2d_load_because(
			l, "%llu of %llu extents are not in the page cache: read directly",
			(unsigned long long)cold, (unsigned long long)(warm + cold));
}
