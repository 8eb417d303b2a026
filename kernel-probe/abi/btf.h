/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file btf.h
 * Reads BTF (Documentation/bpf/btf.rst), as much of it as prototypes need: types by id,
 * functions by name. The bytes may be hostile: everything is checked once, when it is opened.
 *
 * A module's BTF is split: its ids and string offsets go on from those of its kernel, the base.
 * With the wrong base, names and types come out as nonsense; they never leave the data.
 * Thread-safety: an opened one does not change.
 */
#ifndef H2D_ABI_BTF_H
#define H2D_ABI_BTF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/log.h"

/** Values of `kind`, as in include/uapi/linux/btf.h. */
enum h2d_btf_kind {
	H2D_BTF_VOID = 0,
	H2D_BTF_INT = 1,
	H2D_BTF_PTR = 2,
	H2D_BTF_ARRAY = 3,
	H2D_BTF_STRUCT = 4,
	H2D_BTF_UNION = 5,
	H2D_BTF_ENUM = 6,
	H2D_BTF_FWD = 7,
	H2D_BTF_TYPEDEF = 8,
	H2D_BTF_VOLATILE = 9,
	H2D_BTF_CONST = 10,
	H2D_BTF_RESTRICT = 11,
	H2D_BTF_FUNC = 12,
	H2D_BTF_FUNC_PROTO = 13,
	H2D_BTF_VAR = 14,
	H2D_BTF_DATASEC = 15,
	H2D_BTF_FLOAT = 16,
	H2D_BTF_DECL_TAG = 17,
	H2D_BTF_TYPE_TAG = 18,
	H2D_BTF_ENUM64 = 19,
};

/** An opened BTF; refers to the caller's bytes and to the base, which must outlive it. */
struct h2d_btf {
	const uint8_t *types;
	const char *strings;
	uint32_t strings_bytes;
	uint32_t first_string; /**< offset of our first string: length of the base's */
	uint32_t first_id;     /**< 1, or what follows the base's last */
	uint32_t type_count;   /**< ours */
	uint32_t *offsets;     /**< of each of our types in `types` */
	const struct h2d_btf *base;
};

/** One type, decoded. */
struct h2d_btf_type {
	const char *name; /**< "" when it has none */
	enum h2d_btf_kind kind;
	uint32_t id;
	uint32_t vlen;	     /**< members, parameters, … */
	bool flag;	     /**< a FWD is of a union; members may be bit-fields */
	uint32_t size_type;  /**< size in bytes or id of the type referred to, by kind */
	const uint8_t *more; /**< what follows the common part; used by the calls below */
};

/**
 * Open BTF bytes (a `.BTF` section, or a file of /sys/kernel/btf).
 *
 * @param base  opened BTF of the kernel for a module's, else NULL
 * @param out   (out) closed by h2d_btf_close(); left closed on failure
 * @return 0; H2D_E_FORMAT, H2D_E_UNSUPPORTED (other byte order or version), H2D_E_NOMEM.
 *         @since 0.1
 */
int h2d_btf_open(const void *data, size_t bytes, const struct h2d_btf *base,
		 const struct h2d_log *log, struct h2d_btf *out);
void h2d_btf_close(struct h2d_btf *btf);

/** Decode type `id` (0 is void). @return 0 or H2D_E_NOT_FOUND. @since 0.1 */
int h2d_btf_type(const struct h2d_btf *btf, uint32_t id, struct h2d_btf_type *type);
/** The same, seen through typedefs, qualifiers and tags. @since 0.1 */
int h2d_btf_resolve(const struct h2d_btf *btf, uint32_t id, struct h2d_btf_type *type);
/** Parameter `i` of a FUNC_PROTO or member `i` of a STRUCT: its name and type id; offset_bits
 *  (may be NULL) of a member. @return 0 or H2D_E_NOT_FOUND. @since 0.1 */
int h2d_btf_element(const struct h2d_btf *btf, const struct h2d_btf_type *type, uint32_t i,
		    const char **name, uint32_t *id, uint32_t *offset_bits);
/** Is it an unsigned, or a boolean, integer? (kind INT) @since 0.1 */
bool h2d_btf_is_unsigned(const struct h2d_btf_type *type);
bool h2d_btf_is_bool(const struct h2d_btf_type *type);

/** The next FUNC called `name` behind id `*after` in this BTF (not in its base); `*after` moves
 *  to it. Begin with 0. @return 0 or H2D_E_NOT_FOUND. @since 0.1 */
int h2d_btf_next_function(const struct h2d_btf *btf, const char *name, uint32_t *after,
			  struct h2d_btf_type *proto);
/** Write a FUNC_PROTO in C's words, cut to `bytes` (at least 1). @since 0.1 */
void h2d_btf_print_prototype(const struct h2d_btf *btf, const char *name,
			     const struct h2d_btf_type *proto, char *out, size_t bytes);

#endif
