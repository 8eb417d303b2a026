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

/** A mapping. Must not be moved or copied while a guard is on it. */
struct h2d_map {
	unsigned char *base; /**< NULL for an empty file */
	uint64_t bytes;	     /**< of the file; the mapping is rounded up to pages */
	const char *name;    /**< of the file, for messages; the file's own */
	bool borrowed;	     /**< points into a caller's memory: not ours to unmap */
	int prot;	     /**< PROT_* of the mapping */
	uint64_t page_bytes; /**< of the pages that back it: larger on hugetlbfs */
	/** A page of it was replaced by zeros after a SIGBUS. Never cleared: what lies in this
	 *  mapping is no longer the file, so it must not be loaded from again. */
	_Atomic int damaged;
};

/** Map the whole file. Memory files are borrowed (only H2D_MAP_READ). A private writable
 *  mapping that overcommit refuses is tried again with MAP_NORESERVE, so that a checkpoint
 *  larger than memory can still be mapped.
 *  @return 0; H2D_E_NOMEM, H2D_E_UNSUPPORTED (memory mapped other than for reading), H2D_E_IO.
 */
int h2d_map_open(struct h2d_map *m, const struct h2d_file *f, enum h2d_map_kind kind,
		 const struct h2d_log *log);
/** Unmap; a zeroed or never opened (all zero) map is allowed. No guard may be left on it. */
void h2d_map_close(struct h2d_map *m);
/** Take the page-table entries of a range away (MADV_DONTNEED), since pages that are mapped
 *  cannot be dropped from the page cache. Only pages that lie wholly inside. Nothing happens on
 *  borrowed memory. */
void h2d_map_release(struct h2d_map *m, uint64_t offset, uint64_t bytes);

/**
 * Guard against SIGBUS while copies from a mapping run: on a fault inside it the map is marked
 * damaged, a zero page is mapped over the page and execution goes on (no longjmp: the fault may
 * be in a thread of a vendor's runtime). Every other SIGBUS goes to the action that was in
 * force before.
 *
 * The process-wide handler is installed with the first guard and removed with the last. If the
 * program installed a handler of its own meanwhile, that one is left in place; when it calls
 * ours, as it should, the signal still reaches a guard or the action before us. See guard.c.
 *
 * Guards may be added and removed from several threads. The faulting side takes no lock and
 * calls only async-signal-safe functions. A thread that touches guarded memory must not block
 * SIGBUS (the kernel then kills the process): threads made by h2d_mem never do, and a caller's
 * thread is put right by h2d_guard_thread_begin().
 */
struct h2d_guard;

/**
 * @param out  (out) released by h2d_guard_remove(); NULL (also a success) for borrowed and
 *             empty maps, which need no guard: the functions below take NULL
 * @return 0; H2D_E_CHANGED when the map is already damaged; H2D_E_NOMEM when all
 *         H2D_GUARD_MAX places are taken; H2D_E_UNAVAILABLE when the handler cannot be had
 */
int h2d_guard_add(struct h2d_map *m, struct h2d_guard **out, const struct h2d_log *log);
/** Whether a fault happened in the map, in this or an earlier guard. */
bool h2d_guard_faulted(const struct h2d_guard *g);
/** No copy from the map may be running any more. @return as h2d_guard_faulted() */
bool h2d_guard_remove(struct h2d_guard *g);

/** Let SIGBUS through in the calling thread, which is the program's and may block it, while it
 *  touches guarded memory. @return what to give to h2d_guard_thread_end() */
bool h2d_guard_thread_begin(void);
void h2d_guard_thread_end(bool was_blocked);

enum { H2D_GUARD_MAX = 2048 };

/** Bytes of [addr, addr+bytes) that have page-table entries in this process (pagemap bit 63);
 *  pages at the ends count with the part inside the range.
 *  @return 0; H2D_E_UNAVAILABLE where /proc/self/pagemap cannot be read; H2D_E_IO.
 *  @source Documentation/admin-guide/mm/pagemap.rst */
int h2d_map_present(const void *addr, uint64_t bytes, uint64_t *present_bytes);
/** As h2d_map_present(), of anonymous pages (bit 61 clear): what a file's pages became when
 *  somebody copied them. */
int h2d_map_anonymous(const void *addr, uint64_t bytes, uint64_t *anonymous_bytes);
/** Read a range in and give it page-table entries (MADV_POPULATE_READ, Linux 5.14), without
 *  asking for write access. The range is of whole pages.
 *  @return 0; H2D_E_UNSUPPORTED where the kernel does not know it; H2D_E_CHANGED when the file
 *          no longer reaches that far; H2D_E_IO */
int h2d_map_populate(const struct h2d_map *m, const struct h2d_file *f, uint64_t offset,
		     uint64_t bytes, const struct h2d_log *log);

#endif
