/* SPDX-License-Identifier: Apache-2.0 */
#include "file/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "file/io.h"

enum {
	ALIGN_ASSUMED_BYTES = 4096,
	ALIGN_MAX_BYTES = 1 << 20,
};

static int refused(const char **why, const char *reason)
{
	*why = reason;
	return H2D_E_UNSUPPORTED;
}

static int open_again(const struct h2d_file *f)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_DIRECT;
	char proc[32];
	int fd;

	/* By descriptor first: always the same inode, whatever became of path and directory. */
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	fd = h2d_io->open(proc, flags);
	if (fd < 0 && (errno == ENOENT || errno == EACCES || errno == EPERM) && !f->by_fd)
		fd = h2d_io->open(f->path, flags);
	return fd;
}

/* Take the alignment from the kernel. @return false when it says that there is no direct I/O */
static bool ask_alignment(struct h2d_direct *d)
{
	struct statx stx;

	memset(&stx, 0, sizeof(stx));
	d->offset_align_bytes = d->memory_align_bytes = ALIGN_ASSUMED_BYTES;
	if (h2d_io->statx(d->fd, STATX_DIOALIGN, &stx) || !(stx.stx_mask & STATX_DIOALIGN))
		return true;
	if (!stx.stx_dio_offset_align || !stx.stx_dio_mem_align)
		return false;
	d->offset_align_bytes = stx.stx_dio_offset_align;
	d->memory_align_bytes = stx.stx_dio_mem_align;
	return true;
}

static bool usable(uint32_t align)
{
	return align && align <= ALIGN_MAX_BYTES && !(align & (align - 1));
}

static int probe(const struct h2d_direct *d, const struct h2d_file *f, const char **why,
		 const struct h2d_log *log)
{
	size_t want = d->offset_align_bytes, align = d->memory_align_bytes;
	unsigned tries = 0;
	char *raw, *buf;
	ssize_t n;
	int err;

	if (!f->id.size_bytes)
		return 0;
	raw = h2d_mem->malloc(want + align);
	if (!raw)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", f->path);
	buf = (char *)(((uintptr_t)raw + align - 1) & ~(uintptr_t)(align - 1));
	do {
		n = h2d_io->pread(d->fd, buf, want, 0);
		err = n < 0 ? errno : 0;
	} while ((err == EINTR || err == EAGAIN) && ++tries < 100);
	free(raw);
	if (err == EINVAL || err == EOPNOTSUPP || err == ENOSYS)
		return refused(why, "the filesystem refuses direct reads");
	if (err)
		return h2d_fail_errno(log, err, "%s: direct read at offset 0", f->path);
	if (!n)
		return h2d_fail(log, H2D_E_CHANGED, "%s: file was truncated while in use",
				f->path);
	return 0;
}

int h2d_direct_open(struct h2d_direct *d, const struct h2d_file *f, const char **why,
		    const struct h2d_log *log)
{
	struct stat st;
	int rc;

	memset(d, 0, sizeof(*d));
	d->fd = -1;
	*why = NULL;
	if (f->fd < 0)
		return refused(why, "the checkpoint is memory of the caller, not a file");
	d->fd = open_again(f);
	if (d->fd < 0) {
		if (errno == EINVAL || errno == EOPNOTSUPP)
			return refused(why, "the filesystem refuses O_DIRECT");
		if (errno == EACCES || errno == EPERM)
			return refused(why, "the file may not be opened a second time");
		if (errno == ENOENT)
			return refused(why,
				       "the file cannot be opened a second time: no /proc");
		return h2d_fail_errno(log, errno, "%s: opening for direct reads", f->path);
	}
	if (h2d_io->fstat(d->fd, &st)) {
		rc = h2d_fail_errno(log, errno, "%s: cannot be examined", f->path);
		goto out;
	}
	if (st.st_dev != f->id.dev || st.st_ino != f->id.ino) {
		rc = h2d_fail(log, H2D_E_CHANGED, "%s: changed while in use: it was replaced",
			      f->path);
		goto out;
	}
	if (!ask_alignment(d)) {
		rc = refused(why, "the filesystem offers no direct reads of this file");
		goto out;
	}
	if (!usable(d->offset_align_bytes) || !usable(d->memory_align_bytes)) {
		rc = refused(why, "the filesystem asks for an alignment that is not usable");
		goto out;
	}
	rc = probe(d, f, why, log);
	if (!rc)
		return 0;
out:
	h2d_direct_close(d);
	return rc;
}

void h2d_direct_close(struct h2d_direct *d)
{
	if (d->fd >= 0)
		h2d_io->close(d->fd);
	d->fd = -1;
}
