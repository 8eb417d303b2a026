/* SPDX-License-Identifier: Apache-2.0 */
/** @file kmsg.h  Lines of the kernel's log that appear while something is measured. Since 0.1.
 *  @source Documentation/ABI/testing/dev-kmsg */
#ifndef H2D_BENCH_KMSG_H
#define H2D_BENCH_KMSG_H

#include <stddef.h>
#include <stdint.h>

enum { H2D_BENCH_KMSG_LINES = 32 };

struct h2d_bench_kmsg {
	int fd;	   /**< -1: cannot be read, see `error` */
	int error; /**< errno */
	char *lines[H2D_BENCH_KMSG_LINES];
	size_t count;
	uint64_t dropped_count; /**< more than fit, or overwritten before they were read */
};

/** From now on. Never fails; `error` says why nothing will be seen. */
void h2d_bench_kmsg_begin(struct h2d_bench_kmsg *k);
/** Take what has come. */
void h2d_bench_kmsg_collect(struct h2d_bench_kmsg *k);
void h2d_bench_kmsg_release(struct h2d_bench_kmsg *k);
/** The message of a record "prio,seq,time,flags;message\n KEY=…"; cuts the record in place.
 *  NULL when it is none. */
const char *h2d_bench_kmsg_message(char *record);

#endif
