/* SPDX-License-Identifier: GPL-2.0-only */
/* Mappings of every kind, and what may happen to them while a request runs. */
#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { BYTES_MAX_LOG2 = 24 };

static int temporary_file(const char *directory, size_t bytes)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/fuzz-XXXXXX", directory);
	fd = mkstemp(path);
	if (fd >= 0)
		unlink(path);
	if (fd >= 0 && posix_fallocate(fd, 0, (off_t)bytes)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool map_it(struct fuzz_map *m, off_t offset)
{
	m->address = mmap(NULL, m->bytes, m->prot, m->flags, m->fd, offset);
	return m->address != MAP_FAILED;
}

static bool map_userfault(struct fuzz_map *m)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg;
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || !map_it(m, 0))
		return false;
	reg = (struct uffdio_register){.range = {(uintptr_t)m->address, m->bytes},
				       .mode = UFFDIO_REGISTER_MODE_MISSING};
	/* Nobody answers: a fault that could wait for it must fail instead. */
	return !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg);
}

static bool map_sysv(struct fuzz_map *m)
{
	int id = shmget(IPC_PRIVATE, m->bytes, IPC_CREAT | 0600);

	if (id < 0)
		return false;
	m->address = shmat(id, NULL, 0);
	shmctl(id, IPC_RMID, NULL);
	return m->address != (void *)-1;
}

bool fuzz_map_make(struct fuzz_random *r, const char *directory, struct fuzz_map *m)
{
	const int rw = PROT_READ | PROT_WRITE, private_anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

	m->bytes = (size_t)PAGE << fuzz_below(r, BYTES_MAX_LOG2 - 11);
	if (fuzz_one_in(r, 2))
		m->bytes += PAGE * fuzz_below(r, 600);
	m->fd = -1;
	m->fixed = false;
	m->prot = rw;
	m->flags = private_anonymous;
	switch (fuzz_below(r, 18)) {
	case 0:
		return map_it(m, 0);
	case 1:
		m->flags |= MAP_POPULATE;
		return map_it(m, 0);
	case 2: /* the zero page, then writable */
		m->prot = PROT_READ;
		m->flags |= MAP_POPULATE;
		if (!map_it(m, 0))
			return false;
		m->prot = rw;
		return !mprotect(m->address, m->bytes, rw);
	case 3:
	case 4:
	case 5:
		m->fd = temporary_file(directory, m->bytes);
		m->flags = fuzz_one_in(r, 3) ? MAP_SHARED : MAP_PRIVATE;
		m->prot = fuzz_one_in(r, 3) ? PROT_READ : rw;
		if (fuzz_one_in(r, 2))
			m->flags |= MAP_POPULATE;
		return m->fd >= 0 && map_it(m, 0);
	case 6: /* shorter than its mapping */
		m->fd = temporary_file(directory, m->bytes);
		m->flags = MAP_PRIVATE;
		return m->fd >= 0 && map_it(m, 0) && !ftruncate(m->fd, (off_t)m->bytes / 2);
	case 7:
		m->fd = memfd_create("fuzz", MFD_CLOEXEC);
		m->flags = fuzz_one_in(r, 2) ? MAP_SHARED : MAP_PRIVATE;
		return m->fd >= 0 && !ftruncate(m->fd, (off_t)m->bytes) && map_it(m, 0);
	case 8:
		m->bytes = SPAN;
		m->flags |= MAP_HUGETLB;
		return map_it(m, 0);
	case 9:
		m->prot = PROT_NONE;
		return map_it(m, 0);
	case 10:
		m->flags |= MAP_GROWSDOWN;
		return map_it(m, 0);
	case 11:
		m->bytes = 4 * SPAN;
		return map_it(m, 0) && !madvise(m->address, m->bytes, MADV_HUGEPAGE);
	case 12:
		return map_userfault(m);
	case 13:
		/* Few: the kernel asks all processors to forget each of its pages in turn,
		 * which takes minutes per thousand where they are starved, inside one call that
		 * no signal ends. */
		m->bytes = PAGE * (1 + fuzz_below(r, 16));
		m->fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
		m->flags = MAP_SHARED;
		return m->fd >= 0 && !ftruncate(m->fd, (off_t)m->bytes) && map_it(m, 0);
	case 14:
		/* The PC's ROM. Kernels complain of it when such a mapping is taken apart. */
		m->fixed = true;
		m->fd = open("/dev/mem", O_RDONLY | O_CLOEXEC);
		m->bytes = 16 * PAGE;
		m->prot = PROT_READ;
		m->flags = MAP_SHARED;
		return m->fd >= 0 && map_it(m, 0xf0000);
	case 15:
		return map_sysv(m);
	case 16:
		m->flags = MAP_SHARED | MAP_ANONYMOUS;
		return map_it(m, 0);
	default:
		m->prot = PROT_WRITE;
		m->flags |= MAP_NORESERVE;
		return map_it(m, 0);
	}
}

/* Half of a forked child's life is sharing our pages, the other half is going away. */
static void fork_once(const struct fuzz_map *m)
{
	pid_t pid = fork();

	if (!pid) {
		madvise(m->address, m->bytes < SPAN ? m->bytes : SPAN, MADV_POPULATE_WRITE);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

void fuzz_map_disturb(struct fuzz_random *r, struct fuzz_map *m)
{
	static const int advices[] = {MADV_DONTNEED,  MADV_FREE,	   MADV_COLD,
				      MADV_PAGEOUT,   MADV_POPULATE_WRITE, MADV_POPULATE_READ,
				      MADV_MERGEABLE, MADV_HUGEPAGE,	   MADV_NOHUGEPAGE,
				      MADV_COLLAPSE,  MADV_DONTFORK,	   MADV_REMOVE};
	static const int prots[] = {PROT_NONE, PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE};
	const size_t pages = m->bytes / PAGE;
	const size_t first = fuzz_below(r, pages);
	const size_t bytes = (1 + fuzz_below(r, pages - first)) * PAGE;
	char *at = m->address + first * PAGE;
	void *moved;

	if (m->fixed)
		return;
	switch (fuzz_below(r, 10)) {
	case 0:
		munmap(at, bytes);
		if (fuzz_one_in(r, 4))
			break;
		/* fall through */
	case 1: /* whole again */
		if (m->fd < 0 && !(m->flags & MAP_HUGETLB))
			mmap(m->address, m->bytes, m->prot, m->flags | MAP_FIXED, -1, 0);
		else
			mmap(m->address, m->bytes, m->prot, m->flags | MAP_FIXED, m->fd, 0);
		break;
	case 2:
		mprotect(at, bytes, prots[fuzz_below(r, 4)]);
		break;
	case 3: /* away and back again */
		moved = mremap(at, bytes, bytes, MREMAP_MAYMOVE);
		if (moved != MAP_FAILED)
			mremap(moved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
		break;
	case 4:
		fork_once(m);
		break;
	case 5:
		if (m->fd >= 0 && ftruncate(m->fd, (off_t)(first * PAGE)))
			break;
		break;
	case 6:
		if (m->fd >= 0)
			posix_fadvise(m->fd, 0, 0, POSIX_FADV_DONTNEED);
		break;
	case 7:
		if (mlock(at, bytes < SPAN ? bytes : SPAN))
			break;
		munlock(at, bytes);
		break;
	default:
		madvise(at, bytes, advices[fuzz_below(r, sizeof(advices) / sizeof(*advices))]);
	}
}

bool fuzz_any_range(struct fuzz_random *r, unsigned long long *address,
		    unsigned long long *bytes)
{
	unsigned long long begin, end;
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned seen = 0;
	char line[512];

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx", &begin, &end) != 2 || !fuzz_one_in(r, ++seen))
			continue;
		*address = begin;
		*bytes = end - begin;
	}
	fclose(f);
	return seen > 0;
}
