/* SPDX-License-Identifier: Apache-2.0 */
#include "file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/mem.h"
#include "file/io.h"

/* Linux reads at most this much in one call (mm, MAX_RW_COUNT). */
enum { READ_MAX_BYTES = 0x7ffff000 };

static char *copy_string(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p = h2d_mem->malloc(n);

	return p ? memcpy(p, s, n) : NULL;
}

static void note_identity(struct h2d_file_id *id, const struct stat *st)
{
	id->dev = st->st_dev;
	id->ino = st->st_ino;
	id->size_bytes = (uint64_t)st->st_size;
	id->mtime = st->st_mtim;
	id->ctime = st->st_ctim;
}

static int adopt(struct h2d_file *f, int fd, const char *name, const struct h2d_log *log)
{
	struct stat st;
	int rc;

	if (h2d_io->fstat(fd, &st)) {
		rc = h2d_fail_errno(log, errno, "%s: cannot be examined", name);
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		rc = h2d_fail(log, H2D_E_FORMAT, "%s: not a regular file", name);
		goto out;
	}
	f->path = copy_string(name);
	if (!f->path) {
		rc = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", name);
		goto out;
	}
	f->fd = fd;
	note_identity(&f->id, &st);
	return 0;
out:
	h2d_io->close(fd);
	return rc;
}

int h2d_file_open(struct h2d_file *f, const char *path, const struct h2d_log *log)
{
	int fd;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	/* O_NONBLOCK: a FIFO given as a checkpoint must not hang the open. */
	do {
		fd = h2d_io->open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0)
		return h2d_fail_errno(log, errno, "%s: cannot be opened", path);
	return adopt(f, fd, path, log);
}

int h2d_file_open_fd(struct h2d_file *f, int fd, const char *name, const struct h2d_log *log)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	char label[32];

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	if (own < 0)
		return h2d_fail_errno(log, errno, "descriptor %d: cannot be used", fd);
	f->by_fd = true;
	if (!name) {
		snprintf(label, sizeof(label), "descriptor %d", fd);
		name = label;
	}
	return adopt(f, own, name, log);
}

int h2d_file_open_memory(struct h2d_file *f, const void *data, uint64_t bytes,
			 const struct h2d_log *log)
{
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->by_fd = true;
	f->memory = data;
	f->id.size_bytes = bytes;
	f->path = copy_string("memory");
	if (!f->path)
		return h2d_fail(log, H2D_E_NOMEM, "memory: out of memory");
	return 0;
}

void h2d_file_close(struct h2d_file *f)
{
	if (f->fd >= 0)
		h2d_io->close(f->fd);
	free(f->path);
	memset(f, 0, sizeof(*f));
	f->fd = -1;
}

int h2d_file_read(const struct h2d_file *f, void *dst, uint64_t bytes, uint64_t offset,
		  const struct h2d_log *log)
{
	unsigned char *p = dst;
	uint64_t end;

	if (!h2d_add_u64(offset, bytes, &end) || end > f->id.size_bytes)
		return h2d_fail(log, H2D_E_FORMAT,
				"%s: %llu bytes at offset %llu pass the end of the file (%llu)",
				f->path, (unsigned long long)bytes, (unsigned long long)offset,
				(unsigned long long)f->id.size_bytes);
	if (f->fd < 0) {
		if (bytes)
			memcpy(p, (const unsigned char *)f->memory + offset, bytes);
		return 0;
	}
	while (bytes) {
		size_t want = bytes < READ_MAX_BYTES ? bytes : READ_MAX_BYTES;
		ssize_t n = h2d_io->pread(f->fd, p, want, (off_t)offset);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return h2d_fail_errno(log, errno,
					      "%s: reading %zu bytes at offset %llu", f->path,
					      want, (unsigned long long)offset);
		}
		if (n == 0)
			return h2d_fail(
				log, H2D_E_CHANGED,
				"%s: file was truncated while in use: it ends at offset "
				"%llu, its size was %llu",
				f->path, (unsigned long long)offset,
				(unsigned long long)f->id.size_bytes);
		p += n;
		bytes -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static const char *difference(const struct h2d_file_id *a, const struct h2d_file_id *b)
{
	if (a->dev != b->dev || a->ino != b->ino)
		return "inode";
	if (a->size_bytes != b->size_bytes)
		return "size";
	if (a->mtime.tv_sec != b->mtime.tv_sec || a->mtime.tv_nsec != b->mtime.tv_nsec)
		return "modification time";
	if (a->ctime.tv_sec != b->ctime.tv_sec || a->ctime.tv_nsec != b->ctime.tv_nsec)
		return "change time";
	return NULL;
}

int h2d_file_check_unchanged(const struct h2d_file *f, const struct h2d_log *log)
{
	struct h2d_file_id now;
	const char *what;
	struct stat st;

	if (f->fd < 0)
		return 0;
	if (h2d_io->fstat(f->fd, &st))
		return h2d_fail_errno(log, errno, "%s: cannot be examined", f->path);
	note_identity(&now, &st);
	what = difference(&f->id, &now);
	if (!what && !f->by_fd) {
		/* A replaced file keeps the old inode alive under our descriptor. */
		if (stat(f->path, &st))
			what = "path (it no longer exists)";
		else if (st.st_dev != f->id.dev || st.st_ino != f->id.ino)
			what = "inode (the file was replaced)";
	}
	if (what)
		return h2d_fail(log, H2D_E_CHANGED, "%s: changed while in use: %s differs",
				f->path, what);
	return 0;
}
