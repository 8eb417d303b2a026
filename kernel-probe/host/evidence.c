/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences that several findings give as their reasons. */
#include <inttypes.h>

#include "core/envelope.h"
#include "host/doctor.h"

void h2d_mapping_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out)
{
	const struct h2d_process *p = &f->process;
	const struct h2d_mapped_file *file = p->largest;
	const struct h2d_mapping_sum *w = &p->writable, *c = &p->copied;
	const char *unknown = h2d_process_unknown(p);

	if (unknown)
		h2d_evidence(out, "Not all that it holds of checkpoints can be told: %s%s",
			     unknown, p->only_maps ? ", so that none of its pages count" : "");
	for (size_t i = 0; unknown && i < p->file_count; i++)
		if (p->files[i].named_like_one)
			h2d_evidence(out, "It maps %s%s, whose content is not known",
				     h2d_redacted_path(p->files[i].path, f->redact),
				     p->files[i].deleted ? " (deleted)" : "");
	if (!file)
		return;
	h2d_evidence(out, "It maps %zu checkpoint file%s of %s, the largest being %s%s%s%s",
		     p->checkpoint_count, p->checkpoint_count == 1 ? "" : "s",
		     h2d_amount(p->checkpoint_file_bytes),
		     h2d_redacted_path(file->path, f->redact),
		     file->deleted ? " (deleted)" : "", file->mount.type[0] ? " on " : "",
		     file->mount.type);
	if (p->only_maps)
		h2d_evidence(out,
			     "%" PRIu64 " of %" PRIu64 " mappings are private and writable "
			     "(rw-p): %s",
			     w->mapping_count, p->checkpoints.mapping_count,
			     h2d_amount(w->size_bytes));
	else if (w->mapping_count)
		h2d_evidence(out,
			     "%" PRIu64 " of %" PRIu64 " mappings are private and writable "
			     "(rw-p): %s, of which %s are present, %s copied into anonymous "
			     "memory, %s in swap",
			     w->mapping_count, p->checkpoints.mapping_count,
			     h2d_amount(w->size_bytes), h2d_amount(w->present_bytes),
			     h2d_amount(w->anonymous_bytes), h2d_amount(w->swap_bytes));
	else
		h2d_evidence(out, "None of its %" PRIu64 " mappings is private and writable%s",
			     p->checkpoints.mapping_count, c->mapping_count ? " now" : "");
	/* Of those that were made read-only since the sum above says nothing. */
	if (c->anonymous_bytes > w->anonymous_bytes || c->swap_bytes > w->swap_bytes)
		h2d_evidence(out,
			     "%" PRIu64 " of them hold pages that were written while they were "
			     "writable: %s in anonymous memory, %s in swap",
			     c->mapping_count, h2d_amount(c->anonymous_bytes),
			     h2d_amount(c->swap_bytes));
}

void h2d_trend_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out)
{
	const struct h2d_trend *t = &f->trend;
	double seconds = (double)t->elapsed_ns / 1e9;

	switch (t->progress) {
	case H2D_PROGRESS_SLOW:
		h2d_evidence(out, "It is slow but moving, not hung: %s/s over %.1f s%s",
			     h2d_amount(t->bytes_per_s), seconds,
			     t->threads_in_ioctl ? ", with threads inside an ioctl" : "");
		break;
	case H2D_PROGRESS_MOVING:
		h2d_evidence(out, "It is moving: %s/s over %.1f s", h2d_amount(t->bytes_per_s),
			     seconds);
		break;
	case H2D_PROGRESS_BUSY:
		h2d_evidence(out,
			     "It used %.0f %% of a processor over %.1f s, %.0f %% in the "
			     "kernel, but no bytes arrived",
			     t->cpu_pct, seconds, t->kernel_pct);
		break;
	case H2D_PROGRESS_STILL:
		h2d_evidence(out, "Nothing moved over %.1f s (state %c)", seconds, t->state);
		break;
	case H2D_PROGRESS_UNKNOWN:
	case H2D_PROGRESS_EXITED:
		break;
	}
	if (t->threads_stuck)
		h2d_evidence(out,
			     "%u of its threads wait%s in the kernel and cannot be interrupted "
			     "(state D), whenever it was looked at",
			     t->threads_stuck, t->threads_stuck == 1 ? "s" : "");
	if (t->anon_delta_bytes > 1 << 20)
		h2d_evidence(out, "Its anonymous memory grew by %s, that of files by %s",
			     h2d_amount((uint64_t)t->anon_delta_bytes),
			     h2d_amount(t->file_delta_bytes > 0 ? (uint64_t)t->file_delta_bytes
								: 0));
}

void h2d_memory_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out)
{
	const struct h2d_memory *m = &f->memory;

	if (m->group_limit_bytes.known)
		h2d_evidence(out, "The control group's limit is %s, of which %s are used",
			     h2d_amount(m->group_limit_bytes.value),
			     m->group_used_bytes.known ? h2d_amount(m->group_used_bytes.value)
						       : "?");
	if (m->available_bytes.known && m->total_bytes.known)
		h2d_evidence(out, "%s of %s of memory are available, %s of swap are used",
			     h2d_amount(m->available_bytes.value),
			     h2d_amount(m->total_bytes.value),
			     h2d_amount(m->swap_total_bytes.value - m->swap_free_bytes.value <=
							m->swap_total_bytes.value
						? m->swap_total_bytes.value -
							  m->swap_free_bytes.value
						: 0));
}
