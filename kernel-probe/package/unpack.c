/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a package below a directory of ours and never outside it. */
#include "package/pkgfile.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_BYTES	(16ull << 30)
#define DEFAULT_ENTRIES 1000000u

struct unpack {
	const struct h2d_log *log;
	const char *package;   /* path, for messages */
	const char *directory; /* resolved */
	struct archive *in, *out;
	uint64_t bytes_left, entries_left;
	const struct lab_cancel *cancel;
};

static int refuse(const struct unpack *u, const char *name, const char *rule)
{
	return h2d_fail(u->log, H2D_E_FORMAT, "%s: refused: %s: %s", u->package, name, rule);
}

/* Depth of a relative name below its root, or -1 when some prefix of it leads out. */
static int depth_of(const char *name, int depth)
{
	while (*name) {
		size_t n = strcspn(name, "/");

		if (n == 2 && name[0] == '.' && name[1] == '.') {
			if (--depth < 0)
				return -1;
		} else if (n && !(n == 1 && name[0] == '.')) {
			depth++;
		}
		name += n;
		name += *name == '/';
	}
	return depth;
}

static bool has_dotdot(const char *name)
{
	while (*name) {
		size_t n = strcspn(name, "/");

		if (n == 2 && name[0] == '.' && name[1] == '.')
			return true;
		name += n;
		name += *name == '/';
	}
	return false;
}

/* Takes leading "./" off. NULL when the name must be refused. */
static const char *safe_name(const char *name)
{
	if (!name || name[0] == '/')
		return NULL;
	while (name[0] == '.' && name[1] == '/')
		name += 2 + strspn(name + 2, "/");
	if (name[0] == '/' || has_dotdot(name))
		return NULL;
	return name;
}

static bool wanted(const char *name)
{
	static const char *const parts[] = {"boot/", "lib/", "usr/lib/", "usr/src/", "opt/"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strncmp(name, parts[i], strlen(parts[i])) == 0)
			return true;
	return false;
}

static int place(struct unpack *u, struct archive_entry *entry, const char *name,
		 void (*set)(struct archive_entry *, const char *))
{
	char path[8192];
	int n = snprintf(path, sizeof(path), "%s/%s", u->directory, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return refuse(u, name, "its name is too long");
	set(entry, path);
	return 0;
}

/* Decides about one entry: 0 write it, 1 leave it out, or an error. */
static int check_entry(struct unpack *u, struct archive_entry *entry)
{
	const char *raw = archive_entry_pathname(entry), *name = safe_name(raw), *link;
	mode_t type = archive_entry_filetype(entry);
	int err;

	if (!name)
		return refuse(u, raw ? raw : "(no name)", "its name leads out of the package");
	if (!wanted(name))
		return 1;
	if (archive_entry_hardlink(entry)) {
		link = safe_name(archive_entry_hardlink(entry));
		if (!link)
			return refuse(u, name, "a hard link that leads out of the package");
		if (!wanted(link))
			return 1;
		err = place(u, entry, link, archive_entry_set_hardlink);
		if (err)
			return err;
	} else if (type == AE_IFLNK) {
		int depth = depth_of(name, 0) - 1;

		link = archive_entry_symlink(entry);
		if (!link || !*link)
			return refuse(u, name, "a symbolic link without a target");
		if (link[0] == '/')
			return 1;
		if (depth_of(link, depth) < 0)
			return refuse(u, name, "a symbolic link that leads out of the package");
	} else if (type != AE_IFREG && type != AE_IFDIR) {
		return refuse(u, name, "neither a file, a directory nor a link");
	}
	/* Directories must stay writable, or what lies in them could not be removed again. */
	if (type == AE_IFDIR)
		archive_entry_set_perm(entry, 0755);
	else
		archive_entry_set_perm(entry, archive_entry_perm(entry) & 0111 ? 0755 : 0644);
	return place(u, entry, name, archive_entry_set_pathname);
}

static int write_failed(struct unpack *u, const char *name)
{
	int err = archive_errno(u->out);

	switch (err) {
	case ENOSPC:
	case EDQUOT:
	case EIO:
	case EROFS:
	case EACCES:
	case EPERM:
	case ENOMEM:
	case EMFILE:
		return h2d_fail_errno(u->log, err, "%s", name);
	}
	/* The rest are names that collide with what was unpacked before, links among them. */
	return h2d_fail(u->log, H2D_E_FORMAT, "%s: refused: %s: %s", u->package, name,
			archive_error_string(u->out));
}

static int copy_data(struct unpack *u, const char *name)
{
	const void *block;
	la_int64_t offset;
	size_t size;
	int rc;

	while ((rc = archive_read_data_block(u->in, &block, &size, &offset)) == ARCHIVE_OK) {
		if (lab_cancel_asked(u->cancel))
			return h2d_fail(u->log, H2D_E_CANCELLED, "cancelled");
		if (size > u->bytes_left)
			return refuse(u, name, "the package unpacks to more than is allowed");
		u->bytes_left -= size;
		if (archive_write_data_block(u->out, block, size, offset) != ARCHIVE_OK)
			return write_failed(u, name);
	}
	return rc == ARCHIVE_EOF ? 0 : lab_archive_fail(u->log, u->in, u->package);
}

static int unpack_all(struct unpack *u)
{
	struct archive_entry *entry;
	int rc, err;

	while ((rc = archive_read_next_header(u->in, &entry)) == ARCHIVE_OK ||
	       rc == ARCHIVE_WARN) {
		const char *name;

		if (lab_cancel_asked(u->cancel))
			return h2d_fail(u->log, H2D_E_CANCELLED, "cancelled");
		if (u->entries_left-- == 0)
			return refuse(u, "(all)",
				      "the package has more entries than is allowed");
		err = check_entry(u, entry);
		if (err < 0)
			return err;
		if (err)
			continue;
		name = archive_entry_pathname(entry);
		if (archive_write_header(u->out, entry) != ARCHIVE_OK)
			return write_failed(u, name);
		if (!archive_entry_hardlink(entry) &&
		    archive_entry_filetype(entry) == AE_IFREG) {
			err = copy_data(u, name);
			if (err)
				return err;
		}
		if (archive_write_finish_entry(u->out) != ARCHIVE_OK)
			return write_failed(u, name);
	}
	return rc == ARCHIVE_EOF ? 0 : lab_archive_fail(u->log, u->in, u->package);
}

int lab_package_unpack(const struct h2d_log *log, const struct lab_package *package,
		       const char *directory, const struct lab_unpack_limits *limits,
		       const struct lab_cancel *cancel)
{
	struct unpack u = {
		.log = log,
		.package = package->path,
		.bytes_left = limits ? limits->bytes : DEFAULT_BYTES,
		.entries_left = limits ? limits->entries : DEFAULT_ENTRIES,
		.cancel = cancel,
	};
	struct lab_archive archive;
	char *resolved;
	int err;

	/* The prefix must hold no link, for the check of links below looks at every component.
	 */
	resolved = realpath(directory, NULL);
	if (!resolved)
		return h2d_fail_errno(log, errno, "%s", directory);
	u.directory = resolved;
	err = lab_archive_open(log, package->path, package->format, "data.tar", &archive);
	if (err)
		goto out;
	u.in = archive.inner;
	u.out = archive_write_disk_new();
	if (!u.out) {
		err = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", package->path);
		goto out_close;
	}
	archive_write_disk_set_options(u.out, ARCHIVE_EXTRACT_PERM |
						      ARCHIVE_EXTRACT_SECURE_SYMLINKS |
						      ARCHIVE_EXTRACT_SECURE_NODOTDOT);
	err = unpack_all(&u);
	if (archive_write_free(u.out) != ARCHIVE_OK && !err)
		err = h2d_fail(log, H2D_E_IO, "%s: not all of it could be unpacked",
			       package->path);
out_close:
	lab_archive_close(&archive);
out:
	free(resolved);
	return err;
}
