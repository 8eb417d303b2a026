/* SPDX-License-Identifier: Apache-2.0 */
/* Files of known bytes and the state of their mappings. */
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SPAN_BYTES = 2 << 20, CHUNK_BYTES = 1 << 20 };

/* splitmix64: incompressible, and each word follows from its place alone. */
static uint64_t word_at(uint64_t index)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int fill(int fd, uint64_t bytes)
{
	static uint64_t chunk[CHUNK_BYTES / 8];

	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = bytes - done < CHUNK_BYTES ? bytes - done : CHUNK_BYTES;
		ssize_t n;

		for (uint64_t i = 0; i < part / 8; i++)
			chunk[i] = word_at(done / 8 + i);
		n = pwrite(fd, chunk, part, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		done += (uint64_t)n & ~(uint64_t)7;
	}
	return fsync(fd);
}

/* Reads the file once, so that its pages are in the page cache whatever happened to them. */
static int warm(int fd)
{
	static char chunk[CHUNK_BYTES];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0)
		if (n < 0 && errno != EINTR)
			return -1;
	return 0;
}

int mapping_file(const char *path, uint64_t bytes)
{
	struct stat st;
	int fd;

	if (stat(path, &st) != 0 || (uint64_t)st.st_size != bytes) {
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0)
			return -1;
		if (fill(fd, bytes) != 0) {
			close(fd);
			return -1;
		}
		close(fd);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && warm(fd) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void mapping_touch(const void *address, uint64_t bytes)
{
	const volatile char *p = address;

	for (uint64_t i = 0; i < bytes; i += PAGE_BYTES)
		(void)p[i];
}

bool mapping_intact(const void *address, uint64_t bytes)
{
	const uint64_t *p = address;

	for (uint64_t i = 0; i < bytes / 8; i += PAGE_BYTES / 8)
		if (p[i] != word_at(i))
			return false;
	return true;
}

static int read_smaps(uintptr_t start, struct mapping_facts *facts)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	bool inside = false, found = false;
	char line[512];

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		uintptr_t from, to;
		char permissions[5];
		uint64_t kib;

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, permissions) ==
		    3) {
			inside = from == start;
			found = found || inside;
			if (inside)
				memcpy(facts->permissions, permissions, sizeof(permissions));
		} else if (inside && sscanf(line, "Rss: %" SCNu64, &kib) == 1) {
			facts->rss_bytes = kib * 1024;
		} else if (inside && sscanf(line, "Anonymous: %" SCNu64, &kib) == 1) {
			facts->anonymous_bytes = kib * 1024;
		}
	}
	fclose(f);
	errno = ENOENT;
	return found ? 0 : -1;
}

static int read_pagemap(uintptr_t start, uint64_t bytes, struct mapping_facts *facts)
{
	uint64_t entries[512], last_span = UINT64_MAX;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	for (uint64_t page = 0; page < bytes / PAGE_BYTES;) {
		uint64_t left = bytes / PAGE_BYTES - page, want = left < 512 ? left : 512;
		ssize_t n =
			pread(fd, entries, want * 8, (off_t)((start / PAGE_BYTES + page) * 8));

		if (n < 8) {
			close(fd);
			errno = n < 0 ? errno : EIO;
			return -1;
		}
		for (ssize_t i = 0; i < n / 8; i++, page++) {
			uint64_t span = (start + page * PAGE_BYTES) / SPAN_BYTES;

			if (!(entries[i] >> 63))
				continue;
			facts->present_bytes += PAGE_BYTES;
			if (span != last_span)
				facts->present_spans++;
			last_span = span;
		}
	}
	close(fd);
	return 0;
}

int mapping_read(const void *address, uint64_t bytes, struct mapping_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	if (read_smaps((uintptr_t)address, facts) != 0)
		return -1;
	return read_pagemap((uintptr_t)address, bytes, facts);
}
