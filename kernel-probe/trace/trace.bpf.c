// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts calls at the beginning and end of the driver's functions (fentry, fexit): by process
 * and function in the kernel, and every outer call with its -EBUSY in a ring buffer. Follows
 * forks. User space attaches each pair to what the running kernel's BTF has.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf_abi.h"

#define EAGAIN_CODE 11
#define EBUSY_CODE  16

/* The one member that is read, wherever this kernel has it. */
struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

struct active {
	__u64 begin_ns[H2D_BPF_FUNCTIONS];
	__u64 ebusy_count;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct active);
} active SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct h2d_bpf_key);
	__type(value, struct h2d_bpf_stat);
} stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, __u8);
} family SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, H2D_BPF_WORDS);
	__type(key, __u32);
	__type(value, __u64);
} words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct h2d_bpf_stat);
} zero SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} calls SEC(".maps");

static __always_inline void add(__u32 word)
{
	__u64 *n = bpf_map_lookup_elem(&words, &word);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline int followed(__u32 pid)
{
	__u32 word = H2D_BPF_EVERYBODY;
	__u64 *all = bpf_map_lookup_elem(&words, &word);

	return (all && *all) || bpf_map_lookup_elem(&family, &pid);
}

static __always_inline struct h2d_bpf_stat *stat_of(__u32 pid, __u32 function)
{
	struct h2d_bpf_key key = {pid, function};
	struct h2d_bpf_stat *s = bpf_map_lookup_elem(&stats, &key), *none;
	__u32 first = 0;

	if (s)
		return s;
	none = bpf_map_lookup_elem(&zero, &first);
	if (!none)
		return 0;
	bpf_map_update_elem(&stats, &key, none, BPF_NOEXIST);
	s = bpf_map_lookup_elem(&stats, &key);
	if (!s)
		add(H2D_BPF_DROPPED);
	return s;
}

static __always_inline int enter(__u32 function)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct active none = {}, *a;
	struct h2d_bpf_stat *s;
	__u32 tid = (__u32)id;

	if (!followed(id >> 32))
		return 0;
	s = stat_of(id >> 32, function);
	if (s)
		__sync_fetch_and_add(&s->call_count, 1);
	a = bpf_map_lookup_elem(&active, &tid);
	if (!a) {
		bpf_map_update_elem(&active, &tid, &none, BPF_NOEXIST);
		a = bpf_map_lookup_elem(&active, &tid);
	}
	if (!a) {
		add(H2D_BPF_DROPPED);
		return 0;
	}
	a->begin_ns[function] = bpf_ktime_get_ns();
	if (function == H2D_BPF_PAGES || function == H2D_BPF_EMULATED)
		a->ebusy_count = 0;
	return 0;
}

/* The smallest k with ns <= 2^k. */
static __always_inline __u32 log2_up(__u64 ns)
{
	__u64 v = ns ? ns - 1 : 0;
	__u32 k = 0;

	if (!v)
		return 0;
	if (v >> 32) {
		k += 32;
		v >>= 32;
	}
	if (v >> 16) {
		k += 16;
		v >>= 16;
	}
	if (v >> 8) {
		k += 8;
		v >>= 8;
	}
	if (v >> 4) {
		k += 4;
		v >>= 4;
	}
	if (v >> 2) {
		k += 2;
		v >>= 2;
	}
	if (v >> 1)
		k += 1;
	return k + 1;
}

static __always_inline void record(__u32 pid, __u32 function, struct active *a, __u64 ns,
				   int ret)
{
	struct h2d_bpf_call *c = bpf_ringbuf_reserve(&calls, sizeof(*c), 0);

	if (!c) {
		add(H2D_BPF_LOST);
		return;
	}
	c->pid = pid;
	c->function = function;
	c->begin_ns = a->begin_ns[function];
	c->duration_ns = ns;
	c->ebusy_count = a->ebusy_count;
	c->ret = ret;
	bpf_ringbuf_submit(c, 0);
}

static __always_inline int leave(void *ctx, __u32 function)
{
	__u64 id = bpf_get_current_pid_tgid(), raw = 0, ns;
	struct h2d_bpf_stat *s;
	struct active *a;
	__u32 tid = (__u32)id, k;
	int ret;

	if (!followed(id >> 32))
		return 0;
	a = bpf_map_lookup_elem(&active, &tid);
	if (!a || !a->begin_ns[function]) {
		add(H2D_BPF_UNMATCHED);
		return 0;
	}
	ns = bpf_ktime_get_ns() - a->begin_ns[function];
	bpf_get_func_ret(ctx, &raw);
	ret = (int)raw;
	if (function == H2D_BPF_FAULT && ret == -EBUSY_CODE)
		a->ebusy_count++;
	if (function == H2D_BPF_PAGES || function == H2D_BPF_EMULATED)
		record(id >> 32, function, a, ns, ret);
	a->begin_ns[function] = 0;
	s = stat_of(id >> 32, function);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->return_count, 1);
	__sync_fetch_and_add(&s->total_ns, ns);
	if (ret >= 0)
		__sync_fetch_and_add(&s->ok_count, 1);
	else if (ret == -EBUSY_CODE)
		__sync_fetch_and_add(&s->ebusy_count, 1);
	else if (ret == -EAGAIN_CODE)
		__sync_fetch_and_add(&s->eagain_count, 1);
	else
		__sync_fetch_and_add(&s->error_count, 1);
	if (ns > s->max_ns)
		s->max_ns = ns;
	k = log2_up(ns) & (H2D_BPF_LOG2 - 1);
	__sync_fetch_and_add(&s->log2_count[k], 1);
	return 0;
}

#define PAIR(name, function)                                                                   \
	SEC("fentry") int name##_in(void *ctx)                                                 \
	{                                                                                      \
		return enter(function);                                                        \
	}                                                                                      \
	SEC("fexit") int name##_out(void *ctx)                                                 \
	{                                                                                      \
		return leave(ctx, function);                                                   \
	}

PAIR(fault, H2D_BPF_FAULT)
PAIR(pages, H2D_BPF_PAGES)
PAIR(emulated, H2D_BPF_EMULATED)
PAIR(svm, H2D_BPF_SVM)
PAIR(userptr, H2D_BPF_USERPTR)
PAIR(ioctl, H2D_BPF_IOCTL)

/* Arguments: parent, child. The parent runs. */
SEC("tp_btf/sched_process_fork") int forked(__u64 *ctx)
{
	struct task_struct *child = (void *)ctx[1];
	__u32 parent = bpf_get_current_pid_tgid() >> 32, pid = child->tgid;
	__u8 one = 1;

	if (pid != parent && bpf_map_lookup_elem(&family, &parent) &&
	    bpf_map_update_elem(&family, &pid, &one, BPF_ANY))
		add(H2D_BPF_DROPPED);
	return 0;
}

char _license[] SEC("license") = "GPL";
