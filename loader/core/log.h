/* SPDX-License-Identifier: Apache-2.0 */
/** @file log.h  The log callback as it travels through the library, and failing with a message.
 */
#ifndef H2D_CORE_LOG_H
#define H2D_CORE_LOG_H

#include <stdarg.h>

#include "h2d/h2d.h"

/** Where lines of one call or object go; copied by value, `fn` NULL: nowhere. */
struct h2d_log {
	h2d_log_fn fn;
	void *user;
};

/** Emit one line. Control characters and invalid UTF-8 in it are escaped as \xNN, since names
 *  come from hostile files. Lines longer than 1023 bytes are cut with "…". */
void h2d_log_line(const struct h2d_log *log, enum h2d_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Emit an error line and return `status`, so that `return h2d_fail(log, status, …)` reads
 * well. */
int h2d_fail(const struct h2d_log *log, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** As h2d_fail() for a failed system call: appends ": <strerror>" and maps errno to a status
 *  (ENOENT, ENOTDIR, ELOOP → NOT_FOUND; EACCES, EPERM → PERMISSION; ENOMEM → NOMEM; else IO).
 */
int h2d_fail_errno(const struct h2d_log *log, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
