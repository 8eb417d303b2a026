/* SPDX-License-Identifier: Apache-2.0 */
/* Everything of a load up to its first byte. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/opts.h"
#include "path/load.h"
#include "transfer/route.h"
#include "transfer/tuning.h"

enum { ALIGN_DEFAULT_BYTES = 256, ALIGN_MAX_BYTES = 1 << 30 };

void h2d_load_because(struct h2d_load *l, const char *fmt, ...)
{
	size_t used = strlen(l->reason);
	va_list ap;

	if (used + 2 >= sizeof(l->reason))
		return;
	if (used) {
		memcpy(l->reason + used, "; ", 3);
		used += 2;
	}
	va_start(ap, fmt);
	vsnprintf(l->reason + used, sizeof(l->reason) - used, fmt, ap);
	va_end(ap);
}

static int check_options(struct h2d_load *l)
{
	const struct h2d_load_opts *o = &l->opts;
	char reason[256];
	const char *why;
	bool has_fd = true;

	l->path = h2d_path_find(o->path ? o->path : "auto");
	if (!l->path)
		return h2d_fail(&l->log, H2D_E_NOT_FOUND, "no transfer path is called \"%s\"",
				o->path);
	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++)
		has_fd &= l->ckpt->cat.files[i].fd >= 0;
	if (!h2d_path_supported(l->path, l->dev->caps, has_fd, &why))
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED, "path %s on device %s: %s",
				l->path->name, l->dev->facts.name, why);
	if ((l->path->needs & H2D_DEV_READ_FILE) &&
	    l->dev->backend->read_file_check(l->dev, reason, sizeof(reason)))
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED, "path %s on device %s: %s",
				l->path->name, l->dev->facts.name, reason);
	if (o->align_bytes &&
	    ((o->align_bytes & (o->align_bytes - 1)) || o->align_bytes > ALIGN_MAX_BYTES))
		return h2d_fail(&l->log, H2D_E_INVALID,
				"alignment of %llu bytes: not a power of two up to 1 GiB",
				(unsigned long long)o->align_bytes);
	if (o->cache != H2D_CACHE_KEEP && o->cache != H2D_CACHE_DROP)
		return h2d_fail(&l->log, H2D_E_INVALID, "no such cache mode");
	if (o->present != H2D_PRESENT_NONE && o->present != H2D_PRESENT_READ &&
	    o->present != H2D_PRESENT_SPARSE)
		return h2d_fail(&l->log, H2D_E_INVALID, "no such present mode");
	if (o->present != H2D_PRESENT_NONE && !(l->path->flags & H2D_PATH_PRESENT))
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"path %s has no mapping that could be made present",
				l->path->name);
	if (o->calibrate != H2D_CALIBRATE_NEVER && o->calibrate != H2D_CALIBRATE_AUTO &&
	    o->calibrate != H2D_CALIBRATE_AGAIN)
		return h2d_fail(&l->log, H2D_E_INVALID, "no such calibrate mode");
	if (o->trace_path && l->path->source == H2D_SOURCE_VIEW)
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"path %s reads and copies nothing that could be traced",
				l->path->name);
	if (o->stream && !(l->dev->caps & H2D_DEV_CALLER_STREAM))
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"device %s takes no stream of the caller", l->dev->facts.name);
	if (atomic_load(&l->dev->lost))
		return h2d_fail(&l->log, H2D_E_DEVICE_LOST, "device %s is lost",
				l->dev->facts.name);
	return 0;
}

int h2d_load_begin(struct h2d_load *l, struct h2d_checkpoint *ckpt, struct h2d_device *dev,
		   const struct h2d_load_opts *opts)
{
	uint32_t files = ckpt->cat.file_count;
	int rc;

	memset(l, 0, sizeof(*l));
	l->began_ns = h2d_now_ns();
	l->ckpt = ckpt;
	l->dev = dev;
	l->log = ckpt->log;
	if (h2d_opts_read(&l->opts, sizeof(l->opts), opts))
		return h2d_fail(&l->log, H2D_E_INVALID, "load options of a later version");
	if (l->opts.log)
		l->log = (struct h2d_log){l->opts.log, l->opts.log_user};
	if (!l->opts.align_bytes)
		l->opts.align_bytes = ALIGN_DEFAULT_BYTES;
	rc = check_options(l);
	if (rc)
		return rc;
	l->inputs = h2d_mem->calloc(files ? files : 1, sizeof(*l->inputs));
	if (!l->inputs)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", ckpt->path);
	for (uint32_t i = 0; i < files; i++)
		l->inputs[i].file = &ckpt->cat.files[i];
	l->in_place =
		(dev->caps & H2D_DEV_FILL) && !l->opts.staging_bytes && !l->opts.stream &&
		(l->path->staging == H2D_STAGING_RING || l->path->staging == H2D_STAGING_NONE);
	return 0;
}

int h2d_load_check_files(struct h2d_load *l)
{
	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++) {
		int rc = 0;

		if (l->inputs[i].begin != l->inputs[i].end)
			rc = h2d_file_check_unchanged(l->inputs[i].file, &l->log);
		if (rc)
			return rc;
	}
	return 0;
}

int h2d_load_open_direct(struct h2d_load *l, struct h2d_source_file *in)
{
	const char *why = NULL;
	int rc = h2d_direct_open(&in->direct, in->file, &why, &l->log);

	in->has_direct = !rc;
	if (rc != H2D_E_UNSUPPORTED)
		return rc;
	h2d_load_because(l, "%s: %s, read through the page cache", in->file->path, why);
	return 0;
}

static void note_used(struct h2d_load *l)
{
	for (uint64_t i = 0; i < l->plan.target_count; i++) {
		const struct h2d_plan_target *t = &l->plan.targets[i];
		struct h2d_source_file *in = &l->inputs[t->file];
		uint64_t span, end;

		/* Overflows are refused by the plan. */
		if (!t->bytes || !h2d_target_span(&l->plan, t, &span))
			continue;
		end = t->file_offset + span;
		if (in->begin == in->end) {
			in->begin = t->file_offset;
			in->end = end;
		}
		in->begin = t->file_offset < in->begin ? t->file_offset : in->begin;
		in->end = end > in->end ? end : in->end;
	}
}

/* What the path's source needs of each file, and its fallback. */
static int open_inputs(struct h2d_load *l)
{
	int rc = 0;

	if (l->path->source == H2D_SOURCE_AUTO)
		return h2d_auto_open(l);
	for (uint32_t i = 0; !rc && i < l->ckpt->cat.file_count; i++) {
		struct h2d_source_file *in = &l->inputs[i];

		if (in->begin == in->end)
			continue;
		rc = l->path->source == H2D_SOURCE_DIRECT
			     ? h2d_load_open_direct(l, in)
			     : h2d_source_file_map(in, l->path->source, &l->log);
	}
	return rc;
}

static void choose_sources(struct h2d_load *l)
{
	if (l->path->source == H2D_SOURCE_AUTO) {
		h2d_auto_choose(l);
		return;
	}
	for (uint64_t i = 0; i < l->plan.chunk_count; i++) {
		struct h2d_chunk *c = &l->plan.chunks[i];

		c->source =
			l->path->source == H2D_SOURCE_DIRECT && !l->inputs[c->file].has_direct
				? H2D_SOURCE_PREAD
				: l->path->source;
	}
}

static void explain_routes(struct h2d_load *l)
{
	bool fill = false;

	for (uint64_t i = 0; !fill && i < l->plan.chunk_count; i++)
		fill = l->plan.chunks[i].route == H2D_ROUTE_FILL &&
		       l->plan.chunks[i].source != H2D_SOURCE_DEVICE;
	if (fill)
		h2d_load_because(l, "readers write host memory in place, without staging");
}

int h2d_load_prepare(struct h2d_load *l)
{
	struct h2d_plan_opts po = {
		.read_through_bytes = h2d_tuning->read_through_bytes,
		.dst_gap_bytes = l->own_memory ? l->opts.align_bytes : 0,
		.coalesce = !l->opts.per_tensor,
		.cut = true,
	};
	int rc;

	h2d_load_because(l, !l->opts.path		    ? "default"
			    : l->path == &h2d_path_auto ? "auto was asked for"
						       : "asked for");
	note_used(l);
	rc = h2d_load_check_files(l);
	if (!rc)
		rc = open_inputs(l);
	if (!rc)
		rc = h2d_load_size(l, &po.chunk_bytes);
	if (rc)
		return rc;
	/* A mapped tensor that is timed alone is one copy, as a loader without chunks would
	 * make it. */
	if (l->path->staging == H2D_STAGING_TENSOR ||
	    (l->opts.per_tensor && l->own_memory && l->path->staging == H2D_STAGING_NONE &&
	     l->path->source != H2D_SOURCE_MAP_SHARED && l->path->source != H2D_SOURCE_DEVICE))
		po.cut = false;
	rc = h2d_plan_build(&l->plan, &po, &l->log);
	if (rc)
		return rc;
	choose_sources(l);
	rc = h2d_load_size_slots(
		l, h2d_route_chunks(&l->plan, l->path->staging, l->dev->caps, l->in_place));
	explain_routes(l);
	return rc;
}
