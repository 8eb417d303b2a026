/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file hostmem.h
 * Plain host memory in whole pages: destinations of `host`, and staging of devices that pin
 * nothing.
 */
#ifndef H2D_DEVICE_HOSTMEM_H
#define H2D_DEVICE_HOSTMEM_H

#include <stdint.h>

/**
 * `bytes` bytes of anonymous memory that nobody has touched: its pages come, zeroed by the
 * kernel, with the first write to each. From one huge page on it starts on a huge page's
 * boundary and is marked for huge pages, unless the system never gives any. Page-aligned
 * otherwise.
 * @return NULL when it cannot be had, with errno set
 */
void *h2d_hostmem_alloc(uint64_t bytes);
/** Addresses that nothing else gets and nobody can touch; aligned as above. */
void *h2d_hostmem_reserve(uint64_t bytes);
/** Release either; NULL is allowed. `bytes` as asked for. */
void h2d_hostmem_free(void *p, uint64_t bytes);

/** Size of a huge page, or 0 where transparent huge pages are off ("never"). */
uint64_t h2d_hostmem_huge_page_bytes(void);

/** Wish that pages not yet touched come from NUMA node `node` (-1: no wish). Whatever the
 * system refuses is without consequence but speed.
 *  @source mbind(2), MPOL_PREFERRED */
void h2d_hostmem_bind(void *p, uint64_t bytes, int32_t node);

#endif
