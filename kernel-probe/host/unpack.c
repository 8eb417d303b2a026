/* SPDX-License-Identifier: Apache-2.0 */
#include "host/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "host/root.h"

enum { BLOCK_BYTES = 64 << 10 };

struct unpacking {
	const char *archive, *to;
	const struct h2d_log *log;
	struct archive *in;
	uint64_t bytes;
	unsigned entries;
};

static int damaged(const struct unpacking *u)
{
	const char *text = archive_error_string(u->in);

	if (archive_errno(u->in) == ENOMEM)
		return h2d_fail(u->log, H2D_E_NOMEM, "%s: out of memory", u->archive);
	return h2d_fail(u->log, H2D_E_FORMAT, "%s: no capture, or damaged: %s", u->archive,
			text ? text : "not an archive");
}

/* Directories on the way to `path`; none of them may be a link that came before. */
static int make_parents(const struct unpacking *u, char *path)
{
	struct stat st;

	for (char *p = path + strlen(u->to) + 1; (p = strchr(p, '/')); p++) {
		int err = 0;

		*p = 0;
		if (mkdir(path, 0700) && errno != EEXIST)
			err = errno;
		else if (lstat(path, &st))
			err = errno;
		else if (!S_ISDIR(st.st_mode))
			err = ENOTDIR;
		*p = '/';
		if (err == ENOTDIR)
			return h2d_fail(u->log, H2D_E_FORMAT,
					"%s: a member lies below one that is no directory",
					u->archive);
		if (err)
			return h2d_fail_errno(u->log, err, "%s", path);
	}
	return 0;
}

static int write_file(struct unpacking *u, const char *path)
{
	static const char bomb[] = "%s: more than %d MiB unpacked; no capture is that large";
	const void *block;
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc = 0, got;
	la_int64_t offset;
	size_t size;

	if (fd < 0 && errno == EEXIST)
		return h2d_fail(u->log, H2D_E_FORMAT, "%s: a member comes twice", u->archive);
	if (fd < 0)
		return h2d_fail_errno(u->log, errno, "%s", path);
	while (!rc &&
	       (got = archive_read_data_block(u->in, &block, &size, &offset)) != ARCHIVE_EOF) {
		if (got != ARCHIVE_OK)
			rc = damaged(u);
		else if (offset < 0 || (uint64_t)offset > H2D_ROOT_BYTES_MAX ||
			 size > H2D_ROOT_BYTES_MAX - u->bytes)
			rc = h2d_fail(u->log, H2D_E_FORMAT, bomb, u->archive,
				      H2D_ROOT_BYTES_MAX >> 20);
		else if (pwrite(fd, block, size, offset) != (ssize_t)size)
			rc = h2d_fail_errno(u->log, errno ? errno : ENOSPC, "%s", path);
		u->bytes += size;
	}
	if (close(fd) && !rc)
		rc = h2d_fail_errno(u->log, errno, "%s", path);
	return rc;
}

static int take_entry(struct unpacking *u, struct archive_entry *e)
{
	const char *name = archive_entry_pathname(e), *target;
	char path[H2D_HOSTFS_PATH_BYTES];
	int n, rc;

	while (name && !strncmp(name, "./", 2))
		name += 2;
	if (name && (!name[0] || !strcmp(name, ".")))
		return 0;
	if (!h2d_root_name_allowed(name))
		return h2d_fail(u->log, H2D_E_FORMAT, "%s: member '%s' lies outside",
				u->archive, name ? name : "?");
	n = snprintf(path, sizeof(path), "%s/%s", u->to, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return h2d_fail(u->log, H2D_E_FORMAT, "%s: a member's name is too long",
				u->archive);
	while (path[n - 1] == '/')
		path[--n] = 0;
	rc = make_parents(u, path);
	if (rc)
		return rc;
	/* Hard links, devices and pipes have no place in a capture and are left out. */
	switch (archive_entry_hardlink(e) ? 0 : archive_entry_filetype(e)) {
	case AE_IFDIR:
		if (mkdir(path, 0700) && errno != EEXIST)
			return h2d_fail_errno(u->log, errno, "%s", path);
		return 0;
	case AE_IFLNK:
		target = archive_entry_symlink(e);
		if (target && symlink(target, path) && errno != EEXIST)
			return h2d_fail_errno(u->log, errno, "%s", path);
		return 0;
	case AE_IFREG:
		return write_file(u, path);
	}
	return 0;
}

int h2d_unpack(const char *archive, const char *to, const struct h2d_log *log)
{
	struct unpacking u = {.archive = archive, .to = to, .log = log};
	struct archive_entry *e;
	int rc = 0, got;

	u.in = archive_read_new();
	if (!u.in)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", archive);
	archive_read_support_filter_gzip(u.in);
	archive_read_support_filter_bzip2(u.in);
	archive_read_support_filter_xz(u.in);
	archive_read_support_filter_zstd(u.in);
	archive_read_support_format_tar(u.in);
	if (archive_read_open_filename(u.in, archive, BLOCK_BYTES) != ARCHIVE_OK) {
		rc = damaged(&u);
		goto out;
	}
	while (!rc && (got = archive_read_next_header(u.in, &e)) != ARCHIVE_EOF) {
		if (got != ARCHIVE_OK && got != ARCHIVE_WARN)
			rc = damaged(&u);
		else if (++u.entries > H2D_ROOT_ENTRIES_MAX)
			rc = h2d_fail(log, H2D_E_FORMAT, "%s: more than %d members", archive,
				      H2D_ROOT_ENTRIES_MAX);
		else
			rc = take_entry(&u, e);
	}
	if (!rc && !u.entries)
		rc = h2d_fail(log, H2D_E_FORMAT, "%s: an empty archive", archive);
out:
	archive_read_free(u.in);
	return rc;
}

/* ---- packing ---- */

struct packing {
	const char *from, *top, *archive;
	const struct h2d_log *log;
	struct archive *out;
};

static int pack_failed(const struct packing *p)
{
	const char *text = archive_error_string(p->out);

	return h2d_fail(p->log, H2D_E_IO, "%s: %s", p->archive, text ? text : "not written");
}

static int pack_data(const struct packing *p, const char *path)
{
	char block[16384];
	size_t n;
	FILE *in = fopen(path, "re");
	int rc = in ? 0 : h2d_fail_errno(p->log, errno, "%s", path);

	while (!rc && (n = fread(block, 1, sizeof(block), in)) > 0)
		if (archive_write_data(p->out, block, n) != (la_ssize_t)n)
			rc = pack_failed(p);
	if (in)
		fclose(in);
	return rc;
}

static int pack_tree(const struct packing *p, const char *below);

static int pack_entry(const struct packing *p, const char *name)
{
	char path[H2D_HOSTFS_PATH_BYTES], target[H2D_HOSTFS_PATH_BYTES];
	struct archive_entry *e;
	struct stat st;
	ssize_t n;
	int rc = 0;

	if (snprintf(path, sizeof(path), "%s%s", p->from, name) >= (int)sizeof(path) ||
	    lstat(path, &st))
		return h2d_fail(p->log, H2D_E_IO, "%s%s: gone", p->from, name);
	e = archive_entry_new();
	if (!e)
		return h2d_fail(p->log, H2D_E_NOMEM, "%s: out of memory", p->archive);
	snprintf(target, sizeof(target), "%s%s", p->top, name);
	archive_entry_set_pathname(e, target);
	archive_entry_set_filetype(e, st.st_mode & S_IFMT);
	archive_entry_set_perm(e, S_ISDIR(st.st_mode) ? 0755 : 0644);
	archive_entry_set_mtime(e, 0, 0);
	archive_entry_set_size(e, S_ISREG(st.st_mode) ? st.st_size : 0);
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		archive_entry_set_symlink(e, target);
	}
	if (archive_write_header(p->out, e) != ARCHIVE_OK)
		rc = pack_failed(p);
	archive_entry_free(e);
	if (!rc && S_ISREG(st.st_mode))
		rc = pack_data(p, path);
	if (!rc && S_ISDIR(st.st_mode))
		rc = pack_tree(p, name);
	return rc;
}

static int pack_tree(const struct packing *p, const char *below)
{
	char path[H2D_HOSTFS_PATH_BYTES], **names;
	int rc = 0, n;

	if (snprintf(path, sizeof(path), "%s%s", p->from, below) >= (int)sizeof(path))
		return h2d_fail(p->log, H2D_E_IO, "%s: a name is too long", p->archive);
	n = h2d_hostfs_list(NULL, path, &names);
	if (n < 0)
		return h2d_fail_errno(p->log, -n, "%s", path);
	for (int i = 0; i < n && !rc; i++) {
		if (snprintf(path, sizeof(path), "%s/%s", below, names[i]) >= (int)sizeof(path))
			rc = h2d_fail(p->log, H2D_E_IO, "%s: a name is too long", p->archive);
		else
			rc = pack_entry(p, path);
	}
	h2d_hostfs_list_free(names);
	return rc;
}

int h2d_pack(const char *from, const char *top, const char *archive, const struct h2d_log *log)
{
	struct packing p = {.from = from, .top = top, .archive = archive, .log = log};
	int fd = open(archive, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), rc = 0;

	if (fd < 0 && errno == EEXIST)
		return h2d_fail(log, H2D_E_INVALID, "%s: exists already and is not overwritten",
				archive);
	if (fd < 0)
		return h2d_fail_errno(log, errno, "%s", archive);
	p.out = archive_write_new();
	if (!p.out)
		rc = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", archive);
	if (!rc &&
	    (archive_write_add_filter_gzip(p.out) != ARCHIVE_OK ||
	     archive_write_set_filter_option(p.out, "gzip", "timestamp", NULL) != ARCHIVE_OK ||
	     archive_write_set_format_pax_restricted(p.out) != ARCHIVE_OK ||
	     archive_write_open_fd(p.out, fd) != ARCHIVE_OK))
		rc = pack_failed(&p);
	if (!rc)
		rc = pack_entry(&p, "");
	if (!rc && archive_write_close(p.out) != ARCHIVE_OK)
		rc = pack_failed(&p);
	archive_write_free(p.out);
	if (close(fd) && !rc)
		rc = h2d_fail_errno(log, errno, "%s", archive);
	if (rc)
		unlink(archive);
	return rc;
}
