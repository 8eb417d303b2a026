/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file torch.h
 * What the parts of the PyTorch reader share: the archive (torch.c) whose pickles (pickle.c)
 * are walked for tensors (torch_walk.c), each of which is placed in its storage
 * (torch_tensor.c). Sources: torch/serialization.py, torch/_utils.py,
 * torch/csrc/jit/serialization/pickler.cpp.
 */
#ifndef H2D_FORMAT_TORCH_H
#define H2D_FORMAT_TORCH_H

#include "format/pickle.h"
#include "format/zip.h"

struct h2d_torch_dtype {
	const char *name;    /**< as torch spells it, without "torch." */
	const char *storage; /**< class of its typed storage, NULL: none */
	uint32_t bytes;	     /**< 0: quantised, not read */
};

/** By the name of a typed storage, for example "FloatStorage"; NULL: unknown. */
const struct h2d_torch_dtype *h2d_torch_storage_dtype(const char *storage);
/** By the name of a dtype, for example "float8_e4m3fn"; NULL: unknown. */
const struct h2d_torch_dtype *h2d_torch_dtype(const char *name);

/** Which tensors use a record. */
struct h2d_torch_use {
	uint64_t count;
	uint64_t first; /**< index in the catalogue of the first one */
};

struct h2d_torch {
	struct h2d_parse *p;
	struct h2d_zip zip;
	struct h2d_torch_use *uses; /**< per record of the archive; malloc'd */
	struct h2d_reader r;	    /**< of the pickle at work, and for messages */
	struct h2d_arena values;    /**< of the pickle at work */
	const char *folder;	    /**< of its storages: "data/" or "constants/" */
	uint64_t first_tensor;	    /**< where this file begins in the catalogue */
	/** TorchScript: where a tensor cannot be understood, raw storages are listed instead;
	 *  `raw` then says so and the walk ends. */
	bool script, raw;
	char *path; /**< name of the value being walked; malloc'd */
	size_t path_bytes, path_cap;
	uint64_t visits_left; /**< values that the walk may still look at */
	uint64_t bytes_left;  /**< bytes that names, shapes and metadata may still take */
	unsigned warned_count;
};

enum h2d_torch_found { H2D_TORCH_OTHER, H2D_TORCH_TENSOR };

/**
 * If `v` is a tensor (or a bare storage), add it to the catalogue under the path.
 * @return an h2d_torch_found, or a negative status. With t->raw set after the call, the tensor
 *         is of a kind that is not read, in an archive where that is no error.
 */
int h2d_torch_take_tensor(struct h2d_torch *t, const struct h2d_pickle_value *v);
/** Add everything that `root` holds, under names that begin with `prefix` (may be ""). */
int h2d_torch_walk(struct h2d_torch *t, struct h2d_pickle_value *root, const char *prefix);

/** Account for memory of the catalogue; H2D_E_FORMAT when a small file makes too much of it. */
int h2d_torch_spend(struct h2d_torch *t, uint64_t bytes);
/** The path as a name in the catalogue's arena, `at_root` when it is empty; NULL: no memory. */
char *h2d_torch_name(struct h2d_torch *t, const char *at_root, size_t *bytes);
/** Make the path the subject of messages. */
void h2d_torch_subject(struct h2d_torch *t, const char *kind);

#endif
