/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file smaps.h
 * The text of /proc/PID/smaps, one mapping at a time. Thread-safe. Since 0.1.
 *
 * @source Documentation/filesystems/proc.rst, "smaps"; fs/proc/task_mmu.c
 */
#ifndef H2D_HOST_SMAPS_H
#define H2D_HOST_SMAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** What madvise(2) left behind, from VmFlags. */
enum h2d_advice {
	H2D_ADVICE_RANDOM = 1 << 0,	/**< rr: no read-ahead */
	H2D_ADVICE_SEQUENTIAL = 1 << 1, /**< sr */
	H2D_ADVICE_HUGE = 1 << 2,	/**< hg */
	H2D_ADVICE_NO_HUGE = 1 << 3,	/**< nh */
	H2D_ADVICE_NO_FORK = 1 << 4,	/**< dc: not copied on fork */
	H2D_ADVICE_LOCKED = 1 << 5,	/**< lo: mlock */
	H2D_ADVICE_NO_DUMP = 1 << 6,	/**< dd */
};

enum { H2D_SMAPS_LINE_BYTES = 8192 };

struct h2d_vma {
	uint64_t begin, end, offset_bytes;
	char permissions[5]; /**< as printed, "rw-p" */
	unsigned device_major, device_minor;
	uint64_t inode; /**< 0: no file */
	char path[4096 + 16];
	bool deleted;  /**< the kernel wrote " (deleted)" behind the path, which is cut off */
	unsigned seen; /**< H2D_SMAPS_* members that the kernel told */
	uint64_t present_bytes;	  /**< Rss */
	uint64_t anonymous_bytes; /**< Anonymous; never Private_Dirty, which counts the dirty
				   *   pages of the file as well */
	uint64_t swap_bytes;
	uint64_t huge_bytes; /**< AnonHugePages + ShmemPmdMapped + FilePmdMapped */
	uint64_t private_dirty_bytes, shared_bytes;
	unsigned advice; /**< enum h2d_advice */
};

enum {
	H2D_SMAPS_RSS = 1 << 0,
	H2D_SMAPS_ANONYMOUS = 1 << 1,
	H2D_SMAPS_SWAP = 1 << 2,
	H2D_SMAPS_FLAGS = 1 << 3,
	H2D_SMAPS_HUGE = 1 << 4,
};

/** A reader of one text. `keep`, when set, gets the block of each mapping as it was read. */
struct h2d_smaps_reader {
	FILE *in;
	char line[H2D_SMAPS_LINE_BYTES]; /**< read ahead: the next mapping's first line */
	bool have_line, failed;
	int error; /**< errno of a read that failed, else 0 */
	FILE *keep;
};

/**
 * Read the next mapping.
 * @return 1 with `vma` filled, 0 at the end, -1 when the text is no smaps (or maps)
 */
int h2d_smaps_next(struct h2d_smaps_reader *r, struct h2d_vma *vma);

/** Undo the escape of a path in maps: "\012" for a newline. In place. */
void h2d_unescape_octal(char *text);

#endif
