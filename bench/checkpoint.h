/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file checkpoint.h
 * The checkpoint of cells: its facts, a fingerprint of its catalogue, and the digest that every
 * loader's bytes are compared with. Since 0.1.
 */
#ifndef H2D_BENCH_CHECKPOINT_H
#define H2D_BENCH_CHECKPOINT_H

#include <stdbool.h>

#include "core/json.h"
#include "core/log.h"

struct h2d_bench_checkpoint {
	char *name;
	struct h2d_checkpoint *handle;
	char *path; /**< absolute */
	const char *format;
	uint32_t file_count;
	uint64_t tensor_count, size_bytes;
	char fingerprint[17];  /**< of names, types, shapes and places of all tensors */
	uint64_t extent_count; /**< on the disk */
	char extent_why[128];  /**< why it is unknown, else "" */
	char digest[33]; /**< XXH3-128 of all bytes in file order; "" before it was taken */
};

/** Open and validate; no weight is read. */
int h2d_bench_checkpoint_open(struct h2d_bench_checkpoint *c, const char *name,
			      const char *path, const struct h2d_log *log);
void h2d_bench_checkpoint_close(struct h2d_bench_checkpoint *c);
/** Read all bytes and take the digest. `stop` (may be NULL) returns non-zero to cancel.
 *  @return 0, H2D_E_CANCELLED, or as h2d_file_read() */
int h2d_bench_checkpoint_digest(struct h2d_bench_checkpoint *c, int (*stop)(void *user),
				void *user, const struct h2d_log *log);
/** The members of an h2d.bench checkpoint. */
void h2d_bench_checkpoint_write(struct h2d_json *j, const struct h2d_bench_checkpoint *c,
				bool redact);

#endif
