/* SPDX-License-Identifier: Apache-2.0 */
#include "repro/known.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/mem.h"

enum { BLOCK_BYTES = 1 << 20 };

/* Word `i` of the sequence: the output function of SplitMix64 on a counter. */
static uint64_t word(uint64_t i)
{
	uint64_t z = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static unsigned char known_byte(uint64_t offset)
{
	return (unsigned char)(word(offset / 8) >> (offset % 8 * 8));
}

void h2d_known_fill(void *dst, uint64_t bytes, uint64_t offset)
{
	unsigned char *p = dst;
	uint64_t i = 0;

	for (; i < bytes && (offset + i) % 8; i++)
		p[i] = known_byte(offset + i);
	for (; bytes - i >= 8; i += 8) {
		const uint64_t w = word((offset + i) / 8);

		for (unsigned b = 0; b < 8; b++)
			p[i + b] = (unsigned char)(w >> (b * 8));
	}
	for (; i < bytes; i++)
		p[i] = known_byte(offset + i);
}

uint64_t h2d_known_compare(const void *data, uint64_t bytes, uint64_t offset)
{
	const unsigned char *p = data;
	unsigned char block[4096];

	for (uint64_t at = 0; at < bytes; at += sizeof(block)) {
		uint64_t n = bytes - at < sizeof(block) ? bytes - at : sizeof(block);

		h2d_known_fill(block, n, offset + at);
		if (!memcmp(p + at, block, (size_t)n))
			continue;
		for (uint64_t i = 0; i < n; i++)
			if (p[at + i] != block[i])
				return at + i;
	}
	return UINT64_MAX;
}

static int open_in(const char *directory, char **path)
{
	int fd;

	if (asprintf(path, "%s/.h2d-repro-XXXXXX", directory) < 0) {
		*path = NULL;
		errno = ENOMEM;
		return -1;
	}
	fd = mkostemp(*path, O_CLOEXEC);
	if (fd < 0) {
		int err = errno;

		free(*path);
		*path = NULL;
		errno = err;
	}
	return fd;
}

static int open_somewhere(char **path)
{
	const char *tmp = getenv("TMPDIR");
	int fd = open_in(".", path);

	if (fd >= 0 || errno == ENOMEM)
		return fd;
	return open_in(tmp && *tmp ? tmp : "/tmp", path);
}

static int open_at(const char *where, char **path)
{
	struct stat st;

	if (!where)
		return open_somewhere(path);
	if (!stat(where, &st) && S_ISDIR(st.st_mode))
		return open_in(where, path);
	*path = strdup(where);
	if (!*path) {
		errno = ENOMEM;
		return -1;
	}
	return open(where, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

static int write_all(int fd, uint64_t bytes)
{
	unsigned char *block = h2d_mem->malloc(BLOCK_BYTES);
	uint64_t done = 0;
	int err = 0;

	if (!block)
		return ENOMEM;
	while (!err && done < bytes) {
		const uint64_t left = bytes - done;
		const size_t want = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
		size_t at = 0;

		h2d_known_fill(block, want, done);
		while (at < want) {
			ssize_t n = pwrite(fd, block + at, want - at, (off_t)(done + at));

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0) {
				err = n ? errno : ENOSPC;
				break;
			}
			at += (size_t)n;
		}
		done += want;
	}
	free(block);
	if (!err && fdatasync(fd))
		err = errno;
	return err;
}

static int fill_file(struct h2d_known_file *f, const struct h2d_log *log)
{
	struct statfs fs;
	int err = write_all(f->fd, f->bytes);

	if (!err && !fstatfs(f->fd, &fs))
		f->filesystem_type = (uint64_t)(unsigned long)fs.f_type;
	if (!err)
		return 0;
	h2d_fail_errno(log, err, "%s: writing %" PRIu64 " bytes", f->path, f->bytes);
	h2d_known_file_close(f);
	return err == ENOMEM ? H2D_E_NOMEM : H2D_E_IO;
}

int h2d_known_file_make(const char *path, uint64_t bytes, const struct h2d_log *log,
			struct h2d_known_file *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->bytes = bytes;
	out->fd = open_at(path, &out->path);
	if (out->fd < 0) {
		err = errno;
		free(out->path);
		out->path = NULL;
		if (err == EEXIST)
			return h2d_fail(log, H2D_E_INVALID,
					"%s: exists already and is not overwritten", path);
		return h2d_fail_errno(log, err, "%s: cannot make a file",
				      path ? path : "current directory, $TMPDIR");
	}
	/* From here on nobody else can see it, and nothing is left whatever happens. */
	unlink(out->path);
	return fill_file(out, log);
}

int h2d_known_file_adopt(int fd, const char *name, uint64_t bytes, const struct h2d_log *log,
			 struct h2d_known_file *out)
{
	memset(out, 0, sizeof(*out));
	out->fd = fd;
	out->bytes = bytes;
	out->path = strdup(name);
	if (!out->path) {
		close(fd);
		out->fd = -1;
		return h2d_fail(log, H2D_E_NOMEM, "out of memory");
	}
	return fill_file(out, log);
}

void h2d_known_file_close(struct h2d_known_file *f)
{
	if (f->fd >= 0 && f->path)
		close(f->fd);
	free(f->path);
	memset(f, 0, sizeof(*f));
	f->fd = -1;
}
