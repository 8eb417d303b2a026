/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the experiment, as data. */
#include "repro/experiment/law.h"

#define MIB (UINT64_C(1) << 20)
#define W   H2D_CELL_WRITABLE
#define WA  (H2D_CELL_WRITABLE | H2D_CELL_ALIGNED)

/* A writable private mapping of the file with every page present, placed as `flags` say. */
#define FULL(flags)                                                                            \
	{                                                                                      \
		"rw-present", "", "rw-p", H2D_CELL_FILE, H2D_PREPARE_READ, H2D_PRESENCE_ALL,   \
			H2D_PAGES_FILE, flags, true, true                                      \
	}
#define ANONYMOUS(prepare, pages, flags, waits, moves)                                         \
	{                                                                                      \
		"anon", "", "rw-p", H2D_CELL_ANONYMOUS, prepare, H2D_PRESENCE_ALL, pages,      \
			flags, waits, moves                                                    \
	}
#define OTHER(source, permissions, waits)                                                      \
	{                                                                                      \
		"other", "", permissions, source, H2D_PREPARE_READ, H2D_PRESENCE_ALL,          \
			H2D_PAGES_FILE, WA, waits, waits                                       \
	}

const struct h2d_law_row h2d_law_rows[] = {
	{"full-2MiB", "one span, every page present", H2D_LAW_COPY, 2 * MIB, FULL(WA)},
	{"full-8MiB", "four spans, every page present", H2D_LAW_COPY, 8 * MIB, FULL(WA)},
	{"full-32MiB", "sixteen spans, every page present", H2D_LAW_COPY, 32 * MIB, FULL(WA)},
	{"full-64MiB", "thirty-two spans, every page present", H2D_LAW_COPY, 64 * MIB,
	 FULL(WA)},
	{"placed-by-kernel", "the same where the filesystem wants the mapping: aligned or not",
	 H2D_LAW_COPY, 0, FULL(W)},
	{"shifted", "the same bytes one page behind a 2 MiB boundary", H2D_LAW_COPY, 0,
	 FULL(W | H2D_CELL_SHIFTED)},
	{"sparse",
	 "one byte of each span read: a thirty-second of the pages is present",
	 H2D_LAW_COPY,
	 0,
	 {"sparse", "", "rw-p", H2D_CELL_FILE, H2D_PREPARE_READ_SPARSE, H2D_PRESENCE_SPARSE,
	  H2D_PAGES_FILE, WA, true, true}},
	{"one-touch",
	 "one byte of all read: a tensor that was barely touched",
	 H2D_LAW_COPY,
	 0,
	 {"one-touch", "", "rw-p", H2D_CELL_FILE, H2D_PREPARE_READ_FIRST, H2D_PRESENCE_SOME,
	  H2D_PAGES_FILE, WA, true, true}},
	{"absent",
	 "nothing present: the page cache alone does not matter",
	 H2D_LAW_COPY,
	 0,
	 {"absent", "", "rw-p", H2D_CELL_FILE, H2D_PREPARE_NOTHING, H2D_PRESENCE_NONE,
	  H2D_PAGES_ANY, WA, false, true}},
	{"read-only",
	 "the same mapping without PROT_WRITE",
	 H2D_LAW_COPY,
	 0,
	 {"read-only", "", "r--p", H2D_CELL_FILE, H2D_PREPARE_READ, H2D_PRESENCE_ALL,
	  H2D_PAGES_FILE, H2D_CELL_ALIGNED, false, false}},
	{"file-thp", "file pages mapped by PMD: one entry instead of 512", H2D_LAW_HUGE_FILE, 0,
	 FULL(WA | H2D_CELL_HUGE)},
	{"large-folio-by-pte", "large folios mapped by PTE, since the mapping is not aligned",
	 H2D_LAW_HUGE_FILE, 0, FULL(W | H2D_CELL_SHIFTED | H2D_CELL_LARGE)},
	{"anon-written", "anonymous pages of our own: present and writable", H2D_LAW_COPY, 0,
	 ANONYMOUS(H2D_PREPARE_WRITE, H2D_PAGES_OWN, W, false, false)},
	{"anon-forked", "anonymous pages shared with a child after fork()", H2D_LAW_COPY, 0,
	 ANONYMOUS(H2D_PREPARE_WRITE_FORK, H2D_PAGES_COMMON, W, true, false)},
	{"anon-thp-forked", "the same in huge pages", H2D_LAW_COPY, 0,
	 ANONYMOUS(H2D_PREPARE_WRITE_FORK, H2D_PAGES_COMMON, W | H2D_CELL_HUGE, true, false)},
	{"anon-zero-page", "anonymous memory that was only read: the zero page", H2D_LAW_COPY,
	 0, ANONYMOUS(H2D_PREPARE_READ, H2D_PAGES_COMMON, W | H2D_CELL_ZEROS, true, true)},
	{"anon-huge-zero-page", "the same where huge pages are asked for", H2D_LAW_COPY, 0,
	 ANONYMOUS(H2D_PREPARE_READ, H2D_PAGES_COMMON, W | H2D_CELL_ZEROS | H2D_CELL_HUGE_ZERO,
		   true, true)},
	{"shared-file", "MAP_SHARED: a write changes the entry in place", H2D_LAW_COPY, 0,
	 OTHER(H2D_CELL_FILE_SHARED, "rw-s", false)},
	{"memfd-private", "private mapping of a memfd", H2D_LAW_COPY, 0,
	 OTHER(H2D_CELL_MEMFD, "rw-p", true)},
	{"memfd-shared", "shared mapping of a memfd", H2D_LAW_COPY, 0,
	 OTHER(H2D_CELL_MEMFD_SHARED, "rw-s", false)},
	{"read-only-alias",
	 "a read-only mapping of a file that is also mapped writable",
	 H2D_LAW_ALIAS,
	 0,
	 {"alias", "", "r--p", H2D_CELL_FILE, H2D_PREPARE_READ, H2D_PRESENCE_ALL,
	  H2D_PAGES_FILE, H2D_CELL_ALIGNED, false, false}},
	{"two-threads", "two mappings copied at once", H2D_LAW_TWO_THREADS, 0, FULL(WA)},
	{"two-threads-same", "one mapping copied by two threads at once",
	 H2D_LAW_TWO_THREADS_SAME, 0, FULL(WA)},
	{"invalidated",
	 "a read-only mapping of which another thread drops a page again and again",
	 H2D_LAW_INVALIDATED,
	 0,
	 {"invalidated", "", "r--p", H2D_CELL_FILE, H2D_PREPARE_NOTHING, H2D_PRESENCE_NONE,
	  H2D_PAGES_ANY, H2D_CELL_ALIGNED, false, false}},
	{NULL, NULL, 0, 0, {0}},
};
