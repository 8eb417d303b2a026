/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is the text of an index.json beside two shards, one of them in a sub-folder.
 * Nothing outside the folder may be opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file/io.h"
#include "walk.h"

/* In memory where there is such a place: the file is rewritten for each input. */
static char folder[32] = "/dev/shm/h2d-fuzz-XXXXXX";
static char index_path[64];
static int index_fd;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void clean(void)
{
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int guarded_open(const char *path, int flags)
{
	const char *up = strstr(path, "/../");
	size_t n = strlen(path);

	PROMISE(!strncmp(path, folder, strlen(folder)));
	PROMISE(!up && (n < 3 || strcmp(path + n - 3, "/..")));
	return open(path, flags);
}

static struct h2d_io_ops guarded;

static void write_shard(const char *name, const char *one, const char *two)
{
	char path[128], header[256];
	unsigned char length[8] = {0};
	FILE *f;

	snprintf(header, sizeof(header),
		 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
		 "\"%s\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
		 one, two);
	length[0] = (unsigned char)strlen(header);
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "wb");
	PROMISE(f && fwrite(length, 1, 8, f) == 8 && fputs(header, f) >= 0 &&
		fwrite("data", 1, 4, f) == 4 && !fclose(f));
}

static void prepare(void)
{
	char sub[64];

	if (!mkdtemp(folder)) {
		strcpy(folder, "/tmp/h2d-fuzz-XXXXXX");
		PROMISE(mkdtemp(folder));
	}
	atexit(clean);
	snprintf(sub, sizeof(sub), "%s/s", folder);
	PROMISE(!mkdir(sub, 0700));
	write_shard("x", "a", "b");
	write_shard("s/y", "c", "a");
	snprintf(index_path, sizeof(index_path), "%s/i", folder);
	index_fd = open(index_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	PROMISE(index_fd >= 0);
	guarded = h2d_io_system;
	guarded.open = guarded_open;
	h2d_io = &guarded;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct h2d_open_opts o = H2D_OPTS(o);
	struct h2d_checkpoint *c;
	unsigned errors = 0;
	int rc;

	if (!index_fd)
		prepare();
	PROMISE(!ftruncate(index_fd, 0));
	PROMISE(pwrite(index_fd, data, bytes, 0) == (ssize_t)bytes);
	o.log = walk_log;
	o.log_user = &errors;
	rc = h2d_checkpoint_open(index_path, &o, &c);
	PROMISE(errors == (rc ? 1 : 0));
	if (!rc)
		walk(c);
	h2d_checkpoint_close(c);
	return 0;
}
