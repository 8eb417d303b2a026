/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file glob.h
 * Patterns without libc: fnmatch() may allocate, and this runs inside mmap().
 */
#ifndef H2D_RUN_GLOB_H
#define H2D_RUN_GLOB_H

#include <stdbool.h>

/**
 * Whether a path matches one of the patterns, which are separated by ':'. As in glob(7), `?`
 * and
 * `*` also match slashes, `[…]` and `[!…]` are sets, `\` takes the next character as it is. A
 * pattern without a slash is compared with the last part of the path. Time is linear in the
 * product of the lengths, whatever the pattern.
 */
bool ro_glob(const char *patterns, const char *path);

#endif
