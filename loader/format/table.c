/* SPDX-License-Identifier: Apache-2.0 */
#include "format/format.h"

const struct h2d_format h2d_formats[] = {
	{H2D_FORMAT_SAFETENSORS, "safetensors", h2d_safetensors_parse},
	{H2D_FORMAT_GGUF, "gguf", h2d_gguf_parse},
	{H2D_FORMAT_CACT, "cact", h2d_cact_parse},
	{H2D_FORMAT_TORCH, "torch", h2d_torch_parse},
	{H2D_FORMAT_NONE, NULL, NULL},
};
