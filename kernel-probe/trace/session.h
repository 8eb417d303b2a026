/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file session.h
 * Traces the driver's functions with kprobe events, in a tracefs instance of its own. Calls of
 * hmm_range_fault are too many to record: the kernel counts them, in histograms, by thread,
 * return value and the outer call they happen in. Outer calls are recorded one by one.
 *
 * Sources: Documentation/trace/kprobetrace.rst, histogram.rst and ftrace.rst. Since 0.1.
 */
#ifndef H2D_TRACE_SESSION_H
#define H2D_TRACE_SESSION_H

#include "core/json.h"
#include "core/log.h"
#include "count.h"

enum { H2D_TRACE_REASONS_MAX = 8, H2D_TRACE_TRIGGERS_MAX = 12 };

/** One traced function. */
struct h2d_trace_target {
	const char *name, *module; /**< module NULL: part of the kernel */
	char symbol[128];	   /**< as this kernel has it, or "" */
	char why[128];		   /**< why it is not traced, or "" */
};

struct h2d_trace_bpf;

struct h2d_trace_session {
	const char *root;			  /**< of h2d_hostfs_*(); NULL: this machine */
	char tracefs[64];			  /**< where it is mounted, or "" */
	char reasons[H2D_TRACE_REASONS_MAX][200]; /**< what is missing for tracing */
	size_t reason_count;
	struct h2d_trace_target targets[H2D_TRACE_FUNCTIONS];
	size_t symbol_reason_count; /**< of these, what no way of tracing can do without */
	struct h2d_trace_bpf *bpf;  /**< of bpf.h; NULL: kprobe events */
	char bpf_why[160];	    /**< why not BPF, or "" */
	char times_why[160], inside_why[160]; /**< why the histogram is missing, or "" */

	char group[32], instance[96];
	bool made_instance, made_probes;
	bool made_synthetic[2];
	struct {
		char event[64], text[256];
	} triggers[H2D_TRACE_TRIGGERS_MAX];
	size_t trigger_count;
	int pipe;	 /**< trace_pipe, or -1 */
	char part[8192]; /**< of a line that is not read to its end */
	size_t part_bytes;
	bool skipping;		/**< in a line that is too long */
	uint64_t overrun_count; /**< events that the ring buffer lost */
	uint64_t missed_count;	/**< calls that a probe missed */
};

/** Look for what is needed; fills `reasons` (none: it can be tried) and `targets`. */
void h2d_trace_check(struct h2d_trace_session *s, const char *root);

/**
 * Set everything up; the kernel counts from then on. Stop it in any case.
 * @return 0, or H2D_E_UNAVAILABLE with one more reason
 */
int h2d_trace_start(struct h2d_trace_session *s);
/** Take what was recorded until now; never waits. */
void h2d_trace_drain(struct h2d_trace_session *s, struct h2d_trace_counts *c);
/** Take the histograms as they are now, and count windows. */
void h2d_trace_update(struct h2d_trace_session *s, struct h2d_trace_counts *c,
		      uint32_t timeout_ms);
/** Nothing is recorded any more; what was can still be taken. */
void h2d_trace_pause(struct h2d_trace_session *s);
/** Remove all that was set up. @return 0, or H2D_E_IO: something is left behind, told in the
 *  log */
int h2d_trace_stop(struct h2d_trace_session *s, const struct h2d_log *log);
/** Remove what sessions left behind that were killed. */
void h2d_trace_sweep(struct h2d_trace_session *s);

/** A reason more. */
void h2d_trace_reason(struct h2d_trace_session *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** The members `functions` and `missing`. */
void h2d_trace_write_setup(struct h2d_json *j, const struct h2d_trace_session *s);
/** The members `total`, `processes` and `overhead`. */
void h2d_trace_write_counts(struct h2d_json *j, const struct h2d_trace_session *s,
			    const struct h2d_trace_counts *c);

#endif
