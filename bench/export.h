/* SPDX-License-Identifier: Apache-2.0 */
/** @file export.h  Samples of a campaign as a table for other programs. Since 0.1. */
#ifndef H2D_BENCH_EXPORT_H
#define H2D_BENCH_EXPORT_H

#include "bench/value.h"

/** One line per sample (cells without one: one line), by RFC 4180. Cells of text that a
 *  spreadsheet would take for a formula get a leading apostrophe.
 *  @return 0, or as h2d_value_load() and H2D_E_FORMAT for what is no h2d.bench */
int h2d_export_csv(FILE *out, const char *path, const struct h2d_log *log);

#endif
