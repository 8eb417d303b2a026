/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/cells.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* include/uapi/asm-generic/mman-common.h, Linux 5.14 */
#endif

#define W H2D_CELL_WRITABLE

const struct h2d_cell h2d_cells[] = {
	{"ro-present", "read-only private mapping, every page present", "r--p", H2D_CELL_FILE,
	 H2D_PREPARE_READ, H2D_PRESENCE_ALL, H2D_PAGES_FILE, 0, false, false},
	{"ro-absent", "read-only private mapping, no page present", "r--p", H2D_CELL_FILE,
	 H2D_PREPARE_NOTHING, H2D_PRESENCE_NONE, H2D_PAGES_ANY, 0, false, false},
	{"rw-absent", "writable private mapping, no page present", "rw-p", H2D_CELL_FILE,
	 H2D_PREPARE_NOTHING, H2D_PRESENCE_NONE, H2D_PAGES_ANY, W, false, true},
	{"rw-present", "writable private mapping, every page present: the defect", "rw-p",
	 H2D_CELL_FILE, H2D_PREPARE_READ, H2D_PRESENCE_ALL, H2D_PAGES_FILE, W, true, true},
	{"anon", "anonymous memory, written", "rw-p", H2D_CELL_ANONYMOUS, H2D_PREPARE_WRITE,
	 H2D_PRESENCE_ALL, H2D_PAGES_OWN, W, false, false},
	{"anon-zero-page", "anonymous memory, only read", "rw-p", H2D_CELL_ANONYMOUS,
	 H2D_PREPARE_READ, H2D_PRESENCE_ALL, H2D_PAGES_COMMON, W | H2D_CELL_ZEROS, true, true},
	{"anon-forked", "anonymous memory, shared with a child after fork()", "rw-p",
	 H2D_CELL_ANONYMOUS, H2D_PREPARE_WRITE_FORK, H2D_PRESENCE_ALL, H2D_PAGES_COMMON, W,
	 true, false},
	{"pinned", "memory pinned by the device's runtime", "rw-p", H2D_CELL_PINNED,
	 H2D_PREPARE_WRITE, H2D_PRESENCE_ALL, H2D_PAGES_ANY, 0, false, false},
	{"rw-then-ro", "writable mapping, present, then made read-only by mprotect()", "r--p",
	 H2D_CELL_FILE, H2D_PREPARE_READ_PROTECT, H2D_PRESENCE_ALL, H2D_PAGES_FILE, W, false,
	 false},
	{"rw-populated", "writable mapping after MADV_POPULATE_WRITE", "rw-p", H2D_CELL_FILE,
	 H2D_PREPARE_POPULATE, H2D_PRESENCE_ALL, H2D_PAGES_OWN, W, false, false},
	{"rw-sparse", "writable mapping, one byte of every 2 MiB span read", "rw-p",
	 H2D_CELL_FILE, H2D_PREPARE_READ_SPARSE, H2D_PRESENCE_SPARSE, H2D_PAGES_FILE, W, true,
	 true},
	{"rw-shifted", "writable mapping, present, one page behind a 2 MiB boundary", "rw-p",
	 H2D_CELL_FILE, H2D_PREPARE_READ, H2D_PRESENCE_ALL, H2D_PAGES_FILE,
	 W | H2D_CELL_SHIFTED, true, true},
	{NULL, NULL, NULL, 0, 0, 0, 0, 0, false, false},
};

const struct h2d_cell *h2d_cell_find(const char *name)
{
	for (const struct h2d_cell *c = h2d_cells; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

bool h2d_cell_is_private(const struct h2d_cell *c)
{
	return c->source != H2D_CELL_FILE_SHARED && c->source != H2D_CELL_MEMFD_SHARED;
}

static void invalid(struct h2d_cell_map *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The first reason stays. */
static void invalid(struct h2d_cell_map *m, const char *format, ...)
{
	va_list args;

	if (m->invalid[0])
		return;
	va_start(args, format);
	vsnprintf(m->invalid, sizeof(m->invalid), format, args);
	va_end(args);
}

void h2d_cell_touch(const void *data, uint64_t bytes, uint64_t step)
{
	const volatile unsigned char *p = data;

	for (uint64_t i = 0; i < bytes; i += step)
		(void)p[i];
}

static uint64_t page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- mapping ---- */

static int memory_file(uint64_t bytes)
{
	int fd = memfd_create("h2d-repro", MFD_CLOEXEC);
	void *p;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)bytes) ||
	    (p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
		    MAP_FAILED) {
		close(fd);
		return -1;
	}
	h2d_known_fill(p, bytes, 0);
	munmap(p, (size_t)bytes);
	return fd;
}

/*
 * Where the kernel puts the mapping, but never aligned only because a neighbour is: one page of
 * address space goes between. Filesystems that align mappings for huge pages (ext4, xfs) do so
 * all the same, plain tmpfs does not.
 */
static void keep_distance(struct h2d_cell_map *m)
{
	void *p = mmap(NULL, (size_t)page_bytes(), PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return;
	m->reserved = p;
	m->reserved_bytes = page_bytes();
}

/* Inaccessible address space around the mapping also keeps it from merging with neighbours,
 * whose pages smaps would then count. */
static unsigned char *reserve(struct h2d_cell_map *m)
{
	const uint64_t margin = 2 * H2D_SPAN_BYTES;
	uintptr_t at;
	void *p;

	if (m->bytes > SIZE_MAX - margin)
		return MAP_FAILED;
	p = mmap(NULL, (size_t)(m->bytes + margin), PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return MAP_FAILED;
	m->reserved = p;
	m->reserved_bytes = m->bytes + margin;
	at = ((uintptr_t)p + page_bytes() + H2D_SPAN_BYTES - 1) / H2D_SPAN_BYTES *
	     H2D_SPAN_BYTES;
	/* One page less than a span is left behind it, so a shift by one page fits. */
	if (m->cell->flags & H2D_CELL_SHIFTED)
		at += page_bytes();
	return (unsigned char *)at;
}

static int map_memory(struct h2d_cell_map *m, const struct h2d_known_file *file)
{
	const struct h2d_cell *c = m->cell;
	const bool anonymous = c->source == H2D_CELL_ANONYMOUS;
	const int prot = PROT_READ | (c->flags & W ? PROT_WRITE : 0);
	int flags = h2d_cell_is_private(c) ? MAP_PRIVATE : MAP_SHARED, fd = file->fd;
	unsigned char *at = NULL;
	void *p;

	if (anonymous || c->flags & (H2D_CELL_ALIGNED | H2D_CELL_SHIFTED)) {
		at = reserve(m);
		if (at == MAP_FAILED)
			return errno;
		flags |= MAP_FIXED;
	} else {
		keep_distance(m);
	}
	if (anonymous) {
		flags |= MAP_ANONYMOUS;
		fd = -1;
	} else if (c->source == H2D_CELL_MEMFD || c->source == H2D_CELL_MEMFD_SHARED) {
		fd = memory_file(m->bytes);
		if (fd < 0)
			return errno;
	}
	p = mmap(at, (size_t)m->bytes, prot, flags | MAP_NORESERVE, fd, 0);
	if (fd >= 0 && fd != file->fd)
		close(fd);
	if (p == MAP_FAILED)
		return errno;
	m->data = p;
	/* One kind of page in a cell: huge ones only where the cell is about them. */
	if (anonymous)
		madvise(p, (size_t)m->bytes,
			c->flags & (H2D_CELL_HUGE | H2D_CELL_HUGE_ZERO) ? MADV_HUGEPAGE
									: MADV_NOHUGEPAGE);
	return 0;
}

/* ---- preparing ---- */

static void share_with_child(struct h2d_cell_map *m)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid < 0) {
		invalid(m, "fork: %s", strerror(errno));
		return;
	}
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
		for (;;)
			pause();
	}
	m->child = pid;
}

/*
 * The first byte of every span that the range overlaps. Fault-around maps up to 64 KiB of the
 * file with it (mm/memory.c, fault_around_pages), and newer kernels the whole large folio;
 * what is beyond 64 KiB is unmapped again, so that a span holds few entries on any kernel.
 */
static void touch_sparsely(struct h2d_cell_map *m)
{
	const uint64_t keep = UINT64_C(64) << 10;
	uint64_t at = 0;

	while (at < m->bytes) {
		uint64_t next =
			at + H2D_SPAN_BYTES - ((uintptr_t)m->data + at) % H2D_SPAN_BYTES;

		h2d_cell_touch(m->data + at, 1, 1);
		next = next < m->bytes ? next : m->bytes;
		if (next - at > keep &&
		    madvise(m->data + at + keep, (size_t)(next - at - keep), MADV_DONTNEED))
			invalid(m, "MADV_DONTNEED: %s", strerror(errno));
		at = next;
	}
}

static void prepare(struct h2d_cell_map *m)
{
	switch (m->cell->prepare) {
	case H2D_PREPARE_NOTHING:
		break;
	case H2D_PREPARE_READ:
		h2d_cell_touch(m->data, m->bytes, page_bytes());
		break;
	case H2D_PREPARE_READ_SPARSE:
		touch_sparsely(m);
		break;
	case H2D_PREPARE_READ_FIRST:
		h2d_cell_touch(m->data, 1, 1);
		break;
	case H2D_PREPARE_WRITE:
	case H2D_PREPARE_WRITE_FORK:
		h2d_known_fill(m->data, m->bytes, 0);
		if (m->cell->prepare == H2D_PREPARE_WRITE_FORK)
			share_with_child(m);
		break;
	case H2D_PREPARE_POPULATE:
		if (madvise(m->data, (size_t)m->bytes, MADV_POPULATE_WRITE))
			invalid(m, "MADV_POPULATE_WRITE: %s", strerror(errno));
		break;
	case H2D_PREPARE_READ_PROTECT:
		h2d_cell_touch(m->data, m->bytes, page_bytes());
		if (mprotect(m->data, (size_t)m->bytes, PROT_READ))
			invalid(m, "mprotect: %s", strerror(errno));
		break;
	case H2D_PREPARE_READ_DISCARD:
		h2d_cell_touch(m->data, m->bytes, page_bytes());
		if (madvise(m->data, (size_t)m->bytes, MADV_DONTNEED))
			invalid(m, "MADV_DONTNEED: %s", strerror(errno));
		break;
	}
}

/* ---- checking ---- */

static void check_presence(struct h2d_cell_map *m)
{
	const struct h2d_page_state *p = &m->pages;

	if (p->swapped_count)
		invalid(m, "%" PRIu64 " pages are swapped out", p->swapped_count);
	switch (m->cell->presence) {
	case H2D_PRESENCE_NONE:
		if (p->present_count)
			invalid(m, "%" PRIu64 " pages are present", p->present_count);
		break;
	case H2D_PRESENCE_SOME:
		if (!p->present_count || p->present_count > p->page_count / 2)
			invalid(m, "%" PRIu64 " of %" PRIu64 " pages are present",
				p->present_count, p->page_count);
		break;
	case H2D_PRESENCE_SPARSE:
		if (p->present_span_count != p->span_count)
			invalid(m, "%" PRIu64 " of %" PRIu64 " spans hold a present page",
				p->present_span_count, p->span_count);
		if (p->present_count > p->page_count / 2)
			invalid(m, "%" PRIu64 " of %" PRIu64 " pages are present: not sparse",
				p->present_count, p->page_count);
		break;
	case H2D_PRESENCE_ALL:
		if (p->present_count != p->page_count)
			invalid(m, "%" PRIu64 " of %" PRIu64 " pages are present",
				p->present_count, p->page_count);
		break;
	}
}

static void check_pages(struct h2d_cell_map *m)
{
	const struct h2d_page_state *p = &m->pages;

	switch (m->cell->pages) {
	case H2D_PAGES_FILE:
		if (p->anonymous_count)
			invalid(m, "%" PRIu64 " present pages are anonymous",
				p->anonymous_count);
		break;
	case H2D_PAGES_OWN:
		if (p->exclusive_count != p->present_count)
			invalid(m, "%" PRIu64 " present pages are not our own",
				p->present_count - p->exclusive_count);
		break;
	case H2D_PAGES_COMMON:
		/* pagemap calls the huge zero page one of a file (fs/proc/task_mmu.c,
		 * pagemap_pmd_range: a page that is not anonymous), and nothing counts it. */
		if (m->cell->flags & H2D_CELL_HUGE_ZERO) {
			if (m->smaps.anonymous_bytes)
				invalid(m, "%" PRIu64 " bytes are memory of our own",
					m->smaps.anonymous_bytes);
		} else if (p->file_count || p->exclusive_count)
			invalid(m, "%" PRIu64 " present pages are of a file or our own",
				p->file_count + p->exclusive_count);
		break;
	case H2D_PAGES_ANY:
		break;
	}
}

static void check_size_of_pages(struct h2d_cell_map *m)
{
	const struct h2d_page_state *p = &m->pages;
	const uint64_t huge = m->smaps.huge_bytes;
	const bool contiguous = p->contiguous_count >= p->present_count / 10 * 9;

	if (m->cell->flags & H2D_CELL_HUGE && huge < m->bytes / 2)
		invalid(m, "only %" PRIu64 " KiB are mapped by PMD", huge >> 10);
	if (m->cell->flags & H2D_CELL_LARGE && huge)
		invalid(m, "%" PRIu64 " KiB are mapped by PMD", huge >> 10);
	if (m->cell->flags & (H2D_CELL_LARGE | H2D_CELL_HUGE_ZERO) && !contiguous)
		invalid(m,
			"%" PRIu64 " of %" PRIu64 " frames follow each other: no large folios",
			p->contiguous_count, p->present_count);
}

static void check_mapping(struct h2d_cell_map *m)
{
	const struct h2d_smaps *s = &m->smaps;

	if (strcmp(s->permissions, m->cell->permissions))
		invalid(m, "permissions are %s, not %s", s->permissions, m->cell->permissions);
	if (s->map_count != 1 || s->begin != (uintptr_t)m->data ||
	    s->end != (uintptr_t)m->data + m->bytes)
		invalid(m, "the kernel merged or split the mapping");
	check_size_of_pages(m);
}

static void expect(struct h2d_cell_map *m)
{
	const struct h2d_cell *c = m->cell;
	const bool asks_write = m->smaps.permissions[1] == 'w';
	const bool is_private = m->smaps.permissions[3] == 'p';

	if (c->source == H2D_CELL_PINNED || !asks_write || !is_private)
		return;
	m->expected_windows = m->pages.replaced_span_count;
	if (m->smaps.anonymous_bytes < m->bytes)
		m->expected_anon_bytes = m->bytes - m->smaps.anonymous_bytes;
	if (!!m->expected_windows != c->waits)
		invalid(m, "%" PRIu64 " spans hold an entry to replace", m->expected_windows);
	if (!!m->expected_anon_bytes != c->moves)
		invalid(m, "%" PRIu64 " KiB are anonymous already",
			m->smaps.anonymous_bytes >> 10);
}

static int check(struct h2d_cell_map *m, const struct h2d_log *log)
{
	int rc = h2d_smaps_read(m->data, m->bytes, log, &m->smaps);

	if (rc == H2D_E_NOMEM)
		return rc;
	if (rc)
		invalid(m, "smaps cannot be read");
	rc = h2d_pages_read(m->data, m->bytes, log, &m->pages);
	if (rc == H2D_E_NOMEM)
		return rc;
	if (rc)
		invalid(m, "pagemap cannot be read");
	/* A runtime may map pinned memory as it likes. */
	if (m->invalid[0] || m->cell->source == H2D_CELL_PINNED)
		return 0;
	check_mapping(m);
	check_presence(m);
	check_pages(m);
	expect(m);
	return 0;
}

int h2d_cell_map(const struct h2d_cell *cell, const struct h2d_known_file *file,
		 struct h2d_device *dev, uint64_t bytes, const struct h2d_log *log,
		 struct h2d_cell_map *out)
{
	void *pinned = NULL;
	int rc;

	memset(out, 0, sizeof(*out));
	out->cell = cell;
	out->bytes = bytes;
	if (cell->source == H2D_CELL_PINNED) {
		rc = dev->backend->host_alloc(dev, bytes, &pinned);
		if (rc)
			return rc;
		out->dev = dev;
		out->data = pinned;
	} else {
		rc = map_memory(out, file);
		if (rc == ENOMEM)
			return h2d_fail(log, H2D_E_NOMEM, "cell %s: %" PRIu64 " bytes",
					cell->name, bytes);
		if (rc)
			invalid(out, "cannot be mapped: %s", strerror(rc));
	}
	if (!out->data)
		return 0;
	prepare(out);
	return check(out, log);
}

static void end_child(struct h2d_cell_map *m)
{
	if (m->child <= 0)
		return;
	kill(m->child, SIGKILL);
	while (waitpid(m->child, NULL, 0) < 0 && errno == EINTR)
		;
	m->child = 0;
}

void h2d_cell_retire(struct h2d_cell_map *m)
{
	end_child(m);
	if (m->data && !m->dev)
		madvise(m->data, (size_t)m->bytes, MADV_DONTNEED);
}

void h2d_cell_unmap(struct h2d_cell_map *m)
{
	end_child(m);
	if (m->dev && m->data)
		m->dev->backend->host_free(m->dev, m->data, m->bytes);
	else if (m->data)
		munmap(m->data, (size_t)m->bytes);
	if (m->reserved)
		munmap(m->reserved, (size_t)m->reserved_bytes);
	memset(m, 0, sizeof(*m));
}
