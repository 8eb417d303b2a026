/* SPDX-License-Identifier: Apache-2.0 */
#include "file/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/checked.h"
#include "file/io.h"

#ifndef HUGETLBFS_MAGIC
#define HUGETLBFS_MAGIC 0x958458f6 /* include/uapi/linux/magic.h */
#endif

enum { PAGEMAP_BATCH = 4096 }; /* entries read at once: 32 KiB of stack */
#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_FILE	(1ull << 61) /* of a file, or shared anonymous */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* include/uapi/asm-generic/mman-common.h, Linux 5.14 */
#endif

/* Size of the pages behind a mapping of `fd`: a huge one on hugetlbfs, where nothing smaller
 * can be replaced. */
static uint64_t backing_page_bytes(int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct statfs fs;

	if (!fstatfs(fd, &fs) && (unsigned long)fs.f_type == HUGETLBFS_MAGIC &&
	    (uint64_t)fs.f_bsize > page)
		return (uint64_t)fs.f_bsize;
	return page;
}

int h2d_map_open(struct h2d_map *m, const struct h2d_file *f, enum h2d_map_kind kind,
		 const struct h2d_log *log)
{
	int flags = kind == H2D_MAP_SHARED ? MAP_SHARED : MAP_PRIVATE;
	void *p;

	memset(m, 0, sizeof(*m));
	m->bytes = f->id.size_bytes;
	m->name = f->path;
	m->prot = kind == H2D_MAP_WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;
	if (f->fd < 0) {
		if (kind != H2D_MAP_READ)
			return h2d_fail(log, H2D_E_UNSUPPORTED,
					"%s: memory can only be viewed, not mapped", f->path);
		m->base = (unsigned char *)(uintptr_t)f->memory;
		m->borrowed = true;
		return 0;
	}
	m->page_bytes = backing_page_bytes(f->fd);
	if (!m->bytes)
		return 0;
	if (m->bytes > SIZE_MAX)
		return h2d_fail(log, H2D_E_NOMEM, "%s: larger than the address space", f->path);
	p = h2d_io->mmap(NULL, m->bytes, m->prot, flags, f->fd, 0);
	if (p == MAP_FAILED && errno == ENOMEM && kind == H2D_MAP_WRITABLE) {
		h2d_log_line(
			log, H2D_LOG_INFO,
			"%s: private writable mapping of %llu bytes passes the commit limit, "
			"mapped without reserving memory",
			f->path, (unsigned long long)m->bytes);
		p = h2d_io->mmap(NULL, m->bytes, m->prot, flags | MAP_NORESERVE, f->fd, 0);
	}
	if (p == MAP_FAILED)
		return h2d_fail_errno(log, errno, "%s: mapping %llu bytes", f->path,
				      (unsigned long long)m->bytes);
	m->base = p;
	return 0;
}

void h2d_map_close(struct h2d_map *m)
{
	if (m->base && !m->borrowed)
		h2d_io->munmap(m->base, m->bytes);
	memset(m, 0, sizeof(*m));
}

void h2d_map_release(struct h2d_map *m, uint64_t offset, uint64_t bytes)
{
	uint64_t begin, end;

	if (!m->base || m->borrowed || !h2d_add_u64(offset, bytes, &end) || end > m->bytes)
		return;
	if (!h2d_align_up_u64(offset, m->page_bytes, &begin))
		return;
	/* The last page holds nothing but the file's end. */
	if (end < m->bytes)
		end &= ~(m->page_bytes - 1);
	if (begin < end)
		h2d_io->madvise(m->base + begin, end - begin, MADV_DONTNEED);
}

static int pagemap_read(int fd, uint64_t *entries, size_t count, uint64_t first)
{
	size_t done = 0, bytes = count * sizeof(*entries);

	while (done < bytes) {
		ssize_t n = h2d_io->pread(fd, (char *)entries + done, bytes - done,
					  (off_t)(first * sizeof(*entries) + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return H2D_E_IO;
		done += (size_t)n;
	}
	return 0;
}

/* Bytes whose page has `want` of the bits in `mask`. */
static int count_pages(const void *addr, uint64_t bytes, uint64_t mask, uint64_t want,
		       uint64_t *counted_bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end, first, last;
	uint64_t entries[PAGEMAP_BATCH];
	uint64_t begin = (uintptr_t)addr;
	int fd, rc = 0;

	*counted_bytes = 0;
	if (!bytes)
		return 0;
	if (!h2d_add_u64(begin, bytes, &end))
		return H2D_E_INVALID;
	fd = h2d_io->open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return H2D_E_UNAVAILABLE;
	first = begin / page;
	last = (end - 1) / page;
	while (first <= last && !rc) {
		size_t count = last - first < PAGEMAP_BATCH ? (size_t)(last - first + 1)
							    : PAGEMAP_BATCH;

		rc = pagemap_read(fd, entries, count, first);
		for (size_t i = 0; i < count && !rc; i++) {
			uint64_t lo = (first + i) * page, hi = lo + page;

			if ((entries[i] & mask) != want)
				continue;
			*counted_bytes += (hi < end ? hi : end) - (lo > begin ? lo : begin);
		}
		first += count;
	}
	h2d_io->close(fd);
	return rc;
}

int h2d_map_present(const void *addr, uint64_t bytes, uint64_t *present_bytes)
{
	return count_pages(addr, bytes, PAGEMAP_PRESENT, PAGEMAP_PRESENT, present_bytes);
}

int h2d_map_anonymous(const void *addr, uint64_t bytes, uint64_t *anonymous_bytes)
{
	return count_pages(addr, bytes, PAGEMAP_PRESENT | PAGEMAP_FILE, PAGEMAP_PRESENT,
			   anonymous_bytes);
}

int h2d_map_populate(const struct h2d_map *m, const struct h2d_file *f, uint64_t offset,
		     uint64_t bytes, const struct h2d_log *log)
{
	int err, rc;

	do
		err = h2d_io->madvise(m->base + offset, bytes, MADV_POPULATE_READ) ? errno : 0;
	while (err == EINTR || err == EAGAIN);
	if (!err)
		return 0;
	if (err == EINVAL)
		return H2D_E_UNSUPPORTED;
	rc = h2d_file_check_unchanged(f, log);
	return rc ? rc
		  : h2d_fail(log, H2D_E_IO,
			     "%s: %llu bytes at offset %llu of its mapping cannot be read in: "
			     "%s",
			     m->name, (unsigned long long)bytes, (unsigned long long)offset,
			     strerror(err));
}
