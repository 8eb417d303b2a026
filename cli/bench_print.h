/* SPDX-License-Identifier: Apache-2.0 */
/** @file bench_print.h  What a campaign came to, for people. Not thread-safe. Since 0.1. */
#ifndef H2D_CLI_BENCH_PRINT_H
#define H2D_CLI_BENCH_PRINT_H

#include "bench/matrix.h"
#include "cli.h"

/** A line for every cell and every ratio, no surer than its samples; warnings on stderr. */
void h2d_bench_print_result(struct h2d_cli *cli, struct h2d_bench_matrix *m,
			    const json_t *document, const char *path);

#endif
