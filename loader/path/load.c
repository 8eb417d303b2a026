/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load(): into memory that the library allocates. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "path/load.h"
#include "transfer/tuning.h"
#include "transfer/weights.h"

/* The selected tensors, in file order. */
static int choose_targets(struct h2d_load *l)
{
	const struct h2d_catalogue *cat = &l->ckpt->cat;
	struct h2d_plan *p = &l->plan;

	p->targets =
		h2d_mem->calloc(cat->tensor_count ? cat->tensor_count : 1, sizeof(*p->targets));
	if (!p->targets)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", l->ckpt->path);
	for (uint64_t i = 0; i < cat->tensor_count; i++) {
		const struct h2d_tensor *t = &cat->tensors[i];

		if (l->opts.select) {
			struct h2d_tensor_info info = H2D_OPTS(info);

			h2d_checkpoint_tensor(l->ckpt, i, &info);
			if (!l->opts.select(l->opts.select_user, i, &info))
				continue;
		}
		p->targets[p->target_count++] =
			(struct h2d_plan_target){.tensor = i,
						 .file_offset = t->offset_bytes,
						 .bytes = t->size_bytes,
						 .file = t->file};
	}
	return 0;
}

static int make_measures(struct h2d_load *l)
{
	struct h2d_measure *m;

	if (!l->opts.per_tensor)
		return 0;
	m = h2d_mem->calloc(l->plan.target_count ? l->plan.target_count : 1, sizeof(*m));
	if (!m)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", l->ckpt->path);
	for (uint64_t i = 0; i < l->plan.target_count; i++)
		m[i] = (struct h2d_measure){.present_before_bytes = UINT64_MAX, .windows = -1};
	l->engine.measures = m;
	return 0;
}

int h2d_load_keep_origin(struct h2d_load *l, struct h2d_origin *o, uint32_t i)
{
	const struct h2d_file *f = &l->ckpt->cat.files[i];
	size_t bytes = strlen(f->path) + 1;

	o->file = *f;
	o->file.fd = -1;
	o->file.path = h2d_mem->malloc(bytes);
	if (!o->file.path)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", f->path);
	memcpy(o->file.path, f->path, bytes);
	if (f->by_fd && f->fd >= 0) {
		o->file.fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
		if (o->file.fd < 0)
			return h2d_fail(&l->log, H2D_E_IO, "%s: its descriptor cannot be kept",
					f->path);
	}
	return 0;
}

/* `view`: nothing to transfer, only addresses to be told. */
static int load_view(struct h2d_load *l, struct h2d_weights *w)
{
	struct h2d_plan *p = &l->plan;
	uint64_t start = h2d_now_ns();
	const void *data;
	int rc;

	h2d_load_because(l, !l->opts.path		    ? "default"
			    : l->path == &h2d_path_auto ? "auto was asked for"
						       : "asked for");
	for (uint64_t i = 0; i < p->target_count; i++) {
		struct h2d_plan_target *t = &p->targets[i];
		uint64_t began = l->engine.measures ? h2d_now_ns() : 0;

		rc = h2d_checkpoint_view(l->ckpt, t->tensor, &data, NULL);
		if (rc)
			return rc;
		t->dst = t->bytes ? (unsigned char *)(uintptr_t)data : NULL;
		w->origins[t->file].view = &l->ckpt->views[t->file];
		p->total_bytes += t->bytes;
		if (l->engine.measures)
			l->engine.measures[i].elapsed_ns = h2d_now_ns() - began;
		if (l->opts.tensor_done)
			l->opts.tensor_done(l->opts.tensor_done_user, t->tensor);
	}
	if (l->opts.progress &&
	    l->opts.progress(l->opts.progress_user, p->total_bytes, p->total_bytes))
		return H2D_E_CANCELLED;
	w->view = true;
	l->transfer_ns = h2d_now_ns() - start;
	for (uint32_t i = 0; i < l->ckpt->cat.file_count; i++) {
		rc = w->origins[i].view
			     ? h2d_file_check_unchanged(&l->ckpt->cat.files[i], &l->log)
			     : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static int load_copied(struct h2d_load *l, struct h2d_weights *w)
{
	uint64_t start = h2d_now_ns(), allocated;
	int rc;

	rc = h2d_placement_make(&w->placement, l->dev, l->plan.targets, l->plan.target_count,
				l->opts.align_bytes, h2d_tuning->arena_bytes, &l->log);
	if (rc)
		return rc;
	allocated = h2d_now_ns();
	l->allocate_ns = allocated - start;
	rc = h2d_load_prepare(l);
	l->plan_ns = h2d_now_ns() - allocated;
	return rc ? rc : h2d_load_transfer(l);
}

static int load(struct h2d_load *l, struct h2d_weights **out)
{
	uint32_t files = l->ckpt->cat.file_count;
	struct h2d_weights *w;
	int rc;

	l->own_memory = true;
	rc = choose_targets(l);
	if (!rc)
		rc = make_measures(l);
	if (rc)
		return rc;
	w = h2d_weights_new(l->dev, files);
	if (!w)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", l->ckpt->path);
	w->log = l->log;
	for (uint32_t i = 0; !rc && i < files; i++)
		rc = h2d_load_keep_origin(l, &w->origins[i], i);
	if (!rc)
		rc = l->path->source == H2D_SOURCE_VIEW ? load_view(l, w) : load_copied(l, w);
	if (!rc)
		rc = h2d_load_report(l, &w->report);
	if (rc) {
		h2d_weights_free(w);
		return rc;
	}
	w->targets = l->plan.targets;
	w->count = l->plan.target_count;
	w->measures = l->engine.measures;
	l->plan.targets = NULL;
	l->engine.measures = NULL;
	*out = w;
	return 0;
}

int h2d_load(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
	     const struct h2d_load_opts *opts, struct h2d_weights **weights)
{
	struct h2d_load l;
	int rc;

	if (!weights)
		return H2D_E_INVALID;
	*weights = NULL;
	if (!ckpt || !dev)
		return H2D_E_INVALID;
	rc = h2d_load_begin(&l, ckpt, dev, opts);
	if (!rc)
		rc = load(&l, weights);
	h2d_load_end(&l);
	return rc;
}
