/* SPDX-License-Identifier: Apache-2.0 */
/** @file json_value.h  Values that Jansson read, written again. Since 0.1. */
#ifndef H2D_CORE_JSON_VALUE_H
#define H2D_CORE_JSON_VALUE_H

#include <jansson.h>

#include "core/json.h"

/**
 * Write a value under `key` (NULL inside an array) as it is. What is nested deeper than the
 * writer holds becomes null.
 * @param drop_nulls  leave out members that are null
 */
void h2d_value_write(struct h2d_json *j, const char *key, const json_t *value, bool drop_nulls);

#endif
