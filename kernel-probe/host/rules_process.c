/* SPDX-License-Identifier: Apache-2.0 */
/* Findings on a process: how it maps its checkpoints, what that costs, whether it moves. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/doctor.h"

/* Above these it is no accident. */
enum {
	FAULTS_PER_S = 100,
	STOPPED_PCT = 10,
	PINNING_PCT = 50,
	PRESSURE_PCT = 10,
};

static bool begin(const struct h2d_doctor_facts *f, const char *id,
		  enum h2d_doctor_status status, enum h2d_confidence confidence,
		  struct h2d_finding *out)
{
	(void)f;
	out->id = id;
	out->status = status;
	out->confidence = confidence;
	return true;
}

/* ---- rules, the most urgent first ---- */

/* The writable mappings would, copied, take more than there is. */
static bool will_not_fit(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			 struct h2d_finding *out)
{
	uint64_t limit = f->memory.group_limit_bytes.known ? f->memory.group_limit_bytes.value
							   : f->memory.total_bytes.value;
	char who[128], command[384];

	if (!f->have_process || !f->process.copied.mapping_count || !limit ||
	    f->process.writable.size_bytes <= limit)
		return false;
	begin(f, "will_not_fit", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_HIGH, out);
	h2d_say(out->line, sizeof(out->line),
		"%s will run out of memory: it copies %s of checkpoints page by page, and may "
		"have %s. Run: h2d run -- %s",
		h2d_process_words(f, who, sizeof(who)),
		h2d_amount(f->process.writable.size_bytes), h2d_amount(limit),
		h2d_command_words(f, command, sizeof(command)));
	h2d_mapping_evidence(f, out);
	h2d_memory_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_recommend(f, s, "h2d_run", false, out);
	return true;
}

/* A driver that copies does so with all that it reads; a program may write a page of its own.
 */
static bool a_few_pages(const struct h2d_doctor_facts *f)
{
	const struct h2d_mapping_sum *c = &f->process.copied;
	uint64_t bytes = c->anonymous_bytes + c->swap_bytes;

	return c->mapping_count && bytes < 1 << 20 && bytes < c->size_bytes / 100 &&
	       f->trend.anon_delta_bytes < 1 << 16;
}

static bool few_copied(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		       struct h2d_finding *out)
{
	const struct h2d_mapping_sum *c = &f->process.copied;
	char who[128];

	(void)s;
	if (!f->have_process || !f->asked_for_process || !a_few_pages(f))
		return false;
	begin(f, "few_copied", H2D_DOCTOR_UNKNOWN, H2D_CONFIDENCE_LOW, out);
	h2d_say(out->line, sizeof(out->line),
		"%s holds copies of %s of its checkpoint and makes no more: too little to tell "
		"whether a driver or the program wrote there. Look at it while it loads.",
		h2d_process_words(f, who, sizeof(who)),
		h2d_amount(c->anonymous_bytes + c->swap_bytes));
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_say(out->action, sizeof(out->action), "While it loads: h2d doctor %d",
		f->process.pid);
	return true;
}

/* What a process does with its copies now. */
static const char *copies_words(const struct h2d_doctor_facts *f, bool swapped)
{
	bool loads = f->trend.progress != H2D_PROGRESS_STILL &&
		     f->trend.progress != H2D_PROGRESS_BUSY &&
		     f->trend.progress != H2D_PROGRESS_EXITED;

	if (swapped)
		return loads ? "pushes copies of its own checkpoint into swap"
			     : "has copies of its own checkpoint in swap";
	return loads ? "copies its checkpoint into anonymous memory while it loads"
		     : "has copied its checkpoint into anonymous memory";
}

static bool copied(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		   struct h2d_finding *out)
{
	const struct h2d_mapping_sum *c = &f->process.copied;
	bool swapped = c->swap_bytes > c->anonymous_bytes;
	char who[128], command[384];

	/* Of a process that nobody asked about a few pages are no news. */
	if (!f->have_process || !c->mapping_count || a_few_pages(f) ||
	    (!f->asked_for_process && c->anonymous_bytes + c->swap_bytes < 1 << 20))
		return false;
	begin(f, swapped ? "swapped" : "copied", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_HIGH, out);
	h2d_process_words(f, who, sizeof(who));
	if (f->process.runtimes & H2D_RUNTIME_H2D_RUN)
		h2d_say(out->line, sizeof(out->line),
			"%s writes its weights itself: %s of its checkpoint became copies, "
			"although h2d run keeps its mappings read-only until they are written.",
			who, h2d_amount(c->anonymous_bytes + c->swap_bytes));
	else
		h2d_say(out->line, sizeof(out->line), "%s %s: %s so far%s. Run: h2d run -- %s",
			who, copies_words(f, swapped),
			h2d_amount(c->anonymous_bytes + c->swap_bytes),
			f->machine.unified ? ", on a machine whose GPU uses the same memory"
					   : "",
			h2d_command_words(f, command, sizeof(command)));
	h2d_mapping_evidence(f, out);
	if (f->machine.unified)
		h2d_evidence(out, "GPU and processors share memory: %s", f->machine.unified_by);
	if (f->memory.page_bytes > 4096)
		h2d_evidence(out, "Pages are of %s: each write copies that much",
			     h2d_amount(f->memory.page_bytes));
	h2d_memory_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_evidence(
		out,
		"The mapping %s writable, so that a driver may ask for write access where "
		"the GPU only reads; a program that writes its weights would look the same",
		f->process.writable.mapping_count ? "is" : "was");
	if (!(f->process.runtimes & H2D_RUNTIME_H2D_RUN)) {
		h2d_recommend(f, s, "h2d_run", false, out);
		return true;
	}
	/* It has the general cure already. */
	h2d_recommend(f, s, "none", true, out);
	if (!out->action[0]) {
		h2d_say(out->action, sizeof(out->action),
			"Read the report of h2d run: it names the mappings that were written");
		h2d_say(out->gain, sizeof(out->gain),
			"none for a program that needs the copies");
		h2d_say(out->source, sizeof(out->source), "the pages that h2d run counted");
	}
	return true;
}

static bool random_advice(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			  struct h2d_finding *out)
{
	char who[128];

	if (!f->have_process || !f->process.random_advice ||
	    (f->trend.progress != H2D_PROGRESS_UNKNOWN && f->trend.major_faults_per_s == 0))
		return false;
	begin(f, "random_advice", H2D_DOCTOR_AFFECTED,
	      f->trend.major_faults_per_s >= FAULTS_PER_S ? H2D_CONFIDENCE_HIGH
							  : H2D_CONFIDENCE_MEDIUM,
	      out);
	h2d_say(out->line, sizeof(out->line),
		"%s loads without read-ahead: it told the kernel that it reads at random "
		"(MADV_RANDOM).",
		h2d_process_words(f, who, sizeof(who)));
	h2d_mapping_evidence(f, out);
	if (f->trend.elapsed_ns)
		h2d_evidence(out, "%" PRIu64 " major faults a second",
			     f->trend.major_faults_per_s);
	h2d_trend_evidence(f, out);
	h2d_recommend(f, s, "read_ahead", true, out);
	return true;
}

static bool network_faults(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			   struct h2d_finding *out)
{
	const struct h2d_mapped_file *file = f->process.largest;
	char who[128];

	if (!f->have_process || !file || f->trend.major_faults_per_s < FAULTS_PER_S ||
	    f->process.random_advice)
		return false;
	begin(f, file->mount.network ? "network_faults" : "slow_faults", H2D_DOCTOR_AFFECTED,
	      H2D_CONFIDENCE_HIGH, out);
	if (file->mount.network) {
		h2d_say(out->line, sizeof(out->line),
			"%s reads its checkpoint page by page from a network file system "
			"(%s): %" PRIu64 " faults a second, %s/s.",
			h2d_process_words(f, who, sizeof(who)), file->mount.type,
			f->trend.major_faults_per_s, h2d_amount(f->trend.bytes_per_s));
	} else if (f->trend.progress == H2D_PROGRESS_SLOW) {
		out->confidence = H2D_CONFIDENCE_MEDIUM;
		h2d_say(out->line, sizeof(out->line),
			"%s reads its checkpoint page by page from the disk: %" PRIu64
			" faults a second, %s/s.",
			h2d_process_words(f, who, sizeof(who)), f->trend.major_faults_per_s,
			h2d_amount(f->trend.bytes_per_s));
	} else {
		return false;
	}
	h2d_mapping_evidence(f, out);
	if (file->mount.have_read_ahead)
		h2d_evidence(out, "Read-ahead of that file system is %s",
			     h2d_amount(file->mount.read_ahead_bytes));
	h2d_trend_evidence(f, out);
	h2d_recommend(f, s, "warm", true, out);
	return true;
}

static bool out_of_room(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			struct h2d_finding *out)
{
	uint64_t limit = f->memory.total_bytes.known ? f->memory.total_bytes.value : UINT64_MAX;
	char who[128];

	if (!f->have_process || !f->process.checkpoint_count)
		return false;
	if (f->memory.group_limit_bytes.known && f->memory.group_limit_bytes.value < limit)
		limit = f->memory.group_limit_bytes.value;
	if (f->process.checkpoint_file_bytes <= limit)
		return false;
	begin(f, "out_of_room", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_HIGH, out);
	h2d_say(out->line, sizeof(out->line),
		"%s maps a checkpoint of %s on a machine that gives it %s of memory: its pages "
		"push each other out. Read it instead of mapping it.",
		h2d_process_words(f, who, sizeof(who)),
		h2d_amount(f->process.checkpoint_file_bytes), h2d_amount(limit));
	h2d_mapping_evidence(f, out);
	h2d_memory_evidence(f, out);
	if (f->trend.elapsed_ns)
		h2d_evidence(out, "%" PRIu64 " major faults a second",
			     f->trend.major_faults_per_s);
	h2d_trend_evidence(f, out);
	h2d_recommend(f, s, "map_less", true, out);
	return true;
}

/* Each notifier that hits a range of the GPU suspends all queues of the process, and more of
 * them come while a load goes on. */
static bool queues_stopped(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			   struct h2d_finding *out)
{
	char who[128];

	if (!f->have_process || !f->process.checkpoint_count || !f->trend.evictions_known ||
	    f->trend.evicted_pct < STOPPED_PCT)
		return false;
	begin(f, "queues_stopped", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_HIGH, out);
	h2d_say(out->line, sizeof(out->line),
		"%s has its GPU stopped %.0f %% of the time while it loads: pages that the GPU "
		"may use are changed under it, and each time the driver suspends its queues.",
		h2d_process_words(f, who, sizeof(who)),
		f->trend.evicted_pct < 100 ? f->trend.evicted_pct : 100);
	h2d_evidence(out, "amdkfd counted %.0f ms of evicted queues in %.1f s",
		     f->trend.evicted_pct * (double)f->trend.elapsed_ns / 1e8,
		     (double)f->trend.elapsed_ns / 1e9);
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_memory_evidence(f, out);
	h2d_recommend(f, s, "stage", true, out);
	return true;
}

/* Time goes into the kernel, with threads inside an ioctl, and no page is copied: the runtime
 * has the driver pin the mapped file for each tensor. */
static bool pinning(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		    struct h2d_finding *out)
{
	char who[128];

	if (!f->have_process || !f->process.checkpoint_count ||
	    f->process.copied.mapping_count || f->kernel.stall == H2D_STALL_YES ||
	    f->trend.evicted_pct >= STOPPED_PCT || !(f->process.runtimes & H2D_RUNTIME_HIP) ||
	    !f->trend.threads_in_ioctl || f->trend.kernel_pct < PINNING_PCT ||
	    f->trend.major_faults_per_s >= FAULTS_PER_S ||
	    (f->trend.progress != H2D_PROGRESS_SLOW &&
	     f->trend.progress != H2D_PROGRESS_MOVING))
		return false;
	begin(f, "pinning", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_MEDIUM, out);
	h2d_say(out->line, sizeof(out->line),
		"%s probably waits for the driver to pin its checkpoint tensor by tensor: %.0f "
		"%% "
		"of a processor go into the kernel, %s/s arrive.",
		h2d_process_words(f, who, sizeof(who)), f->trend.kernel_pct,
		h2d_amount(f->trend.bytes_per_s));
	h2d_evidence(out, "%u of its threads %s inside an ioctl; it has loaded HIP",
		     f->trend.threads_in_ioctl, f->trend.threads_in_ioctl == 1 ? "is" : "are");
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_evidence(out, "How often it pins is not told by /proc: h2d probe trace counts it");
	h2d_recommend(f, s, "stage", true, out);
	return true;
}

static bool pressure(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		     struct h2d_finding *out)
{
	const struct h2d_pressure *p = &f->memory.memory;

	if (!p->known || p->some_pct < PRESSURE_PCT)
		return false;
	begin(f, "pressure", H2D_DOCTOR_AFFECTED, H2D_CONFIDENCE_MEDIUM, out);
	h2d_say(out->line, sizeof(out->line),
		"The machine is short of memory: in the last ten seconds programs waited for "
		"it %.0f %% of the time, and copies to the GPU wait with them.",
		p->some_pct);
	h2d_evidence(out, "Memory pressure: some %.1f %%, all %.1f %%", p->some_pct,
		     p->full_pct);
	h2d_memory_evidence(f, out);
	if (f->have_process) {
		h2d_mapping_evidence(f, out);
		h2d_trend_evidence(f, out);
	}
	h2d_recommend(f, s, "free_memory", false, out);
	return true;
}

static bool moves(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		  struct h2d_finding *out)
{
	enum h2d_progress progress = f->trend.progress;
	char who[128];

	(void)s;
	if (!f->have_process || !f->process.checkpoint_count)
		return false;
	h2d_process_words(f, who, sizeof(who));
	/* One thread may wait in peace, or compute, for another that hangs. */
	if (progress == H2D_PROGRESS_BUSY && f->trend.threads_stuck)
		progress = H2D_PROGRESS_STILL;
	switch (progress) {
	case H2D_PROGRESS_SLOW:
		begin(f, "slow", H2D_DOCTOR_UNKNOWN, H2D_CONFIDENCE_MEDIUM, out);
		h2d_say(out->line, sizeof(out->line),
			"%s is slow but moving, not hung (%s/s)%s.", who,
			h2d_amount(f->trend.bytes_per_s),
			h2d_process_unknown(&f->process)
				? ""
				: "; none of the known causes is at work");
		break;
	case H2D_PROGRESS_STILL:
		if (f->trend.state == 'S' && !f->trend.threads_stuck)
			return false; /* loaded, and waits for work */
		begin(f, "still", H2D_DOCTOR_UNKNOWN, H2D_CONFIDENCE_MEDIUM, out);
		if (f->trend.threads_stuck && f->trend.state != 'D')
			h2d_say(out->line, sizeof(out->line),
				"%s may hang: in %.1f s it read and copied nothing, and %u of "
				"its threads wait%s in the kernel.",
				who, (double)f->trend.elapsed_ns / 1e9, f->trend.threads_stuck,
				f->trend.threads_stuck == 1 ? "s" : "");
		else
			h2d_say(out->line, sizeof(out->line),
				"%s stands still and may hang: in %.1f s it read, copied and "
				"computed nothing.",
				who, (double)f->trend.elapsed_ns / 1e9);
		break;
	default:
		return false;
	}
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_memory_evidence(f, out);
	h2d_say(out->action, sizeof(out->action),
		"Watch it for longer: h2d probe process --watch 60 %d", f->process.pid);
	return true;
}

/* One that does not move may have a thread that hangs, where their states are not told. */
static bool threads_unseen(const struct h2d_doctor_facts *f)
{
	return f->sample_count && !f->samples[f->sample_count - 1].thread_states_known &&
	       f->trend.progress != H2D_PROGRESS_MOVING &&
	       f->trend.progress != H2D_PROGRESS_SLOW;
}

static bool a_file_is_closed(const struct h2d_process *p)
{
	for (size_t i = 0; i < p->file_count; i++)
		if (p->files[i].named_like_one)
			return true;
	return false;
}

/* "h2d probe process" says the same with status 77. */
static bool copies_unknown(const struct h2d_doctor_facts *f, const char *why,
			   struct h2d_finding *out)
{
	char who[128];

	begin(f, "copies_unknown", H2D_DOCTOR_UNKNOWN, H2D_CONFIDENCE_MEDIUM, out);
	h2d_say(out->line, sizeof(out->line),
		"%s may hold a second copy of a checkpoint, which cannot be told: %s.",
		h2d_process_words(f, who, sizeof(who)), why);
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	h2d_say(out->action, sizeof(out->action),
		a_file_is_closed(&f->process)
			? "As root, whom the kernel leads to the mapped file: h2d doctor %d"
			: "While it loads: h2d doctor %d",
		f->process.pid);
	return true;
}

static bool judge_well(const struct h2d_doctor_facts *f, struct h2d_finding *out)
{
	const char *unknown;
	char who[128];

	if (!f->have_process || f->process.copied.mapping_count)
		return false;
	unknown = h2d_process_unknown(&f->process);
	if (unknown)
		return copies_unknown(f, unknown, out);
	h2d_process_words(f, who, sizeof(who));
	if (!f->process.checkpoint_count) {
		begin(f, "no_checkpoint", H2D_DOCTOR_UNKNOWN, H2D_CONFIDENCE_MEDIUM, out);
		h2d_say(out->line, sizeof(out->line),
			"%s maps no checkpoint now: look at it while it loads.", who);
		h2d_say(out->action, sizeof(out->action), "While it loads: h2d doctor %d",
			f->process.pid);
		return true;
	}
	begin(f, "process_well", H2D_DOCTOR_WELL,
	      f->trend.progress == H2D_PROGRESS_UNKNOWN || threads_unseen(f)
		      ? H2D_CONFIDENCE_MEDIUM
		      : H2D_CONFIDENCE_HIGH,
	      out);
	h2d_say(out->line, sizeof(out->line),
		"%s holds no second copy of its checkpoint, and none of the known causes of "
		"slow loading is at work.",
		who);
	h2d_mapping_evidence(f, out);
	h2d_trend_evidence(f, out);
	return true;
}

/* The process that was asked for comes before the kernel, one that was found after it. */
static bool process_well(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			 struct h2d_finding *out)
{
	(void)s;
	return f->asked_for_process && judge_well(f, out);
}

bool h2d_rule_process_found_well(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
				 struct h2d_finding *out)
{
	(void)s;
	return !f->asked_for_process && judge_well(f, out);
}

const h2d_rule h2d_rules_process[] = {h2d_rule_svm_limit,
				      will_not_fit,
				      copied,
				      few_copied,
				      random_advice,
				      network_faults,
				      out_of_room,
				      queues_stopped,
				      pressure,
				      pinning,
				      moves,
				      process_well,
				      NULL};
