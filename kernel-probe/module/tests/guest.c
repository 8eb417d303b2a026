/* SPDX-License-Identifier: GPL-2.0-only */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

#define PAGEMAP_PRESENT (1ULL << 63)

static unsigned checks, failures;

static void log_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	(void)level;
	printf("# %s\n", line);
}

const struct h2d_log guest_log = {.fn = log_line};

void guest_check(bool ok, const char *fmt, ...)
{
	va_list args;

	checks++;
	failures += !ok;
	printf("%s %u - ", ok ? "ok" : "not ok", checks);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

int guest_finish(void)
{
	printf("1..%u\n# %u failed\n", checks, failures);
	fflush(stdout);
	return failures || !checks ? 1 : 0;
}

void guest_die(const char *fmt, ...)
{
	int err = errno;
	va_list args;

	printf("Bail out! ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf(": %s\n", strerror(err));
	fflush(stdout);
	exit(1);
}

int guest_make_file(const char *path, size_t bytes)
{
	static uint64_t block[1 << 16];
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		guest_die("%s", path);
	while (bytes) {
		size_t part = bytes < sizeof(block) ? bytes : sizeof(block);

		for (size_t i = 0; i < sizeof(block) / sizeof(*block); i++) {
			state ^= state << 13;
			state ^= state >> 7;
			state ^= state << 17;
			block[i] = state;
		}
		if (write(fd, block, part) != (ssize_t)part)
			guest_die("write %s", path);
		bytes -= part;
	}
	if (fsync(fd))
		guest_die("fsync %s", path);
	return fd;
}

void guest_touch(const void *address, size_t bytes, size_t stride)
{
	const volatile unsigned char *p = address;

	for (size_t i = 0; i < bytes; i += stride)
		(void)p[i];
}

/* Present pages in the range, and the spans that hold them. */
static void presence(const void *address, size_t bytes, uint64_t *pages, uint64_t *spans)
{
	const uint64_t first = (uintptr_t)address / PAGE;
	const uint64_t end = ((uintptr_t)address + bytes) / PAGE;
	uint64_t entries[512], last_span = UINT64_MAX;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		guest_die("/proc/self/pagemap");
	*pages = *spans = 0;
	for (uint64_t page = first; page < end;) {
		size_t count = end - page < 512 ? end - page : 512;

		if (pread(fd, entries, count * 8, (off_t)(page * 8)) != (ssize_t)(count * 8))
			guest_die("read pagemap");
		for (size_t i = 0; i < count; i++, page++) {
			if (!(entries[i] & PAGEMAP_PRESENT))
				continue;
			++*pages;
			if (page * PAGE / SPAN != last_span)
				++*spans;
			last_span = page * PAGE / SPAN;
		}
	}
	close(fd);
}

uint64_t guest_present_spans(const void *address, size_t bytes)
{
	uint64_t pages, spans;

	presence(address, bytes, &pages, &spans);
	return spans;
}

uint64_t guest_present_pages(const void *address, size_t bytes)
{
	uint64_t pages, spans;

	presence(address, bytes, &pages, &spans);
	return pages;
}

uint64_t guest_anonymous_bytes(const void *address, size_t bytes)
{
	const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long long sum = 0, from, to, kib;
	bool ours = false;
	char line[512];

	if (!smaps)
		guest_die("/proc/self/smaps");
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			ours = from < end && to > begin;
		else if (ours && sscanf(line, "Anonymous: %llu", &kib) == 1)
			sum += kib * 1024;
	}
	fclose(smaps);
	return sum;
}
