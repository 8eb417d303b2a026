/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file load.h
 * One load, step by step. The entry points (h2d_load(), h2d_load_into()) say what goes where;
 * everything in between is common:
 *
 *     h2d_load_begin()     options, path, device
 *       … the caller fills plan.targets (and slices) and gives them their destinations
 *     h2d_load_prepare()   files, sizes, plan, source and route of every chunk
 *     h2d_load_transfer()  the engine, and the question whether the files are still the same
 *     h2d_load_report()
 *     h2d_load_end()       releases what the load has, whatever was reached
 */
#ifndef H2D_PATH_LOAD_H
#define H2D_PATH_LOAD_H

#include "format/checkpoint.h"
#include "path/table.h"
#include "transfer/engine.h"
#include "transfer/weights.h"

enum { H2D_REASON_BYTES = 640 };

struct h2d_load {
	struct h2d_checkpoint *ckpt;
	struct h2d_device *dev;
	struct h2d_load_opts opts;
	struct h2d_log log;
	const struct h2d_path *path;
	struct h2d_plan plan;
	struct h2d_source_file *inputs; /**< by file of the catalogue */
	bool own_memory; /**< the destination is ours: gaps between tensors may be overwritten
			  */
	bool memory_scarce; /**< `auto`: the checkpoint is larger than the memory that is left
			     */
	uint32_t reader_max; /**< `auto`: more of them the device's link would not keep busy;
			      *   0: no bound */
	bool in_place;	    /**< readers may write the destination */
	const char *sizes_from; /**< of the report */
	uint64_t slack_bytes;	/**< of a slot, for the alignment of direct reads */
	struct h2d_engine_config engine;
	struct h2d_engine_result result;
	struct h2d_trace *trace;
	char reason[H2D_REASON_BYTES];
	uint64_t began_ns, plan_ns, allocate_ns, transfer_ns;
};

int h2d_load_begin(struct h2d_load *l, struct h2d_checkpoint *ckpt, struct h2d_device *dev,
		   const struct h2d_load_opts *opts);
int h2d_load_prepare(struct h2d_load *l);
int h2d_load_transfer(struct h2d_load *l);
/** Fill a report; `reason` in it is allocated. @return 0 or H2D_E_NOMEM */
int h2d_load_report(struct h2d_load *l, struct h2d_report *report);
void h2d_load_end(struct h2d_load *l);

/** Note in weights where file `i` came from. @return 0, H2D_E_NOMEM or H2D_E_IO */
int h2d_load_keep_origin(struct h2d_load *l, struct h2d_origin *o, uint32_t i);

/** Compare every file that the load uses with what it was when the checkpoint was opened. */
int h2d_load_check_files(struct h2d_load *l);

/** Add a sentence to the reason; what does not fit is left out. */
void h2d_load_because(struct h2d_load *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** Choose readers, slots, chunk size and the rest that options and machine decide. The caller
 *  has opened direct descriptors, so that their alignment is known.
 *  @param chunk_bytes (out) for the plan */
int h2d_load_size(struct h2d_load *l, uint64_t *chunk_bytes);
/** Sizes of the ring by calibration, as far as the options ask for it and the load has a ring
 *  that nobody else sized.
 *  @param c  (out) `chunk_bytes` 0: none
 *  @return 0, or H2D_E_DEVICE_LOST */
int h2d_load_calibrate(struct h2d_load *l, bool direct, struct h2d_calibrated *c);
/** After the plan: how much memory each slot needs; `need_bytes` as h2d_route_chunks(). */
int h2d_load_size_slots(struct h2d_load *l, uint64_t need_bytes);

/** Open what direct reads need; a file whose filesystem refuses is read through the cache, with
 *  the reason. */
int h2d_load_open_direct(struct h2d_load *l, struct h2d_source_file *in);
/** The choice of `auto`: before the plan (which files may need direct reads) and after it
 *  (the source of every chunk). */
int h2d_auto_open(struct h2d_load *l);
void h2d_auto_choose(struct h2d_load *l);

#endif
