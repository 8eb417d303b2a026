/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one directory that a run writes to. It holds a locked file: the lock ends with the
 * process, however that ends, so the next run can tell what nobody uses any more.
 */
#include "tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "h2d-lab-"

/* The lock is taken under another name first, so that "lock" is never seen without it. */
static int take_lock(const char *directory)
{
	char *making = lab_format("%s/lock.new", directory);
	char *name = lab_format("%s/lock", directory);
	int fd = -1;

	if (making && name)
		fd = open(making, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || rename(making, name) != 0)) {
		close(fd);
		fd = -1;
	}
	free(making);
	free(name);
	return fd;
}

/* A directory of ours whose lock can be taken belongs to nobody. */
static void remove_if_left(struct lab *lab, const char *directory)
{
	char *name = lab_format("%s/lock", directory);
	struct stat st;
	int fd;

	if (!name || lstat(directory, &st) != 0 || !S_ISDIR(st.st_mode) ||
	    st.st_uid != geteuid()) {
		free(name);
		return;
	}
	fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	free(name);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		h2d_log_line(&lab->log, H2D_LOG_INFO,
			     "removing %s, left by a run that was killed", directory);
		lab_remove_tree(directory);
	}
	close(fd);
}

static void sweep(struct lab *lab, const char *base)
{
	DIR *dir = opendir(base);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		path = lab_format("%s/%s", base, entry->d_name);
		if (path)
			remove_if_left(lab, path);
		free(path);
	}
	if (dir)
		closedir(dir);
}

int lab_tmp_make(struct lab *lab)
{
	const char *base = getenv("TMPDIR");
	char *name;

	lab->tmp_lock = -1;
	if (!base || base[0] != '/')
		base = "/tmp";
	sweep(lab, base);
	name = lab_format("%s/" PREFIX "XXXXXX", base);
	if (!name)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	if (!mkdtemp(name)) {
		int err = h2d_fail_errno(&lab->log, errno, "temporary directory in %s", base);

		free(name);
		return err;
	}
	lab->tmp = realpath(name, NULL);
	lab->tmp_lock = take_lock(name);
	free(name);
	if (!lab->tmp)
		return h2d_fail(&lab->log, H2D_E_NOMEM, "out of memory");
	return lab->tmp_lock < 0 ? h2d_fail_errno(&lab->log, errno, "%s", lab->tmp) : 0;
}

void lab_tmp_leave(struct lab *lab)
{
	char *lock;

	if (!lab->tmp)
		return;
	if (lab->options.keep) {
		lock = lab_format("%s/lock", lab->tmp);
		if (lock)
			unlink(lock);
		free(lock);
		h2d_log_line(&lab->log, H2D_LOG_WARNING, "kept: %s", lab->tmp);
	} else if (lab_remove_tree(lab->tmp) != 0) {
		h2d_log_line(&lab->log, H2D_LOG_WARNING, "%s could not be removed", lab->tmp);
	}
	if (lab->tmp_lock >= 0)
		close(lab->tmp_lock);
	free(lab->tmp);
	lab->tmp = NULL;
}
