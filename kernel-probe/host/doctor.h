/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file doctor.h
 * From what was seen of a machine, its kernel and a process to findings: a sentence in plain
 * words, how sure it is, why, and the one thing to do. Judging is a pure function of the facts,
 * so that a capture of another machine gives the same answer as the machine. Since 0.1.
 */
#ifndef H2D_HOST_DOCTOR_H
#define H2D_HOST_DOCTOR_H

#include "core/policy.h"
#include "host/kernel_verdict.h"
#include "host/machine.h"
#include "host/process.h"
#include "host/sample.h"
#include "host/switches.h"

/** What is known of the kernel's driver, from host/kernel_verdict.h. */
struct h2d_doctor_kernel {
	enum h2d_retry_policy policy;
	enum h2d_stall stall; /**< UNKNOWN: nothing is known, `why` says why */
	bool only_table;      /**< the table alone speaks: a version, which proves nothing */
	enum h2d_confidence confidence;
	enum h2d_permission_rule permission; /**< of the caller that copies use */
	bool other_driver; /**< the loaded driver is not the file that was read */
	bool without_svm;  /**< built without HSA_AMD_SVM: memory is pinned by userptr alone */
	bool by_measurement, by_file, by_table;
	char statements[3][512]; /**< one of each opinion that was given */
	unsigned statement_count;
	char conflict[512];
	char why[512];
	char upgrade_to[256], upgrade_source[256];
};

/** What a measurement said, from the reproducer. */
struct h2d_doctor_measured {
	bool done;
	char verdict[32]; /**< as h2d repro names it */
	enum h2d_retry_policy policy;
	enum h2d_permission_rule permission;
	enum h2d_confidence confidence;
	double cow_penalty_ratio; /**< 0: not measured */
	char device[80];
	char statement[256];
	char why[192]; /**< why nothing was measured */
};

enum h2d_doctor_status {
	H2D_DOCTOR_WELL,     /**< nothing of what is known is wrong */
	H2D_DOCTOR_AFFECTED, /**< a defect or a cause of slowness was found */
	H2D_DOCTOR_UNKNOWN,  /**< cannot be told, or does not apply here */
};
const char *h2d_doctor_status_name(enum h2d_doctor_status s);

enum {
	H2D_DOCTOR_EVIDENCE_MAX = 16,
	H2D_DOCTOR_LINE_BYTES = 512,
	H2D_DOCTOR_FINDINGS_MAX = 16,
	H2D_DOCTOR_UNSEEN_MAX = 16,
	H2D_DOCTOR_ENDS_MAX = 4,
};

struct h2d_finding {
	const char *id; /**< "stall", "copied", … */
	enum h2d_doctor_status status;
	enum h2d_confidence confidence;
	char line[H2D_DOCTOR_LINE_BYTES]; /**< what it means, and what to do */
	char evidence[H2D_DOCTOR_EVIDENCE_MAX][H2D_DOCTOR_LINE_BYTES];
	size_t evidence_count;
	char action[H2D_DOCTOR_LINE_BYTES]; /**< "" when there is nothing to do */
	char gain[H2D_DOCTOR_LINE_BYTES], source[H2D_DOCTOR_LINE_BYTES];
	char otherwise[H2D_DOCTOR_LINE_BYTES]; /**< another way, or "" */
};

/** How looking at a part ended. Only what is late may be said to hang. */
enum h2d_doctor_end {
	H2D_DOCTOR_SEEN,
	H2D_DOCTOR_NOT_STARTED, /**< no process could be had for it */
	H2D_DOCTOR_DIED,	/**< its process ended before it was done */
	H2D_DOCTOR_LATE,	/**< it did not end in time */
};

/** What was seen. */
struct h2d_doctor_facts {
	struct h2d_machine machine;
	struct h2d_memory memory;
	struct h2d_doctor_kernel kernel;
	struct h2d_doctor_measured measured;
	bool asked_for_process; /**< a PID was given */
	int asked_pid;
	bool have_process;
	char process_why[192]; /**< why there is none although one was asked for */
	struct h2d_process process;
	struct h2d_sample samples[4];
	size_t sample_count;
	struct h2d_trend trend;
	/* Of a part that was not seen nothing is known. Without the environment, that block of
	 * a document cannot be written. */
	enum h2d_doctor_end machine_end, kernel_end, process_end, environment_end;
	char machine_why[192];		     /**< why the machine was not seen */
	char ends[H2D_DOCTOR_ENDS_MAX][192]; /**< sentences on what was not seen */
	size_t end_count;
	const char *program; /**< by known-switches.json, or NULL */
	bool redact;
};

struct h2d_diagnosis {
	struct h2d_finding findings[H2D_DOCTOR_FINDINGS_MAX]; /**< the most important first */
	size_t count;					      /**< at least 1 */
	char unseen[H2D_DOCTOR_UNSEEN_MAX][192];	      /**< what could not be seen */
	size_t unseen_count;
};

/** Judge. Pure but for the table of switches. */
void h2d_doctor_judge(const struct h2d_doctor_facts *facts, const struct h2d_switches *switches,
		      struct h2d_diagnosis *out);

/** Find the process whose mapping of a checkpoint costs most, among those that may be looked
 *  at, within `budget_ns`. @return its PID, or 0 */
int h2d_doctor_find_process(const char *root, uint64_t budget_ns);

/** Ask the kernel's verdict, with a measurement where there is one. */
void h2d_doctor_kernel_read(const char *root, const struct h2d_doctor_measured *measured,
			    const struct h2d_log *log, struct h2d_doctor_kernel *out);

/** The same where the driver could not be looked at: what a measurement says, or nothing with
 *  the reason. */
void h2d_doctor_kernel_unread(const struct h2d_doctor_measured *measured, const char *why,
			      struct h2d_doctor_kernel *out);

/** The members of h2d.doctor behind the envelope. */
void h2d_doctor_write(struct h2d_json *j, const struct h2d_doctor_facts *facts,
		      const struct h2d_diagnosis *d);

/* ---- internal: rules, each in the file of its subject ---- */

/** A rule says whether its finding holds, and then fills it. */
typedef bool (*h2d_rule)(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			 struct h2d_finding *out);
extern const h2d_rule h2d_rules_kernel[], h2d_rules_process[], h2d_rules_rest[];
bool h2d_rule_svm_limit(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			struct h2d_finding *out);
bool h2d_rule_svm_limit_seen(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
			     struct h2d_finding *out);
bool h2d_rule_process_found_well(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
				 struct h2d_finding *out);

/** A sentence, cut where it does not fit. */
void h2d_say(char *out, size_t cap, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void h2d_evidence(struct h2d_finding *out, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/** Set the action: the program's own switch where `prefer_switch` and it has one, else the
 *  general action `id`; the other one becomes `otherwise`. */
void h2d_recommend(const struct h2d_doctor_facts *f, const struct h2d_switches *s,
		   const char *id, bool prefer_switch, struct h2d_finding *out);
/** "12.34 GiB" in one of eight buffers. */
const char *h2d_amount(uint64_t bytes);
/** The process as messages name it: "Process 4242 (python3)". */
const char *h2d_process_words(const struct h2d_doctor_facts *f, char *buf, size_t cap);
/** Its command line as a person would type it, or COMMAND. */
const char *h2d_command_words(const struct h2d_doctor_facts *f, char *buf, size_t cap);
/** "reports mapping": evidence on how the process maps its checkpoints. */
void h2d_mapping_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out);
void h2d_trend_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out);
void h2d_memory_evidence(const struct h2d_doctor_facts *f, struct h2d_finding *out);

#endif
