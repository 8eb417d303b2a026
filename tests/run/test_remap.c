/* SPDX-License-Identifier: Apache-2.0 */
/* mremap() of more than one mapping, and calls that do a part of their work: what is written
 * afterwards must arrive. Newer kernels (6.17) move several mappings to a fixed place; where
 * the kernel refuses, the case is about what it leaves behind. tests/run/test_random.c found
 * these. */
#include <sys/syscall.h>

#include "under.h"

enum { DONTUNMAP = 4 };

static int copy_fd;

/* A memory file: of such the kernel moves several at a time, and not of every file system. */
static void begin(void)
{
	unsigned char *from = malloc(UNDER_FILE_BYTES);

	copy_fd = memfd_create("checkpoint", 0);
	for (size_t i = 0; i < UNDER_FILE_BYTES; i++)
		from[i] = under_byte(i);
	REQUIRE(copy_fd >= 0 && write(copy_fd, from, UNDER_FILE_BYTES) == UNDER_FILE_BYTES);
	free(from);
}

/* Room for maps, reserved and empty. */
static unsigned char *room(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes, PROT_NONE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || munmap(p, bytes))
		exit(1);
	return p;
}

static void map_at(unsigned char *p, size_t bytes)
{
	REQUIRE(mmap(p, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, copy_fd, 0) ==
		p);
	CHECK_STR(under_permissions(p), "r--p");
}

/* Every page that the kernel has, writable and of the file before. */
static void write_everywhere(unsigned char *p, size_t bytes)
{
	size_t faults = 0, pages = 0;
	unsigned char cached;

	for (size_t i = 0; i < bytes; i += 4096)
		if (!mincore(p + i, 4096, &cached)) {
			pages++;
			p[i + 7]++;
			faults += !strcmp(under_permissions(p + i), "r--p");
		}
	CHECK(pages > 0);
	CHECK_EQ(faults, 0);
}

/* Two with a hole between, over a kept one: of that what faces the hole stays. */
static void a_hole_between(void)
{
	unsigned char *p = room(16 * MIB), *q = p + 8 * MIB;

	begin();
	map_at(p, MIB);
	map_at(p + 3 * MIB, MIB);
	map_at(q, 4 * MIB);
	mremap(p, 4 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	write_everywhere(p, 16 * MIB);
}

static int has(const unsigned char *p, unsigned char value)
{
	unsigned char cached;

	return !mincore((void *)((uintptr_t)p & ~4095ul), 4096, &cached) && *p == value;
}

/* The second of them is refused when the first has moved: that must not be lost. */
static void half_of_it_moves(void)
{
	unsigned char *p = room(16 * MIB), *q = p + 8 * MIB;
	int fd = open(under_file, O_RDONLY);

	begin();
	map_at(p, 2 * MIB);
	REQUIRE(mmap(p + 2 * MIB, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
		     0) == p + 2 * MIB);
	map_at(q, 4 * MIB);
	p[MIB + 5] = 77;
	p[3 * MIB] = 78;
	mremap(p, 4 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q);
	CHECK(has(p + MIB + 5, 77) || has(q + MIB + 5, 77));
	CHECK(has(p + 3 * MIB, 78) || has(q + 3 * MIB, 78));
	write_everywhere(p, 16 * MIB);
}

/* Kept and anonymous by turns, and both places there afterwards. */
static void several_and_the_old_stay(void)
{
	unsigned char *p = room(16 * MIB), *q = p + 8 * MIB;

	begin();
	map_at(p, 2 * MIB);
	REQUIRE(mmap(p + 2 * MIB, MIB, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + 2 * MIB);
	map_at(p + 3 * MIB, 3 * MIB);
	p[MIB] = 99;
	mremap(p, 6 * MIB, 6 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED | DONTUNMAP, q);
	write_everywhere(p, 16 * MIB);
}

/* Moved to a fixed place and smaller: refused after the place and the rest were unmapped. */
static void refused_after_a_part(void)
{
	unsigned char *p = room(16 * MIB), *q = p + 8 * MIB;

	begin();
	REQUIRE(mmap(p, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0) == p);
	map_at(p + MIB, 4 * MIB);
	map_at(q, 4 * MIB);
	CHECK(mremap(p, 5 * MIB, 3 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q) == MAP_FAILED);
	write_everywhere(p, 16 * MIB);
	/* What the C library puts there now is nothing of ours. */
	REQUIRE(syscall(SYS_mmap, q, 4 * MIB, PROT_READ,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == (long)q);
	*(volatile unsigned char *)(q + MIB) = 1;
}

/* A second mapping of what is shared, over a kept one. */
static void of_no_size(void)
{
	unsigned char *p = room(16 * MIB), *q = p + 8 * MIB;

	begin();
	map_at(q, 2 * MIB);
	REQUIRE(mmap(p, 2 * MIB, PROT_READ, MAP_SHARED | MAP_FIXED, copy_fd, 0) == p);
	CHECK(mremap(p, 0, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
	CHECK_STR(under_permissions(q), "r--s");
	*(volatile unsigned char *)(q + MIB) = 1;
}

/* Opened in several places, so that the kernel has it in parts that it would not have. */
static void in_parts_of_our_making(void)
{
	static const int flags[] = {MREMAP_MAYMOVE | MREMAP_FIXED,
				    MREMAP_MAYMOVE | MREMAP_FIXED | DONTUNMAP, MREMAP_MAYMOVE};
	unsigned char *p = room(32 * MIB), *q = p + 16 * MIB, *to;

	begin();
	for (size_t i = 0; i < 3; i++) {
		size_t bytes = 10 * MIB, new_bytes = i == 2 ? 12 * MIB : bytes;

		map_at(p, bytes);
		p[0] = p[5 * MIB] = p[9 * MIB] = (unsigned char)(i + 1);
		/* No growing in place. */
		REQUIRE(mmap(p + bytes, 4096, PROT_READ,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p + bytes);
		to = mremap(p, bytes, new_bytes, flags[i], q);
		REQUIRE(to != MAP_FAILED && to != p);
		CHECK(to[0] == i + 1 && to[5 * MIB] == i + 1 && to[9 * MIB] == i + 1);
		CHECK(under_same(to, 1, 5 * MIB - 1) &&
		      under_same(to, 9 * MIB + 1, new_bytes - 9 * MIB - 1));
		write_everywhere(to, new_bytes);
		if (flags[i] & DONTUNMAP)
			write_everywhere(p, bytes);
		CHECK(!munmap(to, new_bytes));
		munmap(p, bytes);
	}
}

static void not_for_children(void)
{
	unsigned char *p = room(8 * MIB);
	int status = -1;
	pid_t pid;

	begin();
	map_at(p, 7 * MIB);
	CHECK(!madvise(p + MIB / 2, MIB, MADV_DONTFORK));
	pid = fork();
	if (!pid) {
		write_everywhere(p, 8 * MIB);
		_exit(test_failures);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	write_everywhere(p, 8 * MIB);
}

/* It fails in the middle: what comes before has changed, what comes behind has not. */
static void protected_in_part(void)
{
	unsigned char *p = room(8 * MIB);

	begin();
	map_at(p, 6 * MIB);
	CHECK(!munmap(p + 2 * MIB, MIB));
	CHECK(mprotect(p, 6 * MIB, PROT_READ) == -1 && errno == ENOMEM);
	write_everywhere(p + 3 * MIB, 3 * MIB);
	CHECK_STR(under_permissions(p), "r--p");
	*(volatile unsigned char *)p = 1;
}

static const struct under_case cases[] = {
	{"a_hole_between", a_hole_between, NULL, 0, NULL},
	{"half_of_it_moves", half_of_it_moves, NULL, 0, NULL},
	{"several_and_the_old_stay", several_and_the_old_stay, NULL, 0, NULL},
	{"refused_after_a_part", refused_after_a_part, NULL, SIGSEGV, NULL},
	{"of_no_size", of_no_size, NULL, SIGSEGV, NULL},
	{"in_parts_of_our_making", in_parts_of_our_making, NULL, 0, NULL},
	{"not_for_children", not_for_children, NULL, 0, NULL},
	{"protected_in_part", protected_in_part, NULL, SIGSEGV, NULL},
};

UNDER_MAIN(cases)
