/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the archive inside a package with libarchive; no external filter program is ever run.
 */
#include "package/pkgfile.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READ_BLOCK_BYTES (256 << 10)

/* Hands the current member of the outer archive to the inner one, block by block. */
static la_ssize_t read_member(struct archive *inner, void *user, const void **block)
{
	struct archive *outer = user;
	la_int64_t offset;
	size_t size;
	int rc = archive_read_data_block(outer, block, &size, &offset);

	if (rc == ARCHIVE_EOF)
		return 0;
	if (rc != ARCHIVE_OK) {
		archive_set_error(inner, archive_errno(outer), "%s",
				  archive_error_string(outer));
		return -1;
	}
	return (la_ssize_t)size;
}

static void support_filters(struct archive *a)
{
	archive_read_support_filter_gzip(a);
	archive_read_support_filter_bzip2(a);
	archive_read_support_filter_xz(a);
	archive_read_support_filter_lzma(a);
	archive_read_support_filter_zstd(a);
}

int lab_archive_fail(const struct h2d_log *log, struct archive *a, const char *path)
{
	int err = archive_errno(a);
	const char *text = archive_error_string(a);

	if (err == ENOMEM)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	if (err == EIO || err == ENOSPC || err == EDQUOT || err == EROFS)
		return h2d_fail_errno(log, err, "%s", path);
	return h2d_fail(log, H2D_E_FORMAT, "%s: damaged: %s", path, text ? text : "no archive");
}

static int open_file(const struct h2d_log *log, struct archive *a, const char *path)
{
	if (archive_read_open_filename(a, path, READ_BLOCK_BYTES) == ARCHIVE_OK)
		return 0;
	switch (archive_errno(a)) {
	case ENOENT:
	case EACCES:
	case EPERM:
	case EISDIR:
		return h2d_fail_errno(log, archive_errno(a), "%s", path);
	}
	return lab_archive_fail(log, a, path);
}

/* Positions the outer ar archive on the member "control.tar*" or "data.tar*". */
static int find_member(const struct h2d_log *log, struct archive *outer, const char *path,
		       const char *member)
{
	struct archive_entry *entry;
	int rc;

	while ((rc = archive_read_next_header(outer, &entry)) == ARCHIVE_OK) {
		const char *name = archive_entry_pathname(entry);

		if (name && strncmp(name, member, strlen(member)) == 0)
			return 0;
	}
	if (rc != ARCHIVE_EOF)
		return lab_archive_fail(log, outer, path);
	return h2d_fail(log, H2D_E_FORMAT, "%s: damaged: no member %s*", path, member);
}

int lab_archive_open(const struct h2d_log *log, const char *path,
		     enum h2d_lab_package_format format, const char *member,
		     struct lab_archive *archive)
{
	int err;

	memset(archive, 0, sizeof(*archive));
	archive->inner = archive_read_new();
	if (!archive->inner)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	support_filters(archive->inner);
	switch (format) {
	case H2D_LAB_PACKAGE_RPM:
		archive_read_support_filter_rpm(archive->inner);
		archive_read_support_format_cpio(archive->inner);
		err = open_file(log, archive->inner, path);
		goto out;
	case H2D_LAB_PACKAGE_PACMAN:
		archive_read_support_format_tar(archive->inner);
		err = open_file(log, archive->inner, path);
		goto out;
	case H2D_LAB_PACKAGE_DEB:
		break;
	}
	archive_read_support_format_tar(archive->inner);
	archive->outer = archive_read_new();
	if (!archive->outer) {
		err = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
		goto out;
	}
	archive_read_support_format_ar(archive->outer);
	err = open_file(log, archive->outer, path);
	if (!err)
		err = find_member(log, archive->outer, path, member);
	if (!err && archive_read_open(archive->inner, archive->outer, NULL, read_member,
				      NULL) != ARCHIVE_OK)
		err = lab_archive_fail(log, archive->inner, path);
out:
	if (err)
		lab_archive_close(archive);
	return err;
}

void lab_archive_close(struct lab_archive *archive)
{
	archive_read_free(archive->inner);
	archive_read_free(archive->outer);
	memset(archive, 0, sizeof(*archive));
}
