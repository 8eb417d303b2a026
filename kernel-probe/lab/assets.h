/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_LAB_ASSETS_H
#define H2D_LAB_ASSETS_H

#include "internal.h"

/* Sets lab->assets: options.assets_dir, $H2D_LAB_DIR, or beside the running program. Returns 0,
 * H2D_E_NOT_FOUND, H2D_E_UNAVAILABLE. */
int lab_assets_find(struct lab *lab);
/* Sets lab->cache, which stays NULL where there is no home. Returns 0 or H2D_E_NOMEM. */
int lab_cache_find(struct lab *lab);

#endif
