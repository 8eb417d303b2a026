/* SPDX-License-Identifier: Apache-2.0 */
/* The amdgpu module inside a package: the archive is read up to it, and nothing is unpacked to
 * disk. */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file.h"
#include "inspect.h"
#include "internal.h"
#include "package/pkgfile.h"

/* Of no package that has a kernel. */
enum { ENTRIES_MAX = 1000000 };

/* amdgpu.ko, compressed or not. */
static bool is_module(const char *name)
{
	const char *base = strrchr(name, '/');

	base = base ? base + 1 : name;
	return !strcmp(base, "amdgpu.ko") || !strcmp(base, "amdgpu.ko.xz") ||
	       !strcmp(base, "amdgpu.ko.zst") || !strcmp(base, "amdgpu.ko.gz");
}

static int read_entry(struct archive *archive, struct archive_entry *entry, const char *package,
		      size_t package_bytes, const struct h2d_log *log,
		      struct h2d_module_report **report)
{
	const char *member = archive_entry_pathname(entry);
	char name[sizeof((*report)->path)];
	size_t bytes;
	void *data;
	int err;

	snprintf(name, sizeof(name), "%s: %s", package, member);
	err = ins_read_entry(archive, package_bytes, name, log, &data, &bytes);
	if (!err)
		err = h2d_inspect_bytes(name, data, bytes, log, report);
	free(data);
	return err;
}

int h2d_inspect_package(const char *path, const struct h2d_log *log,
			struct h2d_module_report **report)
{
	struct lab_package package;
	struct lab_archive archive;
	struct archive_entry *entry;
	struct stat st;
	int err, status = ARCHIVE_OK;

	*report = NULL;
	err = lab_package_read(log, path, false, &package);
	if (err) {
		lab_package_free(&package);
		return err;
	}
	err = lab_archive_open(log, path, package.format, "data.tar", &archive);
	lab_package_free(&package);
	if (err)
		return err;
	if (stat(path, &st)) {
		err = h2d_fail(log, H2D_E_IO, "%s: %s", path, strerror(errno));
		goto out;
	}
	err = H2D_E_NOT_FOUND;
	for (unsigned n = 0; err == H2D_E_NOT_FOUND && n < ENTRIES_MAX; n++) {
		status = archive_read_next_header(archive.inner, &entry);
		if (status == ARCHIVE_EOF)
			break;
		if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
			err = lab_archive_fail(log, archive.inner, path);
			break;
		}
		if (archive_entry_pathname(entry) &&
		    archive_entry_filetype(entry) == AE_IFREG &&
		    is_module(archive_entry_pathname(entry)))
			err = read_entry(archive.inner, entry, path, (size_t)st.st_size, log,
					 report);
	}
out:
	lab_archive_close(&archive);
	return err;
}
