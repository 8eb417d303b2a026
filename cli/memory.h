/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file memory.h
 * Peaks of this process's memory while a load runs: a thread reads /proc/self/status every
 * 10 ms. VmHWM cannot tell anonymous from file pages and mappings are gone when a load has
 * ended, so the reading must happen meanwhile.
 */
#ifndef H2D_CLI_MEMORY_H
#define H2D_CLI_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct h2d_memory_usage {
	uint64_t rss_anon_bytes, rss_file_bytes, rss_shmem_bytes;
	uint64_t locked_bytes;	/**< VmLck: locked by this process */
	uint64_t pinned_bytes;	/**< VmPin: pinned by drivers */
	uint64_t hugetlb_bytes; /**< pages of hugetlbfs, which no RSS counts */
};

enum { H2D_MEMORY_INTERVAL_MS = 10 };

struct h2d_memory_sampler {
	struct h2d_memory_usage before; /**< when it was started */
	struct h2d_memory_usage peak;	/**< member by member */
	uint64_t sample_count;
	bool running;
	bool stop;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
};

/** Start sampling; without a thread (none could be made) only begin and end are read. */
void h2d_memory_start(struct h2d_memory_sampler *s);
/** Take a sample now. */
void h2d_memory_sample(struct h2d_memory_sampler *s);
/** Sample once more and stop. */
void h2d_memory_stop(struct h2d_memory_sampler *s);

#endif
