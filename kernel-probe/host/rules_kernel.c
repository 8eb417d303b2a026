/* SPDX-License-Identifier: Apache-2.0 */
/* Findings on the kernel's driver. */
#include <stdio.h>
#include <string.h>

#include "host/doctor.h"

static void kernel_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out)
{
	for (unsigned i = 0; i < f->kernel.statement_count; i++)
		h2d_evidence(out, "%s", f->kernel.statements[i]);
	if (f->kernel.without_svm)
		h2d_evidence(out, "This driver was built without shared virtual memory "
				  "(HSA_AMD_SVM): copies reach the function by userptr alone");
	if (f->kernel.conflict[0])
		h2d_evidence(out, "Not all of that agrees: %s", f->kernel.conflict);
	if (f->machine_end)
		h2d_evidence(out, "Whether an AMD GPU uses this driver was not seen");
}

/* Whether a copy of this machine's programs goes through the AMD driver at all. */
static bool uses_amd(const struct h2d_doctor_facts *f)
{
	return f->machine.amd || f->machine_end || f->kernel.by_measurement;
}

/* A process that maps nothing writable, and did not, is not what the bug hits. */
static bool process_is_safe(const struct h2d_doctor_facts *f)
{
	return f->asked_for_process && f->have_process && f->process.checkpoint_count &&
	       !f->process.writable.mapping_count && !f->process.copied.mapping_count &&
	       !h2d_process_unknown(&f->process);
}

/* {command} of the first line: the cure that needs no root and no reboot. */
static void stall_line(const struct h2d_doctor_facts *f, bool sure, struct h2d_finding *out)
{
	const char *probably = sure ? "" : "probably ";
	char who[128], command[384], subject[256];

	if (f->have_process && f->process.writable.mapping_count)
		h2d_say(subject, sizeof(subject),
			"%s %ssuffers from your kernel's one-second "
			"copy bug.",
			h2d_process_words(f, who, sizeof(who)), probably);
	else
		h2d_say(subject, sizeof(subject), "Your kernel %shas the one-second copy bug.",
			probably);
	h2d_command_words(f, command, sizeof(command));
	if (f->kernel.upgrade_to[0])
		h2d_say(out->line, sizeof(out->line),
			"%s Upgrade to %.120s, or run: h2d run -- %.120s", subject,
			f->kernel.upgrade_to, command);
	else
		h2d_say(out->line, sizeof(out->line), "%s Run: h2d run -- %.200s", subject,
			command);
}

static bool stall(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		  struct h2d_finding *out)
{
	bool sure = f->kernel.confidence == H2D_CONFIDENCE_HIGH;

	if (f->kernel.stall != H2D_STALL_YES || !uses_amd(f) || process_is_safe(f))
		return false;
	out->id = "stall";
	out->status = H2D_DOCTOR_AFFECTED;
	out->confidence = f->kernel.confidence;
	stall_line(f, sure, out);
	kernel_evidence(f, out);
	if (f->have_process) {
		h2d_mapping_evidence(f, out);
		h2d_trend_evidence(f, out);
	}
	h2d_recommend(f, s, f->kernel.upgrade_to[0] ? "upgrade" : "h2d_run", false, out);
	if (f->kernel.upgrade_to[0]) {
		char command[384];

		/* The bridge until the machine may be restarted. */
		h2d_say(out->otherwise, sizeof(out->otherwise),
			"Until then run programs as: h2d run -- %s",
			h2d_command_words(f, command, sizeof(command)));
		if (f->kernel.upgrade_source[0])
			h2d_evidence(out, "%s is without it: %s", f->kernel.upgrade_to,
				     f->kernel.upgrade_source);
	}
	return true;
}

const h2d_rule h2d_rules_kernel[] = {stall, NULL};

/* ---- after the process: what holds when nothing worse was found ---- */

static bool stall_out_of_reach(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			       struct h2d_finding *out)
{
	if (f->kernel.stall != H2D_STALL_YES || (uses_amd(f) && !process_is_safe(f)))
		return false;
	out->id = "stall_out_of_reach";
	out->status = H2D_DOCTOR_WELL;
	out->confidence = f->kernel.confidence;
	if (!uses_amd(f))
		h2d_say(out->line, sizeof(out->line),
			"The amdgpu driver of your kernel has the one-second copy bug, but no "
			"AMD GPU uses it here.");
	else
		h2d_say(out->line, sizeof(out->line),
			"Your kernel has the one-second copy bug, but process %d maps its "
			"checkpoint read-only and is out of its reach.",
			f->process.pid);
	kernel_evidence(f, out);
	(void)s;
	if (f->kernel.upgrade_to[0])
		h2d_say(out->action, sizeof(out->action), "Upgrade the kernel to %s",
			f->kernel.upgrade_to);
	return true;
}

static bool kernel_well(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			struct h2d_finding *out)
{
	struct h2d_switch run;

	if (f->kernel.stall != H2D_STALL_NO || !uses_amd(f))
		return false;
	out->id = "kernel_well";
	/* A version proves nothing: updates for security carry the defect to other numbers. */
	out->status = f->kernel.only_table ? H2D_DOCTOR_UNKNOWN : H2D_DOCTOR_WELL;
	out->confidence = f->kernel.confidence;
	h2d_say(out->line, sizeof(out->line), "%s%s",
		f->kernel.only_table
			? "By its version your kernel probably does not have the one-second "
			  "copy bug; nothing here proves it."
			: "Your kernel does not have the one-second copy bug.",
		f->kernel.permission == H2D_PERMISSION_VMA
			? " Checkpoints that programs map writable are still copied before "
			  "they are read."
			: "");
	kernel_evidence(f, out);
	if (f->measured.done && f->measured.cow_penalty_ratio > 0)
		h2d_evidence(out,
			     "Measured: a copy from a writable mapping takes %.1f times as "
			     "long as from a read-only one",
			     f->measured.cow_penalty_ratio);
	if (f->kernel.only_table)
		h2d_say(out->action, sizeof(out->action), "Measure it: h2d repro");
	if (f->kernel.permission != H2D_PERMISSION_VMA)
		return true;
	if (h2d_switches_general(s, "h2d_run", "copied", &run)) {
		char command[384];

		h2d_say(out->action, sizeof(out->action), "Run programs as: h2d run -- %s",
			h2d_command_words(f, command, sizeof(command)));
		h2d_say(out->gain, sizeof(out->gain), "%s", run.gain);
		h2d_say(out->source, sizeof(out->source), "%s", run.source);
	}
	return true;
}

static bool kernel_unknown(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			   struct h2d_finding *out)
{
	(void)s;
	if (f->kernel.stall != H2D_STALL_UNKNOWN || !uses_amd(f))
		return false;
	out->id = "kernel_unknown";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line),
		"Cannot tell whether your kernel has the one-second copy bug%s",
		f->kernel.other_driver ? ": the loaded driver is not the file that was read."
		: f->machine.container ? ": a container does not show the host's driver."
				       : ".");
	kernel_evidence(f, out);
	if (f->kernel.why[0])
		h2d_evidence(out, "%s", f->kernel.why);
	if (f->kernel.other_driver) {
		h2d_say(out->action, sizeof(out->action),
			"Restart the machine, so that the file is what is loaded, or measure "
			"the driver that is: h2d repro");
	} else if (f->machine.container) {
		h2d_evidence(out, "This is a container (%s)", f->machine.container_by);
		h2d_say(out->action, sizeof(out->action),
			"Run h2d doctor on the host, or give the container the host's "
			"/lib/modules");
	} else {
		h2d_say(out->action, sizeof(out->action),
			"Measure it, in about a minute: h2d repro");
	}
	return true;
}

/* Something in the kernel hangs, which is news of its own. */
static bool machine_hangs(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			  struct h2d_finding *out)
{
	(void)s;
	if (f->machine_end != H2D_DOCTOR_LATE)
		return false;
	out->id = "machine_hangs";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line),
		"This machine does not say which GPUs it has: reading that did not end. "
		"Something "
		"in its kernel or a driver hangs.");
	h2d_say(out->action, sizeof(out->action),
		"Look for what hangs in the kernel's log (dmesg), then run h2d doctor again");
	return true;
}

static const char *again(enum h2d_doctor_end end)
{
	if (end == H2D_DOCTOR_NOT_STARTED)
		return "Allow more processes (ulimit -u, pids.max of the control group) or "
		       "free memory, then run h2d doctor again";
	return "Look for what ended it in the kernel's log (dmesg), then run h2d doctor again";
}

/* Of what was not looked at, nothing can be said to hang. */
static bool machine_unseen(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			   struct h2d_finding *out)
{
	(void)s;
	if (f->machine_end != H2D_DOCTOR_NOT_STARTED && f->machine_end != H2D_DOCTOR_DIED)
		return false;
	out->id = "machine_unseen";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line), "Cannot tell which GPUs this machine has: %s",
		f->machine_why);
	h2d_say(out->action, sizeof(out->action), "%s", again(f->machine_end));
	return true;
}

/* ---- what remains ---- */

static bool no_gpu(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		   struct h2d_finding *out)
{
	(void)s;
	if (f->machine.amd || f->machine.nvidia || f->machine.other_gpu || f->machine_end ||
	    f->kernel.by_measurement)
		return false;
	out->id = "no_gpu";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = f->machine.gpus_visible ? H2D_CONFIDENCE_HIGH : H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line),
		f->machine.container
			? "No GPU is visible in this container, so that nothing can be said of "
			  "copies to one."
			: "No GPU is here, so that no copy to one can be slow.");
	if (f->machine.gpus_visible)
		h2d_evidence(out, "No display controller or accelerator of AMD, NVIDIA or "
				  "Intel among the PCI devices");
	else
		h2d_evidence(out, "PCI devices are not visible here");
	if (f->machine.container)
		h2d_evidence(out, "This is a container (%s)", f->machine.container_by);
	h2d_say(out->action, sizeof(out->action),
		"To learn whether a kernel has the one-second copy bug, without a GPU: h2d "
		"probe lab --kernel RELEASE");
	return true;
}

static bool coherent(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		     struct h2d_finding *out)
{
	(void)s;
	if (!f->machine.nvidia || !f->machine.unified || f->have_process)
		return false;
	out->id = "coherent";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_MEDIUM;
	h2d_say(out->line, sizeof(out->line),
		"This machine's GPU shares memory with its processors: a program that maps its "
		"checkpoint writable holds it twice. Look at one while it loads: h2d doctor "
		"PID");
	h2d_evidence(out,
		     "%s: copies of pageable memory write-fault their source (reported: "
		     "pytorch/pytorch#192209, sgl-project/sglang#37822)",
		     f->machine.unified_by);
	h2d_say(out->action, sizeof(out->action), "While the program loads: h2d doctor PID");
	return true;
}

static bool nothing_known(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			  struct h2d_finding *out)
{
	(void)s;
	if (f->have_process || f->asked_for_process || f->machine.amd ||
	    !(f->machine.nvidia || f->machine.other_gpu) ||
	    (f->machine.nvidia && f->machine.unified))
		return false;
	out->id = "nothing_known";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line),
		"No defect of this machine's GPU driver is known. Look at a program while it "
		"loads: h2d doctor PID");
	h2d_evidence(out, "The one-second copy bug is one of amdgpu; no AMD GPU is here");
	h2d_say(out->action, sizeof(out->action), "While the program loads: h2d doctor PID");
	return true;
}

/* There is always an answer. */
static bool no_answer(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		      struct h2d_finding *out)
{
	(void)s;
	if (!f->asked_for_process || f->have_process)
		return false;
	out->id = "process_unseen";
	out->status = H2D_DOCTOR_UNKNOWN;
	out->confidence = H2D_CONFIDENCE_LOW;
	h2d_say(out->line, sizeof(out->line), "Cannot look at the process: %s", f->process_why);
	if (f->process_end == H2D_DOCTOR_LATE)
		h2d_say(out->action, sizeof(out->action),
			"See what it waits for: cat /proc/%d/wchan, and as root cat "
			"/proc/%d/stack",
			f->asked_pid, f->asked_pid);
	else if (f->process_end)
		h2d_say(out->action, sizeof(out->action), "%s", again(f->process_end));
	else
		h2d_say(out->action, sizeof(out->action),
			"Run h2d doctor as the user of that process, or as root");
	return true;
}

const h2d_rule h2d_rules_rest[] = {no_answer,
				   machine_hangs,
				   machine_unseen,
				   kernel_well,
				   kernel_unknown,
				   no_gpu,
				   coherent,
				   nothing_known,
				   h2d_rule_process_found_well,
				   h2d_rule_svm_limit_seen,
				   stall_out_of_reach,
				   NULL};
