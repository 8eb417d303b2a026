/* SPDX-License-Identifier: Apache-2.0 */
/** @file split.h  How --split divides a checkpoint among several devices. */
#ifndef H2D_CLI_SPLIT_H
#define H2D_CLI_SPLIT_H

#include "input.h"

enum h2d_share {
	H2D_SHARE_LAYERS,  /**< runs of layers of equal number */
	H2D_SHARE_SIZE,	   /**< runs of whole tensors of about equal bytes */
	H2D_SHARE_ROWS,	   /**< equal parts of the first dimension */
	H2D_SHARE_COLUMNS, /**< equal parts of the last dimension */
	H2D_SHARE_COPY,	   /**< all of it to every device */
	H2D_SHARE_DEVICE,  /**< all of it to one device */
};

/** What was decided for one tensor. */
struct h2d_tensor_share {
	uint8_t how;	 /**< H2D_SHARE_DEVICE, ROWS, COLUMNS or COPY */
	uint32_t device; /**< of H2D_SHARE_DEVICE */
};

/** A split, decided for every tensor. */
struct h2d_split {
	uint32_t device_count;
	struct h2d_tensor_share *tensors; /**< by index in the checkpoint */
};

extern const struct h2d_option_table h2d_split_options;
/** The words of --split, by enum h2d_share, ended by NULL. */
extern const char *const h2d_share_names[];

/**
 * Decide for every selected tensor from the words of --split (none: layers).
 * @param names  of the devices, for messages
 * @return H2D_EXIT_OK, or a usage error was told. h2d_split_release() in every case
 */
int h2d_split_decide(struct h2d_cli *cli, const struct h2d_input *in,
		     const struct h2d_selection *selection, const struct h2d_texts *words,
		     uint32_t device_count, struct h2d_split *split);
void h2d_split_release(struct h2d_split *split);
/** A h2d_split_fn; `user` is a decided struct h2d_split. */
int h2d_split_part(void *user, uint64_t index, const struct h2d_tensor_info *tensor,
		   uint32_t device, struct h2d_part *part);

#endif
