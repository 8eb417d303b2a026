/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file format.h
 * The table of formats and what a parser produces: a catalogue of tensors and metadata.
 *
 * A parser reads one data file's header through h2d_file_read() (never a mapping) and adds what
 * it found to a catalogue. It must bound memory by the header's real size in the file, check
 * every arithmetic step, and report the first broken rule with file, tensor, rule and offset.
 * Sets of files (shards, splits) are put together in set.c.
 */
#ifndef H2D_FORMAT_FORMAT_H
#define H2D_FORMAT_FORMAT_H

#include "core/arena.h"
#include "core/log.h"
#include "file/file.h"
#include "format/detect.h"

/** One tensor as parsed. Pointers lie in the catalogue's arena. */
struct h2d_tensor {
	const char *name;
	const uint64_t *shape;	/**< outermost first */
	const int64_t *strides; /**< NULL: C order */
	const char *dtype;	/**< static text or arena */
	uint64_t offset_bytes, size_bytes;
	uint32_t name_bytes, rank;
	uint32_t file;
	uint32_t flags;	       /**< H2D_TENSOR_* */
	uint32_t ordinal;      /**< in its file's own listing */
	uint32_t name_hash;    /**< h2d_order_hash() of the name, 0: not known yet */
	uint64_t entry_offset; /**< of its header entry in the file, for messages; 0: unknown */
};

enum {
	H2D_TENSOR_SHARED =
		1, /**< its extent overlaps another tensor's on purpose (torch storages) */
	/** Its bytes are no row-major array of elements or blocks: no part of them is a part of
	 *  the shape. */
	H2D_TENSOR_WHOLE = 2,
};

struct h2d_metadata {
	const char *key;
	const void *data;
	uint64_t count;
	size_t key_bytes, data_bytes;
	enum h2d_value_type type, element_type;
};

/** Everything known about an opened checkpoint. Owned by the checkpoint; grown by parsers. */
struct h2d_catalogue {
	struct h2d_arena arena;
	struct h2d_tensor *tensors; /**< malloc'd array */
	uint64_t tensor_count, tensor_cap;
	struct h2d_metadata *metadata; /**< malloc'd array */
	uint64_t metadata_count, metadata_cap;
	struct h2d_file *files; /**< malloc'd array */
	uint32_t file_count, file_cap;
	bool has_index;
	struct h2d_file_id index_id; /**< of the index.json that the files were named by */
	uint64_t header_bytes;
	uint64_t ignored_count;
	uint64_t size_bytes; /**< sum of the tensors' sizes, set by h2d_order_finish() */
	const char *format;
	uint64_t sorted_count; /**< so many tensors, from the first, are in file order */
	uint64_t hash_seed;    /**< so that a file cannot choose names whose hashes collide */
	/** Open-addressed table of names, set by h2d_order_index_names(): upper half the hash
	 * of the name, lower half index + 1; 0 is free. NULL while there is no tensor. */
	uint64_t *name_table;
	uint64_t name_mask; /**< slots - 1 */
};

/** What a parser is given. */
struct h2d_parse {
	struct h2d_catalogue *cat;
	const struct h2d_file *file;
	uint32_t file_index;
	const struct h2d_log *log;
};

struct h2d_format {
	enum h2d_format_id id;
	const char *name;
	/** Parse one file. @return 0, H2D_E_FORMAT, or a status of reading. */
	int (*parse)(struct h2d_parse *p);
};

/** The table, ended by an entry without name. */
extern const struct h2d_format h2d_formats[];

/** Append a tensor (pointers must already lie in the arena or be static); NULL: no memory. */
struct h2d_tensor *h2d_catalogue_add_tensor(struct h2d_catalogue *cat);
struct h2d_metadata *h2d_catalogue_add_metadata(struct h2d_catalogue *cat);
/** Append an empty file slot; the caller opens it. Invalidates earlier pointers into `files`.
 */
struct h2d_file *h2d_catalogue_add_file(struct h2d_catalogue *cat);
/** Make room for `count` tensors in all, so that adding them moves nothing. */
bool h2d_catalogue_reserve(struct h2d_catalogue *cat, uint64_t count);
void h2d_catalogue_free(struct h2d_catalogue *cat);

/** Ask for huge pages under a fresh block of malloc(), where it is large enough to hold some:
 *  filling a big header's memory costs more in page faults than in scanning. */
void h2d_advise_huge(void *block, size_t bytes);

/** A name made fit for one log line: NULs as \\x00, cut at a character. */
struct h2d_shown {
	char text[200];
};
const char *h2d_show_name(struct h2d_shown *s, const char *name, size_t bytes);

/** Open every file a checkpoint argument stands for, parse and check the whole set, sort the
 *  tensors in file order, and prove names unique and extents in bounds and (but for
 *  H2D_TENSOR_SHARED) disjoint. On failure nothing is left in `cat`. */
int h2d_set_open(struct h2d_catalogue *cat, const char *path, const struct h2d_log *log);
/** The same for one already opened file (descriptor or memory), which `cat` takes over. */
int h2d_set_open_file(struct h2d_catalogue *cat, struct h2d_file *file,
		      const struct h2d_log *log);

int h2d_safetensors_parse(struct h2d_parse *p);
int h2d_gguf_parse(struct h2d_parse *p);
int h2d_cact_parse(struct h2d_parse *p);
int h2d_torch_parse(struct h2d_parse *p);

#endif
