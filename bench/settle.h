/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file settle.h
 * Memory is made ready before a load. Since 0.1.
 */
#ifndef H2D_BENCH_SETTLE_H
#define H2D_BENCH_SETTLE_H

#include <stdint.h>

/**
 * Touch as much memory as a load of size_bytes will need and give it back to the kernel. A
 * hypervisor that takes free memory from its guest has to return it first, huge pages before
 * all; without this the first load after a pause would measure that and not the loader. It is
 * done for every loader alike.
 * @return 0, H2D_E_NOMEM: less than four times that is available, or it could not be mapped
 * @source Documentation/mm/free_page_reporting.rst
 */
int h2d_bench_settle(uint64_t size_bytes);

#endif
