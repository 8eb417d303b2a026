/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_H
#define H2D_LAB_H

/**
 * @file lab.h
 * The laboratory: boots kernels of distributions in guests without a GPU and measures how their
 * amdgpu driver, or an emulation of its retry policies, treats the source of a copy. Everything
 * works on private copies below one temporary directory; nothing is installed, and nothing is
 * left behind, also after cancellation. Since 0.1.
 *
 * Thread-safety: calls with different options may run at the same time, in one process or many.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"
#include "h2d/h2d.h"

enum h2d_lab_driver {
	H2D_LAB_DRIVER_SHIPPED = 0, /**< the kernel's own amdgpu */
	H2D_LAB_DRIVER_EMULATED = 1, /**< the module's, which says nothing of the kernel's */
};

/** Bits of h2d_lab_options.policies; 0: all. */
enum { H2D_LAB_POLICY_REFRESH = 1, H2D_LAB_POLICY_STALE = 2, H2D_LAB_POLICY_NO_RETRY = 4 };
/** Bits of h2d_lab_options.filesystems; 0: all. */
enum { H2D_LAB_FS_EXT4 = 1, H2D_LAB_FS_XFS = 2, H2D_LAB_FS_TMPFS = 4, H2D_LAB_FS_OVERLAY = 8 };
/** Bits of h2d_lab_options.permissions; 0: both. */
enum { H2D_LAB_PERMISSION_VMA = 1, H2D_LAB_PERMISSION_ACCESS = 2 };
/** Bits of h2d_lab_options.states, the mapping states of a cell; 0: all. */
enum {
	H2D_LAB_STATE_RW_PRESENT = 1,
	H2D_LAB_STATE_RW_ABSENT = 2,
	H2D_LAB_STATE_RO_PRESENT = 4,
};

enum h2d_lab_accel { H2D_LAB_ACCEL_AUTO = 0, H2D_LAB_ACCEL_KVM, H2D_LAB_ACCEL_TCG };

/** What to run. All zero but a kernel: everything, with defaults. Strings and arrays stay the
 *  caller's and must outlive the result. */
struct h2d_lab_options {
	size_t size; /**< sizeof(struct h2d_lab_options) */
	h2d_log_fn log;
	void *log_user;
	/** Returns not 0 to stop; called often, from the calling thread; or NULL. */
	int (*cancelled)(void *user);
	void *cancel_user;

	/** Package files or names (NAME or NAME=VERSION); each kernel image among them is one
	 *  kernel, the others are parts of it. */
	const char *const *packages;
	size_t package_count;
	/** Kernels by release, for example "6.12.115+deb12-amd64". */
	const char *const *releases;
	size_t release_count;
	/** A kernel that is no package; the three go together. */
	const char *image, *modules_dir, *headers_dir;

	const char *kernel_dir; /**< folder of packages; NULL: $H2D_KERNEL_DIR, if any */
	const char *cache_dir;	/**< NULL: $XDG_CACHE_HOME/h2d or ~/.cache/h2d */
	const char *assets_dir; /**< guest programs and module sources; NULL: found */
	bool offline;		/**< do not ask the distribution's archive */

	enum h2d_lab_driver driver;
	unsigned policies, filesystems, permissions, states;
	uint64_t size_bytes; /**< of each cell, a multiple of 4096; 0: 32 MiB */
	uint32_t timeout_ms; /**< of the emulated stale policy; 0: 1000 */
	bool count_calls;    /**< count the shipped driver's fault calls by a probe (slow) */

	enum h2d_lab_accel accel;
	uint32_t guest_timeout_s; /**< of one whole guest; 0: computed */
	bool keep;		  /**< keep the temporary directory, its name goes to the log */
	/** This program, to run `h2d repro` with it in each guest as well; NULL: do not. */
	const char *reproducer;
	/** Programs of the host that guests get as /bin/NAME, with loader and libraries. */
	const char *const *guest_files;
	size_t guest_file_count;
	/** More command lines to run in each guest after the cells, each NULL-terminated and
	 *  beginning with an absolute path of the guest. At most 64 words each. */
	const char *const *const *commands;
	size_t command_count;
};

/** Packages of one kernel, or why there are none. Strings are owned. */
struct h2d_lab_packages {
	char *request;			     /**< as it was asked for */
	char *missing;			     /**< why it cannot be had, or NULL */
	char *name, *version, *architecture; /**< of the image's package */
	char *origin;			     /**< "file", "kernel_dir", "cache", "archive" */
	char **paths;			     /**< image first, then its modules */
	size_t path_count;
};

/**
 * Finds the package files of kernels, of any machine, without running anything: `packages`,
 * `releases`, `kernel_dir`, `cache_dir` and `offline` of the options are looked at.
 * @param found  (out) freed by h2d_lab_packages_free()
 * @return 0, also for missing ones; errors as of h2d_lab_run()
 */
int h2d_lab_find_packages(const struct h2d_lab_options *options,
			  struct h2d_lab_packages **found, size_t *count);
void h2d_lab_packages_free(struct h2d_lab_packages *found, size_t count);

struct h2d_lab_result;

/**
 * Runs every asked kernel, one guest after the other.
 * @param result  (out) owned by the caller, freed by h2d_lab_result_free(); set also when some
 *                kernels could not be run, NULL only after an error
 * @return 0 when every kernel has an outcome, whatever it is; H2D_E_INVALID (options),
 *         H2D_E_FORMAT (wrong or damaged package), H2D_E_NOT_FOUND (a named file is missing),
 *         H2D_E_IO, H2D_E_NOMEM, H2D_E_PERMISSION, H2D_E_CANCELLED, H2D_E_UNAVAILABLE (no guest
 *         can be run here at all)
 */
int h2d_lab_run(const struct h2d_lab_options *options, struct h2d_lab_result **result);
void h2d_lab_result_free(struct h2d_lab_result *result);

/** The verdict over all kernels, and of one. */
enum h2d_lab_verdict {
	H2D_LAB_CLEAN = 0,    /**< nothing was invalidated, copied or restarted */
	H2D_LAB_COW_PENALTY,  /**< pages were copied, no window: dearer, but nothing stalls */
	H2D_LAB_AFFECTED,     /**< windows were seen */
	H2D_LAB_INCONCLUSIVE, /**< ran, but controls or counters do not agree */
	H2D_LAB_NOT_VERIFIED, /**< could not be had or could not be run */
};
const char *h2d_lab_verdict_name(enum h2d_lab_verdict verdict);
enum h2d_lab_verdict h2d_lab_result_verdict(const struct h2d_lab_result *result);

/** Writes the members of the "h2d.lab" document behind the envelope into the open object. */
void h2d_lab_result_write(struct h2d_json *json, const struct h2d_lab_result *result);
/** Why kernels are not verified or inconclusive, one line each. */
void h2d_lab_result_reasons(FILE *out, const struct h2d_lab_result *result);
/** The document's content for people, one block per kernel. Names and the guest's console are
 *  printed as they are: the caller makes them safe for a terminal. */
void h2d_lab_result_print(FILE *out, const struct h2d_lab_result *result);

#endif
