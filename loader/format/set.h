/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file set.h
 * Between the files that open a checkpoint: set.c decides which files an argument stands for,
 * index.c follows an index.json, numbered.c the numbering in names, folder.c picks from a
 * directory. All of it runs in one thread, while one checkpoint is being opened.
 */
#ifndef H2D_FORMAT_SET_H
#define H2D_FORMAT_SET_H

#include "format/format.h"

struct h2d_set {
	struct h2d_catalogue *cat;
	const struct h2d_log *log;
	struct h2d_arena scratch; /**< paths and lists, released when opening ends */
};

/** Report that memory could not be had for opening `path`. */
int h2d_set_no_memory(const struct h2d_set *set, const char *path);
/** `name` in the folder that `path` lies in, as `path` names it (symbolic links in it are not
 *  resolved, so that a snapshot's entries find each other). In scratch, or NULL. */
char *h2d_set_beside(struct h2d_set *set, const char *path, const char *name);
/** The last component of a path. */
const char *h2d_set_name(const char *path);
/** Read a file's type, which must be regular. */
int h2d_set_detect(const struct h2d_file *file, const struct h2d_log *log,
		   enum h2d_format_id *id);
/** Open and parse one data file of the set. `named_by` (may be NULL) is the file that asks for
 *  it, for the message when it is missing. All files of a set have one format. */
int h2d_set_add(struct h2d_set *set, const char *path, const char *named_by);

/** An index.json: a map from tensors to files. */
struct h2d_index {
	const char *path;
	void *root;	       /**< json_t, released by h2d_index_free() */
	struct h2d_file_id id; /**< of the file it was read from */
	void *map;	       /**< its weight_map; NULL: it has none */
};

/** Read an index; not having a weight_map is no error here. */
int h2d_index_read(struct h2d_set *set, const char *path, struct h2d_index *index,
		   const struct h2d_log *log);
void h2d_index_free(struct h2d_index *index);
/** Look for the one index beside `path` that names it. @return 0 with `index->root` NULL when
 *  there is none; H2D_E_FORMAT when there are several. */
int h2d_index_beside(struct h2d_set *set, const char *path, struct h2d_index *index);
/** Open all files of an index and keep the tensors that it assigns to them. */
int h2d_index_open(struct h2d_set *set, struct h2d_index *index);
/** After the set was put in order: every tensor of the index is there; compare total_size. */
int h2d_index_check(struct h2d_set *set, const struct h2d_index *index);

/** A name `PREFIX-00002-of-00005REST`, numbered from 1. */
struct h2d_numbered {
	const char *name;
	size_t prefix_bytes, digits;
	uint32_t number, total;
	const char *rest;
};

/** Is the last component of `path` so numbered, with a total above 1? */
bool h2d_numbered_parse(const char *path, struct h2d_numbered *out);
/** Are two names members of one set? */
bool h2d_numbered_same_set(const struct h2d_numbered *a, const struct h2d_numbered *b);
/** Open every member of the set that `path` is a member of. */
int h2d_numbered_open(struct h2d_set *set, const char *path, const struct h2d_numbered *n);
/** `set` holds the parsed GGUF file at `path`: when its metadata say that it is a part of a
 *  split, open the whole split instead. */
int h2d_split_open(struct h2d_set *set, const char *path);

/** What a directory stands for: (out) the path of an index or of a data file. */
int h2d_folder_choose(struct h2d_set *set, const char *path, const char **member);
/** Names in a directory that end in `suffix` and do not begin with a dot, sorted by byte, in
 *  scratch. @return 0, or a status without a line in the log, and errno when it is a system's.
 */
int h2d_folder_list(struct h2d_set *set, const char *path, const char *suffix, char ***names,
		    size_t *count);
/** Does `s` end in `end`? */
bool h2d_set_ends(const char *s, const char *end);

#endif
