/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_TEST_LAB_SYNTHETIC_H
#define H2D_TEST_LAB_SYNTHETIC_H

/* Packages made by the tests: small, of every format, and as hostile as a test wants them. */

#include <stddef.h>
#include <stdint.h>

enum entry_kind { ENTRY_FILE, ENTRY_DIR, ENTRY_SYMLINK, ENTRY_HARDLINK, ENTRY_DEVICE };

struct entry {
	enum entry_kind kind;
	const char *name;
	const char *content; /* of a file; target of a link */
	unsigned mode;	     /* 0: 0644 */
};

/* Each writes a package file; entries end with a NULL name. Return 0, or -1 when the test
 * cannot go on. */
int make_deb(const char *path, const char *control, const struct entry *entries);
int make_rpm(const char *path, const char *name, const char *version, const char *release,
	     const char *architecture, const struct entry *entries);
int make_pacman(const char *path, const char *pkginfo, const struct entry *entries);

int write_bytes(const char *path, const void *data, size_t size);
/* A fresh directory below $TMPDIR, removed at exit; static. */
const char *scratch(void);
/* "scratch/NAME" in one of a few static buffers. */
const char *in_scratch(const char *name);

#endif
