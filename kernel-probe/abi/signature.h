/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file signature.h
 * Which prototype amdgpu_hmm_range_get_pages() has in a given amdgpu module, from its BTF: the
 * value for the module parameter `signature` of h2d_hmm. What is not one of the known
 * prototypes, type by type, is unknown; versions are not asked.
 */
#ifndef H2D_ABI_SIGNATURE_H
#define H2D_ABI_SIGNATURE_H

#include "../module/uapi/h2d_hmm.h"
#include "btf.h"

#define H2D_SIGNATURE_FUNCTION "amdgpu_hmm_range_get_pages"

struct h2d_signature {
	int value;	     /**< enum h2d_hmm_signature; H2D_HMM_SIGNATURE_NONE: unknown */
	char prototype[512]; /**< as found, the evidence */
	char reason[160];    /**< why it is unknown, or "" */
};

/** Unknown, no evidence; what the calls below leave on failure. @since 0.1 */
void h2d_signature_init(struct h2d_signature *out);

/**
 * Find the prototype in an amdgpu module's BTF.
 *
 * @param module  opened with the kernel's BTF as its base
 * @param out     (out)
 * @return 0, also for an unknown prototype; H2D_E_NOT_FOUND when the function is not there (no
 *         amdgpu, or the BTF of another kernel as base). @since 0.1
 */
int h2d_signature_find(const struct h2d_btf *module, const struct h2d_log *log,
		       struct h2d_signature *out);

/** The same from the bytes of the two. @return also what h2d_btf_open() returns. @since 0.1 */
int h2d_signature_from_bytes(const void *module, size_t module_bytes, const void *kernel,
			     size_t kernel_bytes, const struct h2d_log *log,
			     struct h2d_signature *out);

/** The same for the running kernel and its loaded amdgpu, from /sys/kernel/btf (readable by
 *  everybody). @return also H2D_E_NOT_FOUND when a file is missing. @since 0.1 */
int h2d_signature_running(const struct h2d_log *log, struct h2d_signature *out);

#endif
