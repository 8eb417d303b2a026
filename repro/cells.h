/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file cells.h
 * The cells: states of a copy's source, as data. Each is brought about in a fresh mapping, and
 * the kernel is then asked whether it really is so; a cell that is not in its state is told as
 * invalid and never measured. Since 0.1.
 *
 * Thread-safety: different mappings may be used from different threads.
 */
#ifndef H2D_REPRO_CELLS_H
#define H2D_REPRO_CELLS_H

#include <sys/types.h>

#include "device/device.h"
#include "repro/known.h"
#include "repro/pages.h"

/** What the mapping shows. */
enum h2d_cell_source {
	H2D_CELL_FILE,	       /**< private mapping of the file */
	H2D_CELL_FILE_SHARED,  /**< shared mapping of the file */
	H2D_CELL_MEMFD,	       /**< private mapping of a memory file of its own */
	H2D_CELL_MEMFD_SHARED, /**< shared mapping of one */
	H2D_CELL_ANONYMOUS,
	H2D_CELL_PINNED, /**< memory of the device's own host_alloc */
};

/** What is done to it before the copy. */
enum h2d_cell_prepare {
	H2D_PREPARE_NOTHING,
	H2D_PREPARE_READ,	  /**< one byte of every page is read */
	H2D_PREPARE_READ_SPARSE,  /**< one byte of every span is read */
	H2D_PREPARE_READ_FIRST,	  /**< one byte of all is read */
	H2D_PREPARE_WRITE,	  /**< the known bytes are written */
	H2D_PREPARE_WRITE_FORK,	  /**< written, then shared with a child that lives on */
	H2D_PREPARE_POPULATE,	  /**< MADV_POPULATE_WRITE, Linux 5.14 */
	H2D_PREPARE_READ_PROTECT, /**< read, then mprotect(PROT_READ) */
	H2D_PREPARE_READ_DISCARD, /**< read, then MADV_DONTNEED: absent again */
};

/** What must be present when the copy starts. */
enum h2d_cell_presence {
	H2D_PRESENCE_NONE,
	H2D_PRESENCE_SOME,   /**< something, and less than half */
	H2D_PRESENCE_SPARSE, /**< something in every span, and less than half */
	H2D_PRESENCE_ALL,
};

/** Of what kind the present pages are. */
enum h2d_cell_pages {
	H2D_PAGES_FILE,
	H2D_PAGES_OWN,	  /**< anonymous, mapped nowhere else */
	H2D_PAGES_COMMON, /**< anonymous and shared with another process, or the zero page */
	H2D_PAGES_ANY,
};

enum {
	H2D_CELL_WRITABLE = 1 << 0,  /**< mapped with PROT_WRITE */
	H2D_CELL_ALIGNED = 1 << 1,   /**< placed at a multiple of 2 MiB, else where the kernel
				      *   puts it (anonymous ones are always placed) */
	H2D_CELL_SHIFTED = 1 << 2,   /**< placed one page behind a multiple of 2 MiB */
	H2D_CELL_ZEROS = 1 << 3,     /**< the bytes are zeros */
	H2D_CELL_HUGE = 1 << 4,	     /**< huge pages are asked for and must be mapped by PMD */
	H2D_CELL_LARGE = 1 << 5,     /**< must be large folios that are not mapped by PMD */
	H2D_CELL_HUGE_ZERO = 1 << 6, /**< huge pages are asked for; smaps never shows the huge
				      *   zero page, its frames do */
};

struct h2d_cell {
	const char *name;
	const char *summary;	 /**< one line, for help and man page */
	const char *permissions; /**< as /proc/self/maps prints them before the copy */
	enum h2d_cell_source source;
	enum h2d_cell_prepare prepare;
	enum h2d_cell_presence presence;
	enum h2d_cell_pages pages;
	unsigned flags;
	/** Under permission rule `vma`: whether entries have to be replaced (policy `stale`
	 * then waits), and whether the source becomes anonymous. The prepared state is checked
	 *  against both. */
	bool waits, moves;
};

/** Whether a write through the mapping replaces pages (private) or changes them in place. */
bool h2d_cell_is_private(const struct h2d_cell *c);

/** The cells of `h2d repro`, ended by a NULL name. */
extern const struct h2d_cell h2d_cells[];
const struct h2d_cell *h2d_cell_find(const char *name);

/** A cell brought into its state. */
struct h2d_cell_map {
	const struct h2d_cell *cell;
	struct h2d_device *dev; /**< owner of pinned memory, else NULL */
	unsigned char *data;
	uint64_t bytes;
	void *reserved; /**< address space around a placed mapping, or NULL */
	uint64_t reserved_bytes;
	pid_t child; /**< shares the pages; 0: none */
	struct h2d_page_state pages;
	struct h2d_smaps smaps;
	uint64_t expected_windows;    /**< by the law, under rule `vma` and policy `stale` */
	uint64_t expected_anon_bytes; /**< what a write would make anonymous */
	char invalid[192];	      /**< why the state was not reached; "" when it was */
};

/**
 * Map and prepare a cell, and check its state.
 *
 * @param file   at least `bytes` long
 * @param bytes  a multiple of the page size
 * @param out    (out) released by h2d_cell_unmap(), also when `invalid` says why not
 * @return 0, also for an invalid cell; H2D_E_NOMEM, or the device's status for pinned memory
 */
int h2d_cell_map(const struct h2d_cell *cell, const struct h2d_known_file *file,
		 struct h2d_device *dev, uint64_t bytes, const struct h2d_log *log,
		 struct h2d_cell_map *out);

/** The copy is over: end the child and give private pages back. The address range stays
 *  taken, so that nothing which a runtime remembers of it can answer for another cell. */
void h2d_cell_retire(struct h2d_cell_map *m);
void h2d_cell_unmap(struct h2d_cell_map *m);

/** Read one byte of every `step` bytes. */
void h2d_cell_touch(const void *data, uint64_t bytes, uint64_t step);

#endif
