/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the files of the h2d_hmm module. */
#ifndef H2D_HMM_INTERNAL_H
#define H2D_HMM_INTERNAL_H

#include <linux/hmm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

#include "uapi/h2d_hmm.h"

/* One open file. KFD lets one ioctl per process validate ranges at a time. */
struct h2d_file {
	struct mutex attempt_lock;
};

/**
 * struct h2d_request - one COPY_SOURCE request; lives for one ioctl
 * @notifier: covers the whole range, from the first attempt to the end
 * @lock: guards the sequence number and the counters that callbacks write
 * @io: the user's structure, checked; its (out) fields are the counters
 * @caller: the thread that made the request
 * @start: first byte of the range
 * @end: first byte after it
 * @timeout: jiffies of the emulated driver's timeout
 * @span_map: one bit per span that met a callback
 * @own_spans: bits that callbacks from the caller's own faults have set in it
 * @own_callback_ns: time of the last callback from the caller's own faults
 * @log: attempts, in.attempt_log_capacity entries, or NULL
 * @inserted: the notifier is in the interval tree
 */
struct h2d_request {
	struct mmu_interval_notifier notifier;
	spinlock_t lock;
	struct h2d_hmm_copy_source io;
	struct task_struct *caller;
	unsigned long start;
	unsigned long end;
	unsigned long timeout;
	unsigned long *span_map;
	unsigned long own_spans;
	u64 own_callback_ns;
	struct h2d_hmm_attempt *log;
	bool inserted;
};

/**
 * struct h2d_pages - what a driver call hands back on success
 * @sequence: notifier sequence under which the pages were resolved
 * @pfns: one entry per page
 * @range: the driver's own range structure, or NULL
 *
 * Released by h2d_pages_free(); all NULL after a failed call.
 */
struct h2d_pages {
	unsigned long sequence;
	unsigned long *pfns;
	void *range;
};

/**
 * h2d_emulated_get_pages - the three retry policies, written after the driver
 * @req: the request; its policy and timeout are used, its fault counters advance
 * @start: first byte of the piece
 * @npages: pages of the piece, all in one mapping
 * @readonly: do not ask for write access
 * @pages: (out) filled on success
 *
 * Context: process context, mmap lock of current->mm held for reading.
 * Return: 0, -EAGAIN (restart), -EINTR (fatal signal), -ENOMEM, or hmm_range_fault()'s error.
 */
int h2d_emulated_get_pages(struct h2d_request *req, unsigned long start, unsigned long npages,
			   bool readonly, struct h2d_pages *pages);

/**
 * h2d_shipped_get_pages - call the loaded amdgpu's own function
 *
 * Parameters and context as h2d_emulated_get_pages(); only if h2d_shipped_ready().
 * Return: the driver's return code.
 */
int h2d_shipped_get_pages(struct h2d_request *req, unsigned long start, unsigned long npages,
			  bool readonly, struct h2d_pages *pages);

/* Find the driver's function and hold its module. Always succeeds: the query tells the state.
 */
void h2d_shipped_init(int signature);
void h2d_shipped_exit(void);
bool h2d_shipped_ready(void);
void h2d_shipped_describe(struct h2d_hmm_query *query);

/*
 * Counting of the shipped driver's calls. Init returns 0 or the errno of the probe; missed is
 * how many calls the probe could not take, ever.
 */
int h2d_count_init(bool wanted);
void h2d_count_exit(void);
bool h2d_count_active(void);
int h2d_count_missed(void);

/* The present value of own_spans. */
unsigned long h2d_request_own_spans(struct h2d_request *req);

/* The request that a notifier belongs to; NULL for those of others. */
struct h2d_request *h2d_request_of(struct mmu_interval_notifier *notifier);

/**
 * h2d_request_run - carry out a checked request
 * @req: with io, span_map and log set; freed by the caller
 * @file: the open file, for its lock
 *
 * Return: 0 when (out) fields are complete, -EINTR likewise but ended by a signal, -ENOMEM or
 * -EINTR from inserting the notifier.
 */
int h2d_request_run(struct h2d_request *req, struct h2d_file *file);

static inline void h2d_pages_free(struct h2d_pages *pages)
{
	kvfree(pages->pfns);
	kfree(pages->range);
	pages->pfns = NULL;
	pages->range = NULL;
}

#endif
