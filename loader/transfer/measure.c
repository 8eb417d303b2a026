/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring target by target. There is one reader, and nothing else is under way. */
#include "core/clock.h"
#include "transfer/engine.h"

void h2d_measure_begin(struct h2d_reader *r, const struct h2d_chunk *c)
{
	struct h2d_engine *e = r->engine;
	const struct h2d_source_file *in = &e->config->inputs[c->file];
	uint64_t target = e->plan->pieces[c->first_piece].target, span;
	const struct h2d_plan_target *t = &e->plan->targets[target];
	struct h2d_measure *m = &e->config->measures[target];
	struct h2d_hmm_count count;

	m->present_before_bytes = UINT64_MAX;
	if (in->map.base && h2d_target_span(e->plan, t, &span)) {
		/* Before the clock starts: what is measured is the copy of present pages. */
		h2d_make_present(in->map.base + t->file_offset, span, e->config->present);
		if (h2d_map_present(in->map.base + t->file_offset, span,
				    &m->present_before_bytes))
			m->present_before_bytes = UINT64_MAX;
	}
	if ((e->dev->caps & H2D_DEV_HMM) && e->dev->backend->hmm_count)
		e->dev->backend->hmm_count(e->dev, &count); /* resets them */
	r->target = target;
	r->target_began_ns = h2d_now_ns();
}

void h2d_measure_end(struct h2d_reader *r)
{
	struct h2d_engine *e = r->engine;
	struct h2d_hmm_count count;
	struct h2d_measure *m;

	if (r->target == UINT64_MAX)
		return;
	m = &e->config->measures[r->target];
	m->elapsed_ns += h2d_now_ns() - r->target_began_ns;
	if ((e->dev->caps & H2D_DEV_HMM) && e->dev->backend->hmm_count) {
		e->dev->backend->hmm_count(e->dev, &count);
		m->windows = (m->windows < 0 ? 0 : m->windows) + (int64_t)count.windows;
	}
	r->target = UINT64_MAX;
}
