/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine tells of itself: CONFIG_HZ, and names of filesystems. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/mem.h"
#include "repro/repro.h"

enum { CONFIG_MAX_BYTES = 4 << 20 };

static uint32_t from_boot_config(void)
{
	struct utsname uts;
	char path[128], *text;
	uint32_t hz = 0;
	ssize_t n;
	int fd;

	if (uname(&uts))
		return 0;
	snprintf(path, sizeof(path), "/boot/config-%s", uts.release);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0;
	text = h2d_mem->malloc(CONFIG_MAX_BYTES);
	if (text) {
		n = read(fd, text, CONFIG_MAX_BYTES);
		if (n > 0)
			hz = h2d_hz_from_config(text, (size_t)n);
		free(text);
	}
	close(fd);
	return hz;
}

uint32_t h2d_hz_read(enum h2d_hz_source *source)
{
	struct timespec tick;
	uint32_t hz = 0;

	*source = H2D_HZ_UNKNOWN;
	if (!clock_getres(CLOCK_MONOTONIC_COARSE, &tick) && !tick.tv_sec)
		hz = h2d_hz_from_resolution((uint64_t)tick.tv_nsec);
	if (hz) {
		*source = H2D_HZ_CLOCK;
		return hz;
	}
	hz = from_boot_config();
	if (hz)
		*source = H2D_HZ_CONFIG;
	return hz;
}

const char *h2d_hz_source_name(enum h2d_hz_source source)
{
	static const char *const names[] = {"unknown", "module", "clock", "config", "fitted"};

	return (unsigned)source < 5 ? names[source] : "unknown";
}

const char *h2d_filesystem_name(uint64_t type, char *buf, size_t bytes)
{
	/* include/uapi/linux/magic.h and the filesystems' own headers */
	static const struct {
		uint32_t type;
		const char *name;
	} names[] = {
		{0xef53, "ext4"},	   {0x58465342, "xfs"},	     {0x01021994, "tmpfs"},
		{0x794c7630, "overlayfs"}, {0x9123683e, "btrfs"},    {0xf2f52010, "f2fs"},
		{0x2fc12fc1, "zfs"},	   {0x6969, "nfs"},	     {0x65735546, "fuse"},
		{0x858458f6, "ramfs"},	   {0x01021997, "9p"},	     {0xca451a4e, "bcachefs"},
		{0xe0f5e1e2, "erofs"},	   {0x73717368, "squashfs"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].type == (uint32_t)type)
			return names[i].name;
	snprintf(buf, bytes, "0x%" PRIx64, type);
	return buf;
}
