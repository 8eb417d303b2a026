/* SPDX-License-Identifier: Apache-2.0 */
/** @file weights.h  Tensors that were completely delivered to a device. */
#ifndef H2D_TRANSFER_WEIGHTS_H
#define H2D_TRANSFER_WEIGHTS_H

#include "file/map.h"
#include "transfer/engine.h"
#include "transfer/placement.h"

/** A data file as it was when its weights were loaded, for verifying after the checkpoint has
 *  been closed. */
struct h2d_origin {
	struct h2d_file file; /**< path, identity and memory; `fd` only of descriptors */
	struct h2d_map *view; /**< the checkpoint's mapping that tensors of it point into */
};

/** Reading back through memory of our own, which can be given up when a copy hangs. */
struct h2d_readback {
	pthread_mutex_t lock;
	struct h2d_stream *stream; /**< made with the first read */
	struct h2d_event *event;
	unsigned char *buf;
	uint64_t buf_bytes;
};

struct h2d_weights {
	struct h2d_device *dev;
	struct h2d_log log;
	struct h2d_plan_target *targets; /**< in file order */
	uint64_t count;
	struct h2d_slice *slices; /**< of targets that are parts of tensors, or NULL */
	struct h2d_placement placement;
	struct h2d_origin *origins; /**< by file */
	uint32_t origin_count;
	struct h2d_measure *measures; /**< by target, or NULL */
	struct h2d_report report;     /**< `reason` is owned */
	struct h2d_readback readback;
	bool view; /**< `dst` of the targets are host addresses in the checkpoint's mappings */
};

/** An empty set for `file_count` files, or NULL. */
struct h2d_weights *h2d_weights_new(struct h2d_device *dev, uint32_t file_count);

/**
 * Bring up to `*bytes` bytes of tensor `i` from `offset` on to host memory.
 * @param data   (out) where they are, valid until the lock is given up
 * @param bytes  (in, out) wanted; got, at least 1
 * Call with `readback.lock` held.
 */
int h2d_weights_fetch(struct h2d_weights *w, uint64_t i, uint64_t offset, uint64_t *bytes,
		      const unsigned char **data, const struct h2d_log *log);

/** Open anew the file that weights were loaded from, with the identity it had then: what
 *  h2d_file_check_unchanged() says of it is about the time since. @return 0; H2D_E_CHANGED when
 * it is gone; a status of opening. The caller closes `now`. */
int h2d_origin_reopen(const struct h2d_file *was, struct h2d_file *now,
		      const struct h2d_log *log);

#endif
