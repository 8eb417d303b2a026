/* SPDX-License-Identifier: Apache-2.0 */
/** @file layers.h  Layers of a model by the names of its tensors, and their runs on devices. */
#ifndef H2D_PATH_LAYERS_H
#define H2D_PATH_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "h2d/h2d.h"

/** Layers [first, end) are there; end 0: no tensor names one. */
struct h2d_layers {
	uint64_t first, end;
};

/** The number that stands alone between dots of a tensor's name: "model.layers.12.mlp.w",
 *  "blk.3.attn.weight". @return false: there is none */
bool h2d_layer_of(const struct h2d_tensor_info *tensor, uint64_t *layer);

/** The layers of the tensors that `select` keeps; NULL keeps all. */
void h2d_layers_find(struct h2d_layers *layers, struct h2d_checkpoint *ckpt,
		     h2d_select_fn select, void *select_user);

/** Which of `devices` holds a tensor: layers go in runs of equal number, what belongs to no
 *  layer goes to the first. */
uint32_t h2d_layers_device(const struct h2d_layers *layers,
			   const struct h2d_tensor_info *tensor, uint32_t devices);

#endif
