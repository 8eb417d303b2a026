/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file kernel_verdict.h
 * What is known about the kernel of this machine (or of a capture of one): three opinions on
 * its amdgpu driver's retry policy, and what they come to together.
 *   prior     the table of known kernels, by distribution, package and version
 *   file      the module that this kernel loads, by its machine code (inspect.h)
 *   measured  what a reproducer or guest said, if there was one; it outweighs the others
 * Everything is read below a movable root. Thread-safety: calls are independent. @since 0.1
 */
#ifndef H2D_HOST_KERNEL_VERDICT_H
#define H2D_HOST_KERNEL_VERDICT_H

#include "core/json.h"
#include "inspect/inspect.h"

/** Whether copies from memory stall. */
enum h2d_stall { H2D_STALL_UNKNOWN = 0, H2D_STALL_NO, H2D_STALL_YES };
/** "unknown", "no", "yes". @since 0.1 */
const char *h2d_stall_name(enum h2d_stall stall);

/** One opinion. `given` false: there is none, `why` says why. */
struct h2d_kernel_opinion {
	bool given;
	enum h2d_retry_policy policy;
	enum h2d_stall stall; /**< may be known where the policy is not */
	enum h2d_confidence confidence;
	char statement[512]; /**< a sentence, with its source */
	char why[256];
};

enum h2d_kernel_agreement {
	H2D_AGREEMENT_NONE = 0, /**< no opinion at all */
	H2D_AGREEMENT_SINGLE,	/**< one opinion only */
	H2D_AGREEMENT_AGREE,
	H2D_AGREEMENT_CONFLICT, /**< spelled out in `conflict` */
};
const char *h2d_kernel_agreement_name(enum h2d_kernel_agreement agreement);

/** What a measurement found, for h2d_kernel_verdict_options; policy UNKNOWN: none. */
struct h2d_kernel_measured {
	enum h2d_retry_policy policy;
	bool affected;	     /**< windows were seen */
	char statement[256]; /**< for example "h2d repro: 16 windows in 16 spans" */
};

/**
 * What a document of h2d.repro or h2d.lab says. The former must be of `release` and of a device
 * whose copies go through amdgpu; of the latter it is the shipped driver of `release` (or of
 * its only kernel when that is NULL).
 * @return 0, H2D_E_FORMAT (neither, of another version or device, or damaged), H2D_E_NOT_FOUND
 * (no file, or of another kernel), H2D_E_PERMISSION, H2D_E_IO, H2D_E_NOMEM. @since 0.1
 */
int h2d_kernel_measured_read(const char *path, const char *release, const struct h2d_log *log,
			     struct h2d_kernel_measured *out);

struct h2d_kernel_verdict_options {
	size_t size; /**< sizeof(struct h2d_kernel_verdict_options) */
	h2d_log_fn log;
	void *log_user;
	const char *root;    /**< a capture; NULL: this machine */
	const char *table;   /**< known-kernels file; NULL: see known_kernels.h */
	const char *release; /**< kernel to judge; NULL: the running one */
	bool no_module;	     /**< do not read the module file (it takes about 0.2 s) */
	const struct h2d_kernel_measured *measured; /**< or NULL */
	/** A module of this kernel that was read elsewhere, for example in its package, in
	 * place of the one below /lib/modules. Taken over, also on failure. NULL: none */
	struct h2d_module_report *module;
	const char *module_why; /**< why there is none elsewhere either, or NULL */
};

struct h2d_kernel_verdict {
	char release[128], kernel_version[256], machine[32];
	char distribution[64], distribution_version[64], distribution_name[128];
	char package[160], package_version[128]; /**< of the kernel; "" unknown */
	bool has_package_version;
	bool driver_loaded;  /**< /sys/module/amdgpu */
	bool driver_is_file; /**< the loaded driver is the file that was read (build-id or
				  srcversion agree) */
	bool driver_checked; /**< whether that could be compared */
	struct h2d_kernel_opinion prior, file, measured;
	struct h2d_module_report *module; /**< or NULL */

	enum h2d_retry_policy policy; /**< all together */
	enum h2d_stall stall;
	enum h2d_confidence confidence;
	enum h2d_kernel_agreement agreement;
	bool is_prior_only;   /**< the table alone speaks: a version, which proves nothing */
	char conflict[512];   /**< or "" */
	char summary[256];    /**< one sentence in plain words */
	char upgrade_to[256]; /**< package and version without the defect, or "" */
	char upgrade_source[256];
};

/**
 * Judge a kernel.
 * @param out  (out) released by h2d_kernel_verdict_free(); NULL on failure
 * @return 0, also when nothing is known; H2D_E_INVALID, H2D_E_FORMAT (table damaged),
 *         H2D_E_NOMEM. A missing table or module is no error: that opinion is not given.
 *         @since 0.1
 */
int h2d_kernel_verdict_get(const struct h2d_kernel_verdict_options *options,
			   struct h2d_kernel_verdict **out);
void h2d_kernel_verdict_free(struct h2d_kernel_verdict *verdict);

/** Write it as members of the open object: those of h2d.kernel. @since 0.1 */
void h2d_kernel_verdict_write(struct h2d_json *json, const struct h2d_kernel_verdict *verdict);

#endif
