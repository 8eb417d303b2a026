/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file process.h
 * Which files a process maps, how, and what its memory holds of them. Needs no privileges for
 * one's own processes; says what it could not see of others. Thread-safe on different results.
 * Since 0.1.
 */
#ifndef H2D_HOST_PROCESS_H
#define H2D_HOST_PROCESS_H

#include "core/json.h"
#include "core/log.h"
#include "format/detect.h"
#include "host/mounts.h"
#include "host/smaps.h"

enum { H2D_PROCESS_MAPPINGS_MAX = 262144 }; /* four times vm.max_map_count's default */

/** A file that is mapped, told apart by device and inode. */
struct h2d_mapped_file {
	unsigned device_major, device_minor;
	uint64_t inode;
	char *path;   /**< as the process sees it; for one that is deleted, what it was */
	bool deleted; /**< no name leads to it any more */

	bool content_known; /**< `format` was read from the file */
	enum h2d_format_id format;
	bool checkpoint; /**< its content is one, and no mere list of files (an index.json) */
	bool named_like_one; /**< the content is unknown, its name is a checkpoint's */
	bool size_known;
	uint64_t size_bytes;
	char why[192]; /**< why the content or the cache state is not known, or "" */
	struct h2d_mount mount;
	int fd; /**< for the page cache; -1: none */
};

/** One mapping of one of the files. */
struct h2d_file_mapping {
	uint64_t begin, end, offset_bytes;
	char permissions[5];
	unsigned seen; /**< H2D_SMAPS_*: what the kernel told */
	uint64_t present_bytes, anonymous_bytes, swap_bytes, huge_bytes, private_dirty_bytes;
	unsigned advice;
	uint32_t file; /**< index */
	bool cached_known;
	uint64_t cached_bytes; /**< of the part of the file that is mapped here */
};

/** A runtime or library that the process has loaded. */
enum h2d_process_runtime {
	H2D_RUNTIME_HIP = 1 << 0,
	H2D_RUNTIME_CUDA = 1 << 1,
	H2D_RUNTIME_OPENCL = 1 << 2,
	H2D_RUNTIME_TORCH = 1 << 3,
	H2D_RUNTIME_GGML = 1 << 4,
	H2D_RUNTIME_H2D_RUN = 1 << 5, /**< the library that `h2d run` preloads */
};

/** Sums over the mappings of checkpoints, or over those of one kind. */
struct h2d_mapping_sum {
	uint64_t mapping_count, size_bytes, present_bytes, anonymous_bytes, swap_bytes,
		huge_bytes, cached_bytes;
	bool cached_known; /**< of every one of them */
};

struct h2d_process {
	int pid;
	char name[64]; /**< comm */
	char state;    /**< of stat: R S D Z T …; 0 unknown */
	int task; /**< whose memory and files were read: pid, or a thread that goes on where the
		     first has ended */
	uint64_t start_ticks;
	bool have_uid;
	unsigned uid;
	unsigned threads;
	bool other_pid_namespace; /**< it has another number in its own namespace */
	char **words; /**< command line, ended by NULL; NULL when it cannot be read */
	size_t word_count;
	unsigned runtimes; /**< enum h2d_process_runtime */
	bool exited;	   /**< it ended while it was looked at: what follows is a part */
	bool cut;	   /**< it has more mappings than we keep */
	bool only_maps;	   /**< the kernel has no smaps: nothing is known of pages */

	struct h2d_mapped_file *files;
	size_t file_count;
	struct h2d_file_mapping *mappings; /**< of files, by address */
	size_t mapping_count;

	struct h2d_mapping_sum checkpoints; /**< all mappings of checkpoints */
	struct h2d_mapping_sum writable;    /**< … that are private and writable */
	struct h2d_mapping_sum
		copied; /**< private, writable now or not, with pages of their own */
	uint64_t checkpoint_file_bytes; /**< sizes of the mapped checkpoints, each once */
	size_t checkpoint_count;
	bool random_advice; /**< a checkpoint's mapping has no read-ahead (MADV_RANDOM) */
	const struct h2d_mapped_file *largest; /**< checkpoint, or NULL */
};

/**
 * Look at a process.
 * @param root  see core/hostfs.h; below a capture the facts of files come from it
 * @param out   (out) released by h2d_process_free(), also on failure
 * @return 0; H2D_E_NOT_FOUND (no such process), H2D_E_PERMISSION (its mappings are closed to
 *         us), H2D_E_FORMAT (smaps that is none), H2D_E_NOMEM, H2D_E_IO
 */
int h2d_process_read(const char *root, int pid, const struct h2d_log *log,
		     struct h2d_process *out);
void h2d_process_free(struct h2d_process *p);

/**
 * Move everything into one piece of memory of the caller, which must not be given to
 * h2d_process_free() then; `from` is released. Files are no longer open.
 * @param arena  aligned to 16 bytes
 * @return false when it does not fit; `to` is empty then
 */
bool h2d_process_move(struct h2d_process *from, void *arena, size_t bytes,
		      struct h2d_process *to);

/** Whether this mapping shows the defect: private, of a checkpoint, with pages of its own,
 * which only a write makes. Whether it may be written now is no matter: mprotect() undoes no
 * copy. */
bool h2d_mapping_is_copied(const struct h2d_process *p, const struct h2d_file_mapping *m);
/** Private and writable. */
bool h2d_mapping_is_writable(const struct h2d_file_mapping *m);
/** Why it cannot be told that no page of a checkpoint was copied, or NULL. What was seen to be
 *  copied is so nevertheless. */
const char *h2d_process_unknown(const struct h2d_process *p);

/** Members `process` and `mappings` of the document h2d.process.
 *  @param all  also mappings of files that are no checkpoints */
void h2d_process_write(struct h2d_json *j, const struct h2d_process *p, bool all, bool redact);

/* ---- internal: what process.c uses of mapped_file.c ---- */

/** Find out what a mapped file is: its content, size, mount; never fails, says why. `probe` is
 *  one of its mappings. */
void h2d_mapped_file_read(const char *root, int pid, const struct h2d_file_mapping *probe,
			  struct h2d_mapped_file *f);
/** Fill cached_bytes of a mapping. */
void h2d_mapped_file_cache(const char *root, const struct h2d_mapped_file *f,
			   struct h2d_file_mapping *m);
void h2d_mapped_file_close(struct h2d_mapped_file *f);
/** Show what was learnt of the file to an observer of hostfs. */
void h2d_mapped_file_note(const struct h2d_process *p, uint32_t file);

#endif
