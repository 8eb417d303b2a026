/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/** @file bpf_abi.h  What the BPF program and user space share. */
#ifndef H2D_TRACE_BPF_ABI_H
#define H2D_TRACE_BPF_ABI_H

#include <linux/types.h>

/* In the order of enum h2d_trace_function. */
enum {
	H2D_BPF_FAULT,
	H2D_BPF_PAGES,
	H2D_BPF_EMULATED,
	H2D_BPF_SVM,
	H2D_BPF_USERPTR,
	H2D_BPF_IOCTL,
	H2D_BPF_FUNCTIONS,
};

enum { H2D_BPF_LOG2 = 64 };

/* Words of the map of that name. */
enum {
	H2D_BPF_EVERYBODY, /* in: no process is left out */
	H2D_BPF_LOST,	   /* outer calls that the ring buffer had no room for */
	H2D_BPF_DROPPED,   /* what a map had no room for */
	H2D_BPF_UNMATCHED, /* returns without a begin */
	H2D_BPF_WORDS,
};

struct h2d_bpf_key {
	__u32 pid, function;
};

struct h2d_bpf_stat {
	__u64 call_count, return_count, ok_count, ebusy_count, eagain_count, error_count;
	__u64 total_ns, max_ns;
	__u64 log2_count[H2D_BPF_LOG2];
};

struct h2d_bpf_call {
	__u32 pid, function;
	__u64 begin_ns, duration_ns, ebusy_count;
	__s64 ret;
};

#endif
