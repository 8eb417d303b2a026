/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file count.h
 * The arithmetic of `h2d probe trace`: text of the kernel's tracing in, calls, durations and
 * windows by process out. Touches no file. Not thread-safe. Since 0.1.
 *
 * Lines are those of trace_pipe ("%16s-%-7d [cpu] flags seconds.micros: event: …"); histograms
 * those of hist triggers (Documentation/trace/histogram.rst). Both may hold anything: names of
 * tasks are chosen by their programs. What does not parse is counted and left out.
 */
#ifndef H2D_TRACE_COUNT_H
#define H2D_TRACE_COUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum h2d_trace_function {
	H2D_TRACE_FAULT,    /**< hmm_range_fault */
	H2D_TRACE_PAGES,    /**< amdgpu_hmm_range_get_pages */
	H2D_TRACE_EMULATED, /**< the laboratory's emulation of that */
	H2D_TRACE_SVM,	    /**< svm_range_validate_and_map */
	H2D_TRACE_USERPTR,  /**< amdgpu_ttm_tt_get_user_pages */
	H2D_TRACE_IOCTL,    /**< kfd_ioctl_svm */
	H2D_TRACE_FUNCTIONS,
};

/** Whether windows happen inside calls of it. */
static inline bool h2d_trace_is_outer(enum h2d_trace_function f)
{
	return f == H2D_TRACE_PAGES || f == H2D_TRACE_EMULATED;
}

/** Name of the function's events without "_in" and "_out". */
extern const char *const h2d_trace_event_names[H2D_TRACE_FUNCTIONS];

enum { H2D_TRACE_LOG2 = 64, H2D_TRACE_NEST = 4 };

/** Calls of one function. */
struct h2d_trace_stat {
	uint64_t call_count;   /**< begun, or for hmm_range_fault: returned */
	uint64_t return_count; /**< with their begin seen; what durations are of */
	uint64_t ok_count, ebusy_count, eagain_count, error_count;
	uint64_t total_ns, max_ns;	     /**< max_ns 0 of hmm_range_fault: not known */
	uint64_t log2_count[H2D_TRACE_LOG2]; /**< [k]: 2^(k-1) < ns <= 2^k */
};

struct h2d_trace_process {
	int pid;
	/* Of who.h. */
	bool asked, environment_read;
	char name[32];	      /**< comm, or "" */
	int rank, local_rank; /**< -1: none, or not known; good once it was asked for */
	struct h2d_trace_stat stats[H2D_TRACE_FUNCTIONS];
	uint64_t outer_count, outer_ebusy_count; /**< outer calls; with -EBUSY inside */
	uint64_t ebusy_max_count;		 /**< most -EBUSY inside one outer call */
	uint64_t window_count, window_ns;
};

struct h2d_trace_thread;
struct h2d_trace_call;

struct h2d_trace_counts {
	bool everybody; /**< unknown threads are counted too */
	/** Process of a thread that is not known, or <= 0; may be NULL. */
	int (*process_of)(void *user, int tid);
	void *user;
	/** Told of every process that is followed from outside; may be NULL. */
	void (*follow)(void *user, int pid);
	void *follow_user;

	struct h2d_trace_thread *threads; /**< hash table */
	size_t thread_count, thread_cap;
	struct h2d_trace_process *processes; /**< in order of appearance */
	size_t process_count, process_cap;
	struct h2d_trace_call *calls;
	size_t call_count, call_cap;

	uint64_t event_count;	   /**< lines of events */
	uint64_t lost_count;	   /**< as trace_pipe tells it */
	uint64_t malformed_count;  /**< lines that are none */
	uint64_t unmatched_count;  /**< returns without a begin */
	uint64_t unfinished_count; /**< begins without a return, so far */
	uint64_t unkept_count;	 /**< outer calls beyond the bound, not searched for windows */
	uint64_t unplaced_count; /**< -EBUSY in no outer call that was seen */
	uint64_t dropped_count;	 /**< that a histogram had no room for */
	bool failed;		 /**< out of memory: figures are incomplete */
};

void h2d_trace_counts_init(struct h2d_trace_counts *c);
void h2d_trace_counts_free(struct h2d_trace_counts *c);

/** Follow a thread (and all that it starts from now on). */
void h2d_trace_follow(struct h2d_trace_counts *c, int tid, int pid);

/** One line of trace_pipe, without its newline; need not be terminated. */
void h2d_trace_line(struct h2d_trace_counts *c, const char *line, size_t bytes);

/** Calls of a function that were counted elsewhere, in place of what is there. */
void h2d_trace_put(struct h2d_trace_counts *c, int pid, enum h2d_trace_function function,
		   const struct h2d_trace_stat *stat);
/** An outer call that was recorded elsewhere, with the -EBUSY inside. */
void h2d_trace_put_call(struct h2d_trace_counts *c, int pid, uint64_t begin_us,
			uint64_t duration_us, uint64_t ebusy_count, int64_t ret);

/** What the histograms are of; each is read as a whole and replaces what it said before. */
enum h2d_trace_histogram {
	H2D_TRACE_HIST_CALLS,  /**< keys common_pid, ret */
	H2D_TRACE_HIST_TIMES,  /**< keys common_pid, lat.log2; value lat */
	H2D_TRACE_HIST_INSIDE, /**< keys common_pid, outer (ns), ret */
};

/** Forget what histograms said; then give them all again. */
void h2d_trace_histograms_begin(struct h2d_trace_counts *c);
void h2d_trace_histogram(struct h2d_trace_counts *c, enum h2d_trace_histogram which,
			 const char *text);
/**
 * Count windows: outer calls that had -EBUSY inside, ended with -EAGAIN or -EBUSY, and lasted
 * half of `timeout_ms` or more: the kernel counts the timeout in jiffies, which a guest's clock
 * may not match, and without a window a restart comes at once. A long call that succeeds is
 * none: it retried and got on. After all histograms; may be repeated.
 */
void h2d_trace_windows(struct h2d_trace_counts *c, uint32_t timeout_ms);

/** Everything of all processes. */
void h2d_trace_total(const struct h2d_trace_counts *c, struct h2d_trace_process *total);

#endif
