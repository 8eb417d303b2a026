/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file pickle.h
 * Reads a Python pickle (protocols 2 to 5, as torch.save and TorchScript write them) into a
 * tree of inert values. Nothing is imported, looked up or called: a global is a pair of names,
 * and a call is a value that remembers callable and arguments. What they mean is the caller's
 * business. Opcodes and stack rules are those of CPython's Lib/pickle.py and pickletools.py.
 *
 * Bounds: values and stack are limited by H2D_PICKLE_*, the memo by the pickle's own length,
 * and nothing recurses. A tree may share values and, since containers are filled after they
 * were memoised, contain itself: whoever walks one must expect cycles.
 */
#ifndef H2D_FORMAT_PICKLE_H
#define H2D_FORMAT_PICKLE_H

#include "format/reader.h"

enum {
	H2D_PICKLE_VALUES_MAX = 1 << 24,
	H2D_PICKLE_STACK_MAX = 1 << 22,
};

enum h2d_pickle_kind {
	H2D_PICKLE_NONE,
	H2D_PICKLE_BOOL,
	H2D_PICKLE_INT,
	H2D_PICKLE_LONG, /**< an integer beyond 64 bits: its value is not kept */
	H2D_PICKLE_FLOAT,
	H2D_PICKLE_STRING, /**< UTF-8 as the pickle says, unchecked */
	H2D_PICKLE_BYTES,
	H2D_PICKLE_TUPLE,
	H2D_PICKLE_LIST,
	H2D_PICKLE_DICT,
	H2D_PICKLE_SET,
	H2D_PICKLE_GLOBAL,
	H2D_PICKLE_PERSISTENT, /**< call->args is the id */
	H2D_PICKLE_OBJECT,     /**< a call or an instance, never made; may have items */
};

struct h2d_pickle_value;

/** An element of a container; `key` only in dicts and in objects filled like dicts. */
struct h2d_pickle_item {
	struct h2d_pickle_item *next;
	struct h2d_pickle_value *key, *value;
};

struct h2d_pickle_call {
	struct h2d_pickle_value *callable; /**< a global, in a sane pickle */
	struct h2d_pickle_value *args;	   /**< a tuple */
	struct h2d_pickle_value *state;	   /**< given to BUILD, or NULL */
	uint64_t at;			   /**< of its opcode in the file */
};

struct h2d_pickle_value {
	uint8_t kind;
	uint8_t mark;	/**< for the walker; 0 at first */
	uint32_t count; /**< items */
	union {
		int64_t integer; /**< also of a bool */
		double real;
		struct {
			const char *data; /**< NUL-terminated; a global's module */
			uint64_t bytes;
		} text;
		struct {
			struct h2d_pickle_item *first, *last;
		} items;
	};
	union {
		const char *name;	      /**< of a global, NUL-terminated */
		struct h2d_pickle_call *call; /**< of persistent ids and objects */
	};
};

/**
 * Run the pickle that fills `r`, to its STOP.
 * @param arena  where the values will live
 * @param root   (out) what the pickle holds
 * @return 0, H2D_E_FORMAT, H2D_E_NOMEM or a status of reading
 */
int h2d_pickle_read(struct h2d_reader *r, struct h2d_arena *arena,
		    struct h2d_pickle_value **root);

/** True when `v` is the global `module`.`name`; NULL is none. */
bool h2d_pickle_is_global(const struct h2d_pickle_value *v, const char *module,
			  const char *name);
/** Element `i` of a tuple or list, NULL when there is none or `v` is neither. */
struct h2d_pickle_value *h2d_pickle_at(const struct h2d_pickle_value *v, uint32_t i);

#endif
