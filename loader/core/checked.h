/* SPDX-License-Identifier: Apache-2.0 */
/** @file checked.h  Arithmetic that says when it would wrap. All return true on success. */
#ifndef H2D_CORE_CHECKED_H
#define H2D_CORE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool h2d_add_u64(uint64_t a, uint64_t b, uint64_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

static inline bool h2d_mul_u64(uint64_t a, uint64_t b, uint64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

static inline bool h2d_mul_size(size_t a, size_t b, size_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

/** Round up to a multiple of `align`, a power of two. */
static inline bool h2d_align_up_u64(uint64_t v, uint64_t align, uint64_t *out)
{
	if (__builtin_add_overflow(v, align - 1, out))
		return false;
	*out &= ~(align - 1);
	return true;
}

#endif
