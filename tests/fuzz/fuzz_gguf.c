/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes given to the GGUF reader: an error or a checkpoint, never more. */
#include "h2d/h2d.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct h2d_checkpoint *ckpt;
	struct h2d_metadata_info m = H2D_OPTS(m);
	struct h2d_tensor_info t = H2D_OPTS(t);
	volatile unsigned sum = 0;

	if (h2d_checkpoint_open_memory(data, bytes, NULL, &ckpt))
		return 0;
	/* Everything that is handed out must be readable and lie in the input. */
	for (uint64_t i = 0; !h2d_checkpoint_tensor(ckpt, i, &t); i++) {
		if (t.offset_bytes > bytes || t.size_bytes > bytes - t.offset_bytes)
			__builtin_trap();
		for (uint32_t k = 0; k < t.rank; k++)
			sum += (unsigned)t.shape[k];
		sum += (unsigned char)t.name[t.name_bytes];
	}
	for (uint64_t i = 0; !h2d_checkpoint_metadata(ckpt, i, &m); i++)
		for (size_t k = 0; k < m.data_bytes; k++)
			sum += ((const uint8_t *)m.data)[k];
	h2d_checkpoint_close(ckpt);
	return 0;
}
