/* SPDX-License-Identifier: Apache-2.0 */
#include "h2d/h2d.h"

int h2d_load(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
	     const struct h2d_load_opts *opts, struct h2d_weights **weights)
{
	(void)ckpt;
	(void)dev;
	(void)opts;
	(void)weights;
	return H2D_E_UNSUPPORTED;
}

int h2d_load_into(struct h2d_checkpoint *ckpt, struct h2d_device *dev,
		  const struct h2d_target *targets, size_t count,
		  const struct h2d_load_opts *opts, struct h2d_report *report)
{
	(void)ckpt;
	(void)dev;
	(void)targets;
	(void)count;
	(void)opts;
	(void)report;
	return H2D_E_UNSUPPORTED;
}

void h2d_report_clear(struct h2d_report *report)
{
	(void)report;
}

void h2d_weights_free(struct h2d_weights *weights)
{
	(void)weights;
}

uint64_t h2d_weights_count(const struct h2d_weights *weights)
{
	(void)weights;
	return 0;
}

int h2d_weights_data(const struct h2d_weights *weights, uint64_t i, uint64_t *index,
		     void **data, uint64_t *size_bytes)
{
	(void)weights;
	(void)i;
	(void)index;
	(void)data;
	(void)size_bytes;
	return H2D_E_UNSUPPORTED;
}

int h2d_weights_read(const struct h2d_weights *weights, uint64_t i, uint64_t offset, void *dst,
		     uint64_t bytes)
{
	(void)weights;
	(void)i;
	(void)offset;
	(void)dst;
	(void)bytes;
	return H2D_E_UNSUPPORTED;
}

int h2d_weights_report(const struct h2d_weights *weights, struct h2d_report *report)
{
	(void)weights;
	(void)report;
	return H2D_E_UNSUPPORTED;
}

int h2d_weights_tensor_report(const struct h2d_weights *weights, uint64_t i,
			      struct h2d_tensor_report *report)
{
	(void)weights;
	(void)i;
	(void)report;
	return H2D_E_UNSUPPORTED;
}
