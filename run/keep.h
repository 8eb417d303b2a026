/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file keep.h
 * The state of this process: which ranges are kept read-only, and how they are opened.
 * Everything here may be called from any thread and from signal handlers.
 */
#ifndef H2D_RUN_KEEP_H
#define H2D_RUN_KEEP_H

#include <signal.h>

#include "run/lock.h"
#include "run/pages.h"
#include "run/state.h"
#include "run/table.h"

enum {
	RO_PATH_BYTES = 4096,
	RO_GRANULE_SHIFT = 27,
	RO_FILTER_BITS = 1 << 14,
	/** Smallest mapping that is looked into. */
	RO_BYTES_MIN = 1 << 20,
};

/** Why pages are made writable. */
enum ro_reason {
	RO_FAULT,	 /**< the program wrote */
	RO_KERNEL_WRITE, /**< a system call is about to */
	RO_DEVICE_WRITE, /**< a device is about to, or pins them for writing */
};

/** The action on SIGSEGV that the program believes to be installed. */
struct ro_action {
	void *handler; /* a function, SIG_DFL or SIG_IGN */
	ro_signals mask;
	int flags;
};

struct ro_process {
	struct ro_lock lock; /* of all below but the atomics and what is set once */
	struct ro_table table;
	/** Changes with everything that could explain a fault of a moment ago. */
	uint32_t generation;
	struct ro_action action;
	_Atomic bool
		handling; /* our handler is installed, and `action` is what the program asked */
	bool ended;	  /* ro_end() was here */

	_Atomic int pid; /* of the process that owns this memory: not that of a vfork child */
	_Atomic uint32_t ready;
	/** Granules of the address space in which ranges are or were kept, hashed. */
	_Atomic uint64_t filter[RO_FILTER_BITS / 64];

	/* Set once. */
	size_t page_bytes;
	bool strict_overcommit, verbose;
	uint64_t image;
	struct h2d_run_state *state;
	char patterns[RO_PATH_BYTES], report[RO_PATH_BYTES];
	/** sigaction of the C library, or of who else comes after us. */
	int (*sigaction)(int signal, const struct sigaction *act, struct sigaction *old);
};

extern struct ro_process ro;

/** Per thread. Initial-exec, so that handlers reach it without an allocation. */
struct ro_thread {
	uint32_t generation; /* last one seen by this thread's fault handler */
	int pending_pid;     /* of the process to which SIGSEGV was sent while it was blocked */
	bool carrier;	     /* RO_CARRIER is blocked, in the program's view */
	bool child_carrier;  /* the same in the child of vfork() that was last seen */
	int child_pid;	     /* that child, or 0 */
	bool forking;	     /* this thread holds the lock over fork() */
	siginfo_t info;
};

extern __thread struct ro_thread ro_thread __attribute__((tls_model("initial-exec")));

/* ---- process.c */

/** Read the environment once; cheap afterwards. */
void ro_init(void);

/** Around fork(), last before it and first after it: no other thread is inside the table when
 * it is copied. */
void ro_fork_prepare(void);
void ro_fork_parent(void);
void ro_fork_child(void);

/** Whether this memory is this process's own, not that of the parent that waits for its child
 * of vfork(). A child that was not announced is taken note of. */
bool ro_own_memory(void);

/** Whether the program's structure at `addr` can be read, by a system call that refuses after
 * it has read: rt_sigprocmask() with an action that there is none of (kernel/signal.c). What
 * cannot is the kernel's to refuse. Of at least 8 bytes; errno stays. */
bool ro_readable(const void *addr, size_t bytes);

/** We made `n` system calls that the program did not ask for. */
void ro_count_calls(unsigned n);

/** Block signals and take the lock. @return for ro_leave() */
ro_signals ro_enter(void);
void ro_leave(ro_signals before);

/** The lock alone, where all signals are blocked already. */
void ro_take(void);
void ro_drop(void);

/* ---- keep.c */

/** Whether a kept range may lie in [addr, addr + bytes): a few loads, no lock. */
bool ro_near(uintptr_t addr, size_t bytes);

/** From now on it may. */
void ro_near_add(struct ro_span range);

/** Keep [start, end), just mapped read-only. Locked, ro_table_reserve(1) done.
 *  @return its mapping, uncounted */
struct ro_mapping *ro_keep_locked(struct ro_span range);

/** Whether anything kept lies in `range`; then memory is at hand to cut it out there. To be
 * asked before the system call after which ro_forget_locked() follows. */
bool ro_touch_locked(struct ro_span range);

/** Cut `range` out: it is gone. */
void ro_forget_locked(struct ro_span range);

/** The same after a call that failed: what it had unmapped before it did. */
void ro_forget_unmapped_locked(struct ro_span range);

/** The same after something was mapped there, if anything kept is still noted: it was unmapped
 *  by a raw system call. Not locked; errno stays. */
void ro_forget_stale(void *addr, size_t bytes);

/** Give `range` to the program as it asked for it, writable, and keep it no longer. What a call
 *  does then is what it does without us. @return 0, or -ENOMEM: part of it is still kept */
int ro_release_locked(struct ro_span range);

/** Open every page of `range` that is kept. @return 0 or a negative errno */
int ro_open_locked(struct ro_span range, enum ro_reason reason);

/** The same around [addr, addr + bytes), where something else than the program's own code is
 *  about to write. Cheap when nothing is kept there. errno stays. */
void ro_open(void *addr, size_t bytes, enum ro_reason reason);

/** Open the block around a first write. Locked. @return 0 or a negative errno */
int ro_open_block_locked(struct ro_piece *piece, uintptr_t addr);

/** The record of a mapping, in this process. NULL when the state is full. */
struct h2d_run_record *ro_record_locked(struct ro_mapping *mapping);

/* ---- count.c */

/** Add the written pages of the open pieces in `range` to their records; with sign -1 take them
 *  back, when what should have ended them failed. */
void ro_count_written_locked(struct ro_span range, int sign);

#endif
