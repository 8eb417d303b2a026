/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file order.h
 * What is proven about a catalogue whatever its format: tensors in file order, in bounds,
 * disjoint, and with unique names. Not thread-safe; used while a checkpoint is being opened.
 */
#ifndef H2D_FORMAT_ORDER_H
#define H2D_FORMAT_ORDER_H

#include "format/format.h"

/** Hash of a name, for h2d_tensor.name_hash: computed by a parser while it has the name at
 * hand, it saves fetching all names again. */
uint32_t h2d_order_hash(struct h2d_catalogue *cat, const char *name, size_t bytes);

/**
 * Sort tensors [first, tensor_count) by offset, keeping listing order among equals. They must
 * all lie in one file and have been added in listing order. Takes linear time.
 * @param in_order  the caller has seen that they are sorted already
 * @return 0 or H2D_E_NOMEM
 */
int h2d_order_sort(struct h2d_catalogue *cat, uint64_t first, bool in_order,
		   const struct h2d_log *log);

/**
 * Prove the names of tensors [first, tensor_count) unique and leave the table of them in the
 * catalogue (replacing an earlier one).
 * @return 0, H2D_E_FORMAT naming both entries, or H2D_E_NOMEM
 */
int h2d_order_index_names(struct h2d_catalogue *cat, uint64_t first, const struct h2d_log *log);

/** Sort everything by (file, offset, listing order), prove bounds, disjointness and names, and
 *  sum up sizes. Tensors must have been added file by file. @return as above */
int h2d_order_finish(struct h2d_catalogue *cat, const struct h2d_log *log);

/** Index of the tensor of that name in the table of h2d_order_index_names(), UINT64_MAX: none.
 */
uint64_t h2d_order_find(const struct h2d_catalogue *cat, const char *name, size_t bytes);

#endif
