/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file trace.h
 * A trace of a load in the Chrome trace event format (JSON object form; loads in Perfetto and
 * chrome://tracing): one row per reader with its reads and waits, one per slot with its copies.
 * Events are kept in memory, per reader, and written at the end. Without a trace the calls
 * below cost one comparison.
 */
#ifndef H2D_TRANSFER_TRACE_H
#define H2D_TRANSFER_TRACE_H

#include "core/log.h"
#include "transfer/engine.h"

/** Open the file, so that a bad name is known before the load. What it holds is left alone
 * until the trace is written. Times count from here.
 *  @return 0; H2D_E_NOMEM; or what the system answered */
int h2d_trace_open(struct h2d_trace **out, const char *path, const struct h2d_log *log);
/** Whether the trace would be written over `file`. */
bool h2d_trace_over(const struct h2d_trace *t, const struct h2d_file_id *id);
/** Write it (unless `discard`: then a file that was made for it is removed) and release. NULL
 * is allowed.
 *  @return 0; H2D_E_NOMEM when events could not be kept; H2D_E_IO */
int h2d_trace_close(struct h2d_trace *t, bool discard, const struct h2d_log *log);
/** Give each reader a lane; NULL trace: none. */
int h2d_trace_attach(struct h2d_trace *t, struct h2d_reader *readers, uint32_t count);

/** The slot's read, or its copies, end now. */
void h2d_trace_read(struct h2d_reader *r, const struct h2d_slot *s);
void h2d_trace_copy(struct h2d_reader *r, const struct h2d_slot *s);
/** The reader waited from `start_ns` until now; `what` is static text. */
void h2d_trace_wait(struct h2d_reader *r, const char *what, uint64_t start_ns);

#endif
