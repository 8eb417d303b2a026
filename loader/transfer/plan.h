/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file plan.h
 * The plan of a load, made before the first byte is read.
 *
 * Three levels, all flat arrays, in file order:
 *   piece   part of one tensor: where it lies in the file and where it goes on the device
 *   chunk   unit of reading and copying: a run of pieces that lie together in one file, at most
 *           `chunk_bytes` long; a tensor larger than that is cut into several chunks
 *   arena   a device allocation into which tensors are packed (placement.c), or the caller's
 *           memory
 *
 * A chunk whose pieces also lie together on the device (gaps of alignment only) is *packed*:
 * the reader scatters with preadv() straight into the destination's layout, and one copy moves
 * the whole chunk, so that cost depends on bytes and not on the number of tensors.
 */
#ifndef H2D_TRANSFER_PLAN_H
#define H2D_TRANSFER_PLAN_H

#include "format/checkpoint.h"

struct h2d_piece {
	uint64_t file_offset; /**< absolute in the chunk's file */
	uint64_t bytes;	 /**< of source; for a 2-D slice rows × source pitch, last row short */
	uint64_t target; /**< index into the plan's targets */
	unsigned char *dst; /**< device address */
	/* 2-D slice: rows > 1, else all zero */
	uint64_t rows, row_bytes, src_pitch, dst_pitch;
};

struct h2d_chunk {
	uint64_t file_offset, bytes; /**< span in the file that is read, gaps included */
	uint64_t first_piece;
	uint32_t piece_count;
	uint32_t file;
	unsigned char *dst; /**< packed: where the chunk's image starts on the device */
	uint64_t dst_bytes; /**< packed: length of the image, alignment gaps included; else 0 */
	uint8_t source;	    /**< enum h2d_source that serves it (auto: chosen per extent) */
};

/** What is to be delivered where: a tensor or a part of it. */
struct h2d_plan_target {
	uint64_t tensor; /**< index in the catalogue */
	unsigned char *dst;
	uint64_t bytes;	       /**< delivered */
	_Atomic uint64_t left; /**< bytes still to arrive */
	uint64_t elapsed_ns, present_before_bytes;
	int64_t windows;
};

struct h2d_plan {
	struct h2d_piece *pieces;
	struct h2d_chunk *chunks;
	struct h2d_plan_target *targets;
	uint64_t piece_count, chunk_count, target_count;
	uint64_t total_bytes; /**< to deliver */
	uint64_t chunk_bytes; /**< bound on a chunk's span */
};

#endif
