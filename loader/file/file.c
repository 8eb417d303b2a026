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

enum {
	READ_MAX_BYTES = 0x7ffff000, /* Linux reads no more in one call (MAX_RW_COUNT) */
	IOV_MAX_COUNT = 1024,	     /* … into no more buffers (UIO_MAXIOV) */
	EINTR_MAX = 1 << 16,	     /* interruptions in a row without a byte read */
	EAGAIN_MAX = 16,	     /* refusals in a row, 1 ms apart */
};

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

static int open_path(const char *path)
{
	unsigned tries = 0;
	int fd;

	/* O_NONBLOCK: a FIFO given as a checkpoint must not hang the open. */
	do {
		fd = h2d_io->open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	} while (fd < 0 && errno == EINTR && ++tries < EINTR_MAX);
	return fd;
}

int h2d_file_open(struct h2d_file *f, const char *path, const struct h2d_log *log)
{
	int fd;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	fd = open_path(path);
	if (fd < 0)
		return h2d_fail_errno(log, errno, "%s: cannot be opened", path);
	return adopt(f, fd, path, log);
}

int h2d_file_open_fd(struct h2d_file *f, int fd, const char *name, const struct h2d_log *log)
{
	int flags = fcntl(fd, F_GETFL);
	char label[32], proc[32];
	int own;

	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->by_fd = true;
	if (!name) {
		snprintf(label, sizeof(label), "descriptor %d", fd);
		name = label;
	}
	if (flags < 0)
		return h2d_fail_errno(log, errno, "%s: cannot be used", name);
	if ((flags & O_ACCMODE) == O_WRONLY || (flags & O_PATH))
		return h2d_fail(log, H2D_E_PERMISSION, "%s: is not open for reading", name);
	if (flags & O_DIRECT) {
		/* Our reads are unaligned, and the flag belongs to the description that we
		 * would share with the caller. */
		snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
		own = open_path(proc);
	} else {
		own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	if (own < 0)
		return h2d_fail_errno(log, errno, "%s: cannot be used", name);
	return adopt(f, own, name, log);
}

int h2d_file_open_memory(struct h2d_file *f, const void *data, uint64_t bytes,
			 const struct h2d_log *log)
{
	memset(f, 0, sizeof(*f));
	f->fd = -1;
	f->by_fd = true;
	if (!data && bytes)
		return h2d_fail(log, H2D_E_INVALID, "memory: no address");
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

/* Whether [offset, offset+bytes) lies in the file as it was opened. */
static int check_range(const struct h2d_file *f, uint64_t bytes, uint64_t offset,
		       const struct h2d_log *log)
{
	uint64_t end;

	if (h2d_add_u64(offset, bytes, &end) && end <= f->id.size_bytes)
		return 0;
	return h2d_fail(log, H2D_E_FORMAT,
			"%s: %llu bytes at offset %llu pass the end of the file (%llu)",
			f->path, (unsigned long long)bytes, (unsigned long long)offset,
			(unsigned long long)f->id.size_bytes);
}

/* A read that gave nothing: 0 when it should be repeated. `*stalls` counts such reads in a row.
 * Regular files need no patience on most filesystems; network and FUSE ones do. */
static int stalled(const struct h2d_file *f, ssize_t n, int err, uint64_t offset,
		   unsigned *stalls, const struct h2d_log *log)
{
	static const struct timespec pause = {.tv_nsec = 1000000};

	if (n == 0)
		return h2d_fail(log, H2D_E_CHANGED,
				"%s: file was truncated while in use: it ends at offset %llu, "
				"its size was %llu",
				f->path, (unsigned long long)offset,
				(unsigned long long)f->id.size_bytes);
	if (err == EINTR && ++*stalls < EINTR_MAX)
		return 0;
	if (err == EAGAIN && ++*stalls < EAGAIN_MAX) {
		nanosleep(&pause, NULL);
		return 0;
	}
	return h2d_fail_errno(log, err, "%s: reading at offset %llu", f->path,
			      (unsigned long long)offset);
}

int h2d_file_read(const struct h2d_file *f, void *dst, uint64_t bytes, uint64_t offset,
		  const struct h2d_log *log)
{
	int rc = check_range(f, bytes, offset, log);
	unsigned char *p = dst;
	unsigned stalls = 0;

	if (rc)
		return rc;
	if (f->fd < 0) {
		if (bytes)
			memcpy(p, (const unsigned char *)f->memory + offset, bytes);
		return 0;
	}
	while (bytes) {
		size_t want = bytes < READ_MAX_BYTES ? bytes : READ_MAX_BYTES;
		ssize_t n = h2d_io->pread(f->fd, p, want, (off_t)offset);

		if (n <= 0) {
			rc = stalled(f, n, errno, offset, &stalls, log);
			if (rc)
				return rc;
			continue;
		}
		stalls = 0;
		p += n;
		bytes -= (uint64_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* Step over `n` bytes that were read, and over empty buffers. */
static void advance(struct iovec **iov, size_t *count, size_t n)
{
	while (*count && n >= (*iov)->iov_len) {
		n -= (*iov)->iov_len;
		(*iov)++;
		(*count)--;
	}
	if (*count) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + n;
		(*iov)->iov_len -= n;
	}
}

int h2d_file_readv(const struct h2d_file *f, struct iovec *iov, size_t count, uint64_t offset,
		   const struct h2d_log *log)
{
	unsigned stalls = 0;
	uint64_t bytes = 0;
	int rc;

	for (size_t i = 0; i < count; i++)
		if (!h2d_add_u64(bytes, iov[i].iov_len, &bytes))
			return h2d_fail(log, H2D_E_INVALID, "%s: buffers are too long",
					f->path);
	rc = check_range(f, bytes, offset, log);
	if (rc)
		return rc;
	if (f->fd < 0) {
		for (size_t i = 0; i < count; offset += iov[i++].iov_len)
			if (iov[i].iov_len)
				memcpy(iov[i].iov_base,
				       (const unsigned char *)f->memory + offset,
				       iov[i].iov_len);
		return 0;
	}
	for (advance(&iov, &count, 0); count;) {
		int n_iov = count < IOV_MAX_COUNT ? (int)count : IOV_MAX_COUNT;
		ssize_t n = h2d_io->preadv(f->fd, iov, n_iov, (off_t)offset);

		if (n <= 0) {
			rc = stalled(f, n, errno, offset, &stalls, log);
			if (rc)
				return rc;
			continue;
		}
		stalls = 0;
		offset += (uint64_t)n;
		advance(&iov, &count, (size_t)n);
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

/* A replaced file keeps the old inode alive under our descriptor, so the path is asked too. */
static const char *path_difference(const struct h2d_file *f)
{
	struct stat st;

	if (!h2d_io->stat(f->path, &st))
		return st.st_dev != f->id.dev || st.st_ino != f->id.ino
			       ? "inode (the file was replaced)"
			       : NULL;
	/* A relative path may only have lost its directory, and what may not be looked at tells
	 * nothing: the descriptor has been compared already. */
	if (f->path[0] == '/' && (errno == ENOENT || errno == ENOTDIR))
		return "path (it no longer exists)";
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
	if (!what && !f->by_fd)
		what = path_difference(f);
	if (what)
		return h2d_fail(log, H2D_E_CHANGED, "%s: changed while in use: %s differs",
				f->path, what);
	return 0;
}
