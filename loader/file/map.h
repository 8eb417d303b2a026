/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file map.h
 * Mappings of data files, and the guard that turns a SIGBUS on them into an error.
 */
#ifndef H2D_FILE_MAP_H
#define H2D_FILE_MAP_H

#include <stdatomic.h>

#include "file/file.h"

enum h2d_map_kind {
	H2D_MAP_READ,	  /**< r--p */
	H2D_MAP_WRITABLE, /**< rw-p: what PyTorch does; never written by us */
	H2D_MAP_SHARED,	  /**< r--s */
};

struct h2d_map {
	unsigned char *base; /**< NULL for an empty file */
	uint64_t bytes;	     /**< of the file; the mapping is rounded up to pages */
	bool borrowed;	     /**< points into a caller's memory: not ours to unmap */
};

/** Map the whole file. Memory files are borrowed (only H2D_MAP_READ). */
int h2d_map_open(struct h2d_map *m, const struct h2d_file *f, enum h2d_map_kind kind,
		 const struct h2d_log *log);
void h2d_map_close(struct h2d_map *m);

/**
 * Guard against SIGBUS while copies from [base, base+bytes) run: on a fault there a zero page
 * is mapped over it, `*faulted` becomes 1 and execution goes on (no longjmp: the fault may be
 * in a thread of a vendor's runtime). Faults elsewhere go to the handler that was installed
 * before. Reference-counted: the handler is installed with the first guard and removed with the
 * last. Async-signal-safe on the faulting side; callable from several threads.
 */
struct h2d_guard {
	uintptr_t begin, end;
	_Atomic int faulted;
	_Atomic int used;
};
/** @return 0 or H2D_E_NOMEM when all guard places are taken. `*out` is released by
 *  h2d_guard_remove(), which returns whether a fault happened. */
int h2d_guard_add(const void *base, uint64_t bytes, struct h2d_guard **out);
bool h2d_guard_faulted(const struct h2d_guard *g);
bool h2d_guard_remove(struct h2d_guard *g);

/** Bytes of [addr, addr+bytes) that have page-table entries in this process (pagemap bit 63),
 *  or a negative status. @source Documentation/admin-guide/mm/pagemap.rst */
int h2d_map_present(const void *addr, uint64_t bytes, uint64_t *present_bytes);

#endif
