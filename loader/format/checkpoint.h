/* SPDX-License-Identifier: Apache-2.0 */
/** @file checkpoint.h  The opened checkpoint as the rest of the library sees it. */
#ifndef H2D_FORMAT_CHECKPOINT_H
#define H2D_FORMAT_CHECKPOINT_H

#include <pthread.h>

#include "file/map.h"
#include "format/format.h"

struct h2d_checkpoint {
	char *path;
	struct h2d_log log;
	struct h2d_catalogue cat;
	uint64_t open_ns; /**< time that opening took */
	pthread_mutex_t views_lock;
	struct h2d_map *views; /**< per file, mapped at the first view */
};

#endif
