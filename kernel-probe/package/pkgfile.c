/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises package files by content and reads their metadata. */
#include "package/pkgfile.h"
#include "package/control.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTROL_MAX_BYTES (4u << 20)
#define RPM_READ_BYTES	  (8u << 20)
/* Metadata stands at the front of a pacman package. */
#define PKGINFO_MAX_ENTRIES 16

const char *lab_package_format_name(enum h2d_lab_package_format format)
{
	switch (format) {
	case H2D_LAB_PACKAGE_DEB:
		return "deb";
	case H2D_LAB_PACKAGE_RPM:
		return "rpm";
	case H2D_LAB_PACKAGE_PACMAN:
		return "pacman";
	}
	return "unknown";
}

/* Reads up to `limit` bytes from the start. Returns the count, or -errno. */
static ssize_t read_front(const char *path, uint8_t *data, size_t limit)
{
	size_t done = 0;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	while (done < limit && n) {
		n = read(fd, data + done, limit - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			n = -errno;
			close(fd);
			return n;
		}
		done += (size_t)n;
	}
	close(fd);
	return (ssize_t)done;
}

/* Returns the format, or 0. Compressed tars are taken for pacman's until .PKGINFO is missed. */
static int recognise(const uint8_t *front, size_t size)
{
	static const struct {
		size_t length;
		const char *magic;
		enum h2d_lab_package_format format;
	} magics[] = {
		{21, "!<arch>\ndebian-binary", H2D_LAB_PACKAGE_DEB},
		{4, "\xed\xab\xee\xdb", H2D_LAB_PACKAGE_RPM},
		{4, "\x28\xb5\x2f\xfd", H2D_LAB_PACKAGE_PACMAN},
		{6,
		 "\xfd"
		 "7zXZ\0",
		 H2D_LAB_PACKAGE_PACMAN},
		{2, "\x1f\x8b", H2D_LAB_PACKAGE_PACMAN},
	};

	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (size >= magics[i].length &&
		    memcmp(front, magics[i].magic, magics[i].length) == 0)
			return magics[i].format;
	return 0;
}

/* Reads the member called `name` (with or without "./") of an open archive. */
static int read_text(const struct h2d_log *log, struct lab_archive *archive, const char *path,
		     const char *name, unsigned max_entries, char **text, size_t *size)
{
	struct archive_entry *entry;
	int rc = ARCHIVE_EOF;

	for (unsigned i = 0; i < max_entries; i++) {
		const char *entry_name;
		la_int64_t length;
		la_ssize_t got;

		rc = archive_read_next_header(archive->inner, &entry);
		if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
			break;
		entry_name = archive_entry_pathname(entry);
		if (!entry_name)
			continue;
		if (strncmp(entry_name, "./", 2) == 0)
			entry_name += 2;
		if (strcmp(entry_name, name) != 0)
			continue;
		length = archive_entry_size(entry);
		if (length < 0 || length > (la_int64_t)CONTROL_MAX_BYTES)
			return h2d_fail(log, H2D_E_FORMAT, "%s: damaged: %s of %lld bytes",
					path, name, (long long)length);
		*text = malloc((size_t)length + 1);
		if (!*text)
			return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
		got = archive_read_data(archive->inner, *text, (size_t)length);
		if (got != (la_ssize_t)length)
			return lab_archive_fail(log, archive->inner, path);
		*size = (size_t)length;
		return 0;
	}
	if (rc != ARCHIVE_EOF && rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
		return lab_archive_fail(log, archive->inner, path);
	return h2d_fail(log, H2D_E_FORMAT, "%s: no package: it has no %s", path, name);
}

static int read_metadata(const struct h2d_log *log, struct lab_package *package)
{
	bool deb = package->format == H2D_LAB_PACKAGE_DEB;
	struct lab_archive archive;
	char *text = NULL;
	size_t size = 0;
	int err;

	err = lab_archive_open(log, package->path, package->format, "control.tar", &archive);
	if (err)
		return err;
	err = read_text(log, &archive, package->path, deb ? "control" : ".PKGINFO",
			deb ? 1000 : PKGINFO_MAX_ENTRIES, &text, &size);
	lab_archive_close(&archive);
	if (err)
		goto out;
	if (deb) {
		package->name = lab_control_field(text, size, "Package");
		package->version = lab_control_field(text, size, "Version");
		package->architecture = lab_control_field(text, size, "Architecture");
		package->depends = lab_control_field(text, size, "Depends");
	} else {
		package->name = lab_pkginfo_field(text, size, "pkgname");
		package->version = lab_pkginfo_field(text, size, "pkgver");
		package->architecture = lab_pkginfo_field(text, size, "arch");
	}
	if (!package->name || !package->version || !package->architecture)
		err = h2d_fail(log, H2D_E_FORMAT,
			       "%s: damaged: name, version or architecture is missing",
			       package->path);
out:
	free(text);
	return err;
}

int lab_package_read(const struct h2d_log *log, const char *path, bool quiet,
		     struct lab_package *package)
{
	static const struct h2d_log silent;
	const struct h2d_log *format_log = quiet ? &silent : log;
	uint8_t front[32], *data;
	ssize_t n;
	int err;

	memset(package, 0, sizeof(*package));
	package->path = strdup(path);
	if (!package->path)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	n = read_front(path, front, sizeof(front));
	if (n == -EINVAL)
		return h2d_fail(format_log, H2D_E_FORMAT, "%s: not a regular file", path);
	if (n < 0)
		return h2d_fail_errno(log, (int)-n, "%s", path);
	package->format = (enum h2d_lab_package_format)recognise(front, (size_t)n);
	if (!package->format)
		return h2d_fail(format_log, H2D_E_FORMAT,
				"%s: neither a kernel module (.ko) nor a package (.deb, .rpm, "
				".pkg.tar)",
				path);
	if (package->format != H2D_LAB_PACKAGE_RPM)
		return read_metadata(format_log, package);
	data = malloc(RPM_READ_BYTES);
	if (!data)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", path);
	n = read_front(path, data, RPM_READ_BYTES);
	err = n < 0 ? h2d_fail_errno(log, (int)-n, "%s", path)
		    : lab_rpm_metadata(format_log, data, (size_t)n, package);
	free(data);
	return err;
}

void lab_package_free(struct lab_package *package)
{
	free(package->path);
	free(package->name);
	free(package->version);
	free(package->architecture);
	free(package->depends);
	memset(package, 0, sizeof(*package));
}

static int copy_string(const char *from, char **to)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? H2D_E_NOMEM : 0;
}

int lab_package_copy(const struct lab_package *from, struct lab_package *to)
{
	memset(to, 0, sizeof(*to));
	to->format = from->format;
	if (copy_string(from->path, &to->path) || copy_string(from->name, &to->name) ||
	    copy_string(from->version, &to->version) ||
	    copy_string(from->architecture, &to->architecture) ||
	    copy_string(from->depends, &to->depends)) {
		lab_package_free(to);
		return H2D_E_NOMEM;
	}
	return 0;
}
