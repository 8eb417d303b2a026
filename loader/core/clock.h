/* SPDX-License-Identifier: Apache-2.0 */
/** @file clock.h  Time, in nanoseconds of CLOCK_MONOTONIC. */
#ifndef H2D_CORE_CLOCK_H
#define H2D_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t h2d_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
