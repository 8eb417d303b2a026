/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file plan.h
 * The plan of a load, made before the first byte is read.
 *
 * Four flat arrays:
 *   target  what is to be delivered where: a tensor, a byte range or a 2-D slice of one
 *   piece   part of one target: where it lies in the file and where it goes on the device
 *   chunk   unit of reading and copying, in file order (without coalescing: those of a target
 *           are, and targets by where they begin): a run of pieces that lie together in one
 *           file (small gaps are read through). A target longer than a chunk is cut;
 *           targets that share bytes of the file share the chunks that read them
 *   slice   geometry of the 2-D targets
 *
 * A chunk is *packed* when its pieces also lie together on the device, in the same order and
 * with no more than `dst_gap_bytes` between them. Then it has an *image*: the bytes of the
 * device from the first piece to the last, and one copy moves it, so that cost depends on bytes
 * and not on the number of tensors. `lead_bytes` tells how far in front of the chunk's first
 * file byte its image must begin in a buffer so that pieces can be moved from file layout to
 * image layout from first to last without overwriting what was not moved yet.
 */
#ifndef H2D_TRANSFER_PLAN_H
#define H2D_TRANSFER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/log.h"

/** Geometry of a 2-D target. Pitches are at least `row_bytes`. */
struct h2d_slice {
	uint64_t row_count, row_bytes, src_pitch, dst_pitch;
};

struct h2d_plan_target {
	uint64_t tensor; /**< index in the catalogue */
	uint64_t file_offset;
	uint64_t bytes;	       /**< delivered; 0: complete at once */
	_Atomic uint64_t left; /**< bytes still to arrive */
	unsigned char *dst;    /**< device address; NULL when `bytes` is 0 */
	uint32_t file;
	uint32_t slice; /**< 1 + index into `slices`; 0: plain bytes */
	uint32_t arena; /**< targets of different arenas are never in one image */
};

struct h2d_piece {
	uint64_t file_offset;
	uint64_t bytes; /**< span in the file; of a 2-D piece: rows × pitch, the last row short
			 */
	uint64_t target; /**< index into `targets` */
	unsigned char *dst;
};

enum {
	H2D_CHUNK_PACKED = 1 << 0, /**< has an image */
	H2D_CHUNK_SAME = 1 << 1,   /**< packed, and the image is the file's span byte by byte */
	H2D_CHUNK_OVERLAP = 1 << 2, /**< pieces share bytes of the file */
	H2D_CHUNK_ROWS = 1 << 3,    /**< has 2-D pieces */
};

/** How a chunk travels; decided in route.c. */
enum h2d_route {
	H2D_ROUTE_FILL,	  /**< the reader writes the destination itself (host memory, or by a
			   *   read of the device) */
	H2D_ROUTE_SLOT,	  /**< through a slot of the staging ring, copied by the device */
	H2D_ROUTE_SOURCE, /**< copied by the device from the source's own memory (a mapping) */
};

struct h2d_chunk {
	uint64_t file_offset, bytes; /**< span in the file, gaps included */
	uint64_t first_piece, piece_count;
	unsigned char *dst; /**< packed: where the image begins on the device */
	uint64_t dst_bytes; /**< packed: length of the image; else 0 */
	uint64_t lead_bytes;
	uint32_t file;
	uint8_t flags;	/**< H2D_CHUNK_* */
	uint8_t source; /**< enum h2d_source, set by the path */
	uint8_t route;	/**< enum h2d_route */
};

struct h2d_plan {
	struct h2d_plan_target *targets;
	struct h2d_slice *slices;
	struct h2d_piece *pieces;
	struct h2d_chunk *chunks;
	uint64_t target_count, slice_count, piece_count, chunk_count;
	uint64_t total_bytes;	  /**< to deliver */
	uint64_t chunk_max_bytes; /**< longest `lead_bytes + bytes` of any chunk */
};

struct h2d_plan_opts {
	uint64_t chunk_bytes;	     /**< bound on `lead_bytes + bytes` of a chunk */
	uint64_t read_through_bytes; /**< gaps in the file up to this do not end a chunk */
	/** Gaps on the device that a copy may overwrite: those of alignment in memory of our
	 *  own; 0 in memory of the caller. */
	uint64_t dst_gap_bytes;
	bool coalesce; /**< false: a chunk holds pieces of one target only */
	bool cut;      /**< false: a target is never cut, whatever its length */
};

/**
 * Make pieces and chunks of `p->targets`, which (with `slices`) the caller has filled and which
 * may be in any order. Sets `left` of each target.
 * @return 0; H2D_E_NOMEM; H2D_E_INVALID when a geometry overflows. On failure the plan holds
 *         no pieces or chunks.
 */
int h2d_plan_build(struct h2d_plan *p, const struct h2d_plan_opts *opts,
		   const struct h2d_log *log);
/** Release all arrays; a zeroed plan is allowed. */
void h2d_plan_free(struct h2d_plan *p);

/** Length of a target in the file, from its first byte to its last; false: it overflows. */
bool h2d_target_span(const struct h2d_plan *p, const struct h2d_plan_target *t, uint64_t *span);
/** Rows of a piece (1 unless it is 2-D) and the bytes that it delivers. */
uint64_t h2d_piece_rows(const struct h2d_plan *p, const struct h2d_piece *piece);
uint64_t h2d_piece_delivered(const struct h2d_plan *p, const struct h2d_piece *piece);

/** A run of bytes that lies together both in the file and on the device. */
struct h2d_segment {
	uint64_t file_offset, bytes;
	unsigned char *dst;
};

/** Walks the segments of one chunk in file order (pieces of an overlapping chunk one after the
 *  other). Neighbours that touch on both sides are joined. */
struct h2d_segments {
	const struct h2d_plan *plan;
	uint64_t piece, end; /**< next piece and one past the last */
	uint64_t row;	     /**< next row of a 2-D piece */
	struct h2d_segment ahead;
	bool has_ahead;
};
void h2d_segments_begin(struct h2d_segments *it, const struct h2d_plan *p,
			const struct h2d_chunk *c);
bool h2d_segments_next(struct h2d_segments *it, struct h2d_segment *out);

#endif
