/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file known_kernels.h
 * The table of known kernels, kernel-probe/known-kernels.json: what is known of a kernel by its
 * release and distribution alone. A file that is given comes first, then the installed one
 * (share/h2d beside the program), then the one that is built in. Thread-safe once opened.
 * @since 0.1
 */
#ifndef H2D_HOST_KNOWN_KERNELS_H
#define H2D_HOST_KNOWN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/log.h"
#include "core/policy.h"
#include "host/kernel_verdict.h"

struct h2d_known_kernels;

/** Whose kernel is asked for. */
struct h2d_kernel_query {
	const char *release;	       /**< as uname -r */
	const char *distribution;      /**< ID of os-release(5), or "" */
	const char *distribution_like; /**< ID_LIKE, or "" */
};

/** One entry; texts belong to the table, NULL where it has none. */
struct h2d_known_kernel {
	const char *id, *statement, *source, *date, *upgrade_to;
	enum h2d_retry_policy policy;
	enum h2d_stall stall;
	enum h2d_confidence confidence;
};

/** @param file  NULL: the installed one or the one built in
 *  @return 0; H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO, H2D_E_FORMAT, H2D_E_NOMEM */
int h2d_known_kernels_open(const char *file, const struct h2d_log *log,
			   struct h2d_known_kernels **out);
void h2d_known_kernels_close(struct h2d_known_kernels *table);

/** The first entry that fits. @return false when none does */
bool h2d_known_kernels_match(const struct h2d_known_kernels *table,
			     const struct h2d_kernel_query *query,
			     struct h2d_known_kernel *out);
/** Name of the package that a kernel comes in. @return false when it is not known */
bool h2d_known_kernels_package(const struct h2d_known_kernels *table,
			       const struct h2d_kernel_query *query, char *out, size_t cap);
/** Where the table came from and its date; belongs to the table. */
const char *h2d_known_kernels_origin(const struct h2d_known_kernels *table);
const char *h2d_known_kernels_date(const struct h2d_known_kernels *table);

#endif
