// SPDX-License-Identifier: GPL-2.0-only
/*
 * One COPY_SOURCE request: what svm_range_set_attr() and svm_range_validate_and_map() of KFD do
 * with a range of pageable memory, followed by what libhsakmt does with the result, which is to
 * issue the ioctl again for as long as it says -EAGAIN.
 *
 * Kept from there: the notifier is inserted under the mmap write lock and stays for all
 * attempts; the lock is then downgraded and held for the whole attempt; mappings are walked in
 * order, each with its own permission; an attempt ends at the first error; the sequence is
 * checked again under the callbacks' lock after the driver has returned. Left out: splitting of
 * ranges, eviction of queues, DMA mapping, GPU page tables.
 */
#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "internal.h"

static unsigned int event_index(enum mmu_notifier_event event)
{
	switch (event) {
	case MMU_NOTIFY_UNMAP:
		return H2D_HMM_EVENT_UNMAP;
	case MMU_NOTIFY_CLEAR:
		return H2D_HMM_EVENT_CLEAR;
	case MMU_NOTIFY_PROTECTION_VMA:
		return H2D_HMM_EVENT_PROTECTION_VMA;
	case MMU_NOTIFY_PROTECTION_PAGE:
		return H2D_HMM_EVENT_PROTECTION_PAGE;
	case MMU_NOTIFY_SOFT_DIRTY:
		return H2D_HMM_EVENT_SOFT_DIRTY;
	case MMU_NOTIFY_RELEASE:
		return H2D_HMM_EVENT_RELEASE;
	case MMU_NOTIFY_MIGRATE:
		return H2D_HMM_EVENT_MIGRATE;
	case MMU_NOTIFY_EXCLUSIVE:
		return H2D_HMM_EVENT_EXCLUSIVE;
	default:
		return H2D_HMM_EVENT_OTHER;
	}
}

static unsigned long span_of(unsigned long address)
{
	return address / H2D_HMM_SPAN_BYTES;
}

/* Note the spans that an event covers; called with the lock held. */
static void mark_spans(struct h2d_request *req, unsigned long start, unsigned long end)
{
	unsigned long span = span_of(start) - span_of(req->start);
	unsigned long last = span_of(end - 1) - span_of(req->start);

	for (; span <= last; span++)
		if (!__test_and_set_bit(span, req->span_map) && current == req->caller)
			req->own_spans++;
}

/* Never sleeps, so a caller that must not block is served like any other. */
static bool invalidate(struct mmu_interval_notifier *notifier,
		       const struct mmu_notifier_range *range, unsigned long sequence)
{
	struct h2d_request *req = container_of(notifier, struct h2d_request, notifier);
	unsigned long start = max(range->start, req->start);
	unsigned long end = min(range->end, req->end);

	spin_lock(&req->lock);
	mmu_interval_set_seq(notifier, sequence);
	req->io.callbacks++;
	req->io.callbacks_by_event[event_index(range->event)]++;
	if (current == req->caller)
		req->own_callback_ns = ktime_get_ns();
	else
		req->io.callbacks_foreign++;
	if (start < end) {
		req->io.callback_pages += (end - start) >> PAGE_SHIFT;
		mark_spans(req, start, end);
	}
	spin_unlock(&req->lock);
	return true;
}

unsigned long h2d_request_own_spans(struct h2d_request *req)
{
	unsigned long spans;

	spin_lock(&req->lock);
	spans = req->own_spans;
	spin_unlock(&req->lock);
	return spans;
}

static const struct mmu_interval_notifier_ops notifier_ops = {
	.invalidate = invalidate,
};

struct h2d_request *h2d_request_of(struct mmu_interval_notifier *notifier)
{
	if (!notifier || notifier->ops != &notifier_ops)
		return NULL;
	return container_of(notifier, struct h2d_request, notifier);
}

static void count_pfns(struct h2d_request *req, const unsigned long *pfns, unsigned long npages)
{
	unsigned long i;

	for (i = 0; i < npages; i++) {
		if (pfns[i] & HMM_PFN_VALID)
			req->io.pfns_valid++;
		if (pfns[i] & HMM_PFN_WRITE)
			req->io.pfns_writable++;
	}
}

/* Holes and mappings of devices are refused before anything is faulted, as KFD refuses them. */
static int check_mappings(struct h2d_request *req, struct mm_struct *mm)
{
	unsigned long addr = req->start;
	struct vm_area_struct *vma;

	while (addr < req->end) {
		vma = vma_lookup(mm, addr);
		if (!vma || vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP))
			return -EFAULT;
		addr = vma->vm_end;
	}
	return 0;
}

/*
 * The shipped driver, whose calls a probe may be counting. A retry loop that is left with
 * -EAGAIN after more than one -EBUSY has been left because its time was up.
 */
static int call_shipped(struct h2d_request *req, unsigned long addr, unsigned long npages,
			bool readonly, struct h2d_pages *pages)
{
	unsigned long spans = h2d_request_own_spans(req);
	u64 ebusy = req->io.fault_ebusy;
	int err;

	err = h2d_shipped_get_pages(req, addr, npages, readonly, pages);
	if ((err == -EAGAIN || err == -EBUSY) && req->io.fault_ebusy - ebusy > 1 &&
	    h2d_request_own_spans(req) - spans <= 1)
		req->io.windows++;
	return err;
}

/* One mapping, or the part of it that lies in the range. */
static int take_piece(struct h2d_request *req, unsigned long addr, unsigned long next,
		      bool readonly)
{
	unsigned long npages = (next - addr) >> PAGE_SHIFT;
	struct h2d_pages pages = {};
	int err;

	req->io.mappings++;
	req->io.driver_calls++;
	if (req->io.driver == H2D_HMM_DRIVER_SHIPPED)
		err = call_shipped(req, addr, npages, readonly, &pages);
	else
		err = h2d_emulated_get_pages(req, addr, npages, readonly, &pages);
	if (err)
		return err;

	count_pfns(req, pages.pfns, npages);
	spin_lock(&req->lock);
	if (mmu_interval_read_retry(&req->notifier, pages.sequence))
		err = -EAGAIN;
	spin_unlock(&req->lock);
	if (err)
		req->io.restarts_revalidated++;
	h2d_pages_free(&pages);
	return err;
}

/* Called and left with the mmap lock held for reading. */
static int take_range(struct h2d_request *req, struct mm_struct *mm)
{
	unsigned long addr = req->start;
	int err;

	req->io.mappings = 0;
	req->io.pfns_valid = 0;
	req->io.pfns_writable = 0;

	err = check_mappings(req, mm);
	while (!err && addr < req->end) {
		struct vm_area_struct *vma = vma_lookup(mm, addr);
		unsigned long next;
		bool readonly;

		if (!vma)
			return -EFAULT;
		next = min(vma->vm_end, req->end);
		if (req->io.permission == H2D_HMM_PERMISSION_VMA)
			readonly = !(vma->vm_flags & VM_WRITE);
		else
			readonly = req->io.access != H2D_HMM_ACCESS_WRITE;
		err = take_piece(req, addr, next, readonly);
		addr = next;
	}
	return err;
}

/* The mmap lock for reading, and at first also the notifier; -EINTR leaves neither. */
static int lock_range(struct h2d_request *req, struct mm_struct *mm)
{
	int err;

	if (req->inserted)
		return mmap_read_lock_killable(mm);

	err = mmap_write_lock_killable(mm);
	if (err)
		return err;
	err = mmu_interval_notifier_insert_locked(&req->notifier, mm, req->start,
						  req->end - req->start, &notifier_ops);
	if (err) {
		mmap_write_unlock(mm);
		return err;
	}
	req->inserted = true;
	mmap_write_downgrade(mm);
	return 0;
}

/* What an attempt is measured by, at one moment. */
struct moment {
	u64 ns;
	u64 callbacks;
	u64 windows;
	u64 own_callback_ns;
	unsigned long own_spans;
};

static struct moment now(struct h2d_request *req)
{
	struct moment m = {.ns = ktime_get_ns(), .windows = req->io.windows};

	spin_lock(&req->lock);
	m.callbacks = req->io.callbacks;
	m.own_callback_ns = req->own_callback_ns;
	m.own_spans = req->own_spans;
	spin_unlock(&req->lock);
	return m;
}

static void log_attempt(struct h2d_request *req, const struct moment *began, int code)
{
	struct moment end = now(req);
	struct h2d_hmm_attempt entry = {
		.elapsed_ns = end.ns - began->ns,
		.idle_ns = end.ns - max(end.own_callback_ns, began->ns),
		.callbacks = end.callbacks - began->callbacks,
		.return_code = code,
		.windows = end.windows - began->windows,
		.spans_new = end.own_spans - began->own_spans,
	};

	if (req->io.attempt_log_count < req->io.attempt_log_capacity)
		req->log[req->io.attempt_log_count++] = entry;
}

/* Returns 0 with *code set, or an error that ends the request without a result. */
static int attempt(struct h2d_request *req, struct h2d_file *file, int *code)
{
	struct mm_struct *mm = current->mm;
	struct moment began;
	int err;

	err = mutex_lock_killable(&file->attempt_lock);
	if (err)
		return err;
	err = lock_range(req, mm);
	if (err)
		goto out;

	began = now(req);
	*code = take_range(req, mm);
	log_attempt(req, &began, *code);
	mmap_read_unlock(mm);
out:
	mutex_unlock(&file->attempt_lock);
	return err;
}

static int attempts(struct h2d_request *req, struct h2d_file *file)
{
	int code, err;

	for (;;) {
		err = attempt(req, file, &code);
		if (err)
			return err;
		req->io.last_code = code;
		if (code != -EAGAIN && code != -EBUSY)
			return code == -EINTR ? code : 0;
		/* Here the driver's ioctl has returned: signals are seen, others may run. */
		if (signal_pending(current))
			return -EINTR;
		if (req->io.restarts == req->io.restart_max) {
			req->io.ended |= H2D_HMM_ENDED_RESTART_MAX;
			return 0;
		}
		req->io.restarts++;
		cond_resched();
	}
}

int h2d_request_run(struct h2d_request *req, struct h2d_file *file)
{
	bool emulated = req->io.driver == H2D_HMM_DRIVER_EMULATED;
	u64 began = ktime_get_ns();
	int missed = h2d_count_missed();
	int err;

	err = attempts(req, file);
	if (err == -EINTR)
		req->io.ended |= H2D_HMM_ENDED_SIGNAL;

	/* Waits for callbacks under way; needs no lock, and none may be held. */
	if (req->inserted)
		mmu_interval_notifier_remove(&req->notifier);

	req->io.elapsed_ns = ktime_get_ns() - began;
	if (emulated || (h2d_count_active() && missed == h2d_count_missed()))
		req->io.valid = H2D_HMM_VALID_FAULT_CALLS | H2D_HMM_VALID_WINDOWS;
	req->io.spans_touched = span_of(req->end - 1) - span_of(req->start) + 1;
	req->io.spans_invalidated = bitmap_weight(req->span_map, req->io.spans_touched);
	return err;
}
