/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_INTERNAL_H
#define H2D_LAB_INTERNAL_H

/* Shared by the files of the laboratory. */

#include <jansson.h>

#include "package/cancel.h"
#include "core/log.h"
#include "core/policy.h"
#include "lab.h"
#include "package/pkgfile.h"
#include "stream.h"

/* One run of h2d_lab_run(). */
struct lab {
	struct h2d_log log;
	struct lab_cancel cancel;
	struct h2d_lab_options options; /* complete, defaults filled in */
	int tmp_lock;			/* its lock, or -1 */
	char *tmp;			/* private directory, resolved */
	char *assets;			/* guest programs, module sources */
	char *cache;			/* or NULL where none can be had */
	char *kernel_dir;		/* or NULL */
	bool packages_only;		/* any machine's, and no headers: nothing will be run */
};

static inline bool lab_cancelled(const struct lab *lab)
{
	return lab_cancel_asked(&lab->cancel);
}

/* ---- dirs.c: directories, names, small files ---- */

/* printf to a malloc'ed string, NULL without memory. */
char *lab_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Makes a directory and its parents. Returns 0 or -errno. */
int lab_make_dirs(const char *path);
/* Removes a tree, never following links. What cannot be removed stays; returns 0 or -errno. */
int lab_remove_tree(const char *path);
/* Reads a whole file of at most `limit` bytes; *data is malloc'ed and NUL-terminated. 0,
 * -errno. */
int lab_read_file(const char *path, size_t limit, char **data, size_t *size);
/* Writes a file in place. Returns 0 or -errno. */
int lab_write_file(const char *path, const void *data, size_t size);
/* Copies a regular file under a temporary name and renames it. Returns 0 or -errno. */
int lab_copy_file(const char *from, const char *to);
bool lab_is_dir(const char *path);
bool lab_is_file(const char *path);

/* ---- pool.c: the packages that are at hand ---- */

enum lab_origin { LAB_ORIGIN_FILE, LAB_ORIGIN_DIR, LAB_ORIGIN_CACHE, LAB_ORIGIN_ARCHIVE };
const char *lab_origin_name(enum lab_origin origin);

struct lab_pool_item {
	struct lab_package package;
	enum lab_origin origin;
};

struct lab_pool {
	struct lab_pool_item *items;
	size_t count, capacity;
};

/* Takes one file that the user named; anything but a package is an error. */
int lab_pool_add_file(struct lab *lab, struct lab_pool *pool, const char *path,
		      enum lab_origin origin);
/* Takes every package of a folder; files that are none are passed over. A missing folder is
 * empty when it is the cache, an error otherwise. */
int lab_pool_add_dir(struct lab *lab, struct lab_pool *pool, const char *path,
		     enum lab_origin origin);
/* The best item of that name: `version` exactly, if not NULL; `accepts`, if not NULL; then the
 * earliest origin, then the highest version. NULL when there is none. */
struct lab_dependency;
const struct lab_pool_item *lab_pool_find(const struct lab_pool *pool, const char *name,
					  const char *version,
					  const struct lab_dependency *accepts);
void lab_pool_free(struct lab_pool *pool);

/* ---- fetch.c: the distribution's archive ---- */

/* Downloads a .deb into the cache and adds it to the pool. H2D_E_UNAVAILABLE when it cannot be
 * had; the reason is in *why (malloc'ed). */
int lab_fetch(struct lab *lab, struct lab_pool *pool, const char *name, const char *version,
	      char **why);

/* ---- kernel.c: which packages make one kernel ---- */

#define LAB_KERNEL_PARTS 12

struct lab_kernel {
	char *request; /* as it was asked for */
	char *release; /* uname -r; known after unpacking at the latest */
	char *missing; /* why it cannot be had, or NULL */
	bool measured; /* its layout is one that was run, Debian's */
	enum lab_origin origin;
	struct lab_package image;
	struct lab_package modules[LAB_KERNEL_PARTS]; /* beside the image */
	size_t module_count;
	struct lab_package headers[LAB_KERNEL_PARTS];
	size_t header_count;
	char *headers_missing; /* why the headers are not complete, or NULL */
};

/* Finds the kernels that the options ask for. */
int lab_kernels_find(struct lab *lab, struct lab_kernel **kernels, size_t *count);
void lab_kernel_free(struct lab_kernel *kernel);

/* ---- root.c: one kernel, unpacked ---- */

struct lab_root {
	char *directory; /* holds lib/modules/RELEASE */
	char *release;
	char *image;   /* the bootable file */
	char *modules; /* directory/lib/modules/RELEASE */
	char *build;   /* where modules are built against; NULL before lab_root_headers() */
};

/* Unpacks image and modules below `directory` (made here) and finds their way about. */
int lab_root_unpack(struct lab *lab, const struct lab_kernel *kernel, const char *directory,
		    struct lab_root *root);
/* Unpacks the headers too, and rewrites the one absolute path that Debian's carry. */
int lab_root_headers(struct lab *lab, const struct lab_kernel *kernel, struct lab_root *root);
/* The same for options.image, .modules_dir and .headers_dir, which are not changed. */
int lab_root_given(struct lab *lab, const char *directory, struct lab_root *root);
void lab_root_free(struct lab_root *root);

/* ---- modbuild.c: our module for that kernel ---- */

/* Builds h2d_hmm.ko, or takes it from the cache. *path is malloc'ed. H2D_E_UNAVAILABLE with
 * *why set when it cannot be built here (no headers, no compiler, the build fails). */
int lab_module_get(struct lab *lab, const struct lab_kernel *kernel, struct lab_root *root,
		   char **path, char **why);

/* ---- modules.c: what has to be loaded, in which order ---- */

struct lab_modules {
	char **paths; /* files of the root, dependencies first */
	size_t count;
};

/* Adds a module and what it needs. `required` false: a module that the kernel has neither as a
 * file nor built in is passed over. *found tells whether it is there at all; may be NULL. */
int lab_modules_add(struct lab *lab, const struct lab_root *root, const char *name,
		    bool required, struct lab_modules *modules, bool *found);
/* Makes the dependency index of the unpacked modules. */
int lab_modules_index(struct lab *lab, const struct lab_root *root);
void lab_modules_free(struct lab_modules *modules);
/* Reads a module, decompressed, at most 512 MiB; *data is malloc'ed. */
int lab_module_read(const struct h2d_log *log, const char *path, void **data, size_t *size);

/* ---- job.c: what a guest is to do ---- */

struct lab_job {
	uint8_t *data;
	size_t size, capacity;
	uint64_t key;
	uint32_t step_count;
	bool failed; /* memory ran out somewhere */
};

/* Starts a job with a random key. */
void lab_job_begin(struct lab_job *job);
/* Adds a step; the strings end with NULL. Returns its index. */
uint32_t lab_job_add(struct lab_job *job, enum lab_job_type type, int required, ...)
	__attribute__((sentinel));
/* Adds a command; argv ends with NULL. */
uint32_t lab_job_run(struct lab_job *job, bool required, const char *name, uint64_t timeout_ms,
		     const char *const *argv);
void lab_job_free(struct lab_job *job);

/* ---- initramfs.c: the guest's root ---- */

struct lab_initramfs;
int lab_initramfs_open(struct lab *lab, const char *path, struct lab_initramfs **fs);
/* A file from memory or from the host; parent directories are made. */
int lab_initramfs_add(struct lab_initramfs *fs, const char *name, const void *data, size_t size,
		      unsigned mode);
int lab_initramfs_add_file(struct lab_initramfs *fs, const char *name, const char *path,
			   unsigned mode);
int lab_initramfs_add_dir(struct lab_initramfs *fs, const char *name);
/* A program and, if it is linked dynamically, its loader and libraries under their own names.
 */
int lab_initramfs_add_program(struct lab_initramfs *fs, const char *name, const char *path);
/* Writes the end and closes; also after an error, which it returns. */
int lab_initramfs_close(struct lab_initramfs *fs);

/* ---- images.c: disks ---- */

enum { LAB_DISK_RESULT, LAB_DISK_EXT4, LAB_DISK_XFS };
/* Makes a sparse image and, but for the result disk, a filesystem in it. H2D_E_UNAVAILABLE with
 * a line in the log where the tool is not installed. */
int lab_image_make(struct lab *lab, const char *path, int kind, uint64_t bytes);

/* ---- qemu.c: one guest, from boot to power off ---- */

struct lab_disk {
	const char *path, *serial;
	bool read_only;
};

struct lab_guest {
	const char *kernel, *initramfs, *work_dir;
	struct lab_disk disks[4];
	size_t disk_count;
	unsigned memory_mib;
	uint64_t timeout_ms;
	enum h2d_lab_accel accel; /* KVM or TCG */
};

enum lab_guest_end {
	LAB_GUEST_OFF,	   /* switched itself off */
	LAB_GUEST_PANIC,   /* its kernel panicked */
	LAB_GUEST_HUNG,	   /* killed at the timeout */
	LAB_GUEST_FLOODED, /* killed because its console did not stop */
	LAB_GUEST_DIED,	   /* QEMU failed */
};

struct lab_guest_outcome {
	enum lab_guest_end end;
	char *console; /* first and last part; malloc'ed */
	char *errors;  /* of QEMU; malloc'ed */
	uint64_t console_bytes;
	uint64_t elapsed_ns;
};

/* Whether there is a QEMU: 0 or H2D_E_UNAVAILABLE. */
int lab_guest_possible(struct lab *lab);
/* Returns 0 when QEMU ran, H2D_E_UNAVAILABLE when there is none, H2D_E_CANCELLED, H2D_E_IO. */
int lab_guest_boot(struct lab *lab, const struct lab_guest *guest,
		   struct lab_guest_outcome *outcome);
void lab_guest_outcome_free(struct lab_guest_outcome *outcome);
/* Settles on KVM or TCG: KVM only where a short guest on this kernel really works. */
int lab_accel_choose(struct lab *lab, const char *kernel, enum h2d_lab_accel *accel,
		     const char **reason);
const char *lab_accel_name(enum h2d_lab_accel accel);

/* ---- steps.c: what came out of a guest ---- */

struct lab_step {
	bool begun, ended;
	struct lab_step_end end;
	char *out, *err; /* malloc'ed, NUL-terminated; NULL when empty */
	size_t out_bytes, err_bytes;
	char *kmsg; /* suspicious lines, one after the other; malloc'ed or NULL */
};

struct lab_steps {
	struct lab_step *steps; /* `count` of them */
	uint32_t count;
	char *boot_release;
	char *notes; /* sentences by init; malloc'ed or NULL */
	bool done;   /* the whole job was finished */
	bool damaged;
};

/* Reads a result disk, or as much of it as a guest that hung has left. Hostile input. Returns
 * 0, H2D_E_IO, H2D_E_NOMEM. A disk with nothing on it is no error: nothing has begun then. */
int lab_steps_read(const struct h2d_log *log, const char *path, const struct lab_job *job,
		   struct lab_steps *steps);
int lab_steps_parse(const struct h2d_log *log, const void *data, size_t size,
		    const struct lab_job *job, struct lab_steps *steps);
void lab_steps_free(struct lab_steps *steps);

/* ---- matrix.c: the cells of one kernel, and the job that runs them ---- */

struct lab_cell {
	const char *filesystem, *driver, *policy, *permission, *state; /* static */
	uint32_t step;
	json_t *report; /* what the guest printed; NULL when it printed no valid object */
	char *problem;	/* why there is no usable report, or NULL; malloc'ed */
};

struct lab_reproduction {
	const char *filesystem; /* static */
	char device[64];
	uint32_t step;
};

struct lab_kernel_result {
	struct lab_kernel kernel;
	char *release;
	bool ran;				  /* a guest was started */
	bool has_amdgpu;			  /* the kernel ships the driver */
	const char *driver;			  /* "shipped" or "emulated"; static */
	int signature;				  /* prototype of the shipped function, or -1 */
	char *prototype;			  /* as found, or NULL */
	enum h2d_permission_rule permission_rule; /* of the shipped driver's SVM caller */
	char *permission_why;			  /* why that is unknown, or NULL */
	enum h2d_lab_accel accel;
	const char *accel_reason; /* static */
	struct lab_cell *cells;
	size_t cell_count;
	struct lab_reproduction *reproductions;
	size_t reproduction_count;
	uint64_t reproduction_ms; /* the time they may take together */
	uint32_t dynamic_step;	  /* the dynamic test program */
	uint32_t first_command;	  /* step of options.commands[0] */
	struct lab_steps steps;
	struct lab_guest_outcome guest;
	/* judge.c */
	enum h2d_lab_verdict verdict;
	const char *retry_policy; /* "refresh", "stale", "no_retry", "unknown"; static */
	char *reasons;		  /* lines; why the verdict is not better or not there */
	char *evidence;		  /* lines */
	double window_fitted_ms, window_timeout_ms, window_jiffy_ms; /* 0: none seen */
};

struct h2d_lab_result {
	struct lab_kernel_result *kernels;
	size_t count;
	struct h2d_lab_options options; /* of the run; strings stay the caller's */
};

/* Fills cells and job: modules (in loading order), mounts, cells, commands. `module_names` are
 * the guest's names of the modules, the last one is ours. */
int lab_matrix_plan(struct lab *lab, struct lab_kernel_result *result,
		    const char *const *module_names, size_t module_count, struct lab_job *job);
/* Sizes of the disks, in bytes, and of the whole guest's time. */
uint64_t lab_matrix_disk_bytes(const struct lab *lab);
uint64_t lab_matrix_timeout_ms(const struct lab *lab, const struct lab_kernel_result *result);
/* Parses what the cells printed. */
int lab_matrix_collect(struct lab *lab, struct lab_kernel_result *result);

/* ---- rule.c ---- */

/* Asks the inspector for the permission rule. What it cannot tell is unknown, with the reason;
 * only H2D_E_NOMEM is an error. */
int lab_rule_read(struct lab *lab, const char *amdgpu, struct lab_kernel_result *result);

/* ---- reproduce.c ---- */

/* Adds runs of options.reproducer to the job. */
int lab_reproduce_plan(struct lab *lab, struct lab_kernel_result *result, struct lab_job *job);

/* ---- judge.c ---- */

/* From the numbers to a verdict; fills the last block of the result. Returns 0 or H2D_E_NOMEM.
 */
int lab_judge(struct lab *lab, struct lab_kernel_result *result);
/* Adds one line to reasons or evidence. */
int lab_add_line(char **lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
