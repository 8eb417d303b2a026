/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

/* Policies. Those from 10 on are no policy of any kernel: the answer must be unknown. */
#define REFRESH	     1
#define STALE	     2
#define NO_RETRY     3
#define NO_CLOCK     10 /* stale, for ever */
#define ALL_ERRORS   11 /* retries whatever the error is */
#define EVERY_SECOND 12 /* reads the number again every second time */
#define THROWN_AWAY  13 /* reads it again and drops it */
#define POINTER	     14 /* calls through a pointer where the retry would be */
#define OTHER_ERROR  15 /* retries -EPERM instead */

/* Forms. */
#define PLAIN	  1
#define HELPER	  2 /* the fault is in a function of its own */
#define BOTH	  3 /* number and fault are in a function of their own */
#define CHUNKS	  4 /* 2 GiB at a time, as since 6.2 */
#define LOCKED	  5 /* takes the lock itself unless told otherwise, as in 6.1 */
#define OUTLINED  6 /* the test for a retry is in a function of its own */
#define GOTO_COLD 7 /* the retry is unlikely, so that it is moved away */
#define STEPS	  8 /* a timeout by the size of the range */

#ifndef NAME
#define NAME amdgpu_hmm_range_get_pages
#endif
#ifndef STORAGE
#define STORAGE
#endif

#if POLICY == NO_CLOCK
#define EXPIRED(t) false
#else
#define EXPIRED(t) time_after(jiffies, t)
#endif

static noinline int fault_once(struct hmm_range *range)
{
	int r = hmm_range_fault(range);

	barrier();
	return r;
}

static noinline int begin_and_fault(struct hmm_range *range)
{
	range->seq = mmu_interval_read_begin(range->notifier);
	return hmm_range_fault(range);
}

static noinline bool wants_retry(int r, ulong timeout)
{
	return r == -EBUSY && !time_after(jiffies, timeout);
}

static noinline cold void complain(int r)
{
	__drm_err("hmm_range_fault: %d\n", r);
}

static inline int do_fault(struct hmm_range *range, struct mm *mm, bool locked)
{
	int r;

#if FORM == HELPER
	return fault_once(range);
#elif FORM == LOCKED
	if (likely(!locked))
		down_read((char *)mm + 0x70);
	r = hmm_range_fault(range);
	if (likely(!locked))
		up_read((char *)mm + 0x70);
	return r;
#endif
	(void)mm;
	(void)locked;
	r = hmm_range_fault(range);
	return r;
}

static inline bool again(int r, ulong timeout, struct hmm_range *range, unsigned *turn)
{
	(void)range;
	(void)turn;
#if POLICY == NO_RETRY
	return false;
#elif POLICY == ALL_ERRORS
	return !EXPIRED(timeout);
#elif POLICY == OTHER_ERROR
	return r == -EPERM && !EXPIRED(timeout);
#elif POLICY == POINTER
	return r == -EBUSY && ((bool (*)(int))range->owner)(r);
#elif FORM == OUTLINED
	return wants_retry(r, timeout);
#elif FORM == GOTO_COLD
	return unlikely(r == -EBUSY) && !EXPIRED(timeout);
#else
	return r == -EBUSY && !EXPIRED(timeout);
#endif
}

static inline void renew(struct hmm_range *range, unsigned *turn)
{
#if POLICY == REFRESH || POLICY == ALL_ERRORS || POLICY == OTHER_ERROR || POLICY == POINTER
	range->seq = mmu_interval_read_begin(range->notifier);
#elif POLICY == EVERY_SECOND
	if (++*turn & 1)
		range->seq = mmu_interval_read_begin(range->notifier);
#elif POLICY == THROWN_AWAY
	mmu_interval_read_begin(range->notifier);
#endif
	(void)range;
	(void)turn;
}

static inline ulong deadline(ulong npages)
{
#if FORM == STEPS
	ulong steps = npages >> 17;

	return jiffies + __msecs_to_jiffies(1000u * (unsigned)(steps ? steps : 1));
#else
	(void)npages;
	return jiffies + 250;
#endif
}

STORAGE int NAME(struct notifier *notifier, ulong start, u64 npages, bool readonly, void *owner,
		 void **pages, struct hmm_range **out)
{
	struct hmm_range *range;
	ulong timeout, end;
	unsigned turn = 0;
	u64 *pfns;
	int r = 0;

	range = kmalloc_trace(sizeof(*range), 0xdc0);
	if (unlikely(!range))
		return -ENOMEM;
	pfns = kvmalloc_node(npages * sizeof(*pfns), 0xcc0, -1);
	if (unlikely(!pfns)) {
		r = -ENOMEM;
		goto out_range;
	}
	range->notifier = notifier;
	range->default_flags = HMM_PFN_REQ_FAULT;
	if (!readonly)
		range->default_flags |= HMM_PFN_REQ_WRITE;
	range->pfns = pfns;
	range->start = start;
	end = start + npages * 4096;
	range->owner = owner;
#if POLICY == STALE || POLICY == NO_RETRY || POLICY == NO_CLOCK || POLICY == EVERY_SECOND ||   \
	POLICY == THROWN_AWAY
	range->seq = mmu_interval_read_begin(notifier);
#endif
	do {
#if FORM == CHUNKS
		range->end = range->start + SZ_2G < end ? range->start + SZ_2G : end;
#else
		range->end = end;
#endif
		timeout = deadline(npages);
	retry:
#if FORM == BOTH && POLICY == REFRESH
		r = begin_and_fault(range);
#else
		renew(range, &turn);
		r = do_fault(range, notifier->mm, owner == notifier);
#endif
		if (unlikely(r)) {
			if (again(r, timeout, range, &turn))
				goto retry;
			goto out_pfns;
		}
		if (range->end == end)
			break;
		range->pfns += SZ_2G >> PAGE_SHIFT;
		range->start = range->end;
	} while (range->start < end);
	range->start = start;
	range->pfns = pfns;
	for (u64 i = 0; pages && i < npages; i++)
		pages[i] = (void *)(pfns[i] << 6);
	*out = range;
	return 0;

out_pfns:
	if (FORM == GOTO_COLD)
		complain(r);
	kvfree(pfns);
out_range:
	kfree(range);
#ifndef RAW_ERROR
	if (r == -EBUSY)
		r = -EAGAIN;
#endif
	return r;
}

#ifdef SECOND
/* The whole again under another name, with another policy where that is asked. */
int another_get_pages(struct notifier *notifier, struct hmm_range *range)
{
	ulong timeout = jiffies + 250;
	int r;

	range->seq = mmu_interval_read_begin(notifier);
	do {
		if (SECOND == REFRESH)
			range->seq = mmu_interval_read_begin(notifier);
		r = hmm_range_fault(range);
	} while (r == -EBUSY && !time_after(jiffies, timeout));
	return r == -EBUSY ? -EAGAIN : r;
}
#endif

#ifndef NO_CALLERS

/* Rules of the callers. */
#define BY_VMA	     1
#define BY_ACCESS    2
#define ALWAYS_WRITE 3
#define BY_BOTH	     4 /* a mapping that is writable, or what was asked for */
#define BY_OTHER_BIT 5

struct prange {
	struct notifier notifier;
	ulong start, last;
	unsigned flags;
	void *mm;
};

#ifdef RULE_IN_HELPER
#define RULE_STORAGE static noinline
#else
#define RULE_STORAGE static always_inline
#endif

RULE_STORAGE bool svm_readonly(struct vma *vma, struct prange *p)
{
	(void)p;
#if SVM_RULE == BY_VMA
	return !(vma->flags & VM_WRITE);
#elif SVM_RULE == BY_ACCESS
	return p->flags & 1;
#elif SVM_RULE == ALWAYS_WRITE
	return false;
#elif SVM_RULE == BY_BOTH
	return !(vma->flags & VM_WRITE) || (p->flags & 4);
#else
	return !(vma->flags & 4);
#endif
}

noinline int svm_range_validate_and_map(struct mm *mm, struct prange *p, bool intr)
{
	struct hmm_range *range = NULL;
	ulong addr = p->start << PAGE_SHIFT, end = (p->last + 1) << PAGE_SHIFT;
	struct {
		void *bos[24];
		ulong count;
	} ctx = {0};
	int r = svm_range_reserve(&ctx);

	while (!r && addr < end) {
		struct vma *vma =
			USE_FIND_VMA ? find_vma(mm, addr) : mtree_load((char *)mm + 0x40, addr);
		bool readonly = false;
		ulong next, npages;

		if (vma) {
			readonly = svm_readonly(vma, p);
			next = vma->end < end ? vma->end : end;
			npages = (next - addr) >> PAGE_SHIFT;
			r = NAME(&p->notifier, addr, npages, readonly, p, NULL, &range);
			if (r)
				__dynamic_pr_debug(p, "failed %d to get svm range pages\n", r);
		} else {
			r = -EFAULT;
			next = addr;
			npages = 0;
		}
		if (!r) {
			svm_range_lock(p);
			r = svm_range_map(&ctx, range, (addr >> PAGE_SHIFT) - p->start, npages,
					  readonly);
			svm_range_unlock(p);
		}
		addr = next;
	}
	return r;
}

struct ttm {
	void *pages;
	unsigned page_flags, num_pages;
	char more[48];
	ulong userptr;
	void *task;
	unsigned userflags;
};

int amdgpu_ttm_tt_get_user_pages(char *bo, void **pages, struct hmm_range **range)
{
	struct ttm *gtt = *(struct ttm **)(bo + 0x1d0);
	struct mm *mm = *(struct mm **)(bo + 0x288);
	ulong start = gtt->userptr;
	struct vma *vma;
	bool readonly;
	int r;

	*range = NULL;
	if (unlikely(!mm))
		return -EFAULT;
	down_read((char *)mm + 0xa8);
	vma = mtree_load((char *)mm + 0x40, start);
	if (unlikely(!vma)) {
		r = -EFAULT;
		goto out;
	}
	if (unlikely((gtt->userflags & USERPTR_ANONONLY) && vma->file)) {
		r = -EPERM;
		goto out;
	}
#if USERPTR_RULE == BY_VMA
	readonly = !(vma->flags & VM_WRITE);
#elif USERPTR_RULE == ALWAYS_WRITE
	readonly = false;
#else
	readonly = gtt && (gtt->userflags & USERPTR_READONLY);
#endif
	r = NAME((struct notifier *)(bo + 0x250), start, gtt->num_pages, readonly, NULL, pages,
		 range);
out:
	up_read((char *)mm + 0xa8);
	if (r)
		__dynamic_pr_debug(bo, "failed %d to get user pages 0x%lx\n", r, start);
	mmput(mm);
	return r;
}
#endif
