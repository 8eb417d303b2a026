/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that are system calls of init itself: modules, mounts, directories, knobs. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int step_load(const struct lab_record *job)
{
	size_t offset = 0;
	const char *path = lab_record_string(job, &offset);
	const char *params = path ? lab_record_string(job, &offset) : NULL;
	int fd, err = 0;

	if (!params)
		return -EBADMSG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The C library of Debian 12 has no wrapper for finit_module(2). */
	if (syscall(SYS_finit_module, fd, params, 0) != 0 && errno != EEXIST)
		err = -errno;
	close(fd);
	return err;
}

int step_mount(const struct lab_record *job)
{
	size_t offset = 0;
	const char *source = lab_record_string(job, &offset);
	const char *target = source ? lab_record_string(job, &offset) : NULL;
	const char *type = target ? lab_record_string(job, &offset) : NULL;
	const char *options = type ? lab_record_string(job, &offset) : NULL;
	char disk[64];

	if (!options)
		return -EBADMSG;
	if (strncmp(source, "serial:", 7) == 0) {
		int err = guest_disk_by_serial(source + 7, disk, sizeof(disk));

		if (err)
			return err;
		source = disk;
	}
	if (mkdir(target, 0755) != 0 && errno != EEXIST)
		return -errno;
	return mount(source, target, type, 0, options) == 0 ? 0 : -errno;
}

int step_mkdir(const struct lab_record *job)
{
	size_t offset = 0;
	const char *path = lab_record_string(job, &offset);

	if (!path)
		return -EBADMSG;
	return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

int step_write(const struct lab_record *job)
{
	size_t offset = 0;
	const char *path = lab_record_string(job, &offset);
	const char *text = path ? lab_record_string(job, &offset) : NULL;
	size_t size;
	ssize_t n;
	int fd, err = 0;

	if (!text)
		return -EBADMSG;
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	/* Kernel knobs want their value in one call. */
	size = strlen(text);
	n = write(fd, text, size);
	if (n < 0)
		err = -errno;
	else if ((size_t)n != size)
		err = -EIO;
	close(fd);
	return err;
}
