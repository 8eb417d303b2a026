/* SPDX-License-Identifier: Apache-2.0 */
/* h2d_load_into(): into memory that the caller owns. */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/opts.h"
#include "path/load.h"

/* The part of device memory that a target writes. */
struct footprint {
	uint64_t begin, end;
	uint64_t pitch, row_bytes; /* rows; one row: pitch 0 */
	uint64_t target;
};

static int refuse(const struct h2d_load *l, size_t i, const char *why)
{
	return h2d_fail(&l->log, H2D_E_INVALID, "target %zu: %s", i, why);
}

/* A 2-D slice: `t->bytes` and the slice's geometry. `*reach` bytes of `data` are written to. */
static int add_slice(struct h2d_load *l, size_t i, const struct h2d_target *in,
		     uint64_t tensor_bytes, struct h2d_plan_target *t, uint64_t *reach)
{
	struct h2d_plan *p = &l->plan;
	struct h2d_slice s = {in->row_count, in->row_bytes, in->source_pitch_bytes,
			      in->target_pitch_bytes};
	uint64_t span;

	if (!s.row_bytes)
		return refuse(l, i, "a slice of rows without bytes");
	if (in->length_bytes)
		return refuse(l, i, "a slice has rows, not length_bytes");
	s.src_pitch = s.src_pitch ? s.src_pitch : s.row_bytes;
	s.dst_pitch = s.dst_pitch ? s.dst_pitch : s.row_bytes;
	if (s.src_pitch < s.row_bytes || s.dst_pitch < s.row_bytes)
		return refuse(l, i, "a pitch less than a row");
	if (!h2d_mul_u64(s.row_count - 1, s.src_pitch, &span) ||
	    !h2d_add_u64(span, s.row_bytes, &span) ||
	    !h2d_add_u64(span, in->begin_bytes, &span) || span > tensor_bytes)
		return refuse(l, i, "its rows pass the end of the tensor");
	if (!h2d_mul_u64(s.row_count - 1, s.dst_pitch, reach) ||
	    !h2d_add_u64(*reach, s.row_bytes, reach))
		return refuse(l, i, "its rows overflow");
	t->bytes = s.row_count * s.row_bytes; /* at most the tensor's size */
	if (s.src_pitch == s.row_bytes && s.dst_pitch == s.row_bytes)
		return 0; /* no gaps on either side: plain bytes */
	p->slices[p->slice_count++] = s;
	t->slice = (uint32_t)p->slice_count;
	return 0;
}

static int add_target(struct h2d_load *l, size_t i, const struct h2d_target *given,
		      struct footprint *f)
{
	struct h2d_plan_target *t = &l->plan.targets[i];
	const struct h2d_tensor *tensor;
	struct h2d_target in;
	uint64_t reach = 0, end;
	int rc = 0;

	if (h2d_opts_read(&in, sizeof(in), given))
		return refuse(l, i, "of a later version");
	if (in.tensor >= l->ckpt->cat.tensor_count)
		return refuse(l, i, "no such tensor");
	tensor = &l->ckpt->cat.tensors[in.tensor];
	if (in.begin_bytes > tensor->size_bytes)
		return refuse(l, i, "it begins behind the end of the tensor");
	*t = (struct h2d_plan_target){.tensor = in.tensor,
				      .file_offset = tensor->offset_bytes + in.begin_bytes,
				      .file = tensor->file,
				      .arena = (uint32_t)i};
	if (in.row_count) {
		rc = add_slice(l, i, &in, tensor->size_bytes, t, &reach);
	} else {
		t->bytes =
			in.length_bytes ? in.length_bytes : tensor->size_bytes - in.begin_bytes;
		if (!h2d_add_u64(in.begin_bytes, t->bytes, &end) || end > tensor->size_bytes)
			rc = refuse(l, i, "it passes the end of the tensor");
		reach = t->bytes;
	}
	if (rc)
		return rc;
	if (reach > in.capacity_bytes)
		return h2d_fail(&l->log, H2D_E_INVALID,
				"target %zu: %llu bytes do not fit into its %llu", i,
				(unsigned long long)reach,
				(unsigned long long)in.capacity_bytes);
	if (t->bytes && !in.data)
		return refuse(l, i, "no address");
	t->dst = t->bytes ? in.data : NULL;
	f->begin = (uintptr_t)t->dst;
	f->target = i;
	if (!h2d_add_u64(f->begin, reach, &f->end) || f->end > UINTPTR_MAX)
		return refuse(l, i, "its address overflows");
	f->row_bytes = reach;
	if (t->slice) {
		f->pitch = l->plan.slices[t->slice - 1].dst_pitch;
		f->row_bytes = l->plan.slices[t->slice - 1].row_bytes;
	}
	return 0;
}

static int by_begin(const void *va, const void *vb)
{
	const struct footprint *a = va, *b = vb;

	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->target < b->target ? -1 : a->target > b->target;
}

/* Whether two footprints, `a` beginning first, share a byte. Rows of one pitch may interleave;
 * rows of different pitches are not looked into. */
static bool overlap(const struct footprint *a, const struct footprint *b)
{
	uint64_t column;

	if (b->begin >= a->end)
		return false;
	if (!a->pitch || (b->pitch && b->pitch != a->pitch))
		return true;
	column = (b->begin - a->begin) % a->pitch;
	/* Behind a row of `a`, and each row of `b` ends before the next row of `a` begins. The
	 * last row of `a` has no next one, but then `b` began in or behind it. */
	if (column < a->row_bytes)
		return true;
	return column + b->row_bytes > a->pitch;
}

/* Two targets that write the same byte would leave it to chance whose wins. */
static int check_overlaps(const struct h2d_load *l, struct footprint *f, size_t count)
{
	qsort(f, count, sizeof(*f), by_begin);
	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count && f[k].begin < f[i].end; k++)
			if (f[k].begin != f[k].end && overlap(&f[i], &f[k]))
				return h2d_fail(&l->log, H2D_E_INVALID,
						"targets %llu and %llu overlap in memory",
						(unsigned long long)f[i].target,
						(unsigned long long)f[k].target);
	return 0;
}

static int add_targets(struct h2d_load *l, const struct h2d_target *targets, size_t count)
{
	struct h2d_plan *p = &l->plan;
	struct footprint *f;
	int rc = 0;

	if (count > UINT32_MAX - 1)
		return h2d_fail(&l->log, H2D_E_INVALID, "%zu targets", count);
	p->targets = h2d_mem->calloc(count ? count : 1, sizeof(*p->targets));
	p->slices = h2d_mem->calloc(count ? count : 1, sizeof(*p->slices));
	f = h2d_mem->calloc(count ? count : 1, sizeof(*f));
	if (!p->targets || !p->slices || !f)
		rc = h2d_fail(&l->log, H2D_E_NOMEM, "%zu targets: out of memory", count);
	for (size_t i = 0; !rc && i < count; i++) {
		/* Targets of another version are another size; the array is theirs. */
		const unsigned char *at = (const unsigned char *)targets + i * targets->size;

		rc = add_target(l, i, (const struct h2d_target *)(const void *)at, &f[i]);
		p->target_count++;
	}
	if (!rc)
		rc = check_overlaps(l, f, count);
	free(f);
	return rc;
}

static int load_into(struct h2d_load *l, const struct h2d_target *targets, size_t count,
		     struct h2d_report *report)
{
	uint64_t start;
	int rc;

	if (l->path->flags & H2D_PATH_OWN_MEMORY)
		return h2d_fail(&l->log, H2D_E_UNSUPPORTED,
				"path %s delivers nothing into memory of the caller",
				l->path->name);
	if (l->opts.select)
		return h2d_fail(&l->log, H2D_E_INVALID,
				"targets name their tensors: no selection");
	rc = add_targets(l, targets, count);
	start = h2d_now_ns();
	if (!rc)
		rc = h2d_load_prepare(l);
	l->plan_ns = h2d_now_ns() - start;
	if (!rc)
		rc = h2d_load_transfer(l);
	return rc ? rc : h2d_load_report(l, report);
}

/* A report of an older caller, who could not release it, gets no reason. */
static bool holds_reason(const struct h2d_report *report)
{
	return report->size >= offsetof(struct h2d_report, owned) + sizeof(report->owned);
}

int h2d_load_into(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
		  const struct h2d_target *targets, size_t count,
		  const struct h2d_load_opts *opts, struct h2d_report *report)
{
	struct h2d_report r = {.size = sizeof(r)};
	struct h2d_load l;
	int rc;

	if (!ckpt || !dev || (!targets && count))
		return H2D_E_INVALID;
	if (count && targets->size < sizeof(targets->size))
		return H2D_E_INVALID;
	rc = h2d_load_begin(&l, ckpt, dev, opts);
	if (!rc)
		rc = load_into(&l, targets, count, &r);
	r.quarantined_bytes = atomic_load(&dev->quarantined_bytes);
	h2d_load_end(&l);
	r.owned = (char *)(uintptr_t)r.reason;
	if (!report || rc || !holds_reason(report)) {
		free(r.owned);
		r.owned = NULL;
		r.reason = NULL;
	}
	if (report && h2d_info_write(report, &r, sizeof(r)))
		rc = rc ? rc : H2D_E_INVALID;
	return rc;
}

void h2d_report_clear(struct h2d_report *report)
{
	if (!report || !holds_reason(report) || !report->owned)
		return;
	free(report->owned);
	report->owned = NULL;
	report->reason = NULL;
}
