/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file sample.h
 * What a process does over time: memory by kind, faults, bytes read, device memory; and what
 * that says: slow but moving is not hung. Thread-safe. Since 0.1.
 *
 * In a capture, sample k has a tree of its own below /h2d/sample/k.
 */
#ifndef H2D_HOST_SAMPLE_H
#define H2D_HOST_SAMPLE_H

#include "host/memory.h"

enum { H2D_SAMPLES_MAX = 36000 };

struct h2d_sample {
	uint64_t time_ns; /**< monotonic */
	bool gone;	  /**< the process ended */
	char state;
	uint64_t start_ticks; /**< when it was started: a number can be given to another process
			       */
	unsigned threads, threads_in_ioctl;
	bool threads_known;	  /**< whether the threads' calls can be seen */
	bool thread_states_known; /**< whether their states can */
	unsigned
		threads_in_kernel; /**< in state D: they wait there and cannot be interrupted */
	uint64_t minor_fault_count, major_fault_count;
	uint64_t user_ns, kernel_ns;
	/* Of /proc/PID/status: kernels before 6.2 let them lag by up to 64 pages a thread, so
	 * they are good for slopes, not for exact sums. */
	struct h2d_known_u64 rss_anon_bytes, rss_file_bytes, rss_shmem_bytes, swap_bytes;
	struct h2d_known_u64 read_call_bytes;	 /**< by read(2) and its kin */
	struct h2d_known_u64 read_storage_bytes; /**< fetched from storage, also by faults */
	struct h2d_known_u64 vram_bytes;	 /**< amdkfd's account of the process */
	/** Time in which the process's queues were stopped, of the GPU where it is longest;
	 * amdkfd. */
	struct h2d_known_u64 evicted_ms;
	struct h2d_known_u64 switch_count;
	struct h2d_pressure memory;
};

/** Take a sample; `root` is that of the sample in a capture. Never fails: what is unknown says
 *  so, a process that ended is `gone`. */
void h2d_sample_take(const char *root, int pid, struct h2d_sample *out);

/** A sample of the process that was started then; one of another that has its number now says
 *  that it is gone. */
void h2d_sample_must_be(struct h2d_sample *s, uint64_t start_ticks);

/** Sample `k` of a capture. @return false when it holds none */
bool h2d_sample_recorded(const char *root, unsigned k, int pid, struct h2d_sample *out);

enum h2d_progress {
	H2D_PROGRESS_UNKNOWN, /**< fewer than two samples */
	H2D_PROGRESS_MOVING,  /**< bytes arrive at a rate that a disk has */
	H2D_PROGRESS_SLOW,    /**< bytes arrive, more slowly than any disk: slow but moving */
	H2D_PROGRESS_BUSY,    /**< it computes, no bytes arrive */
	H2D_PROGRESS_STILL,   /**< nothing happened at all */
	H2D_PROGRESS_EXITED,
};
const char *h2d_progress_name(enum h2d_progress p);

enum { H2D_SLOW_BYTES_PER_S = 64 << 20 };

/** What changed between the first and the last sample. */
struct h2d_trend {
	enum h2d_progress progress;
	uint64_t elapsed_ns;
	int64_t anon_delta_bytes, file_delta_bytes, swap_delta_bytes, vram_delta_bytes;
	uint64_t gained_bytes; /**< the largest of: resident memory and swap, bytes read by
				*   calls, from storage, device memory */
	uint64_t bytes_per_s;
	uint64_t major_faults_per_s, minor_faults_per_s;
	double cpu_pct, kernel_pct; /**< of one processor */
	bool evictions_known;
	double evicted_pct; /**< of the time in which its queues were stopped */
	char state;	    /**< in the last sample */
	unsigned threads_in_ioctl;
	unsigned threads_stuck; /**< at least so many were in state D in every sample */
};
void h2d_trend_of(const struct h2d_sample *samples, size_t count, struct h2d_trend *out);

/** Array `samples` and object `trend`. */
void h2d_samples_write(struct h2d_json *j, const struct h2d_sample *samples, size_t count,
		       const struct h2d_trend *trend);

#endif
