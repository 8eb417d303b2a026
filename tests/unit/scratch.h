/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file scratch.h
 * Files of known bytes in a directory of the test's own, which is removed at exit, and a log
 * that remembers its last line.
 */
#ifndef H2D_TEST_SCRATCH_H
#define H2D_TEST_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"

static char scratch_dir[64];
static int scratch_owner;
static char scratch_line[1024]; /* last line logged */

static inline int scratch_unlink(const char *path, const struct stat *st, int type,
				 struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void scratch_remove(void)
{
	if (getpid() == scratch_owner)
		nftw(scratch_dir, scratch_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/** Path of `name` in the scratch directory; four results are valid at a time. It lies in the
 *  working directory, not in /tmp, which may be a tmpfs. */
static inline const char *scratch_path(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *p = paths[next++ % 4];

	if (!scratch_dir[0]) {
		snprintf(scratch_dir, sizeof(scratch_dir), "scratch-XXXXXX");
		if (!mkdtemp(scratch_dir)) {
			perror("scratch directory");
			exit(1);
		}
		scratch_owner = getpid();
		atexit(scratch_remove);
	}
	snprintf(p, sizeof(paths[0]), "%s/%s", scratch_dir, name);
	return p;
}

/** Byte `i` of every scratch file: differs between neighbours, pages and blocks. */
static inline unsigned char scratch_byte(uint64_t i)
{
	return (unsigned char)((i * 2654435761u) >> 13 ^ i >> 12 ^ i);
}

static inline void scratch_fill(unsigned char *p, uint64_t bytes, uint64_t offset)
{
	for (uint64_t i = 0; i < bytes; i++)
		p[i] = scratch_byte(offset + i);
}

/** Whether p holds bytes [offset, offset+bytes) of a scratch file. */
static inline int scratch_same(const unsigned char *p, uint64_t bytes, uint64_t offset)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (p[i] != scratch_byte(offset + i))
			return 0;
	return 1;
}

/** Write a file of `bytes` known bytes. @return its path */
static inline const char *scratch_file(const char *name, uint64_t bytes)
{
	const char *path = scratch_path(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	static unsigned char buf[1 << 16];

	for (uint64_t at = 0; at < bytes; at += sizeof(buf)) {
		size_t n = bytes - at < sizeof(buf) ? (size_t)(bytes - at) : sizeof(buf);

		scratch_fill(buf, n, at);
		if (write(fd, buf, n) != (ssize_t)n) {
			perror(path);
			exit(1);
		}
	}
	close(fd);
	return path;
}

static inline void scratch_log_fn(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	(void)level;
	snprintf(scratch_line, sizeof(scratch_line), "%s", line);
}

static const struct h2d_log scratch_log = {.fn = scratch_log_fn};

/** Whether the last line logged contains `text`. */
static inline int scratch_logged(const char *text)
{
	return strstr(scratch_line, text) != NULL;
}

#endif
