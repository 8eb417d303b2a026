/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest must never do to the laboratory. Static; runs as root inside a guest. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	return fd >= 0 && write(fd, text, strlen(text)) > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "panic") == 0)
		return write_to("/proc/sysrq-trigger", "c");
	if (strcmp(what, "hang") == 0)
		for (;;)
			pause();
	if (strcmp(what, "warn") == 0)
		return write_to("/dev/kmsg", "<4>WARNING: CPU: 0 PID: 1 at nothing\n");
	if (strcmp(what, "flood") == 0) {
		int fd = open("/dev/console", O_WRONLY);
		static char line[4096];

		memset(line, '#', sizeof(line));
		while (write(fd, line, sizeof(line)) > 0)
			;
		return 1;
	}
	if (strcmp(what, "print") == 0) {
		static char line[65536];

		memset(line, 'x', sizeof(line));
		for (int i = 0; i < 1000; i++)
			fwrite(line, 1, sizeof(line), stdout);
		return 0;
	}
	return 2;
}
