/* SPDX-License-Identifier: Apache-2.0 */
/* In place of bpf.c, in builds without clang or libbpf. */
#include <stdio.h>

#include "bpf.h"
#include "h2d/h2d.h"

int h2d_trace_bpf_start(struct h2d_trace_session *s, bool alone, bool everybody)
{
	(void)alone;
	(void)everybody;
	snprintf(s->bpf_why, sizeof(s->bpf_why), "h2d was built without libbpf");
	return H2D_E_UNAVAILABLE;
}

void h2d_trace_bpf_follow(struct h2d_trace_session *s, int pid)
{
	(void)s;
	(void)pid;
}

void h2d_trace_bpf_update(struct h2d_trace_session *s, struct h2d_trace_counts *c,
			  uint32_t timeout_ms)
{
	(void)s;
	(void)c;
	(void)timeout_ms;
}

void h2d_trace_bpf_stop(struct h2d_trace_session *s)
{
	(void)s;
}
