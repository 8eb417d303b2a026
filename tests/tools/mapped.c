/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader as frameworks have it, for measurements: maps a file private and writable and goes
 * over it once, a chunk for each byte that comes on stdin, so that two of them can be run in
 * step. Prints JSON lines: what was mapped, then the times of each chunk; knows nothing of h2d.
 *
 * usage: h2d-mapped FILE read|write    (read: every byte; write: one byte of every page)
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t read_all(const unsigned char *map, size_t bytes)
{
	uint64_t sum = 0, word;

	for (size_t i = 0; i + sizeof(word) <= bytes; i += sizeof(word)) {
		memcpy(&word, map + i, sizeof(word));
		sum += word;
	}
	return sum;
}

static uint64_t write_all(unsigned char *map, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t count = 0;

	for (size_t i = 0; i < bytes; i += page, count++)
		map[i] ^= 1;
	return count;
}

/* How the mapping's first page is shown, or "". */
static void permissions(const void *map, char out[5])
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uintptr_t from;

	out[0] = 0;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNxPTR "-%*x %4s", &from, out) == 2 &&
		    from == (uintptr_t)map)
			break;
	if (f)
		fclose(f);
}

enum { CHUNK_BYTES = 8 << 20 };

int main(int argc, char **argv)
{
	uint64_t wall, cpu, sum = 0;
	char before[5], go;
	struct stat st;
	void *map;
	int fd;

	if (argc != 3 || (strcmp(argv[2], "read") != 0 && strcmp(argv[2], "write") != 0))
		return 2;
	wall = wall_ns();
	cpu = cpu_ns();
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	map = fd < 0 || fstat(fd, &st) ? MAP_FAILED
				       : mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	close(fd);
	cpu = cpu_ns() - cpu;
	wall = wall_ns() - wall;
	permissions(map, before);
	printf("{\"permissions\": \"%s\", \"size_bytes\": %lld, \"chunk_count\": %lld, "
	       "\"elapsed_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 "}\n",
	       before, (long long)st.st_size,
	       (long long)((st.st_size + CHUNK_BYTES - 1) / CHUNK_BYTES), wall, cpu);
	fflush(stdout);
	for (size_t at = 0; at < (size_t)st.st_size && read(STDIN_FILENO, &go, 1) == 1;
	     at += CHUNK_BYTES) {
		size_t left = (size_t)st.st_size - at;
		size_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
		unsigned char *chunk = (unsigned char *)map + at;

		wall = wall_ns();
		cpu = cpu_ns();
		sum += argv[2][0] == 'r' ? read_all(chunk, bytes) : write_all(chunk, bytes);
		cpu = cpu_ns() - cpu;
		wall = wall_ns() - wall;
		printf("{\"elapsed_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64
		       ", \"sum\": \"%" PRIu64 "\"}\n",
		       wall, cpu, sum);
		fflush(stdout);
	}
	return 0;
}
