/* SPDX-License-Identifier: Apache-2.0 */
#include "host/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/envelope.h"

const char *h2d_doctor_status_name(enum h2d_doctor_status s)
{
	static const char *const names[] = {"well", "affected", "unknown"};

	return names[s];
}

/* ---- words ---- */

void h2d_say(char *out, size_t cap, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, cap, fmt, args);
	va_end(args);
}

void h2d_evidence(struct h2d_finding *out, const char *fmt, ...)
{
	va_list args;

	if (out->evidence_count == H2D_DOCTOR_EVIDENCE_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(out->evidence[out->evidence_count++], H2D_DOCTOR_LINE_BYTES, fmt, args);
	va_end(args);
}

const char *h2d_amount(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	static _Thread_local char texts[8][32];
	static _Thread_local unsigned next;
	char *text = texts[next++ % 8];
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit < 6) {
		value /= 1024;
		unit++;
	}
	h2d_say(text, sizeof(texts[0]), "%.*f %s", unit ? (value < 100 ? 2 : 1) : 0, value,
		units[unit]);
	return text;
}

const char *h2d_process_words(const struct h2d_doctor_facts *f, char *buf, size_t cap)
{
	h2d_say(buf, cap, "Process %d (%s)", f->process.pid, f->process.name);
	return buf;
}

/* Quoted where a shell would not take it as it is. */
static void add_word(char *buf, size_t cap, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_@%+=:,./-";
	size_t n = strlen(buf);

	h2d_say(buf + n, cap - n, "%s", n ? " " : "");
	n = strlen(buf);
	if (word[0] && word[strspn(word, plain)] == 0) {
		h2d_say(buf + n, cap - n, "%s", word);
		return;
	}
	h2d_say(buf + n, cap - n, "'");
	for (; *word && strlen(buf) + 8 < cap; word++) {
		n = strlen(buf);
		if (*word == '\'')
			h2d_say(buf + n, cap - n, "'\\''");
		else
			h2d_say(buf + n, cap - n, "%c", *word);
	}
	n = strlen(buf);
	h2d_say(buf + n, cap - n, "'");
}

const char *h2d_command_words(const struct h2d_doctor_facts *f, char *buf, size_t cap)
{
	size_t bytes = 0;

	for (size_t i = 0; i < f->process.word_count; i++)
		bytes += strlen(f->process.words[i]) + 1;
	/* A long one does not make the sentence clearer; a title that the program gave itself
	 * ("sglang::scheduler") cannot be typed. */
	if (!f->have_process || f->redact || !bytes || bytes > 160 ||
	    strstr(f->process.words[0], "::") || strchr(f->process.words[0], ' ') ||
	    !strcmp(f->process.words[f->process.word_count - 1], "redacted") ||
	    !strcmp(f->process.words[0], "redacted")) {
		h2d_say(buf, cap, "COMMAND");
		return buf;
	}
	buf[0] = 0;
	for (size_t i = 0; i < f->process.word_count; i++)
		add_word(buf, cap, f->process.words[i]);
	return buf;
}

/* Replace {command}, {upgrade} and {file}. */
static void expand(const struct h2d_doctor_facts *f, const char *text, char *out, size_t cap)
{
	const struct h2d_mapped_file *file = f->process.largest;
	char command[384];
	size_t used = 0;

	out[0] = 0;
	while (*text && used + 1 < cap) {
		const char *value = NULL;
		size_t skip = 1;

		if (!strncmp(text, "{command}", 9)) {
			value = h2d_command_words(f, command, sizeof(command));
			skip = 9;
		} else if (!strncmp(text, "{upgrade}", 9)) {
			value = f->kernel.upgrade_to;
			skip = 9;
		} else if (!strncmp(text, "{file}", 6)) {
			value = file ? h2d_redacted_path(file->path, f->redact) : "CHECKPOINT";
			skip = 6;
		}
		if (value)
			h2d_say(out + used, cap - used, "%s", value);
		else
			h2d_say(out + used, cap - used, "%c", *text);
		used += strlen(out + used);
		text += skip;
	}
}

static void set_action(const struct h2d_doctor_facts *f, const struct h2d_switch *w,
		       bool is_switch, struct h2d_finding *out)
{
	char text[384];

	if (is_switch)
		h2d_say(text, sizeof(text), "Start %s with %s", f->program, w->action);
	else
		h2d_say(text, sizeof(text), "%s", w->action);
	expand(f, text, out->action, sizeof(out->action));
	h2d_say(out->gain, sizeof(out->gain), "%s", w->gain);
	h2d_say(out->source, sizeof(out->source), "%s", w->source);
}

static void set_otherwise(const struct h2d_doctor_facts *f, const struct h2d_switch *w,
			  bool is_switch, struct h2d_finding *out)
{
	char action[256];

	if (is_switch)
		h2d_say(action, sizeof(action), "Start %s with %.120s", f->program, w->action);
	else
		expand(f, w->action, action, sizeof(action));
	h2d_say(out->otherwise, sizeof(out->otherwise), "%s (%.120s; %.100s)", action, w->gain,
		w->source);
}

void h2d_recommend(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		   const char *id, bool prefer_switch, struct h2d_finding *out)
{
	struct h2d_switch general, own;
	bool have_own = f->program && h2d_switches_of_program(s, f->program, out->id, &own);
	bool have_general = h2d_switches_general(s, id, out->id, &general);

	if (have_own && (prefer_switch || !have_general)) {
		set_action(f, &own, true, out);
		if (have_general)
			set_otherwise(f, &general, false, out);
	} else if (have_general) {
		set_action(f, &general, false, out);
		if (have_own)
			set_otherwise(f, &own, true, out);
	}
}

/* ---- judging ---- */

static bool says_nothing_else(const struct h2d_finding *f)
{
	return !strcmp(f->id, "process_well") || !strcmp(f->id, "slow");
}

static void run_rules(const h2d_rule *rules, const struct h2d_doctor_facts *f,
		      const struct h2d_switches *s, struct h2d_diagnosis *out)
{
	for (size_t i = 0; rules[i] && out->count < H2D_DOCTOR_FINDINGS_MAX; i++) {
		struct h2d_finding *finding = &out->findings[out->count];

		memset(finding, 0, sizeof(*finding));
		if (!rules[i](f, s, finding))
			continue;
		/* "None of the known causes" holds only where none was found. */
		if (says_nothing_else(finding) &&
		    out->findings[0].status == H2D_DOCTOR_AFFECTED && out->count)
			continue;
		out->count++;
	}
}

static void unseen(struct h2d_diagnosis *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void unseen(struct h2d_diagnosis *out, const char *fmt, ...)
{
	va_list args;

	if (out->unseen_count == H2D_DOCTOR_UNSEEN_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(out->unseen[out->unseen_count++], sizeof(out->unseen[0]), fmt, args);
	va_end(args);
}

static void list_unseen(const struct h2d_doctor_facts *f, struct h2d_diagnosis *out)
{
	for (size_t i = 0; i < f->end_count; i++)
		unseen(out, "%s", f->ends[i]);
	if (!f->machine_end && !f->machine.gpus_visible)
		unseen(out, "PCI devices: not visible here");
	if (!f->machine_end && !f->machine.log_read)
		unseen(out, "the kernel's log: %s", f->machine.log_why);
	if (f->machine.amd && !f->kernel.by_file && !f->kernel_end)
		unseen(out, "the amdgpu module's code: %.150s",
		       f->kernel.why[0] ? f->kernel.why : "not found here");
	if (!f->measured.done)
		unseen(out, "a measured copy: %s",
		       f->measured.why[0] ? f->measured.why : "not made");
	/* The first line may have said it already. */
	if (f->asked_for_process && !f->have_process && !f->process_end &&
	    strcmp(out->findings[0].id, "process_unseen"))
		unseen(out, "the process: %s", f->process_why);
	else if (!f->asked_for_process && !f->have_process && !f->process_end)
		unseen(out, "a process that loads a checkpoint: none was found; give its PID "
			    "while it loads");
	if (f->have_process && f->trend.progress == H2D_PROGRESS_UNKNOWN)
		unseen(out, "what the process does over time");
	/* Its memory is seen with the machine, or with the process. */
	if (f->machine_end && !f->have_process)
		return;
	if (!f->memory.group_read)
		unseen(out, "control groups and their limits");
	if (!f->memory.memory.known)
		unseen(out, "memory pressure: the kernel does not tell it");
}

void h2d_doctor_judge(const struct h2d_doctor_facts *facts, const struct h2d_switches *switches,
		      struct h2d_diagnosis *out)
{
	memset(out, 0, sizeof(*out));
	run_rules(h2d_rules_kernel, facts, switches, out);
	run_rules(h2d_rules_process, facts, switches, out);
	run_rules(h2d_rules_rest, facts, switches, out);
	list_unseen(facts, out);
}

/* ---- document ---- */

static void null_why(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	h2d_say(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_finding(struct h2d_json *j, const struct h2d_finding *f)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "id", f->id);
	h2d_json_string(j, "status", h2d_doctor_status_name(f->status));
	h2d_json_string(j, "confidence", h2d_confidence_name(f->confidence));
	h2d_json_string(j, "line", f->line);
	h2d_json_array_begin(j, "evidence");
	for (size_t i = 0; i < f->evidence_count; i++)
		h2d_json_string(j, NULL, f->evidence[i]);
	h2d_json_array_end(j);
	if (f->action[0]) {
		h2d_json_object_begin(j, "action");
		h2d_json_string(j, "text", f->action);
		if (f->gain[0])
			h2d_json_string(j, "expected_gain", f->gain);
		else
			null_why(j, "expected_gain", "no figure is known");
		if (f->source[0])
			h2d_json_string(j, "source", f->source);
		else
			null_why(j, "source", "it needs none");
		if (f->otherwise[0])
			h2d_json_string(j, "otherwise", f->otherwise);
		else
			null_why(j, "otherwise", "no other way is known");
		h2d_json_object_end(j);
	} else {
		null_why(j, "action", "nothing has to be done");
	}
	h2d_json_object_end(j);
}

static void write_kernel(struct h2d_json *j, const struct h2d_doctor_kernel *k)
{
	h2d_json_object_begin(j, "kernel");
	h2d_json_string(j, "retry_policy", h2d_retry_policy_name(k->policy));
	h2d_json_string(j, "stall", h2d_stall_name(k->stall));
	h2d_json_string(j, "permission_rule", h2d_permission_rule_name(k->permission));
	h2d_json_string(j, "confidence", h2d_confidence_name(k->confidence));
	h2d_json_bool(j, "by_measurement", k->by_measurement);
	h2d_json_bool(j, "by_module_file", k->by_file);
	h2d_json_bool(j, "by_table", k->by_table);
	h2d_json_array_begin(j, "statements");
	for (unsigned i = 0; i < k->statement_count; i++)
		h2d_json_string(j, NULL, k->statements[i]);
	h2d_json_array_end(j);
	h2d_json_string(j, "conflict", k->conflict);
	h2d_json_string(j, "upgrade_to", k->upgrade_to);
	h2d_json_object_end(j);
}

static void write_measured(struct h2d_json *j, const struct h2d_doctor_measured *m)
{
	if (!m->done) {
		null_why(j, "measured", m->why[0] ? m->why : "not asked for");
		return;
	}
	h2d_json_object_begin(j, "measured");
	h2d_json_string(j, "verdict", m->verdict);
	h2d_json_string(j, "device", m->device);
	h2d_json_string(j, "statement", m->statement);
	h2d_json_object_end(j);
}

void h2d_doctor_write(struct h2d_json *j, const struct h2d_doctor_facts *f,
		      const struct h2d_diagnosis *d)
{
	h2d_json_object_begin(j, "verdict");
	h2d_json_string(j, "finding", d->findings[0].id);
	h2d_json_string(j, "status", h2d_doctor_status_name(d->findings[0].status));
	h2d_json_string(j, "confidence", h2d_confidence_name(d->findings[0].confidence));
	h2d_json_string(j, "line", d->findings[0].line);
	h2d_json_object_end(j);
	h2d_json_array_begin(j, "findings");
	for (size_t i = 0; i < d->count; i++)
		write_finding(j, &d->findings[i]);
	h2d_json_array_end(j);
	h2d_json_array_begin(j, "unseen");
	for (size_t i = 0; i < d->unseen_count; i++)
		h2d_json_string(j, NULL, d->unseen[i]);
	h2d_json_array_end(j);
	write_kernel(j, &f->kernel);
	write_measured(j, &f->measured);
	h2d_machine_write(j, "machine", &f->machine);
	h2d_memory_write(j, "memory", &f->memory);
	if (f->program)
		h2d_json_string(j, "program", f->program);
	else
		null_why(j, "program", f->have_process ? "not in the table" : "no process");
	if (f->have_process) {
		h2d_process_write(j, &f->process, false, f->redact);
		h2d_samples_write(j, f->samples, f->sample_count, &f->trend);
	} else {
		null_why(j, "process",
			 f->asked_for_process ? f->process_why : "none was found");
	}
}
