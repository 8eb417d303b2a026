/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file reference.h
 * Plain readers against which the loader is measured. Each prints one JSON object and touches
 * nothing but the file named; they share no code with the transfer engine on purpose.
 */
#ifndef H2D_REFERENCE_H
#define H2D_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_REPEAT_MAX = 64 };

struct reference_opts {
	const char *file;
	const char *device; /**< `stages` */
	unsigned threads;   /**< readers, or processes for `view` */
	uint64_t block_bytes;
	unsigned depth;	 /**< reads in flight, `direct` */
	int huge;	 /**< destination: 1 fresh 2 MiB pages, 0 fresh 4 KiB pages */
	int fresh;	 /**< `direct`: into fresh memory for the whole file */
	unsigned repeat; /**< `pread`, `direct`: so many times, each into new memory */
	int touched;	 /**< destination already written once */
};

/** N threads of pread() into fresh (or touched) anonymous memory. */
int reference_pread(const struct reference_opts *o);
/** O_DIRECT reads by io_uring at a fixed block size and depth into one reused set of buffers.
 */
int reference_direct(const struct reference_opts *o);
/** Write `file` (a number) bytes of fresh memory once: a hypervisor that took free memory back
 * has then given it again, and what is measured next does not pay for that. */
int reference_touch(const struct reference_opts *o);
/** CPU time of opening a checkpoint with libh2d. */
int reference_open(const struct reference_opts *o);
/** N processes viewing all of one checkpoint at once: time per view, and their summed Pss. */
int reference_view(const struct reference_opts *o);

/** Reading into staging memory and copying from it to a device, one after the other. */
int reference_stages(const struct reference_opts *o);

uint64_t reference_now_ns(void);
/** The one JSON object of a reader: `count` durations of reading `bytes` each. */
void reference_print(const uint64_t *samples_ns, unsigned count, uint64_t bytes);
/** Anonymous memory of `bytes`, 2 MiB-aligned; NULL on failure. */
unsigned char *reference_memory(uint64_t bytes, int huge, int touched);

#endif
