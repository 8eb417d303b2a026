/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file events.h
 * The log of a campaign: one JSON object a line, on disk before the next thing is done. It is
 * the progress, and what a campaign that was interrupted goes on from. Since 0.1.
 */
#ifndef H2D_BENCH_EVENTS_H
#define H2D_BENCH_EVENTS_H

#include "bench/value.h"

struct h2d_bench_events {
	int fd; /**< -1: none; locked while it is open */
	char *path;
	uint64_t bytes; /**< of complete lines */
	json_t *lines;	/**< array of all events, in order; owned */
	/** Called with every line that is written, newline included; may be NULL. */
	void (*show)(void *user, const char *line, const json_t *event);
	void *user;
};

/** Open or make a log and read what is in it. A torn last line (the machine died) is cut off.
 *  @return 0, H2D_E_UNAVAILABLE (another campaign holds it), H2D_E_FORMAT (a line that is no
 *  event), H2D_E_IO, H2D_E_PERMISSION, H2D_E_NOMEM */
int h2d_bench_events_open(struct h2d_bench_events *e, const char *path,
			  const struct h2d_log *log);
/** Begin an event in memory: the object is open, `event` and `time_utc` are written. */
void h2d_bench_event_begin(struct h2d_json *j, const char *event);
/** End it and append it; it is on disk when this returns. A line that could not be written
 *  whole is taken back. @return 0, H2D_E_IO, H2D_E_NOMEM or H2D_E_INTERNAL */
int h2d_bench_event_end(struct h2d_bench_events *e, struct h2d_json *j,
			const struct h2d_log *log);
void h2d_bench_events_close(struct h2d_bench_events *e);

#endif
