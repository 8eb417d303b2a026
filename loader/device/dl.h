/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file dl.h
 * A vendor's library, loaded at run time: which file it was, and a table of its functions.
 *
 * Nothing here is shared between callers. The dynamic linker counts references, so that each
 * user may open and close a library of its own; one whose driver has started (it may have
 * threads by then) is kept for good with h2d_dl_keep().
 *
 * @source dlopen(3), dlinfo(3); DT_SONAME as in the System V ABI
 * @since 0.1
 */
#ifndef H2D_DEVICE_DL_H
#define H2D_DEVICE_DL_H

#include <stdbool.h>
#include <stddef.h>

/** One function: where its pointer goes in the caller's table. */
struct h2d_dl_symbol {
	const char *name; /**< with every suffix spelt out; NULL ends the list */
	size_t offset;
	bool optional; /**< NULL in the table when the library lacks it */
};

struct h2d_dl_spec {
	/** File names given to dlopen(), in order of preference, ended by NULL. */
	const char *const *names;
	/** Sonames whose interface is known, ended by NULL. An unversioned name may lead to a
	 *  library of another version, which is then refused. NULL: any. */
	const char *const *sonames;
	const struct h2d_dl_symbol *symbols;
};

struct h2d_dl {
	void *handle;	 /**< NULL: nothing is loaded */
	char soname[64]; /**< as the library calls itself */
	char path[256];	 /**< the file, links followed */
};

/**
 * Load the first library of `spec` that is here and fill `table` with its functions.
 * @param dl     (out) released by h2d_dl_close(); after a failure nothing is loaded, while
 *               soname and path still tell which library it was about
 * @param table  (out) what the offsets of the symbols count from
 * @param why    (out) one line, on failure: which names were tried and what the linker said,
 *               which version was refused, or which symbol is missing
 * @return 0 or H2D_E_UNAVAILABLE. Thread-safe.
 */
int h2d_dl_open(struct h2d_dl *dl, const struct h2d_dl_spec *spec, void *table, char *why,
		size_t why_bytes);
/** Never unload it, whoever closes it. */
void h2d_dl_keep(const struct h2d_dl *dl);
void h2d_dl_close(struct h2d_dl *dl);

#endif
