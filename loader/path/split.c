/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load_split(): one checkpoint onto several devices, each byte of it read once. */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/clock.h"
#include "core/mem.h"
#include "device/fan.h"
#include "format/gguf_types.h"
#include "path/layers.h"
#include "path/load.h"
#include "transfer/tuning.h"
#include "transfer/weights.h"

enum { GGUF_TYPES_MAX = 256 };

struct split {
	struct h2d_device *const *devs;
	uint32_t count;
	h2d_split_fn fn;
	void *user;
	struct h2d_layers layers;	 /* of the rule */
	uint64_t first[H2D_FAN_MAX + 1]; /* targets by device */
	uint64_t cap;
	struct h2d_weights *weights[H2D_FAN_MAX];
};

/* ---------------------------------------------------------------- the rule */

/* Runs of layers of equal number; what belongs to no layer, to the first device. */
static int by_layers(void *user, uint64_t index, const struct h2d_tensor_info *t,
		     uint32_t device, struct h2d_part *part)
{
	const struct split *s = user;

	(void)index;
	(void)part;
	return h2d_layers_device(&s->layers, t, s->count) == device;
}

/* ---------------------------------------------------------------- targets */

static int refuse(const struct h2d_load *l, uint64_t tensor, uint32_t device, const char *why)
{
	const struct h2d_tensor *t = &l->ckpt->cat.tensors[tensor];

	return h2d_fail(&l->log, H2D_E_INVALID, "tensor \"%.*s\" for device %u: %s",
			(int)(t->name_bytes < 200 ? t->name_bytes : 200), t->name, device, why);
}

/* Elements of a block, which lie in the last dimension; 1 for types without blocks. */
static uint64_t block_elements(const struct h2d_load *l, const struct h2d_tensor_info *t)
{
	if (!l->ckpt->cat.format || strcmp(l->ckpt->cat.format, "gguf"))
		return 1;
	for (uint32_t id = 0; id < GGUF_TYPES_MAX; id++) {
		const struct h2d_gguf_type *type = h2d_gguf_type(id);

		if (type && type->block_bytes && !strcmp(type->name, t->dtype))
			return type->block_elements;
	}
	return 1;
}

/* A range along one dimension as rows of bytes. */
static int cut(struct h2d_load *l, uint64_t tensor, uint32_t device,
	       const struct h2d_tensor_info *t, const struct h2d_part *part,
	       struct h2d_plan_target *out)
{
	uint64_t outer = 1, length, unit, block, end, begin, rows;
	struct h2d_plan *p = &l->plan;

	if (t->whole)
		return refuse(l, tensor, device,
			      t->strides ? "a view that is not in C order cannot be cut"
					 : "its type is not stored row by row and cannot be "
					   "cut");
	if (part->dimension >= t->rank)
		return refuse(l, tensor, device, "no such dimension");
	length = t->shape[part->dimension];
	if (!h2d_add_u64(part->begin, part->length, &end) || end > length)
		return refuse(l, tensor, device, "its part passes the end of the dimension");
	block = part->dimension + 1 == t->rank ? block_elements(l, t) : 1;
	if (part->begin % block || part->length % block)
		return refuse(l, tensor, device, "its part is not of whole blocks");
	for (uint32_t i = 0; i < part->dimension; i++)
		outer *= t->shape[i]; /* the shape's product was checked when it was read */
	if (!outer || !length)
		return refuse(l, tensor, device, "an empty tensor cannot be cut");
	/* Bytes of one index of the dimension, which packed types may not have whole. */
	unit = t->size_bytes / outer;
	if (t->size_bytes % outer || !h2d_mul_u64(unit, part->begin, &begin) ||
	    !h2d_mul_u64(unit, part->length, &rows) || begin % length || rows % length)
		return refuse(l, tensor, device, "its part is not of whole bytes");
	begin /= length;
	rows /= length;
	out->file_offset += begin;
	out->bytes = outer * rows;
	if (outer == 1 || rows == unit)
		return 0;
	p->slices[p->slice_count++] = (struct h2d_slice){outer, rows, unit, rows};
	out->slice = (uint32_t)p->slice_count;
	return 0;
}

static int add_target(struct h2d_load *l, struct split *s, uint64_t i, uint32_t device)
{
	const struct h2d_tensor *tensor = &l->ckpt->cat.tensors[i];
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_part part = H2D_OPTS(part);
	struct h2d_plan_target target = {.tensor = i,
					 .file_offset = tensor->offset_bytes,
					 .bytes = tensor->size_bytes,
					 .file = tensor->file};
	struct h2d_plan *p = &l->plan;
	int rc;

	h2d_checkpoint_tensor(l->ckpt, i, &t);
	if (l->opts.select && !l->opts.select(l->opts.select_user, i, &t))
		return 0;
	rc = s->fn(s->user, i, &t, device, &part);
	if (rc <= 0)
		return rc ? refuse(l, i, device, "refused by the caller") : 0;
	if (p->target_count == s->cap) {
		uint64_t cap = s->cap ? s->cap * 2 : 256;
		void *targets, *slices;

		targets = h2d_mem->realloc(p->targets, cap * sizeof(*p->targets));
		p->targets = targets ? targets : p->targets;
		slices = h2d_mem->realloc(p->slices, cap * sizeof(*p->slices));
		p->slices = slices ? slices : p->slices;
		if (!targets || !slices)
			return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory",
					l->ckpt->path);
		s->cap = cap;
	}
	rc = part.length ? cut(l, i, device, &t, &part, &target) : 0;
	if (!rc)
		p->targets[p->target_count++] = target;
	return rc;
}

static int add_targets(struct h2d_load *l, struct split *s)
{
	int rc = 0;

	for (uint32_t d = 0; !rc && d < s->count; d++) {
		s->first[d] = l->plan.target_count;
		for (uint64_t i = 0; !rc && i < l->ckpt->cat.tensor_count; i++)
			rc = add_target(l, s, i, d);
	}
	s->first[s->count] = l->plan.target_count;
	if (!rc && l->plan.target_count >= UINT32_MAX)
		rc = h2d_fail(&l->log, H2D_E_INVALID, "too many targets");
	return rc;
}

/* Memory on each device. Arenas get numbers of their own, so that no image spans two devices.
 */
static int place(struct h2d_load *l, struct split *s)
{
	uint32_t arenas = 0;
	int rc = 0;

	for (uint32_t d = 0; !rc && d < s->count; d++) {
		struct h2d_plan_target *targets = l->plan.targets + s->first[d];
		uint64_t n = s->first[d + 1] - s->first[d];
		struct h2d_placement *pl = &s->weights[d]->placement;

		rc = h2d_placement_make(pl, s->devs[d], targets, n, l->opts.align_bytes,
					h2d_tuning->arena_bytes, &l->log);
		for (uint64_t i = 0; !rc && i < n; i++)
			targets[i].arena += arenas;
		arenas += pl->arena_count;
		for (uint32_t i = 0; !rc && i < pl->arena_count; i++)
			rc = h2d_fan_add(l->dev, d, &pl->arenas[i]);
	}
	return rc;
}

/* ---------------------------------------------------------------- weights */

static int make_weights(struct h2d_load *l, struct split *s)
{
	uint32_t files = l->ckpt->cat.file_count;
	int rc = 0;

	for (uint32_t d = 0; !rc && d < s->count; d++) {
		struct h2d_weights *w = h2d_weights_new(s->devs[d], files);

		s->weights[d] = w;
		if (!w)
			return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory",
					l->ckpt->path);
		w->log = l->log;
		for (uint32_t i = 0; !rc && i < files; i++)
			rc = h2d_load_keep_origin(l, &w->origins[i], i);
	}
	return rc;
}

/* What belongs to device `d` of the plan and of the report. */
static int hand_over(struct h2d_load *l, struct split *s, uint32_t d)
{
	struct h2d_weights *w = s->weights[d];
	const struct h2d_plan *p = &l->plan;
	uint64_t n = s->first[d + 1] - s->first[d];
	int rc;

	w->targets = h2d_mem->calloc(n ? n : 1, sizeof(*w->targets));
	w->slices = h2d_mem->calloc(p->slice_count ? p->slice_count : 1, sizeof(*w->slices));
	if (!w->targets || !w->slices)
		return h2d_fail(&l->log, H2D_E_NOMEM, "%s: out of memory", l->ckpt->path);
	if (n)
		memcpy(w->targets, p->targets + s->first[d], n * sizeof(*w->targets));
	if (p->slice_count)
		memcpy(w->slices, p->slices, p->slice_count * sizeof(*w->slices));
	w->count = n;
	rc = h2d_load_report(l, &w->report);
	w->report.tensor_count = n;
	w->report.loaded_bytes = 0;
	for (uint64_t i = 0; i < n; i++)
		w->report.loaded_bytes += w->targets[i].bytes;
	return rc;
}

static int check(const struct h2d_load *l)
{
	if (h2d_path_one_device(l->path))
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"path %s serves one device at a time", l->path->name);
	if (l->opts.stream || l->opts.per_tensor)
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"several devices: no stream of the caller, and no timing by "
				"tensor");
	return 0;
}

static int load_split(struct h2d_load *l, struct split *s)
{
	uint64_t start;
	int rc;

	l->own_memory = true;
	rc = check(l);
	if (!rc)
		rc = add_targets(l, s);
	if (!rc)
		rc = make_weights(l, s);
	start = h2d_now_ns();
	if (!rc)
		rc = place(l, s);
	l->allocate_ns = h2d_now_ns() - start;
	start = h2d_now_ns();
	if (!rc)
		rc = h2d_load_prepare(l);
	l->plan_ns = h2d_now_ns() - start;
	if (!rc)
		rc = h2d_load_transfer(l);
	for (uint32_t d = 0; !rc && d < s->count; d++)
		rc = hand_over(l, s, d);
	return rc;
}

int h2d_load_split(struct h2d_checkpoint *ckpt, struct h2d_device *const *devs, uint32_t count,
		   h2d_split_fn fn, void *user, const struct h2d_load_opts *opts,
		   struct h2d_weights **weights)
{
	struct split s = {.devs = devs, .count = count, .fn = fn, .user = user};
	struct h2d_device *fan = NULL;
	struct h2d_load l;
	int rc;

	if (!ckpt || !devs || !weights)
		return H2D_E_INVALID;
	memset(weights, 0, count * sizeof(weights[0]));
	rc = h2d_fan_open(devs, count, &ckpt->log, &fan);
	if (rc)
		return rc;
	if (!fn) {
		s.fn = by_layers;
		s.user = &s;
	}
	rc = h2d_load_begin(&l, ckpt, fan, opts);
	if (!rc && !fn)
		h2d_layers_find(&s.layers, ckpt, l.opts.select, l.opts.select_user);
	if (!rc)
		rc = load_split(&l, &s);
	h2d_load_end(&l);
	h2d_fan_close(fan);
	for (uint32_t d = 0; d < count; d++) {
		if (rc)
			h2d_weights_free(s.weights[d]);
		else
			weights[d] = s.weights[d];
	}
	return rc;
}
