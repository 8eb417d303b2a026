/* SPDX-License-Identifier: Apache-2.0 */
/* Result records: kept in memory until the disk's driver is loaded, then written to the disk.
 */
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Enough for the boot note and the few modules that the disk needs. */
static uint8_t early[64 << 10];
static size_t early_bytes;

static int disk_fd = -1;
static int disk_failed;
static uint64_t last_sync_ns;

uint64_t guest_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void write_out(const void *data, size_t size)
{
	const uint8_t *p = data;

	if (disk_failed)
		return;
	if (disk_fd < 0) {
		if (size > sizeof(early) - early_bytes) {
			disk_failed = 1;
			fprintf(stderr,
				"h2d-lab: too many results before the result disk appeared\n");
			return;
		}
		memcpy(early + early_bytes, p, size);
		early_bytes += size;
		return;
	}
	while (size) {
		ssize_t n = write(disk_fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			disk_failed = 1;
			fprintf(stderr, "h2d-lab: result disk: %s\n",
				n < 0 ? strerror(errno) : "full");
			return;
		}
		p += n;
		size -= (size_t)n;
	}
}

void result_init(uint64_t key)
{
	uint8_t head[LAB_STREAM_HEAD_BYTES];

	lab_stream_head_encode(key, head);
	write_out(head, sizeof(head));
}

int result_is_open(void)
{
	return disk_fd >= 0;
}

int result_open_disk(void)
{
	char path[64];
	int err = guest_disk_by_serial(GUEST_RESULT_SERIAL, path, sizeof(path));

	if (err)
		return err;
	disk_fd = open(path, O_WRONLY | O_CLOEXEC);
	if (disk_fd < 0)
		return -errno;
	write_out(early, early_bytes);
	result_flush();
	return 0;
}

void result_flush(void)
{
	if (disk_fd >= 0 && !disk_failed && fsync(disk_fd) != 0) {
		disk_failed = 1;
		fprintf(stderr, "h2d-lab: result disk: %s\n", strerror(errno));
	}
	last_sync_ns = guest_now_ns();
}

void result_put(uint16_t type, uint32_t step, const void *payload, size_t length)
{
	static const uint8_t zeros[8];
	const uint8_t *p = payload;
	size_t done = 0;

	/* Long payloads become several records of the same type. */
	do {
		size_t part = length - done;
		uint8_t head[LAB_RECORD_HEAD_BYTES];
		struct lab_record record = {.type = type, .step = step};

		if (part > LAB_RECORD_MAX_BYTES)
			part = LAB_RECORD_MAX_BYTES;
		record.length = (uint32_t)part;
		lab_record_head_encode(&record, head);
		write_out(head, sizeof(head));
		if (part)
			write_out(p + done, part);
		write_out(zeros, (8 - part % 8) % 8);
		done += part;
	} while (done < length);

	/* What a guest wrote before it hung should be readable, yet not every line costs a
	 * sync. */
	if (guest_now_ns() - last_sync_ns > 500000000u)
		result_flush();
}

void result_note(uint32_t step, const char *format, ...)
{
	char text[1024];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n >= sizeof(text))
		n = (int)sizeof(text) - 1;
	fprintf(stderr, "h2d-lab: %s\n", text);
	result_put(LAB_RES_NOTE, step, text, (size_t)n);
}

int guest_disk_by_serial(const char *serial, char *path, size_t size)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *entry;
	int err = -ENOENT;

	if (!dir)
		return -errno;
	while (err && (entry = readdir(dir))) {
		char name[320], text[64] = "";
		ssize_t n;
		int fd;

		snprintf(name, sizeof(name), "/sys/block/%s/serial", entry->d_name);
		fd = open(name, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
		if (n <= 0)
			continue;
		text[n] = 0;
		text[strcspn(text, "\n")] = 0;
		if (strcmp(text, serial) == 0 && strlen(entry->d_name) + 6 < size) {
			snprintf(path, size, "/dev/%.*s", (int)size - 6, entry->d_name);
			err = 0;
		}
	}
	closedir(dir);
	return err;
}
