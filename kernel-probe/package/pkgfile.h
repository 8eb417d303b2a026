/* SPDX-License-Identifier: Apache-2.0 */
#ifndef H2D_PACKAGE_PKGFILE_H
#define H2D_PACKAGE_PKGFILE_H

/**
 * @file pkgfile.h
 * One package file: what it is by its content, its metadata, and unpacking it without
 * installing anything. Formats: .deb (deb(5)), .rpm (the header of RPM 3 and 4), .pkg.tar.*
 * (pacman). Files are hostile. Safe from several threads on different objects. Since 0.1.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "package/cancel.h"
#include "core/log.h"

enum h2d_lab_package_format {
	H2D_LAB_PACKAGE_DEB = 1,
	H2D_LAB_PACKAGE_RPM,
	H2D_LAB_PACKAGE_PACMAN,
};

/* All strings are owned; `depends` may be NULL. */
struct lab_package {
	enum h2d_lab_package_format format;
	char *path;
	char *name, *version, *architecture, *depends;
};

/** The format's name as it stands in reports: "deb", "rpm", "pacman". */
const char *lab_package_format_name(enum h2d_lab_package_format format);

/**
 * Reads a package file's metadata.
 * @param package  (out) to be freed by lab_package_free(), also after an error
 * @return 0; H2D_E_FORMAT: no package, or a damaged one; H2D_E_NOT_FOUND, H2D_E_PERMISSION,
 *         H2D_E_IO, H2D_E_NOMEM. With `quiet`, H2D_E_FORMAT writes no line to the log (for
 * looking through folders).
 */
int lab_package_read(const struct h2d_log *log, const char *path, bool quiet,
		     struct lab_package *package);
void lab_package_free(struct lab_package *package);

/** Deep copy. @return 0 or H2D_E_NOMEM */
int lab_package_copy(const struct lab_package *from, struct lab_package *to);

/** Limits of what one package may unpack to. */
struct lab_unpack_limits {
	uint64_t bytes;
	uint64_t entries;
};

/**
 * Unpacks the parts of a package that matter here (boot, lib, usr/lib, usr/src, opt) below an
 * existing directory. Nothing is ever written outside it: absolute names, "..", entries below
 * symbolic links and links that lead out are refused, as are device nodes; ownership, set-id
 * bits and file attributes are dropped. Absolute symbolic links are left out, since on another
 * root they mean nothing.
 * @param limits  or NULL for 16 GiB and one million entries
 * @param cancel  may be NULL
 * @return 0; H2D_E_FORMAT (damaged or dangerous), H2D_E_IO (also: no space), H2D_E_CANCELLED
 */
int lab_package_unpack(const struct h2d_log *log, const struct lab_package *package,
		       const char *directory, const struct lab_unpack_limits *limits,
		       const struct lab_cancel *cancel);

/* ---- rpm.c ---- */

/**
 * Reads name, version-release and architecture out of an RPM's headers.
 * @param data  the first `size` bytes of the file
 * @return 0 with the strings set, H2D_E_FORMAT, H2D_E_NOMEM
 */
int lab_rpm_metadata(const struct h2d_log *log, const uint8_t *data, size_t size,
		     struct lab_package *package);

/* ---- archive.c: what pkgfile.c and unpack.c share ---- */

struct archive;

/**
 * Opens the archive with the package's files: for a .deb the inner data.tar. The outer one, if
 * any, must outlive the inner; both are closed by lab_archive_close().
 */
struct lab_archive {
	struct archive *outer, *inner;
};
int lab_archive_open(const struct h2d_log *log, const char *path,
		     enum h2d_lab_package_format format, const char *member,
		     struct lab_archive *archive);
void lab_archive_close(struct lab_archive *archive);

/** H2D_E_FORMAT with the archive library's words, or H2D_E_IO where it met a system error. */
int lab_archive_fail(const struct h2d_log *log, struct archive *a, const char *path);

#endif
