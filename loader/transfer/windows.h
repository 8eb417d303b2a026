/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file windows.h
 * Windows of mapped files that are registered with a device for as long as chunks in them are
 * copied.
 *
 * A file is divided into windows of equal size. The first chunk that touches one has its pages
 * read in and registers it; the last one unregisters it. So no two registrations overlap. One
 * that no chunk under way lies in is kept for those that come next, but gives way where there
 * are `most` windows already, and is registered again when it is needed again: chunks of a load
 * without coalescing do not lie in file order. So `most` bounds the registered bytes.
 *
 * Registering pins pages for long, and a kernel that cannot pin a file's page in place would
 * copy it to anonymous memory. In the first window it is looked for (pagemap), and if it
 * happened nothing is registered any more. A window that the device refuses is copied without
 * being registered, and the first reason is kept.
 *
 * Thread-safe.
 */
#ifndef H2D_TRANSFER_WINDOWS_H
#define H2D_TRANSFER_WINDOWS_H

#include "device/device.h"
#include "transfer/plan.h"
#include "transfer/source_file.h"

struct h2d_windows;
struct h2d_window;

struct h2d_windows_facts {
	uint64_t window_bytes;
	uint64_t registered_max_bytes; /**< at any one time */
	uint64_t registered_count;     /**< registrations that were made */
	uint64_t refused_count;	       /**< windows that were copied unregistered */
	char why[160];		       /**< of the first of them, or "" */
};

/**
 * @param window_bytes  a multiple of the page size, at least as long as any chunk
 * @param most          windows at any one time: more than twice as many as chunks under way
 * @return 0 or H2D_E_NOMEM
 */
int h2d_windows_new(struct h2d_windows **out, struct h2d_device *dev,
		    const struct h2d_plan *plan, struct h2d_source_file *inputs,
		    uint64_t window_bytes, uint64_t most, bool drop, const struct h2d_log *log);
/** With `quarantine` what is registered stays so, and is counted. NULL is allowed. */
void h2d_windows_free(struct h2d_windows *w, bool quarantine, struct h2d_windows_facts *facts);

/**
 * Make the windows that a chunk lies in ready to be copied from.
 * @param got    (out) one or two of them, given back with h2d_windows_put() when the chunk's
 *               copies have ended, also when they failed
 * @param split  (out) the address at which one registration ends and the next begins: a copy
 *               must not reach over it. NULL: there is none
 * @return 0, or a failure of reading, with nothing held
 */
int h2d_windows_get(struct h2d_windows *w, const struct h2d_chunk *c, struct h2d_window *got[2],
		    const unsigned char **split);
void h2d_windows_put(struct h2d_windows *w, struct h2d_window *got[2]);

#endif
