/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /dev/kmsg between steps and keeps the lines that no healthy kernel writes. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../klog.h"

static int kmsg_fd = -1;

int kmsg_open(void)
{
	kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return kmsg_fd < 0 ? -errno : 0;
}

uint32_t kmsg_collect(uint32_t step)
{
	uint32_t lost = 0;
	char line[8192];

	if (kmsg_fd < 0)
		return 0;
	for (;;) {
		ssize_t n = read(kmsg_fd, line, sizeof(line) - 1);
		char *text;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EPIPE) {
			lost++;
			continue;
		}
		if (n <= 0)
			return lost;
		line[n] = 0;
		/* "priority,sequence,time,flags;text\n KEY=value\n" */
		text = strchr(line, ';');
		text = text ? text + 1 : line;
		text[strcspn(text, "\n")] = 0;
		if (lab_klog_is_fault(text))
			result_put(LAB_RES_KMSG, step, text, strlen(text));
	}
}
