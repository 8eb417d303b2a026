/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file record.h
 * What the probes read, kept as a tree that can be read instead of the machine. One thread
 * records at a time. Since 0.1.
 */
#ifndef H2D_HOST_RECORD_H
#define H2D_HOST_RECORD_H

#include "core/hostfs.h"
#include "core/log.h"

enum { H2D_RECORD_BYTES_MAX = 32 << 20 };

struct h2d_recorded {
	enum h2d_hostfs_kind kind;
	char *path; /**< absolute */
	char *data; /**< owned; NULL when it could not be read */
	size_t bytes;
	int err; /**< negative errno, or 0 */
};

struct h2d_record {
	struct h2d_recorded *items;
	size_t count, cap, bytes;
	char prefix[64]; /**< what is read now goes below it: "/h2d/sample/1", or "" */
	bool failed;	 /**< out of memory, or more than the limit */
};

/** Show what this thread reads from now on to the record. */
void h2d_record_start(struct h2d_record *r);
void h2d_record_stop(void);
void h2d_record_free(struct h2d_record *r);

/** The item of a path, or NULL. */
struct h2d_recorded *h2d_record_find(struct h2d_record *r, enum h2d_hostfs_kind kind,
				     const char *path);
/** Replace an item's data; `data` is taken over. */
void h2d_record_set(struct h2d_record *r, struct h2d_recorded *item, char *data, size_t bytes);

/** Write the tree below the directory `to`, which exists and is empty. @return 0, H2D_E_IO,
 *  H2D_E_NOMEM */
int h2d_record_write(const struct h2d_record *r, const char *to, const struct h2d_log *log);

#endif
