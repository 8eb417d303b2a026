/* SPDX-License-Identifier: Apache-2.0 */
/** @file who.h  Which process it is, and which rank of a distributed program. Since 0.1. */
#ifndef H2D_TRACE_WHO_H
#define H2D_TRACE_WHO_H

#include "count.h"

/**
 * Fill `name`, `rank` and `local_rank` of a process that runs, by its comm and the environment
 * that it was started with: RANK and LOCAL_RANK as torchrun sets them, else those of Open MPI,
 * PMI and Slurm. What a program sets for itself later is not seen there.
 * @param root  see core/hostfs.h
 */
void h2d_trace_who(const char *root, struct h2d_trace_process *p);

/** Fill those of processes that have calls and were not asked for yet. */
void h2d_trace_who_all(struct h2d_trace_counts *c);

#endif
