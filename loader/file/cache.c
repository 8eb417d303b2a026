/* SPDX-License-Identifier: Apache-2.0 */
#include "file/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/mem.h"
#include "file/io.h"

enum {
	WINDOW_PAGES = 16384,	     /* asked of mincore at once */
	WARM_BUFFER_BYTES = 1 << 20, /* read at once */
	WARM_AHEAD_BYTES = 8 << 20,  /* asked for before it is read */
	FOLIO_MAX_BYTES = 2 << 20,   /* a page-table span: the largest folio on x86-64 */
};

/* Clip a range to the file as it was opened. */
static uint64_t clip(const struct h2d_file *f, uint64_t offset, uint64_t bytes)
{
	uint64_t left = offset < f->id.size_bytes ? f->id.size_bytes - offset : 0;

	return bytes < left ? bytes : left;
}

static uint64_t pages_to_bytes(uint64_t pages, uint64_t page, uint64_t limit)
{
	uint64_t bytes;

	return h2d_mul_u64(pages, page, &bytes) && bytes < limit ? bytes : limit;
}

static bool unknown(struct h2d_cache_state *out, const char *why)
{
	out->method = H2D_CACHE_UNKNOWN;
	out->cached_bytes = out->dirty_bytes = 0;
	out->why = why;
	return false;
}

/* What mm/mincore.c, can_do_mincore() asks: else everything is reported as cached. */
static bool mincore_is_honest(const struct h2d_file *f)
{
	char proc[32];
	struct stat st;

	if (h2d_io->fstat(f->fd, &st))
		return false;
	if (st.st_uid == geteuid())
		return true;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	return !faccessat(AT_FDCWD, proc, W_OK, AT_EACCESS);
}

static bool by_mincore(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		       struct h2d_cache_state *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + bytes;
	unsigned char *vec;
	bool ok = true;

	if (!mincore_is_honest(f))
		return unknown(out,
			       "the kernel has no cachestat (before 6.5), and mincore tells "
			       "nothing of a file that is neither owned nor writable");
	vec = h2d_mem->malloc(WINDOW_PAGES);
	if (!vec)
		return unknown(out, "out of memory");
	out->cached_bytes = 0;
	for (uint64_t at = offset & ~(page - 1); at < end && ok;) {
		uint64_t span = end - at < WINDOW_PAGES * page ? end - at : WINDOW_PAGES * page;
		void *p = h2d_io->mmap(NULL, span, PROT_READ, MAP_SHARED, f->fd, (off_t)at);

		if (p == MAP_FAILED) {
			ok = unknown(out, "the file cannot be mapped for mincore");
			break;
		}
		if (h2d_io->mincore(p, span, vec))
			ok = unknown(out, "mincore was refused");
		for (uint64_t i = 0; ok && i * page < span; i++) {
			uint64_t lo = at + i * page, hi = lo + page;

			if (vec[i] & 1)
				out->cached_bytes +=
					(hi < end ? hi : end) - (lo > offset ? lo : offset);
		}
		h2d_io->munmap(p, span);
		at += span;
	}
	free(vec);
	if (ok)
		out->method = H2D_CACHE_MINCORE;
	return ok;
}

void h2d_cache_query(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		     struct h2d_cache_state *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct h2d_cachestat cs;

	memset(out, 0, sizeof(*out));
	memset(&cs, 0, sizeof(cs));
	bytes = clip(f, offset, bytes);
	out->total_bytes = bytes;
	if (f->fd < 0) {
		unknown(out, "memory of the caller, not a file");
		return;
	}
	/* A length of 0 would mean "to the end". */
	if (!h2d_io->cachestat(f->fd, offset, bytes ? bytes : 1, &cs)) {
		out->method = H2D_CACHE_CACHESTAT;
		out->cached_bytes = pages_to_bytes(cs.cached, page, bytes);
		out->dirty_bytes = pages_to_bytes(cs.dirty, page, bytes);
		return;
	}
	switch (errno) {
	case ENOSYS:
		by_mincore(f, offset, bytes, out);
		break;
	case EPERM:
	case EACCES:
		unknown(out,
			"cachestat is refused: the file is neither owned nor writable, or a "
			"seccomp filter forbids it");
		break;
	case EOPNOTSUPP:
		unknown(out, "the filesystem has no page cache (hugetlbfs)");
		break;
	default:
		unknown(out, "cachestat failed");
	}
}

int h2d_cache_warm(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		   const struct h2d_log *log)
{
	uint64_t asked = offset, end;
	unsigned char *buf;
	int rc = 0;

	if (f->fd < 0)
		return h2d_fail(log, H2D_E_UNSUPPORTED, "%s: memory has no page cache",
				f->path);
	end = offset + clip(f, offset, bytes);
	buf = h2d_mem->malloc(WARM_BUFFER_BYTES);
	if (!buf)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", f->path);
	while (offset < end && !rc) {
		uint64_t n =
			end - offset < WARM_BUFFER_BYTES ? end - offset : WARM_BUFFER_BYTES;

		/* Sequential readahead alone keeps too little in flight. */
		while (asked < end && asked < offset + WARM_AHEAD_BYTES) {
			uint64_t ask =
				end - asked < WARM_AHEAD_BYTES ? end - asked : WARM_AHEAD_BYTES;

			h2d_io->fadvise(f->fd, (off_t)asked, (off_t)ask, POSIX_FADV_WILLNEED);
			asked += ask;
		}
		rc = h2d_file_read(f, buf, n, offset, log);
		offset += n;
	}
	free(buf);
	return rc;
}

static int write_back(const struct h2d_file *f, const struct h2d_log *log)
{
	int rc, err;

	do {
		rc = h2d_io->fdatasync(f->fd);
		err = rc ? errno : 0;
	} while (err == EINTR);
	/* Filesystems without a device, or read-only ones, have nothing to write. */
	if (err && err != EINVAL && err != EROFS)
		return h2d_fail_errno(log, err, "%s: writing dirty pages back", f->path);
	return 0;
}

int h2d_cache_evict(const struct h2d_file *f, uint64_t offset, uint64_t bytes,
		    const struct h2d_log *log)
{
	struct h2d_cache_state st;
	bool synced = false;
	int rc;

	if (f->fd < 0)
		return h2d_fail(log, H2D_E_UNSUPPORTED, "%s: memory has no page cache",
				f->path);
	bytes = clip(f, offset, bytes);
	if (!bytes)
		return 0;
	for (int i = 0; i < H2D_CACHE_EVICT_TRIES; i++) {
		h2d_cache_query(f, offset, bytes, &st);
		if (st.method != H2D_CACHE_UNKNOWN && !st.cached_bytes)
			return 0;
		if (!synced && (st.method != H2D_CACHE_CACHESTAT || st.dirty_bytes)) {
			rc = write_back(f, log);
			if (rc)
				return rc;
			synced = true;
		}
		rc = h2d_io->fadvise(f->fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
		if (rc)
			return h2d_fail_errno(log, rc, "%s: dropping from the page cache",
					      f->path);
		if (st.method == H2D_CACHE_UNKNOWN)
			return 0; /* nobody can say whether another try would help */
	}
	return 0;
}

void h2d_cache_drop(const struct h2d_file *f, uint64_t offset, uint64_t bytes)
{
	uint64_t begin = offset & ~(uint64_t)(FOLIO_MAX_BYTES - 1), end;

	end = offset + clip(f, offset, bytes);
	if (f->fd >= 0 && begin < end)
		h2d_io->fadvise(f->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_DONTNEED);
}
