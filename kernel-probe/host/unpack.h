/* SPDX-License-Identifier: Apache-2.0 */
/** @file unpack.h  A capture's archive, out of and into a directory. Since 0.1. */
#ifndef H2D_HOST_UNPACK_H
#define H2D_HOST_UNPACK_H

#include "core/log.h"

/** Unpack `archive` into the directory `to`, within the limits of host/root.h. @return 0;
 *  H2D_E_FORMAT, H2D_E_UNAVAILABLE (no libarchive), H2D_E_IO, H2D_E_NOMEM */
int h2d_unpack(const char *archive, const char *to, const struct h2d_log *log);

/** Pack the tree below `from` into a new file `archive`, a tar compressed with gzip, with its
 *  members below the directory `top`. The same tree gives the same bytes. @return as above;
 *  H2D_E_INVALID when the file exists */
int h2d_pack(const char *from, const char *top, const char *archive, const struct h2d_log *log);

#endif
