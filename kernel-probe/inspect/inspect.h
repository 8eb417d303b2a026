/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file inspect.h
 * Reads an amdgpu kernel module and tells, from its machine code and relocations alone, what
 * its driver does when hmm_range_fault() returns -EBUSY (the retry policy) and what decides
 * whether it asks for write access to the source of a copy (the permission rule, per caller).
 * Every answer carries evidence: addresses that a disassembler shows too. What the code does
 * not prove is unknown. Files are hostile. x86-64; other machines are unknown.
 *
 * Sources relied on: drivers/gpu/drm/amd/amdgpu/amdgpu_hmm.c, amdgpu_ttm.c and
 * amdkfd/kfd_svm.c, include/linux/hmm.h, Documentation/mm/hmm.rst, the ELF and x86-64 psABI.
 * Thread-safety: calls are independent; a report does not change once it is made. @since 0.1
 */
#ifndef H2D_INSPECT_INSPECT_H
#define H2D_INSPECT_INSPECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/json.h"
#include "core/log.h"
#include "core/policy.h"

/** Who asks for pages. */
enum h2d_permission_caller {
	H2D_CALLER_SVM, /**< svm_range_validate_and_map(): what copies from pageable memory use
			 */
	H2D_CALLER_USERPTR, /**< amdgpu_ttm_tt_get_user_pages(): registered host memory */
	H2D_CALLER_COUNT,
};
/** "svm", "userptr". @since 0.1 */
const char *h2d_permission_caller_name(enum h2d_permission_caller caller);

/** One checkable statement about the code. */
struct h2d_inspect_evidence {
	char kind[24];	     /**< "function", "call", "busy_test", "cycle", "timeout", … */
	char section[64];    /**< where the address counts from; "" without an address */
	uint64_t address;    /**< in that section, as objdump prints it */
	char function[128];  /**< symbol it belongs to, or "" */
	char statement[256]; /**< a sentence */
};

/** How long retries go on. */
struct h2d_inspect_timeout {
	bool is_known;
	bool is_scaled;	     /**< grows with the size of the range */
	uint64_t jiffies;    /**< fixed and folded into the code: in jiffies, else 0 */
	uint64_t ms;	     /**< fixed, or per step when scaled; 0 unknown */
	uint64_t step_bytes; /**< of range per `ms` when scaled, else 0 */
};

/** Where the module comes from. */
enum h2d_module_origin {
	H2D_ORIGIN_UNKNOWN = 0,
	H2D_ORIGIN_IN_TREE, /**< built with its kernel, below kernel/ */
	H2D_ORIGIN_UPDATES, /**< below updates/ or extra/: replaces the kernel's own */
	H2D_ORIGIN_DKMS,    /**< below updates/dkms, or where DKMS keeps its builds */
	H2D_ORIGIN_REBUILT, /**< out of tree, though it lies where the kernel's own would */
};
const char *h2d_module_origin_name(enum h2d_module_origin origin);

/** All that was learnt; strings are "" where the file does not tell. Owned by the caller. */
struct h2d_module_report {
	char path[4096];  /**< as it was opened; for one of a package: "PACKAGE: MEMBER" */
	bool is_recorded; /**< what a capture tells of a module: the verdicts, no evidence */
	bool marks_told;  /**< of a recorded one: in_tree, is_signed, has_btf, has_symbols and
			       compression are known */
	char machine[24]; /**< "x86_64", "aarch64", … */
	char name[64];	  /**< .modinfo name */
	char version[64], srcversion[64], vermagic[128];
	char build_id[48];  /**< hexadecimal GNU build-id */
	char compiler[128]; /**< from .comment */
	bool in_tree;	    /**< .modinfo intree=Y */
	bool is_signed;	    /**< a signature is appended (not checked) */
	char signer[128];   /**< who signed, where the signature tells */
	bool has_btf;	    /**< section .BTF */
	bool has_symbols;   /**< a symbol table with local symbols */
	enum h2d_module_origin origin;
	char compression[8]; /**< "none", "xz", "zstd", "gzip"; "" not told */

	enum h2d_retry_policy retry_policy;
	char retry_why[256]; /**< why it is unknown, or "" */
	struct h2d_inspect_timeout timeout;
	struct h2d_caller_report {
		bool is_present; /**< this module has such a caller */
		enum h2d_permission_rule rule;
		char why[256]; /**< why it is unknown or not there, or "" */
	} callers[H2D_CALLER_COUNT];

	struct h2d_inspect_evidence *evidence;
	size_t evidence_count;
};

/**
 * Inspect a module's bytes (an ELF file, or one compressed with xz, zstd or gzip).
 *
 * @param name    what messages and the report call it; its folders tell the origin
 * @param report  (out) released by h2d_module_report_free(); NULL on failure
 * @return 0, also when nothing could be decided; H2D_E_FORMAT (no kernel module, damaged, or
 *         more than 64 times its size plus 64 MiB when unpacked), H2D_E_NOMEM,
 *         H2D_E_UNAVAILABLE (built without libelf, libarchive or Capstone). @since 0.1
 */
int h2d_inspect_bytes(const char *name, const void *data, size_t bytes,
		      const struct h2d_log *log, struct h2d_module_report **report);

/** The same for a file. @return also H2D_E_NOT_FOUND, H2D_E_PERMISSION, H2D_E_IO. @since 0.1 */
int h2d_inspect_file(const char *path, const struct h2d_log *log,
		     struct h2d_module_report **report);

/**
 * The amdgpu module inside a package file (.deb, .rpm, .pkg.tar.*), without unpacking the rest.
 * @return also H2D_E_NOT_FOUND when the package has none. @since 0.1
 */
int h2d_inspect_package(const char *path, const struct h2d_log *log,
			struct h2d_module_report **report);

/**
 * The amdgpu module that `release` would load: below /lib/modules/RELEASE of `root` (NULL: this
 * machine), updates before the kernel's own, as depmod(8) searches.
 * @param path  (out) at least `path_bytes`
 * @return 0, H2D_E_NOT_FOUND. @since 0.1
 */
int h2d_inspect_find(const char *root, const char *release, char *path, size_t path_bytes);

void h2d_module_report_free(struct h2d_module_report *report);

/** Write `retry_policy`, `permission_rule`, `timeout` and `evidence` into the open object.
 *  @since 0.1 */
void h2d_module_report_write_verdict(struct h2d_json *json,
				     const struct h2d_module_report *report);
/** Write a report as one JSON object: `module` of h2d.module. @since 0.1 */
void h2d_module_report_write(struct h2d_json *json, const char *key,
			     const struct h2d_module_report *report);

#endif
