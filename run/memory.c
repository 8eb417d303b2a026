/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "format/detect.h"
#include "run/glob.h"
#include "run/keep.h"
#include "run/memory.h"
#include "run/signals.h"
#include "run/sys.h"

/* Newer than some headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* What the head of a file and its name tell of a mapping that we may keep. */
struct candidate {
	struct stat st;
	char path[RO_PATH_BYTES];
	enum h2d_format_id format;
	bool by_pattern;
};

static bool worth_a_look(size_t bytes, int prot, int flags, int fd)
{
	const int unwanted = MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_STACK | MAP_HUGETLB;

	return bytes >= RO_BYTES_MIN && fd >= 0 && prot == (PROT_READ | PROT_WRITE) &&
	       (flags & MAP_TYPE) == MAP_PRIVATE && !(flags & unwanted);
}

static void path_of(int fd, char *path)
{
	char link[32] = "/proc/self/fd/", digits[12];
	size_t at = sizeof(digits), n = strlen(link);
	long got;

	digits[--at] = 0;
	do {
		digits[--at] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd);
	memcpy(link + n, digits + at, sizeof(digits) - at);
	ro_count_calls(1);
	got = syscall(SYS_readlinkat, AT_FDCWD, link, path, RO_PATH_BYTES - 1);
	path[got > 0 ? got : 0] = 0;
}

static bool checkpoint(enum h2d_format_id format)
{
	return format == H2D_FORMAT_SAFETENSORS || format == H2D_FORMAT_GGUF ||
	       format == H2D_FORMAT_CACT || format == H2D_FORMAT_TORCH;
}

/* A file opened with O_DIRECT is read in whole blocks only. */
static long read_block(int fd, unsigned char *head, size_t bytes)
{
	unsigned char block[4096] __attribute__((aligned(4096)));
	long got;

	ro_count_calls(1);
	got = sys_pread(fd, block, sizeof(block), 0);
	if (got > (long)bytes)
		got = (long)bytes;
	if (got > 0)
		memcpy(head, block, (size_t)got);
	return got;
}

static bool look(struct candidate *c, int fd)
{
	unsigned char head[H2D_DETECT_BYTES];
	long got;

	atomic_fetch_add(&ro.state->candidate_count, 1);
	ro_count_calls(1);
	if (fstat(fd, &c->st) || !S_ISREG(c->st.st_mode))
		return false;
	ro_count_calls(1);
	got = sys_pread(fd, head, sizeof(head), 0);
	if (got < 0 && errno == EINVAL)
		got = read_block(fd, head, sizeof(head));
	c->format = got > 0 ? h2d_detect(head, (size_t)got, (uint64_t)c->st.st_size)
			    : H2D_FORMAT_NONE;
	if (!checkpoint(c->format)) {
		c->format = H2D_FORMAT_NONE;
		if (!ro.patterns[0])
			return false;
	}
	path_of(fd, c->path);
	c->by_pattern = c->format == H2D_FORMAT_NONE;
	return !c->by_pattern || ro_glob(ro.patterns, c->path);
}

/* Where a private writable mapping is paid for in advance, opening one could fail. */
static bool may_fail_later(void)
{
	struct rlimit data;

	ro_count_calls(1);
	return ro.strict_overcommit || syscall(SYS_prlimit64, 0, RLIMIT_DATA, NULL, &data) ||
	       data.rlim_cur != RLIM_INFINITY;
}

static void record_mapping(struct ro_mapping *m, const struct candidate *c)
{
	bool claimed;
	struct h2d_run_record *r;

	m->pid = atomic_load(&ro.pid);
	r = h2d_run_state_claim(ro.state, ro.image, m->pid, c->st.st_dev, c->st.st_ino,
				&claimed);
	if (!r) {
		atomic_fetch_add(&ro.state->lost_record_count, 1);
		return;
	}
	if (claimed) {
		r->format = c->format;
		atomic_store(&r->flags, c->by_pattern ? H2D_RUN_BY_PATTERN : 0u);
		if (program_invocation_short_name)
			strncpy(r->command, program_invocation_short_name,
				sizeof(r->command) - 1);
		h2d_run_record_path(r, c->path);
		h2d_run_state_publish(r);
	}
	atomic_fetch_add(&r->mapping_count, 1);
	atomic_fetch_add(&r->mapping_bytes, m->bytes);
	m->record = r;
}

static void say_kept(const struct candidate *c)
{
	static const char before[] = "h2d-readonly: kept read-only: ";
	const struct iovec line[] = {{(void *)before, sizeof(before) - 1},
				     {(void *)c->path, strlen(c->path)},
				     {(void *)"\n", 1}};
	int saved = errno;

	if (syscall(SYS_writev, 2, line, 3) < 0)
		errno = saved;
}

/* A mapping over `range` failed. Older kernels have unmapped what was there even so. */
static void not_over(struct ro_span range)
{
	ro_forget_unmapped_locked(range);
	ro_count_written_locked(range, -1);
}

/* Map read-only what was asked for as writable. @return false to have it mapped as asked */
static bool keep(const struct candidate *c, void **result, void *addr, size_t bytes, int flags,
		 int fd, off_t offset)
{
	struct ro_span range;
	ro_signals before;
	bool kept = false, over = false;
	int saved = 0;

	before = ro_enter();
	if (!ro_handle_faults_locked()) {
		atomic_fetch_add(&ro.state->refused_handler_count, 1);
		goto out;
	}
	before = ro_signals_adopt(before);
	if (!ro_table_reserve(&ro.table, 3)) {
		atomic_fetch_add(&ro.state->refused_memory_count, 1);
		goto out;
	}
	over = flags & MAP_FIXED &&
	       ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range) &&
	       ro_touch_locked(range);
	if (over)
		ro_count_written_locked(range, 1);
	kept = true;
	*result = sys_mmap(addr, bytes, PROT_READ, flags, fd, offset);
	saved = errno;
	if (*result == MAP_FAILED) {
		if (over)
			not_over(range);
		goto out;
	}
	ro_pages_touched((uintptr_t)*result, bytes, ro.page_bytes, &range);
	if (ro_touch_locked(range))
		ro_forget_locked(range);
	record_mapping(ro_keep_locked(range), c);
out:
	ro_leave(before);
	if (kept && *result == MAP_FAILED)
		errno = saved;
	else if (kept && ro.verbose)
		say_kept(c);
	return kept;
}

/* Anything else that may fall on ranges that we keep. */
static void *map_over(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	struct ro_span range;
	ro_signals before;
	bool touched;
	void *p;
	int saved;

	if (!ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range))
		return sys_mmap(addr, bytes, prot, flags, fd, offset);
	before = ro_enter();
	touched = ro_touch_locked(range);
	if (touched)
		ro_count_written_locked(range, 1);
	p = sys_mmap(addr, bytes, prot, flags, fd, offset);
	saved = errno;
	if (touched && p != MAP_FAILED)
		ro_forget_locked(range);
	else if (touched)
		not_over(range);
	ro_leave(before);
	errno = saved;
	return p;
}

void *ro_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	int saved = errno;
	void *p;

	if (worth_a_look(bytes, prot, flags, fd)) {
		struct candidate c;

		ro_init();
		if (ro.state && look(&c, fd)) {
			if (may_fail_later())
				atomic_fetch_add(&ro.state->refused_limit_count, 1);
			else if (keep(&c, &p, addr, bytes, flags, fd, offset)) {
				if (p != MAP_FAILED)
					errno = saved;
				return p;
			}
		}
		errno = saved;
	}
	if (flags & MAP_FIXED && ro_near((uintptr_t)addr, bytes))
		return map_over(addr, bytes, prot, flags, fd, offset);
	p = sys_mmap(addr, bytes, prot, flags, fd, offset);
	if (p != MAP_FAILED)
		ro_forget_stale(p, bytes);
	return p;
}

int ro_munmap(void *addr, size_t bytes)
{
	struct ro_span range;
	ro_signals before;
	bool touched;
	int rc, saved;

	if (!ro_near((uintptr_t)addr, bytes) || (uintptr_t)addr % ro.page_bytes ||
	    !ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range))
		return sys_munmap(addr, bytes);
	before = ro_enter();
	touched = ro_touch_locked(range);
	if (touched)
		ro_count_written_locked(range, 1);
	rc = sys_munmap(addr, bytes);
	saved = errno;
	if (touched && !rc)
		ro_forget_locked(range);
	else if (touched)
		ro_count_written_locked(range, -1);
	ro_leave(before);
	errno = saved;
	return rc;
}

static int protect(void *addr, size_t bytes, int prot, int key)
{
	return (int)(key < 0 ? sys_mprotect(addr, bytes, prot)
			     : syscall(SYS_pkey_mprotect, addr, bytes, prot, key));
}

int ro_pkey_mprotect(void *addr, size_t bytes, int prot, int key)
{
	struct ro_span range;
	ro_signals before;
	int rc = 0, saved;

	if (!ro_near((uintptr_t)addr, bytes) || (uintptr_t)addr % ro.page_bytes ||
	    !ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range))
		return protect(addr, bytes, prot, key);
	before = ro_enter();
	/* First made what the program believes it to be: a call that fails may have done a
	 * part. */
	if (ro_touch_locked(range)) {
		ro_count_written_locked(range, 1);
		rc = ro_release_locked(range);
	}
	if (rc)
		errno = -rc;
	rc = rc ? -1 : protect(addr, bytes, prot, key);
	saved = errno;
	ro_leave(before);
	errno = saved;
	return rc;
}

int ro_mprotect(void *addr, size_t bytes, int prot)
{
	return ro_pkey_mprotect(addr, bytes, prot, -1);
}

int ro_madvise(void *addr, size_t bytes, int advice)
{
	struct ro_span range;
	ro_signals before;

	if (advice == MADV_POPULATE_WRITE)
		ro_open(addr, bytes, RO_KERNEL_WRITE);
	/* What a device is about to write to, most often; and in a child there is a hole. */
	if (advice == MADV_DONTFORK && ro_near((uintptr_t)addr, bytes) &&
	    ro_pages_touched((uintptr_t)addr, bytes, ro.page_bytes, &range)) {
		before = ro_enter();
		if (ro_touch_locked(range)) {
			ro_count_written_locked(range, 1);
			ro_release_locked(range);
		}
		ro_leave(before);
	}
	return sys_madvise(addr, bytes, advice);
}
