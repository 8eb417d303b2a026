/* SPDX-License-Identifier: Apache-2.0 */
#include "path/layers.h"

#include <string.h>

enum { DIGITS_MAX = 6 }; /* so that no product of layers and devices overflows */

bool h2d_layer_of(const struct h2d_tensor_info *t, uint64_t *layer)
{
	const char *p = t->name, *end = t->name + t->name_bytes;

	while (p < end) {
		const char *dot = memchr(p, '.', (size_t)(end - p));
		const char *stop = dot ? dot : end;
		uint64_t n = 0;

		if (dot && p > t->name && stop > p && stop - p <= DIGITS_MAX) {
			const char *q = p;

			for (; q < stop && *q >= '0' && *q <= '9'; q++)
				n = n * 10 + (uint64_t)(*q - '0');
			if (q == stop) {
				*layer = n;
				return true;
			}
		}
		if (!dot)
			break;
		p = dot + 1;
	}
	return false;
}

void h2d_layers_find(struct h2d_layers *layers, struct h2d_checkpoint *ckpt,
		     h2d_select_fn select, void *select_user)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	uint64_t first = UINT64_MAX, end = 0;

	h2d_checkpoint_info(ckpt, &info);
	for (uint64_t i = 0; i < info.tensor_count; i++) {
		struct h2d_tensor_info t = H2D_OPTS(t);
		uint64_t layer;

		if (h2d_checkpoint_tensor(ckpt, i, &t) || !h2d_layer_of(&t, &layer))
			continue;
		if (select && !select(select_user, i, &t))
			continue;
		first = layer < first ? layer : first;
		end = layer >= end ? layer + 1 : end;
	}
	*layers = (struct h2d_layers){end ? first : 0, end};
}

uint32_t h2d_layers_device(const struct h2d_layers *layers,
			   const struct h2d_tensor_info *tensor, uint32_t devices)
{
	uint64_t layer;

	if (!h2d_layer_of(tensor, &layer) || layer < layers->first || layer >= layers->end)
		return 0;
	return (uint32_t)((layer - layers->first) * devices / (layers->end - layers->first));
}
