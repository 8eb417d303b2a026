/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file state.h
 * What the preloaded library tells the one who started the program: a file that every process
 * maps shared and adds to as things happen, so that a crash, _exit() or exec() loses nothing.
 * `h2d run` makes it, names it in H2D_RUN_STATE, and reads it when the program has ended:
 * memory that nobody can cut short, reached through h2d's own folder in /proc, and a file for
 * those who cannot look into that (another user, another PID namespace); without that variable
 * a process and its forked children share a region without a name, and the library itself
 * writes the report (H2D_RUN_REPORT).
 *
 * One record per program image, process and file. Records are claimed atomically in an open
 * hash table; the counters are atomic, and nobody takes a lock. Same machine, same build: the
 * layout carries a version and is refused when it differs; it is not an interface for others.
 */
#ifndef H2D_RUN_STATE_H
#define H2D_RUN_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- environment variables */

/** Paths of the state, separated by ':'; the first that can be opened is it. Set by `h2d run`.
 */
#define H2D_RUN_STATE_ENV "H2D_RUN_STATE"

/** Further files to treat as checkpoints, whatever they hold: patterns as in glob(7), separated
 *  by ':'; `*` also matches slashes; a pattern without a slash is compared with the last part
 * of the file's path. */
#define H2D_RUN_PATTERN_ENV "H2D_RUN_PATTERN"

/** For those who set LD_PRELOAD themselves: a file to which every process that kept a mapping
 *  read-only appends its report when it ends; %p stands for the process id, %% for %. */
#define H2D_RUN_REPORT_ENV "H2D_RUN_REPORT"

/** Set and not "" or "0": one line on standard error for every mapping kept read-only. */
#define H2D_RUN_VERBOSE_ENV "H2D_RUN_VERBOSE"

/** Where `h2d run` finds the library, when not in its own places. The library ignores it. */
#define H2D_RUN_LIBRARY_ENV "H2D_RUN_LIBRARY"

/** File name of the library, below libdir/h2d/ and below the build tree's run/. */
#define H2D_RUN_LIBRARY_NAME "libh2d-readonly.so"

/* ---- layout */

#define H2D_RUN_STATE_MAGIC   0x316e757264683268ull
#define H2D_RUN_STATE_VERSION 1u

enum {
	H2D_RUN_RECORDS = 16384,
	H2D_RUN_COMMAND_BYTES = 32,
	H2D_RUN_PATH_BYTES = 320,
};

/** @name Flags of a record */
/** @{ */
#define H2D_RUN_INHERITED    1u /**< the mappings were the parent's: made by fork() */
#define H2D_RUN_BY_PATTERN   2u /**< taken by the user's pattern, not by content */
#define H2D_RUN_PATH_CUT     4u /**< `path` holds the end of a path too long for it */
#define H2D_RUN_WHOLE_OPENED 8u /**< mprotect() failed once: a whole mapping was opened */
/** @} */

/** One file, as mapped by one process. Counters only grow. */
struct h2d_run_record {
	_Atomic uint32_t ready; /**< 0 free, 1 being claimed, 2 to be read */
	int32_t pid;
	uint64_t image;	 /**< number of the program image, from 1; exec() makes a new one */
	uint64_t order;	 /**< records in the order in which they were claimed */
	uint64_t device; /**< st_dev and st_ino of the file */
	uint64_t inode;
	_Atomic uint32_t flags;
	uint32_t format; /**< enum h2d_format_id; 0 when only a pattern matched */
	_Atomic uint64_t mapping_count; /**< mappings kept read-only, also those that ended */
	_Atomic uint64_t mapping_bytes; /**< their sizes, whole pages */
	_Atomic uint64_t opened_bytes;	/**< made writable again, whatever for */
	_Atomic uint64_t fault_count;	/**< first writes answered by the signal handler */
	_Atomic uint64_t kernel_open_count; /**< opened before read(), recv() … wrote there */
	_Atomic uint64_t device_open_count; /**< opened before a copy from a device */
	_Atomic uint64_t released_bytes;    /**< the program itself took over by mprotect() */
	/** Pages found written (anonymous or swapped) in those opened bytes that were counted,
	 *  at munmap or at the process's end; of what a child inherited, those that are its
	 * alone. If counted_bytes < opened_bytes, the process ended without a word, and
	 * opened_bytes is the upper limit of what was written. */
	_Atomic uint64_t written_page_count;
	_Atomic uint64_t counted_bytes;
	char command[H2D_RUN_COMMAND_BYTES]; /**< the program's short name */
	char path[H2D_RUN_PATH_BYTES];	     /**< as /proc/self/fd printed it, always ended */
};

/** The whole file. The counters of the head sum over all processes. */
struct h2d_run_state {
	uint64_t magic;
	uint32_t version;
	uint32_t record_count; /**< H2D_RUN_RECORDS */
	uint64_t state_bytes;  /**< size of this struct */
	uint64_t page_bytes;
	_Atomic uint64_t image_count; /**< program images that loaded the library */
	_Atomic uint64_t order;
	_Atomic uint64_t candidate_count; /**< private, writable file mappings looked into */
	_Atomic uint64_t added_syscall_count; /**< system calls that we made of our own */
	_Atomic uint64_t lost_record_count; /**< mappings kept, for which no record was free */
	/** Checkpoint mappings left as the program asked, and why. */
	_Atomic uint64_t refused_handler_count; /**< SIGSEGV taken by a raw system call */
	_Atomic uint64_t
		refused_limit_count;	       /**< strict overcommit or RLIMIT_DATA: a write
						* could   fail later, where mmap would fail now */
	_Atomic uint64_t refused_memory_count; /**< no memory for the table, or map count */
	struct h2d_run_record records[H2D_RUN_RECORDS];
};

/* ---- for the reader (`h2d run`) */

/**
 * Make a state file and map it. It is sparse: about 9 MiB, of which what is used takes room.
 * @param path  must not exist; made with mode 0600. Removing it is the caller's.
 * @param state (out) unmapped with h2d_run_state_close()
 * @return 0 or a negative errno
 */
int h2d_run_state_create(const char *path, struct h2d_run_state **state);

/**
 * Make a state of memory, whose size is sealed: no access to it can end in SIGBUS.
 * @param fd (out) the caller's to close; /proc/PID/fd/FD opens it again
 * @return 0 or a negative errno
 */
int h2d_run_state_create_memory(int *fd, struct h2d_run_state **state);

/**
 * Read a state file to which others may write, or which they may cut short.
 * @param state (out) zeroed, filled as far as the file goes; released with
 * h2d_run_state_close()
 * @return 0 or a negative errno
 */
int h2d_run_state_read(int fd, struct h2d_run_state **state);

/** Add the records and counters of one to another. Its program images get new numbers. */
void h2d_run_state_add(struct h2d_run_state *to, const struct h2d_run_state *from);

/** The first of several paths, separated by ':', that is a state. @return as
 * h2d_run_state_open, of the last one */
int h2d_run_state_open_any(const char *paths, struct h2d_run_state **state);

/** Map an existing file. @return 0, -EINVAL if it is none or of another version, or an errno */
int h2d_run_state_open(const char *path, struct h2d_run_state **state);

void h2d_run_state_close(struct h2d_run_state *state);

/**
 * Walk the readable records in no particular order (sort by `order`).
 * @param index begins with 0, kept by the caller
 * @return NULL after the last
 */
const struct h2d_run_record *h2d_run_state_next(const struct h2d_run_state *state,
						size_t *index);

/* ---- for the library: async-signal-safe, no allocation */

/** Initialise zeroed memory as a state. */
void h2d_run_state_init(struct h2d_run_state *state, uint64_t page_bytes);

/**
 * The record of (image, pid, device, inode); claimed and zeroed when there is none.
 * Two threads of one process must not ask for the same at a time.
 * @param claimed (out) true if it is new: fill it, then h2d_run_state_publish() it
 * @return NULL if the table is full
 */
struct h2d_run_record *h2d_run_state_claim(struct h2d_run_state *state, uint64_t image,
					   int32_t pid, uint64_t device, uint64_t inode,
					   bool *claimed);

void h2d_run_state_publish(struct h2d_run_record *record);

/** Set `path`, keeping the end of one that is too long. */
void h2d_run_record_path(struct h2d_run_record *record, const char *path);

#endif
