// SPDX-License-Identifier: GPL-2.0-only
/*
 * The retry policies of amdgpu_hmm_range_get_pages(), written anew so that they can be run on
 * kernels that ship no amdgpu, and compared with those that do:
 *
 * refresh   before c08972f55594: the notifier sequence is read in front of every call.
 * stale     c08972f55594 alone: it is read once, yet the loop runs for the whole timeout.
 * no_retry  342981fff328: no loop; -EBUSY leaves at once.
 *
 * Like the driver, the loop does not schedule: hmm_range_fault() sees the moved sequence number
 * before it walks anything, so one window is a pure spin under the mmap lock. Unlike the driver
 * it looks for a fatal signal.
 */
#include <linux/hmm.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>

#include "internal.h"

#if !IS_ENABLED(CONFIG_HMM_MIRROR)
#error "this kernel is configured without HMM_MIRROR"
#endif

/* One call of hmm_range_fault() with its retries, for at most 2 GiB. */
static int fault_chunk(struct h2d_request *req, struct hmm_range *range)
{
	unsigned long deadline = jiffies + req->timeout;
	unsigned long spans = h2d_request_own_spans(req);
	int err;

	for (;;) {
		if (req->io.policy == H2D_HMM_POLICY_REFRESH)
			range->notifier_seq = mmu_interval_read_begin(range->notifier);

		err = hmm_range_fault(range);
		req->io.fault_calls++;
		if (err != -EBUSY)
			return err;
		req->io.fault_ebusy++;

		if (req->io.policy == H2D_HMM_POLICY_NO_RETRY)
			return err;
		if (time_after(jiffies, deadline)) {
			/* More than one span: nothing is stuck, the machine is slow. */
			if (h2d_request_own_spans(req) - spans <= 1)
				req->io.windows++;
			return err;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
	}
}

int h2d_emulated_get_pages(struct h2d_request *req, unsigned long start, unsigned long npages,
			   bool readonly, struct h2d_pages *pages)
{
	unsigned long end = start + npages * PAGE_SIZE;
	struct hmm_range range = {
		.notifier = &req->notifier,
		.default_flags = HMM_PFN_REQ_FAULT | (readonly ? 0 : HMM_PFN_REQ_WRITE),
		.start = start,
	};
	unsigned long *pfns;
	int err;

	/* Zeroed: since Linux 6.16 hmm_range_fault() keeps some bits of the old entries. */
	pfns = kvcalloc(npages, sizeof(*pfns), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pfns)
		return -ENOMEM;

	range.hmm_pfns = pfns;
	range.notifier_seq = mmu_interval_read_begin(range.notifier);
	for (;;) {
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			goto out;
		}
		range.end = min(range.start + SZ_2G, end);
		err = fault_chunk(req, &range);
		if (err)
			goto out;
		if (range.end == end)
			break;
		range.hmm_pfns += SZ_2G >> PAGE_SHIFT;
		range.start = range.end;
	}
	pages->pfns = pfns;
	pages->sequence = range.notifier_seq;
	pfns = NULL;
out:
	kvfree(pfns);
	return err == -EBUSY ? -EAGAIN : err;
}
