/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file run_ops.h
 * Sequences of memory calls, read from bytes, done twice: on one arena by the calls of the
 * preloaded library, on another by the system calls themselves, which are the model. Results,
 * errors, faults and contents must agree after every step; which pages may be written is also
 * kept in a third, simple model, from which the steps are chosen.
 */
#ifndef H2D_TEST_RUN_OPS_H
#define H2D_TEST_RUN_OPS_H

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/keep.h"
#include "run/memory.h"
#include "run/signals.h"
#include "run/sys.h"

enum { OPS_PAGE = 4096, OPS_PAGES = 2560, OPS_FILE_PAGES = 2048 };

/* What a page of both arenas is. */
struct ops_page {
	int32_t id;   /* number of the call that mapped it; 0: reserved only */
	int32_t from; /* page of the file; -1: anonymous */
	int prot;
};

static struct ops_page ops_pages[OPS_PAGES];
static unsigned char *ops_arena[2];
static int ops_file = -1;
static sigjmp_buf ops_jump;
static const uint8_t *ops_at, *ops_end;
static bool ops_failed;

#define OPS_CHECK(cond, ...)                                                                   \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			fprintf(stderr, "run_ops: %s: ", #cond);                               \
			fprintf(stderr, __VA_ARGS__);                                          \
			fputc('\n', stderr);                                                   \
			ops_failed = true;                                                     \
			return;                                                                \
		}                                                                              \
	} while (0)

static uint32_t ops_number(uint32_t below)
{
	uint32_t n = 0;

	for (int i = 0; i < 2 && ops_at < ops_end; i++)
		n = n << 8 | *ops_at++;
	return n % below;
}

struct ops_range {
	uint32_t at, n;
};

static struct ops_range ops_range(void)
{
	struct ops_range r = {ops_number(OPS_PAGES), 0};
	uint32_t most = OPS_PAGES - r.at, kind = ops_number(4);

	/* Small ones, ends of blocks, and anything. */
	if (kind == 0 && most > 8)
		most = 8;
	r.n = 1 + ops_number(most);
	if (kind == 1)
		r.at &= ~511u;
	if (r.at + r.n > OPS_PAGES)
		r.n = OPS_PAGES - r.at;
	return r;
}

static void *ops_addr(int arena, uint32_t page)
{
	return ops_arena[arena] + (size_t)page * OPS_PAGE;
}

static void ops_on_fault(int sig)
{
	(void)sig;
	siglongjmp(ops_jump, 1);
}

/* One byte written or read. @return false if it faulted */
static bool ops_poke(volatile unsigned char *p, unsigned char value)
{
	if (sigsetjmp(ops_jump, 1))
		return false;
	*p = value;
	return true;
}

static bool ops_peek(const volatile unsigned char *p, unsigned char *value)
{
	if (sigsetjmp(ops_jump, 1))
		return false;
	*value = *p;
	return true;
}

/* What was unmapped is reserved again at once, so that nothing else settles there. */
static void ops_hold(int arena, uint32_t at, uint32_t n)
{
	sys_mmap(ops_addr(arena, at), (size_t)n * OPS_PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static void ops_reserve(uint32_t at, uint32_t n)
{
	for (int arena = 0; n && arena < 2; arena++)
		ops_hold(arena, at, n);
	for (uint32_t i = at; i < at + n; i++)
		ops_pages[i] = (struct ops_page){0, -1, PROT_NONE};
}

static void ops_map(int32_t id)
{
	struct ops_range r = ops_range();
	uint32_t kind = ops_number(4), from = ops_number(OPS_FILE_PAGES);
	int prot = kind == 3 ? PROT_READ : PROT_READ | PROT_WRITE;
	bool file = kind != 2;
	int flags = MAP_PRIVATE | MAP_FIXED | (file ? 0 : MAP_ANONYMOUS);
	void *p;

	/* Mostly of a size that is kept, and within the file. */
	if (file && r.at + 256 <= OPS_PAGES && r.n < 256)
		r.n = 256;
	if (file && from + r.n > OPS_FILE_PAGES)
		from = OPS_FILE_PAGES - r.n < OPS_FILE_PAGES ? OPS_FILE_PAGES - r.n : 0;
	if (file && r.n > OPS_FILE_PAGES)
		r.n = OPS_FILE_PAGES;
	p = ro_mmap(ops_addr(0, r.at), (size_t)r.n * OPS_PAGE, prot, flags,
		    file ? ops_file : -1, file ? (off_t)from * OPS_PAGE : 0);
	OPS_CHECK(p == ops_addr(0, r.at), "page %u, %u pages, errno %d", r.at, r.n, errno);
	p = sys_mmap(ops_addr(1, r.at), (size_t)r.n * OPS_PAGE, prot, flags,
		     file ? ops_file : -1, file ? (off_t)from * OPS_PAGE : 0);
	OPS_CHECK(p == ops_addr(1, r.at), "the model's mmap, errno %d", errno);
	for (uint32_t i = 0; i < r.n; i++)
		ops_pages[r.at + i] =
			(struct ops_page){id, file ? (int32_t)(from + i) : -1, prot};
}

static void ops_unmap(void)
{
	struct ops_range r = ops_range();
	int rc = ro_munmap(ops_addr(0, r.at), (size_t)r.n * OPS_PAGE);

	OPS_CHECK(rc == sys_munmap(ops_addr(1, r.at), (size_t)r.n * OPS_PAGE), "munmap %d", rc);
	ops_reserve(r.at, r.n);
}

static void ops_protect(void)
{
	static const int prots[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
	struct ops_range r = ops_range();
	int prot = prots[ops_number(3)], rc, rc_model;

	rc = ro_mprotect(ops_addr(0, r.at), (size_t)r.n * OPS_PAGE, prot);
	rc_model = sys_mprotect(ops_addr(1, r.at), (size_t)r.n * OPS_PAGE, prot);
	OPS_CHECK(rc == rc_model, "mprotect %d, model %d", rc, rc_model);
	for (uint32_t i = r.at; i < r.at + r.n; i++)
		ops_pages[i].prot = prot;
}

static void ops_touch(void)
{
	uint32_t page = ops_number(OPS_PAGES), in = ops_number(OPS_PAGE);
	unsigned char value = (unsigned char)ops_number(256), is[2] = {0};
	bool done[2];

	for (int arena = 0; arena < 2; arena++)
		done[arena] = ops_poke((unsigned char *)ops_addr(arena, page) + in, value);
	OPS_CHECK(done[0] == done[1] && done[0] == !!(ops_pages[page].prot & PROT_WRITE),
		  "write to page %u: %d, model %d, prot %d", page, done[0], done[1],
		  ops_pages[page].prot);
	for (int arena = 0; arena < 2; arena++)
		done[arena] = ops_peek((unsigned char *)ops_addr(arena, page) + in, &is[arena]);
	OPS_CHECK(done[0] == done[1] && is[0] == is[1], "read of page %u: %d/%d, model %d/%d",
		  page, done[0], is[0], done[1], is[1]);
}

static void ops_fill(void)
{
	struct ops_range r = ops_range();
	unsigned char value = (unsigned char)ops_number(256);

	for (uint32_t i = r.at; i < r.at + r.n; i++)
		for (int arena = 0; arena < 2; arena++)
			OPS_CHECK(ops_poke(ops_addr(arena, i), value) ==
					  !!(ops_pages[i].prot & PROT_WRITE),
				  "write to page %u of arena %d", i, arena);
}

/* The kernel writes: as read() of the library does. */
static void ops_read(void)
{
	struct ops_range r = ops_range();
	uint32_t from = ops_number(OPS_FILE_PAGES);
	size_t bytes = (size_t)r.n * OPS_PAGE - ops_number(OPS_PAGE);
	long got, model;

	ro_open(ops_addr(0, r.at), bytes, RO_KERNEL_WRITE);
	got = sys_pread(ops_file, ops_addr(0, r.at), bytes, (uint64_t)from * OPS_PAGE);
	model = sys_pread(ops_file, ops_addr(1, r.at), bytes, (uint64_t)from * OPS_PAGE);
	OPS_CHECK(got == model, "pread %ld, model %ld", got, model);
}

static void ops_advise(void)
{
	static const int advice[] = {MADV_DONTNEED, MADV_POPULATE_WRITE, MADV_POPULATE_READ,
				     MADV_WILLNEED};
	struct ops_range r = ops_range();
	int which = advice[ops_number(4)], rc, rc_model;

	rc = ro_madvise(ops_addr(0, r.at), (size_t)r.n * OPS_PAGE, which);
	rc_model = sys_madvise(ops_addr(1, r.at), (size_t)r.n * OPS_PAGE, which);
	OPS_CHECK(rc == rc_model, "madvise(%d) %d, model %d, errno %d", which, rc, rc_model,
		  errno);
}

/* Whether all of a range is kept. What the program took over by mprotect() may be in more parts
 * than it would be without us, and mremap() then refuses to let it grow: a known difference. */
static bool ops_kept(struct ops_range r)
{
	uintptr_t at = (uintptr_t)ops_addr(0, r.at), end = at + (size_t)r.n * OPS_PAGE;
	struct ro_piece *p;

	while (at < end && (p = ro_table_at(&ro.table, at)))
		at = p->end;
	return at >= end;
}

/* A range of one mapping with one protection: what mremap() takes on every kernel. */
static bool ops_uniform(struct ops_range *r)
{
	const struct ops_page *first = &ops_pages[r->at];
	uint32_t n = 1;

	while (n < r->n && first[n].id == first->id && first[n].prot == first->prot &&
	       (first->from < 0 ? first[n].from < 0
				: first[n].from == first->from + (int32_t)n))
		n++;
	r->n = n;
	return first->id != 0 && (first->from < 0 || ops_kept(*r));
}

static void ops_moved(struct ops_range from, uint32_t to, uint32_t n, bool leave)
{
	static struct ops_page moved[OPS_PAGES];
	uint32_t common = n < from.n ? n : from.n;

	memcpy(moved, &ops_pages[from.at], common * sizeof(moved[0]));
	for (uint32_t i = common; i < n; i++) {
		moved[i] = moved[common - 1];
		if (moved[i].from >= 0)
			moved[i].from++;
	}
	if (!leave)
		ops_reserve(from.at, from.n);
	memcpy(&ops_pages[to], moved, n * sizeof(moved[0]));
}

/* A file's pages past its end would be SIGBUS. */
static uint32_t ops_most(struct ops_range r)
{
	const struct ops_page *last = &ops_pages[r.at + r.n - 1];

	return last->from < 0 ? OPS_PAGES : r.n + OPS_FILE_PAGES - 1 - (uint32_t)last->from;
}

static void ops_remap_fixed(struct ops_range r)
{
	uint32_t n = 1 + ops_number(2 * r.n), to, kind = ops_number(3);
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	void *p[2];

	if (n > ops_most(r))
		n = ops_most(r);
	if (kind == 0)
		n = r.n;
	if (kind == 0 && ops_number(2))
		flags |= 4; /* DONTUNMAP */
	if (n > OPS_PAGES)
		return;
	to = ops_number(OPS_PAGES - n + 1);
	if (to < r.at + r.n && r.at < to + n)
		return;
	for (int arena = 1; arena >= 0; arena--) {
		p[arena] = (arena ? sys_mremap : ro_mremap)(
			ops_addr(arena, r.at), (size_t)r.n * OPS_PAGE, (size_t)n * OPS_PAGE,
			flags, ops_addr(arena, to));
		/* The model's mapping may be in parts for reasons of its own. */
		if (arena && p[1] == MAP_FAILED) {
			ops_reserve(to, n);
			ro_munmap(ops_addr(0, to), (size_t)n * OPS_PAGE);
			ops_reserve(to, n);
			return;
		}
		if (arena && !(flags & 4))
			ops_hold(1, r.at, r.n);
	}
	OPS_CHECK(p[0] == ops_addr(0, to), "mremap of %u, %u pages to %u, %u pages: errno %d",
		  r.at, r.n, to, n, errno);
	ops_moved(r, to, n, flags & 4);
}

/* Shrink or grow where it is. */
static void ops_remap_here(struct ops_range r)
{
	uint32_t n = 1 + ops_number(2 * r.n);
	void *p[2];

	if (n > ops_most(r))
		n = ops_most(r);
	if (r.at + n > OPS_PAGES)
		n = OPS_PAGES - r.at;
	for (int arena = 0; arena < 2 && n > r.n; arena++)
		(arena ? sys_munmap : ro_munmap)(ops_addr(arena, r.at + r.n),
						 (size_t)(n - r.n) * OPS_PAGE);
	for (int arena = 1; arena >= 0; arena--) {
		p[arena] = (arena ? sys_mremap : ro_mremap)(ops_addr(arena, r.at),
							    (size_t)r.n * OPS_PAGE,
							    (size_t)n * OPS_PAGE, 0, NULL);
		if (arena && p[1] == MAP_FAILED) {
			if (n > r.n)
				ops_reserve(r.at + r.n, n - r.n);
			return;
		}
		if (arena && n < r.n)
			ops_hold(1, r.at + n, r.n - n);
	}
	if (p[0] == MAP_FAILED && n > r.n)
		ops_reserve(r.at + r.n, n - r.n);
	OPS_CHECK(p[0] == ops_addr(0, r.at), "mremap in place of %u, %u pages to %u: errno %d",
		  r.at, r.n, n, errno);
	if (n < r.n)
		ops_reserve(r.at + n, r.n - n);
	for (uint32_t i = r.n; i < n; i++) {
		ops_pages[r.at + i] = ops_pages[r.at + i - 1];
		if (ops_pages[r.at + i].from >= 0)
			ops_pages[r.at + i].from++;
	}
}

/* Whether a part of the library's arena is several entries of the kernel's map. */
static bool ops_split(struct ops_range r)
{
	uintptr_t begin = (uintptr_t)ops_addr(0, r.at), end = begin + (size_t)r.n * OPS_PAGE, a,
		  b;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool split = false;

	while (f && !split && fgets(line, sizeof(line), f))
		split = sscanf(line, "%lx-%lx", &a, &b) == 2 && begin < b && b < end;
	if (f)
		fclose(f);
	return split;
}

/* Out of the arena to where the kernel likes, larger; and back. */
static void ops_remap_away(struct ops_range r)
{
	uint32_t n = r.n + ops_number(r.n);
	void *p[2];

	if (n > ops_most(r))
		n = ops_most(r);
	if (r.at + n > OPS_PAGES)
		n = OPS_PAGES - r.at;
	for (int arena = 1; arena >= 0; arena--) {
		p[arena] = (arena ? sys_mremap
				  : ro_mremap)(ops_addr(arena, r.at), (size_t)r.n * OPS_PAGE,
					       (size_t)n * OPS_PAGE, MREMAP_MAYMOVE, NULL);
		if (arena && p[1] == MAP_FAILED)
			return;
		/* At once, or the other arena's is moved to where this one's was. */
		if (p[arena] != MAP_FAILED && p[arena] != ops_addr(arena, r.at))
			ops_hold(arena, r.at, r.n);
	}
	/* The difference that run/interpose.h names: as if neither had moved. */
	if (p[0] == MAP_FAILED && errno == EFAULT && ops_split(r)) {
		if (p[1] != ops_addr(1, r.at))
			OPS_CHECK(sys_mremap(p[1], (size_t)n * OPS_PAGE, (size_t)r.n * OPS_PAGE,
					     MREMAP_MAYMOVE | MREMAP_FIXED,
					     ops_addr(1, r.at)) == ops_addr(1, r.at),
				  "back, errno %d", errno);
		return;
	}
	OPS_CHECK(p[0] != MAP_FAILED, "mremap away of %u, %u pages to %u: errno %d", r.at, r.n,
		  n, errno);
	for (int arena = 1; arena >= 0; arena--) {
		void *back;

		if (p[arena] == ops_addr(arena, r.at))
			continue;
		back = (arena ? sys_mremap : ro_mremap)(
			p[arena], (size_t)n * OPS_PAGE, (size_t)n * OPS_PAGE,
			MREMAP_MAYMOVE | MREMAP_FIXED, ops_addr(arena, r.at));
		OPS_CHECK(back == ops_addr(arena, r.at), "arena %d, back, errno %d", arena,
			  errno);
	}
	for (uint32_t i = r.n; i < n; i++) {
		ops_pages[r.at + i] = ops_pages[r.at + i - 1];
		if (ops_pages[r.at + i].from >= 0)
			ops_pages[r.at + i].from++;
	}
}

static void ops_remap(void)
{
	struct ops_range r = ops_range();

	if (!ops_uniform(&r))
		return;
	switch (ops_number(3)) {
	case 0:
		ops_remap_fixed(r);
		break;
	case 1:
		ops_remap_here(r);
		break;
	default:
		ops_remap_away(r);
	}
}

/* Every page, to the last byte; then every page that may be written is. */
static void ops_compare(void)
{
	for (uint32_t i = 0; i < OPS_PAGES; i++) {
		if (!(ops_pages[i].prot & PROT_READ))
			continue;
		OPS_CHECK(!memcmp(ops_addr(0, i), ops_addr(1, i), OPS_PAGE),
			  "contents of page %u", i);
	}
	for (uint32_t i = 0; i < OPS_PAGES; i++) {
		struct ro_piece *piece = ro_table_at(&ro.table, (uintptr_t)ops_addr(0, i));

		OPS_CHECK(!piece || ops_pages[i].prot == (PROT_READ | PROT_WRITE),
			  "page %u is kept and has prot %d", i, ops_pages[i].prot);
		OPS_CHECK(ops_poke(ops_addr(0, i), 1) == !!(ops_pages[i].prot & PROT_WRITE),
			  "write to page %u", i);
	}
}

static bool ops_begin(void)
{
	static const unsigned char head[] = {8,	  0,   0,   0,	 0,   0,   0,	0,
					     '{', '}', ' ', ' ', ' ', ' ', ' ', ' '};
	size_t bytes = (size_t)OPS_FILE_PAGES * OPS_PAGE;
	struct sigaction act = {.sa_handler = ops_on_fault};

	if (ops_file >= 0)
		return true;
	ro.sigaction = sigaction;
	ro_init();
	ops_file = memfd_create("ops", MFD_CLOEXEC);
	if (ops_file < 0)
		return false;
	for (size_t i = 0; i < bytes / 8; i++) {
		uint64_t word = i * 0x9e3779b97f4a7c15ull;

		if (pwrite(ops_file, &word, 8, (off_t)(i * 8)) != 8)
			return false;
	}
	if (pwrite(ops_file, head, sizeof(head), 0) != sizeof(head))
		return false;
	for (int arena = 0; arena < 2; arena++) {
		unsigned char *p =
			sys_mmap(NULL, ((size_t)OPS_PAGES + 512) * OPS_PAGE, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			return false;
		ops_arena[arena] = p + (-(uintptr_t)p & (RO_BLOCK_BYTES - 1));
	}
	return !ro_sigaction(SIGSEGV, &act, NULL);
}

static inline bool ops_run(const uint8_t *data, size_t bytes)
{
	ops_failed = false;
	if (sysconf(_SC_PAGESIZE) != OPS_PAGE || !ops_begin())
		return false;
	ops_reserve(0, OPS_PAGES);
	ops_at = data;
	ops_end = data + bytes;
	for (int32_t id = 1; ops_at < ops_end && !ops_failed; id++) {
		static void (*const ops[])(void) = {ops_unmap,	ops_protect, ops_touch,
						    ops_touch,	ops_fill,    ops_read,
						    ops_advise, ops_remap,   ops_remap};
		uint32_t op = *ops_at++ % 12;

		if (op < sizeof(ops) / sizeof(ops[0]))
			ops[op]();
		else
			ops_map(id);
		if (!ro_table_valid(&ro.table)) {
			fprintf(stderr, "run_ops: the table is broken after step %d\n", id);
			return false;
		}
	}
	if (!ops_failed)
		ops_compare();
	ro_munmap(ops_arena[0], (size_t)OPS_PAGES * OPS_PAGE);
	ops_reserve(0, OPS_PAGES);
	if (!ops_failed && ro.table.piece_count) {
		fprintf(stderr, "run_ops: %zu pieces are left\n", ro.table.piece_count);
		return false;
	}
	return !ops_failed;
}

#endif
