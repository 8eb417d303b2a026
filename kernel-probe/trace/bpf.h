/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file bpf.h
 * The same tracing with a BPF program (fentry, fexit; libbpf, CO-RE) where the kernel and the
 * modules have BTF: cheaper, and without text between. Since 0.1.
 */
#ifndef H2D_TRACE_BPF_H
#define H2D_TRACE_BPF_H

#include "session.h"

/**
 * Load and attach; the kernel counts from then on.
 * @param alone  go on without an outer function to attach to
 * @return 0, or H2D_E_UNAVAILABLE with the reason in s->bpf_why, and nothing is left
 */
int h2d_trace_bpf_start(struct h2d_trace_session *s, bool alone, bool everybody);
void h2d_trace_bpf_follow(struct h2d_trace_session *s, int pid);
/** Take everything as it is now, and count windows. */
void h2d_trace_bpf_update(struct h2d_trace_session *s, struct h2d_trace_counts *c,
			  uint32_t timeout_ms);
void h2d_trace_bpf_stop(struct h2d_trace_session *s);

#endif
