/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's log says that GPU mappings reached their limit; it does not say whose. */
#include <stdio.h>

#include "host/doctor.h"

/* Whether the process maps more of checkpoints than a GPU may use of the machine's memory. */
static bool exceeds_svm_limit(const struct h2d_doctor_facts *f)
{
	uint64_t limit = UINT64_MAX;

	if (f->memory.total_bytes.known)
		limit = f->memory.total_bytes.value;
	if (f->machine.ttm_limit_bytes.known && f->machine.ttm_limit_bytes.value < limit)
		limit = f->machine.ttm_limit_bytes.value;
	return f->have_process && f->process.checkpoint_file_bytes > limit;
}

static void say_svm_limit(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			  struct h2d_finding *out)
{
	h2d_evidence(out, "The kernel's log: %s", f->machine.svm_limit);
	if (exceeds_svm_limit(f))
		h2d_mapping_evidence(f, out);
	if (f->machine.ttm_limit_bytes.known)
		h2d_evidence(out, "The GPU may use %s of system memory (ttm.pages_limit)",
			     h2d_amount(f->machine.ttm_limit_bytes.value));
	if (f->machine.unified)
		h2d_evidence(out, "GPU and processors share memory: %s", f->machine.unified_by);
	h2d_memory_evidence(f, out);
	h2d_recommend(f, s, "map_less", true, out);
}

/* The log names no process, and its line may be of an earlier load. */
bool h2d_rule_svm_limit(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			struct h2d_finding *out)
{
	bool fits = exceeds_svm_limit(f);

	if (!f->machine.svm_limit[0] || (f->asked_for_process && !fits))
		return false;
	out->id = "svm_limit";
	out->status = H2D_DOCTOR_AFFECTED;
	out->confidence = fits ? H2D_CONFIDENCE_HIGH : H2D_CONFIDENCE_MEDIUM;
	if (fits)
		h2d_say(out->line, sizeof(out->line),
			"The GPU driver refuses to map a checkpoint: it is larger than the "
			"memory that GPU mappings may use. Read it instead of mapping it.");
	else
		h2d_say(out->line, sizeof(out->line),
			"The GPU driver refused to map memory of some program: it was more "
			"than GPU mappings may use. Read large checkpoints instead of mapping "
			"them.");
	say_svm_limit(f, s, out);
	return true;
}

/* The same where somebody asked about a process that is not the one of the log. */
bool h2d_rule_svm_limit_seen(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			     struct h2d_finding *out)
{
	if (!f->machine.svm_limit[0] || !f->asked_for_process || exceeds_svm_limit(f))
		return false;
	out->id = "svm_limit";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line),
		"The GPU driver refused to map memory of some program once; nothing here says "
		"that it was process %d.",
		f->asked_pid ? f->asked_pid : f->process.pid);
	say_svm_limit(f, s, out);
	return true;
}
