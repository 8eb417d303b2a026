/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file schedule.h
 * Where and how urgently a measured process runs: its processors and its real-time priority,
 * set on request (sched(7)) and read back from the kernel. Not thread-safe. Since 0.1.
 */
#ifndef H2D_BENCH_SCHEDULE_H
#define H2D_BENCH_SCHEDULE_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/json.h"

/** What a matrix asks for. */
struct h2d_bench_schedule {
	bool fifo;	/**< SCHED_FIFO at its lowest priority, 1 */
	bool have_cpus; /**< only on these */
	cpu_set_t cpus;
};

/** How the calling thread ran before, to be put back. */
struct h2d_bench_schedule_saved {
	bool policy_set, cpus_set;
	int policy;
	struct sched_param param;
	cpu_set_t cpus;
};

/** What the kernel says of a process. */
struct h2d_bench_schedule_seen {
	bool known;
	int policy, priority, nice;
	cpu_set_t cpus;
};

enum { H2D_BENCH_CPUS_TEXT = 256 };

/** "0-3,6" as the kernel writes lists. @return NULL, or what is wrong (static text) */
const char *h2d_bench_cpus_parse(const char *text, cpu_set_t *out);
/** The same as text; cut short with an ellipsis where it does not fit. */
void h2d_bench_cpus_text(const cpu_set_t *cpus, char *out, size_t cap);

/**
 * Give the calling thread the priority, which its children inherit; the runner keeps it while
 * it watches, since a process that outranks it would leave it no processor.
 * @param why  (out) what forbids it
 * @return 0 or H2D_E_PERMISSION
 */
int h2d_bench_schedule_raise(const struct h2d_bench_schedule *s,
			     struct h2d_bench_schedule_saved *saved, char *why, size_t cap);
/** Confine the calling thread to the processors, for a fork. @return 0 or H2D_E_INVALID */
int h2d_bench_schedule_confine(const struct h2d_bench_schedule *s,
			       struct h2d_bench_schedule_saved *saved, char *why, size_t cap);
/** Undo the one, and both. */
void h2d_bench_schedule_free_cpus(struct h2d_bench_schedule_saved *saved);
void h2d_bench_schedule_restore(struct h2d_bench_schedule_saved *saved);

void h2d_bench_schedule_look(pid_t pid, struct h2d_bench_schedule_seen *out);
/** {"policy", "priority", "nice", "cpus"}; null with its reason where nothing is known. */
void h2d_bench_schedule_write(struct h2d_json *j, const char *key,
			      const struct h2d_bench_schedule_seen *s);

#endif
