/* SPDX-License-Identifier: Apache-2.0 */
/** @file parse.h  The kernel's text, strictly: a line or row is understood whole or not at all.
 */
#ifndef H2D_TRACE_PARSE_H
#define H2D_TRACE_PARSE_H

#include "count.h"

enum h2d_trace_line_kind {
	H2D_TRACE_LINE_BAD,
	H2D_TRACE_LINE_LOST,
	H2D_TRACE_LINE_TASK,
	H2D_TRACE_LINE_ENTRY,
	H2D_TRACE_LINE_RETURN,
};

struct h2d_trace_event {
	int tid;
	uint64_t at_us;
	enum h2d_trace_function function;
	bool is_return;
	int64_t ret;
	int child;	/**< of a task event */
	uint64_t flags; /**< of clone(2), of a task event */
	uint64_t lost;
};

/** A row of a histogram. */
struct h2d_trace_row {
	int tid;
	int64_t ret;
	uint64_t outer_ns, hit_count, sum_ns;
	unsigned log2;
};

enum h2d_trace_line_kind h2d_trace_parse_line(const char *line, size_t bytes,
					      struct h2d_trace_event *out);
/** @return whether it is a row of that histogram */
bool h2d_trace_parse_row(const char *line, size_t bytes, enum h2d_trace_histogram which,
			 struct h2d_trace_row *out);
/** The line "Dropped: N" at a histogram's end. */
bool h2d_trace_parse_dropped(const char *line, size_t bytes, uint64_t *count);

#endif
