/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file detect.h
 * Tell a checkpoint's type by content. Freestanding (no libc call, no allocation), so that the
 * preloaded library and the probe can use it too.
 */
#ifndef H2D_FORMAT_DETECT_H
#define H2D_FORMAT_DETECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum h2d_format_id {
	H2D_FORMAT_NONE,
	H2D_FORMAT_SAFETENSORS,
	H2D_FORMAT_GGUF,
	H2D_FORMAT_CACT,
	H2D_FORMAT_TORCH,	 /**< zip archive of torch.save or TorchScript */
	H2D_FORMAT_TORCH_LEGACY, /**< plain pickle stream: recognised in order to be refused */
	H2D_FORMAT_INDEX,	 /**< a JSON object: perhaps an index.json */
};

/** How many bytes of the file's begin are enough to decide. */
enum { H2D_DETECT_BYTES = 64 };

/** @param head  the first min(size_bytes, H2D_DETECT_BYTES) bytes of the file
 *  @param bytes how many there are
 *  @param size_bytes the file's size */
enum h2d_format_id h2d_detect(const unsigned char *head, size_t bytes, uint64_t size_bytes);

#endif
