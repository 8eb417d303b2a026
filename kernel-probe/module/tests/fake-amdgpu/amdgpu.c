// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fake amdgpu: a module of that name with nothing but amdgpu_hmm_range_get_pages(), under any
 * of the prototypes that h2d_hmm knows and any retry policy. It stands in for the drivers that
 * no kernel at hand ships, so that h2d_hmm's calls to them, and what it frees afterwards, can
 * be run. It says nothing about a real driver.
 */
#include <linux/hmm.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/slab.h>

static char *policy = "stale";
module_param(policy, charp, 0444);
MODULE_PARM_DESC(policy, "refresh, stale or no_retry");

static bool dangling;
module_param(dangling, bool, 0444);
MODULE_PARM_DESC(dangling, "leave the freed pfns in the range after a failure");

struct amdgpu_bo;

struct amdgpu_hmm_range {
	struct hmm_range hmm_range;
	struct amdgpu_bo *bo;
};

static int resolve(struct mmu_interval_notifier *notifier, u64 start, u64 npages, bool readonly,
		   void *owner, struct hmm_range *range)
{
	unsigned long deadline = jiffies + msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
	unsigned long *pfns = kvcalloc(npages, sizeof(*pfns), GFP_KERNEL);
	int err;

	if (!pfns)
		return -ENOMEM;
	range->notifier = notifier;
	range->start = start;
	range->end = start + npages * PAGE_SIZE;
	range->hmm_pfns = pfns;
	range->default_flags = HMM_PFN_REQ_FAULT | (readonly ? 0 : HMM_PFN_REQ_WRITE);
	range->dev_private_owner = owner;
	range->notifier_seq = mmu_interval_read_begin(notifier);
	while ((err = hmm_range_fault(range)) == -EBUSY) {
		if (!strcmp(policy, "no_retry") || time_after(jiffies, deadline))
			break;
		if (!strcmp(policy, "refresh"))
			range->notifier_seq = mmu_interval_read_begin(notifier);
	}
	if (!err)
		return 0;
	kvfree(pfns);
	if (!dangling)
		range->hmm_pfns = NULL;
	return err == -EBUSY ? -EAGAIN : err;
}

#if FAKE_SIGNATURE == 2
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, uint64_t start,
			       uint64_t npages, bool readonly, void *owner,
			       struct amdgpu_hmm_range *range);
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, uint64_t start,
			       uint64_t npages, bool readonly, void *owner,
			       struct amdgpu_hmm_range *range)
{
	return resolve(notifier, start, npages, readonly, owner, &range->hmm_range);
}
#else
static int resolve_new(struct mmu_interval_notifier *notifier, u64 start, u64 npages,
		       bool readonly, void *owner, struct hmm_range **out)
{
	struct hmm_range *range = kzalloc(sizeof(*range), GFP_KERNEL);
	int err = range ? resolve(notifier, start, npages, readonly, owner, range) : -ENOMEM;

	if (err)
		kfree(range);
	else
		*out = range;
	return err;
}

#if FAKE_SIGNATURE == 1
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, uint64_t start,
			       uint64_t npages, bool readonly, void *owner, struct page **pages,
			       struct hmm_range **out);
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, uint64_t start,
			       uint64_t npages, bool readonly, void *owner, struct page **pages,
			       struct hmm_range **out)
{
	return pages ? -EINVAL : resolve_new(notifier, start, npages, readonly, owner, out);
}
#else
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, struct mm_struct *mm,
			       struct page **pages, uint64_t start, uint64_t npages,
			       struct hmm_range **out, bool readonly, bool mmap_locked,
			       void *owner);
int amdgpu_hmm_range_get_pages(struct mmu_interval_notifier *notifier, struct mm_struct *mm,
			       struct page **pages, uint64_t start, uint64_t npages,
			       struct hmm_range **out, bool readonly, bool mmap_locked,
			       void *owner)
{
	if (pages || mm != current->mm || !mmap_locked)
		return -EINVAL;
	return resolve_new(notifier, start, npages, readonly, owner, out);
}
#endif
#endif

/* Nobody calls it by name: keep it. */
static void *const keep __used = amdgpu_hmm_range_get_pages;

static int __init fake_init(void)
{
	return 0;
}

static void __exit fake_exit(void)
{
}

module_init(fake_init);
module_exit(fake_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("fake amdgpu, for the tests of h2d_hmm");
