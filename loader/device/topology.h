/* SPDX-License-Identifier: Apache-2.0 */
/** @file topology.h  Where processors and memory are, by hwloc. */
#ifndef H2D_DEVICE_TOPOLOGY_H
#define H2D_DEVICE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

/** 0, or the errno by which the kernel's files on processors cannot be read. hwloc would print
 *  a line of its own and find nothing. */
int h2d_topology_error(void);
/**
 * NUMA node of host memory for the calling thread, and the processor's name.
 * @param numa_node  (out) OS index of the node when the thread can run on one node only
 * (always, on a machine with one), else -1
 * @param model      (out) processor model, or ""
 */
void h2d_topology_host(int32_t *numa_node, char *model, size_t model_bytes);

#endif
