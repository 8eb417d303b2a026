/* SPDX-License-Identifier: Apache-2.0 */
#include "format/detect.h"

enum h2d_format_id h2d_detect(const unsigned char *head, size_t bytes, uint64_t size_bytes)
{
	(void)size_bytes;
	if (bytes >= 4 && head[0] == 'G' && head[1] == 'G' && head[2] == 'U' && head[3] == 'F')
		return H2D_FORMAT_GGUF;
	return H2D_FORMAT_NONE;
}
