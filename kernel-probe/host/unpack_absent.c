/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libarchive. */
#include "host/unpack.h"

int h2d_unpack(const char *archive, const char *to, const struct h2d_log *log)
{
	(void)to;
	return h2d_fail(log, H2D_E_UNAVAILABLE,
			"%s: this build has no libarchive; unpack it and give the directory",
			archive);
}

int h2d_pack(const char *from, const char *top, const char *archive, const struct h2d_log *log)
{
	(void)from;
	(void)top;
	return h2d_fail(log, H2D_E_UNAVAILABLE,
			"%s: this build has no libarchive; write to a directory instead",
			archive);
}
