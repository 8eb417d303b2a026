/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The interface of /dev/h2d_hmm, shared by the kernel module and user space (plain C11).
 *
 * The module treats a range of the caller's own memory as the AMD driver treats the source of a
 * copy (svm_range_validate_and_map() in drivers/gpu/drm/amd/amdkfd/kfd_svm.c), counts what
 * happens, and copies nothing. Version 1, since h2d 0.1.
 *
 * Rules for both structures: `size` is sizeof() of the structure and is compared exactly,
 * `abi_version` must be H2D_HMM_ABI_VERSION, fields marked (in) are read and left alone, fields
 * marked (out) are ignored on entry and overwritten, reserved fields must be zero. The value 0
 * of every enumeration is invalid, so that a field which was never set is refused.
 */
#ifndef H2D_HMM_UAPI_H
#define H2D_HMM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define H2D_HMM_DEVICE_PATH "/dev/h2d_hmm"
#define H2D_HMM_MODULE_NAME "h2d_hmm"
#define H2D_HMM_ABI_VERSION 1

/* Limits, the same for every build of version 1. */
#define H2D_HMM_LENGTH_MAX	(1ULL << 36) /* bytes of one request */
#define H2D_HMM_TIMEOUT_MS_MAX	10000	     /* see timeout_ms */
#define H2D_HMM_RESTART_MAX	1000000	     /* see restart_max */
#define H2D_HMM_ATTEMPT_LOG_MAX 65536	     /* entries, see attempt_log */
#define H2D_HMM_SPAN_BYTES	(1ULL << 21) /* one PMD range */

/**
 * enum h2d_hmm_signature - prototype of amdgpu_hmm_range_get_pages()
 *
 * The value of the module parameter `signature`. User space takes it from the BTF of the
 * amdgpu module; it never changes while the module is loaded. The prototypes in words:
 *
 * @H2D_HMM_SIGNATURE_NONE: not resolved, or unknown; the shipped driver cannot be called.
 * @H2D_HMM_SIGNATURE_MM: (notifier, mm, pages, start, npages, hmm_range **, readonly,
 *	mmap_locked, owner); Linux 6.1.
 * @H2D_HMM_SIGNATURE_PAGES: (notifier, start, npages, readonly, owner, pages, hmm_range **);
 *	Linux 6.2 and later.
 * @H2D_HMM_SIGNATURE_RANGE: (notifier, start, npages, readonly, owner, amdgpu_hmm_range *), the
 *	caller owns the last; since late 2025.
 */
enum h2d_hmm_signature {
	H2D_HMM_SIGNATURE_NONE = -1,
	H2D_HMM_SIGNATURE_MM = 0,
	H2D_HMM_SIGNATURE_PAGES = 1,
	H2D_HMM_SIGNATURE_RANGE = 2,
};

/* Features compiled into the module, or switched on when it was loaded. */
#define H2D_HMM_FEATURE_EMULATED	(1ULL << 0) /* all three policies */
#define H2D_HMM_FEATURE_SIGNATURE_MM	(1ULL << 1)
#define H2D_HMM_FEATURE_SIGNATURE_PAGES (1ULL << 2)
#define H2D_HMM_FEATURE_SIGNATURE_RANGE (1ULL << 3)
#define H2D_HMM_FEATURE_COUNT_CALLS                                                            \
	(1ULL << 4) /* a probe counts the shipped driver's calls                               \
		     */

/**
 * enum h2d_hmm_driver_state - can the shipped driver be called?
 * @H2D_HMM_DRIVER_READY: address found, prototype known, module held.
 * @H2D_HMM_DRIVER_ABSENT: no amdgpu module was loaded when this module was.
 * @H2D_HMM_DRIVER_NO_SIGNATURE: amdgpu is there, but no prototype was given.
 * @H2D_HMM_DRIVER_NO_SYMBOL: amdgpu is there without the function, or the function is not its
 * own.
 */
enum h2d_hmm_driver_state {
	H2D_HMM_DRIVER_READY = 1,
	H2D_HMM_DRIVER_ABSENT = 2,
	H2D_HMM_DRIVER_NO_SIGNATURE = 3,
	H2D_HMM_DRIVER_NO_SYMBOL = 4,
};

/**
 * struct h2d_hmm_query - what this module is and what it found
 * @size: (in) sizeof(struct h2d_hmm_query)
 * @abi_version: (in) H2D_HMM_ABI_VERSION
 * @features: (out) H2D_HMM_FEATURE_*
 * @driver_state: (out) enum h2d_hmm_driver_state
 * @signature: (out) enum h2d_hmm_signature in use
 * @amdgpu_present: (out) 1 if an amdgpu module was loaded when this module was, else 0
 * @hz: (out) CONFIG_HZ of the running kernel
 * @default_timeout_ms: (out) HMM_RANGE_DEFAULT_TIMEOUT of the kernel's headers
 * @page_bytes: (out) PAGE_SIZE
 * @driver_error: (out) 0, or the negative errno met while the driver was looked for
 * @reserved: (in) must be zero, comes back unchanged
 */
struct h2d_hmm_query {
	__u32 size;
	__u32 abi_version;
	__u64 features;
	__u32 driver_state;
	__s32 signature;
	__u32 amdgpu_present;
	__u32 hz;
	__u32 default_timeout_ms;
	__u32 page_bytes;
	__s32 driver_error;
	__u32 reserved[13];
};

/* Who resolves the pages. */
enum h2d_hmm_driver {
	H2D_HMM_DRIVER_EMULATED = 1, /* this module's own copy of the three policies */
	H2D_HMM_DRIVER_SHIPPED = 2,  /* amdgpu_hmm_range_get_pages() of the loaded amdgpu */
};

/* Retry policy of the emulated driver; must be H2D_HMM_POLICY_NONE for the shipped one. */
enum h2d_hmm_policy {
	H2D_HMM_POLICY_REFRESH = 1,  /* sequence read again for every retry */
	H2D_HMM_POLICY_STALE = 2,    /* sequence read once, retried until the timeout */
	H2D_HMM_POLICY_NO_RETRY = 3, /* sequence read once, no retry */
	H2D_HMM_POLICY_NONE = 4,     /* the shipped driver has its own */
};

/* How the caller of the driver decides whether write access is asked for. */
enum h2d_hmm_permission {
	H2D_HMM_PERMISSION_VMA = 1,    /* asked when the mapping is writable, as KFD does */
	H2D_HMM_PERMISSION_ACCESS = 2, /* asked when `access` says so */
};

/* What the device is going to do; used under H2D_HMM_PERMISSION_ACCESS, always checked. */
enum h2d_hmm_access {
	H2D_HMM_ACCESS_READ = 1,
	H2D_HMM_ACCESS_WRITE = 2,
};

/* Kinds of notifier events, as enum mmu_notifier_event; index of callbacks_by_event. */
enum h2d_hmm_event {
	H2D_HMM_EVENT_UNMAP = 0,
	H2D_HMM_EVENT_CLEAR = 1,
	H2D_HMM_EVENT_PROTECTION_VMA = 2,
	H2D_HMM_EVENT_PROTECTION_PAGE = 3,
	H2D_HMM_EVENT_SOFT_DIRTY = 4,
	H2D_HMM_EVENT_RELEASE = 5,
	H2D_HMM_EVENT_MIGRATE = 6,
	H2D_HMM_EVENT_EXCLUSIVE = 7,
	H2D_HMM_EVENT_OTHER = 8,
	H2D_HMM_EVENT_COUNT = 9,
};

/**
 * struct h2d_hmm_attempt - one pass over the whole range
 * @elapsed_ns: (out) time in the pass, without waiting for locks
 * @idle_ns: (out) the end of it, after the last callback that the caller's own faults caused
 *	(all of it when there was none). A window is idle for about the driver's timeout; a slow
 *	machine is not.
 * @callbacks: (out) notifier callbacks during the pass
 * @return_code: (out) 0, -EAGAIN or -EBUSY for a restart, or another negative errno
 * @windows: (out) windows in the pass; 0 where H2D_HMM_VALID_WINDOWS is not set
 * @spans_new: (out) spans in which the caller's own faults caused the first callbacks of the
 *	request; at most 1 in a window
 * @reserved: (out) zero
 */
struct h2d_hmm_attempt {
	__u64 elapsed_ns;
	__u64 idle_ns;
	__u64 callbacks;
	__s32 return_code;
	__u32 windows;
	__u32 spans_new;
	__u32 reserved;
};

/* Bits of `valid`: which counters could be counted in this request. */
#define H2D_HMM_VALID_FAULT_CALLS (1U << 0) /* fault_calls, fault_ebusy */
#define H2D_HMM_VALID_WINDOWS	  (1U << 1) /* windows, also in the log */

/* Bits of `ended`: why the request ended early; 0 when the last attempt was final. */
#define H2D_HMM_ENDED_RESTART_MAX (1U << 0)
#define H2D_HMM_ENDED_SIGNAL	  (1U << 1)

/**
 * struct h2d_hmm_copy_source - take a range through the driver as the source of a copy
 * @size: (in) sizeof(struct h2d_hmm_copy_source)
 * @abi_version: (in) H2D_HMM_ABI_VERSION
 * @address: (in) first byte, a multiple of the page size
 * @length: (in) bytes, a multiple of the page size, 1 page to H2D_HMM_LENGTH_MAX
 * @driver: (in) enum h2d_hmm_driver
 * @policy: (in) enum h2d_hmm_policy
 * @permission: (in) enum h2d_hmm_permission
 * @access: (in) enum h2d_hmm_access
 * @timeout_ms: (in) the emulated driver's timeout, per 2 GiB, 0 for the kernel's default, at
 *	most H2D_HMM_TIMEOUT_MS_MAX since nothing is scheduled meanwhile; must be 0 for the
 *shipped driver, whose timeout is compiled in. A shortened one makes `refresh` time out too.
 * @restart_max: (in) restarts allowed, at most H2D_HMM_RESTART_MAX; 0: a single attempt
 * @attempt_log: (in) address of an array of struct h2d_hmm_attempt, or 0
 * @attempt_log_capacity: (in) its entries, at most H2D_HMM_ATTEMPT_LOG_MAX; 0 with a null array
 * @flags: (in) must be 0
 * @reserved_in: (in) must be zero
 * @attempt_log_count: (out) entries written: the first attempts, the final one included
 * @last_code: (out) outer return code of the last attempt: 0 or a negative errno
 * @valid: (out) H2D_HMM_VALID_*
 * @ended: (out) H2D_HMM_ENDED_*
 * @elapsed_ns: (out) the whole request, waiting for locks included
 * @driver_calls: (out) calls of the driver function, one per mapping and attempt
 * @fault_calls: (out) calls of hmm_range_fault()
 * @fault_ebusy: (out) how many of them returned -EBUSY
 * @windows: (out) driver calls that retried on -EBUSY until their timeout was over while the
 *	caller's own faults reached at most one new span
 * @restarts: (out) attempts that ended in -EAGAIN or -EBUSY and were repeated
 * @restarts_revalidated: (out) how many of those came from the caller's own check after a
 *	successful driver call (something changed the range meanwhile)
 * @callbacks: (out) notifier callbacks for the range
 * @callbacks_foreign: (out) how many of them came from another thread than the caller
 * @callback_pages: (out) pages of the range that they covered, with repetitions
 * @callbacks_by_event: (out) callbacks by enum h2d_hmm_event
 * @spans_touched: (out) 2 MiB-aligned spans that the range overlaps
 * @spans_invalidated: (out) how many of them met at least one callback
 * @mappings: (out) mappings (VMAs) walked in the last attempt
 * @pfns_valid: (out) pages resolved in the last attempt
 * @pfns_writable: (out) how many of them are writable
 * @reserved_out: (out) zero
 *
 * The request holds for the address space of the calling process. Attempts through one open
 * file are serialised, as KFD serialises those of one process; open the device twice for
 * attempts that run at the same time. Between attempts any signal ends the request; inside one
 * a fatal signal is seen by the emulated driver between two calls of hmm_range_fault(), and
 * after the shipped one has returned. A single call takes as long as its page faults.
 *
 * Returns 0 when the request was carried out, whatever the driver said (see last_code); -EINTR
 * when a signal ended it, with all (out) fields set; otherwise nothing was written: -EINVAL (a
 * field out of its limits), -EPROTONOSUPPORT (abi_version), -EFAULT (address not of user space,
 * the structure or the log not accessible), -ENODEV (shipped driver not ready), -ENOMEM.
 */
struct h2d_hmm_copy_source {
	__u32 size;
	__u32 abi_version;
	__u64 address;
	__u64 length;
	__u32 driver;
	__u32 policy;
	__u32 permission;
	__u32 access;
	__u32 timeout_ms;
	__u32 restart_max;
	__u64 attempt_log;
	__u32 attempt_log_capacity;
	__u32 flags;
	__u64 reserved_in[4];

	__u32 attempt_log_count;
	__s32 last_code;
	__u32 valid;
	__u32 ended;
	__u64 elapsed_ns;
	__u64 driver_calls;
	__u64 fault_calls;
	__u64 fault_ebusy;
	__u64 windows;
	__u64 restarts;
	__u64 restarts_revalidated;
	__u64 callbacks;
	__u64 callbacks_foreign;
	__u64 callback_pages;
	__u64 callbacks_by_event[H2D_HMM_EVENT_COUNT];
	__u64 spans_touched;
	__u64 spans_invalidated;
	__u64 mappings;
	__u64 pfns_valid;
	__u64 pfns_writable;
	__u64 reserved_out[8];
};

#define H2D_HMM_IOCTL_MAGIC	  0xB7
#define H2D_HMM_IOCTL_QUERY	  _IOWR(H2D_HMM_IOCTL_MAGIC, 0x40, struct h2d_hmm_query)
#define H2D_HMM_IOCTL_COPY_SOURCE _IOWR(H2D_HMM_IOCTL_MAGIC, 0x41, struct h2d_hmm_copy_source)

#endif
