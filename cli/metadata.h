/* SPDX-License-Identifier: Apache-2.0 */
/** @file metadata.h  A checkpoint's metadata as JSON and as text. */
#ifndef H2D_CLI_METADATA_H
#define H2D_CLI_METADATA_H

#include "input.h"

/** The `metadata` object. Arrays of more than 16 elements become {element_type, element_count,
 *  first} unless `full`; strings that are not UTF-8 become {bytes_hex}. @return 0 or a status
 */
int h2d_metadata_json(struct h2d_json *j, const struct h2d_input *in, bool full);
/** A line for each entry. @return 0 or a status */
int h2d_metadata_print(FILE *out, const struct h2d_input *in, bool full);

#endif
