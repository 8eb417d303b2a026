/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes that matter of amdgpu's functions, written for these tests: what is called, what
 * is compared, where loops go. Compiled to plain relocatable files; nothing is ever linked.
 * POLICY, FORM and RULE choose what is built; see synthetic.py.
 */
#ifndef H2D_TEST_DRIVER_H
#define H2D_TEST_DRIVER_H

typedef unsigned long ulong;
typedef unsigned long long u64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL		  ((void *)0)

#define EAGAIN		  11
#define ENOMEM		  12
#define EFAULT		  14
#define EBUSY		  16
#define EPERM		  1

#define PAGE_SHIFT	  12
#define SZ_2G		  0x80000000ul
#define HMM_PFN_REQ_FAULT (1ull << 63)
#define HMM_PFN_REQ_WRITE (1ull << 62)
#define VM_WRITE	  2ul
#define USERPTR_READONLY  1u
#define USERPTR_ANONONLY  2u

#define noinline	  __attribute__((noinline))
#define always_inline	  inline __attribute__((always_inline))
#define cold		  __attribute__((cold))
#define likely(x)	  __builtin_expect(!!(x), 1)
#define unlikely(x)	  __builtin_expect(!!(x), 0)
#define READ_ONCE(x)	  (*(const volatile __typeof__(x) *)&(x))
#define barrier()	  __asm__ volatile("" ::: "memory")

struct mm;
struct notifier {
	void *ops[2];
	struct mm *mm;
	ulong start, last, seq;
};

struct hmm_range {
	struct notifier *notifier;
	ulong seq, start, end;
	u64 *pfns;
	u64 default_flags, pfn_flags_mask;
	void *owner;
};

struct vma {
	ulong start, end;
	void *mm;
	ulong prot;
	ulong flags;
	void *file;
};

extern volatile ulong jiffies;
ulong __msecs_to_jiffies(unsigned ms);
int hmm_range_fault(struct hmm_range *range);
ulong mmu_interval_read_begin(struct notifier *n);
void *kmalloc_trace(ulong bytes, unsigned flags);
void *kvmalloc_node(ulong bytes, unsigned flags, int node);
void kfree(const void *p);
void kvfree(const void *p);
void down_read(void *sem);
void up_read(void *sem);
void mmput(struct mm *mm);
void *mtree_load(void *tree, ulong index);
struct vma *find_vma(struct mm *mm, ulong addr);
void __dynamic_pr_debug(void *descriptor, const char *format, ...);
void __drm_err(const char *format, ...);
int svm_range_reserve(void *range);
void svm_range_lock(void *range);
void svm_range_unlock(void *range);
int svm_range_map(void *range, struct hmm_range *hmm, ulong offset, ulong npages,
		  bool readonly);
bool retry_is_pending(struct hmm_range *range);

static inline bool time_after(ulong a, ulong b)
{
	return (long)(b - a) < 0;
}

#endif
