/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_PACKAGE_CONTROL_H
#define H2D_PACKAGE_CONTROL_H

/*
 * The text of package metadata: Debian control fields, dependency lists and version order
 * (deb-control(5), deb-version(7)), and the .PKGINFO of pacman packages. Texts come from files
 * and may be anything; they need not be NUL-terminated. Thread-safe. Since 0.1.
 */

#include <stddef.h>

/*
 * The value of a field of the first stanza, folded lines joined with one blank. Returns a
 * string that the caller frees; NULL when there is no such field, or no memory. Names match
 * without case.
 */
char *lab_control_field(const char *text, size_t size, const char *name);

/* The value of the first "name = value" line of a .PKGINFO, the same way. */
char *lab_pkginfo_field(const char *text, size_t size, const char *name);

/* One alternative of a dependency list. */
struct lab_dependency {
	char name[128];
	char relation[3]; /* "", "=", ">=", "<=", "<<", ">>" */
	char version[128];
	int alternative; /* 0 = first of its group */
};

/*
 * Takes the next alternative from *list. Returns 1, 0 at the end. Alternatives whose name or
 * version does not fit, or that are malformed, are passed over.
 */
int lab_dependency_next(const char **list, struct lab_dependency *dependency);

/* Debian's order of versions. Returns less than, equal to or greater than zero. */
int lab_version_compare(const char *a, const char *b);

/* Whether `version` satisfies the dependency's relation. */
int lab_dependency_accepts(const struct lab_dependency *dependency, const char *version);

#endif
