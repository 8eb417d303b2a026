/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cache.h
 * The page cache: how much of a file it holds, and asking it to take or drop a range.
 */
#ifndef H2D_FILE_CACHE_H
#define H2D_FILE_CACHE_H

#include "file/file.h"

enum h2d_cache_method {
	H2D_CACHE_UNKNOWN,   /**< no method could tell; `why` says so */
	H2D_CACHE_CACHESTAT, /**< cachestat(2), Linux ≥ 6.5 */
	H2D_CACHE_MINCORE, /**< mincore(2) on a file of one's own, where cachestat is absent */
};

struct h2d_cache_state {
	enum h2d_cache_method method;
	uint64_t total_bytes, cached_bytes, dirty_bytes;
	const char *why; /**< static text when unknown, else NULL */
};

/**
 * How much of [offset, offset+bytes) is cached, by whole pages, at most the range's own length.
 * cachestat counts pages whose read is still under way, mincore does not. cachestat answers
 * EPERM without write permission or ownership (mm/filemap.c, can_do_cachestat); the state is
 * then unknown and mincore must not be asked, since it reports everything as cached to such
 * callers (mm/mincore.c, can_do_mincore). mincore is used only when cachestat is absent
 * (ENOSYS) and the file is writable by or owned by the caller. Never fails: an unanswerable
 * question is `H2D_CACHE_UNKNOWN`.
 */
void h2d_cache_query(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		     struct h2d_cache_state *out);
/** Read a range into the cache.
 *  @return 0; H2D_E_UNSUPPORTED on memory; or as h2d_file_read() */
int h2d_cache_warm(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		   const struct h2d_log *log);
/** Write back dirty pages (fdatasync, only where some are known or may be), then drop the range
 *  (POSIX_FADV_DONTNEED skips dirty, locked and mapped pages), at most H2D_CACHE_EVICT_TRIES
 *  times while something of it remains. Filesystems that live in memory (tmpfs) drop nothing.
 *  What remained is for h2d_cache_query() to say.
 *  @return 0; H2D_E_UNSUPPORTED on memory; H2D_E_IO */
int h2d_cache_evict(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		    const struct h2d_log *log);
/** Ask once for a range to be dropped: no write-back, no check, no error. For giving pages back
 *  as a load goes on. `offset` is rounded down to 2 MiB, since a large folio is dropped only
 *  when all of it lies in the range. */
void h2d_cache_drop(const struct h2d_file *f, uint64_t offset, uint64_t bytes);

enum { H2D_CACHE_EVICT_TRIES = 4 };

#endif
