/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file near.h
 * Readers on the processors next to the device, so that staging is not filled and copied across
 * sockets.
 */
#ifndef H2D_TRANSFER_NEAR_H
#define H2D_TRANSFER_NEAR_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * The processors of NUMA node `node` that the calling thread may run on.
 * @param node  OS index; -1 and nodes that do not exist: nothing to do
 * @return whether `out` is worth binding to: not empty and fewer than the thread may use now
 */
bool h2d_near_cpus(int32_t node, cpu_set_t *out);

/** Whether this machine has more than one NUMA node, by a look at one small file. */
bool h2d_near_matters(void);

#endif
