/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file gguf_types.h
 * The tensor types of GGUF, as ggml numbers and sizes them (ggml.h, ggml-common.h at d99724f2).
 */
#ifndef H2D_FORMAT_GGUF_TYPES_H
#define H2D_FORMAT_GGUF_TYPES_H

#include <stdint.h>

struct h2d_gguf_type {
	const char *name;
	uint16_t block_elements;
	uint16_t block_bytes; /**< 0: the number was given up, data of it cannot be sized */
};

/** The entry of `id`, also of a removed type; NULL for a number ggml does not know. */
const struct h2d_gguf_type *h2d_gguf_type(uint32_t id);
/** Whether ik_llama.cpp, a fork with its own numbers, uses `id`. */
int h2d_gguf_type_is_ik(uint32_t id);

#endif
