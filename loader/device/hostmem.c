/* SPDX-License-Identifier: Apache-2.0 */
#include "device/hostmem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/checked.h"
#include "core/mem.h"

#define THP_DIR "/sys/kernel/mm/transparent_hugepage/"
enum { HUGE_DEFAULT_BYTES = 2 << 20 };

static int read_line(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, cap - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n > 0 ? 0 : -1;
}

uint64_t h2d_hostmem_huge_page_bytes(void)
{
	char text[64];
	uint64_t bytes;

	if (read_line(THP_DIR "enabled", text, sizeof(text)) || strstr(text, "[never]"))
		return 0;
	if (read_line(THP_DIR "hpage_pmd_size", text, sizeof(text)))
		return HUGE_DEFAULT_BYTES;
	bytes = strtoull(text, NULL, 10);
	return bytes && !(bytes & (bytes - 1)) ? bytes : HUGE_DEFAULT_BYTES;
}

/* Map, and cut off what alignment does not need. */
static void *map_aligned(uint64_t bytes, uint64_t align, int prot)
{
	uint64_t span, head;
	char *p;

	if (!h2d_add_u64(bytes, align, &span) || span > SIZE_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	p = h2d_mem->map(span, prot);
	if (!p)
		return NULL;
	head = -(uintptr_t)p & (align - 1);
	if (head)
		munmap(p, head);
	munmap(p + head + bytes, align - head);
	return p + head;
}

static void *get(uint64_t bytes, int prot)
{
	uint64_t huge = h2d_hostmem_huge_page_bytes(), rounded;
	void *p;

	if (!bytes || !h2d_align_up_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE), &rounded) ||
	    rounded > SIZE_MAX) {
		errno = ENOMEM;
		return NULL;
	}
	if (!huge || rounded < huge)
		return h2d_mem->map(rounded, prot);
	p = map_aligned(rounded, huge, prot);
	if (p && prot != PROT_NONE)
		madvise(p, rounded, MADV_HUGEPAGE); /* a wish; refusal costs only time */
	return p;
}

void *h2d_hostmem_alloc(uint64_t bytes)
{
	return get(bytes, PROT_READ | PROT_WRITE);
}

void *h2d_hostmem_reserve(uint64_t bytes)
{
	return get(bytes, PROT_NONE);
}

void h2d_hostmem_free(void *p, uint64_t bytes)
{
	uint64_t rounded;

	if (p && h2d_align_up_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE), &rounded))
		munmap(p, rounded);
}

void h2d_hostmem_bind(void *p, uint64_t bytes, int32_t node)
{
	enum { WORD_BITS = 8 * sizeof(unsigned long) };
	unsigned long mask[16] = {0}; /* 1024 nodes, the most that Linux has */
	uint64_t rounded;

	if (!p || node < 0 || (size_t)node >= sizeof(mask) * 8 ||
	    !h2d_align_up_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE), &rounded))
		return;
	mask[(unsigned)node / WORD_BITS] = 1ul << (unsigned)node % WORD_BITS;
	syscall(SYS_mbind, p, rounded, MPOL_PREFERRED, mask, sizeof(mask) * 8 + 1, 0);
}
