/* SPDX-License-Identifier: Apache-2.0 */
/** @file input.h  The checkpoint of a command: opening, describing, choosing tensors, cache. */
#ifndef H2D_CLI_INPUT_H
#define H2D_CLI_INPUT_H

#include "cli.h"
#include "file/cache.h"

struct h2d_input {
	struct h2d_checkpoint *ckpt;
	struct h2d_checkpoint_info info;
	uint64_t open_ns;
};

/** Open a checkpoint. @return H2D_EXIT_OK, or the status of the error that was told */
int h2d_input_open(struct h2d_cli *cli, const char *path, struct h2d_input *in);
void h2d_input_close(struct h2d_input *in);
/** The `checkpoint` object of a document. */
void h2d_input_json(const struct h2d_cli *cli, struct h2d_json *j, const struct h2d_input *in);
/** "model.gguf (gguf, 1 file, 30 tensors, 12.3 MiB)" */
void h2d_input_print(const struct h2d_cli *cli, const struct h2d_input *in);

/** Name of tensor `index` for messages, safe for a terminal; returns `out`. */
const char *h2d_input_name(const struct h2d_input *in, uint64_t index, char *out, size_t cap);
/** `name`, and `name_hex` where the name is not UTF-8. */
void h2d_name_json(struct h2d_json *j, const char *name, size_t bytes);

/** --include and --exclude. */
struct h2d_selection {
	struct h2d_texts include, exclude;
};
/** A h2d_select_fn; `user` is a struct h2d_selection. */
int h2d_selection_keeps(void *user, uint64_t index, const struct h2d_tensor_info *tensor);
/** Count what is kept. @return H2D_EXIT_OK, or a usage error was told: nothing is */
int h2d_selection_check(struct h2d_cli *cli, const struct h2d_input *in,
			const struct h2d_selection *selection);

/** Cache state of one data file. H2D_CACHE_UNKNOWN when it cannot even be opened. */
void h2d_input_cache(const struct h2d_input *in, uint32_t file, struct h2d_cache_state *state);
/** Sum over all data files; unknown when any is. */
void h2d_input_cache_all(const struct h2d_input *in, struct h2d_cache_state *state);
/** "cachestat", "mincore", or NULL when unknown. */
const char *h2d_cache_method_name(enum h2d_cache_method method);
double h2d_cache_pct(const struct h2d_cache_state *state);

#endif
