/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file interpose.h
 * What the library defines in place of the C library's functions, and how it reaches those.
 */
#ifndef H2D_RUN_INTERPOSE_H
#define H2D_RUN_INTERPOSE_H

#define RO_PUBLIC __attribute__((visibility("default")))

/** The next definition of `name` after ours; NULL if there is none. */
void *ro_next(const char *name);

/** dlsym() as the C library has it. */
void *ro_in_object(void *object, const char *name);

/** Find the C library's functions. By the constructor, and before it by who comes first. */
void ro_resolve(void);
void ro_resolve_io(void);

#endif
