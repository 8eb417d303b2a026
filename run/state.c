/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/state.h"

enum { FREE, CLAIMED, READABLE };
enum { CHUNK_BYTES = 1 << 16, RESERVED_BYTES = 1 << 16 /* for the head */ };

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");

void h2d_run_state_init(struct h2d_run_state *state, uint64_t page_bytes)
{
	state->version = H2D_RUN_STATE_VERSION;
	state->record_count = H2D_RUN_RECORDS;
	state->state_bytes = sizeof(*state);
	state->page_bytes = page_bytes;
	state->magic = H2D_RUN_STATE_MAGIC;
}

static bool valid(const struct h2d_run_state *s)
{
	return s->magic == H2D_RUN_STATE_MAGIC && s->version == H2D_RUN_STATE_VERSION &&
	       s->record_count == H2D_RUN_RECORDS && s->state_bytes == sizeof(*s);
}

static int map_state(int fd, struct h2d_run_state **state)
{
	void *p = mmap(NULL, sizeof(**state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*state = p;
	return 0;
}

/* Where a file system is full, a store to a hole of a file is SIGBUS. */
static int reserve(int fd, size_t bytes)
{
	if (!fallocate(fd, 0, 0, (off_t)bytes))
		return 0;
	return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : -errno;
}

static bool sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK;
}

int h2d_run_state_create(const char *path, struct h2d_run_state **state)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, sizeof(**state)) ? -errno : reserve(fd, RESERVED_BYTES);
	if (!rc)
		rc = map_state(fd, state);
	close(fd);
	if (rc) {
		unlink(path);
		return rc;
	}
	h2d_run_state_init(*state, (uint64_t)sysconf(_SC_PAGESIZE));
	return 0;
}

int h2d_run_state_create_memory(int *out, struct h2d_run_state **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, not_executable = 8;
	int fd, rc = 0;

	/* Newer kernels may insist on the last flag, older ones do not know it. */
	fd = memfd_create("h2d-run-state", MFD_CLOEXEC | MFD_ALLOW_SEALING | not_executable);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("h2d-run-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, sizeof(**state)) || fcntl(fd, F_ADD_SEALS, seals))
		rc = -errno;
	if (!rc)
		rc = map_state(fd, state);
	if (rc) {
		close(fd);
		return rc;
	}
	h2d_run_state_init(*state, (uint64_t)sysconf(_SC_PAGESIZE));
	*out = fd;
	return 0;
}

int h2d_run_state_read(int fd, struct h2d_run_state **state)
{
	struct h2d_run_state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	off_t at = 0;
	ssize_t n = 1;

	if (s == MAP_FAILED)
		return -errno;
	/* What was never written stays a hole in the copy too. */
	while (n > 0 && (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < (off_t)sizeof(*s)) {
		size_t left = sizeof(*s) - (size_t)at;

		n = pread(fd, (char *)s + at, left < CHUNK_BYTES ? left : CHUNK_BYTES, at);
		at += n;
	}
	if (!valid(s)) {
		h2d_run_state_close(s);
		return -EINVAL;
	}
	*state = s;
	return 0;
}

int h2d_run_state_open_any(const char *paths, struct h2d_run_state **state)
{
	char path[PATH_MAX];
	int rc = -ENOENT;

	while (*paths && rc) {
		size_t n = strcspn(paths, ":");

		if (n && n < sizeof(path)) {
			memcpy(path, paths, n);
			path[n] = 0;
			rc = h2d_run_state_open(path, state);
		}
		paths += n + (paths[n] == ':');
	}
	return rc;
}

int h2d_run_state_open(const char *path, struct h2d_run_state **state)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct h2d_run_state *s = NULL;
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		rc = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size != (off_t)sizeof(*s))
		rc = -EINVAL;
	if (!rc && !sealed(fd))
		rc = reserve(fd, sizeof(*s));
	if (!rc)
		rc = map_state(fd, &s);
	close(fd);
	if (rc)
		return rc;
	if (!valid(s)) {
		h2d_run_state_close(s);
		return -EINVAL;
	}
	*state = s;
	return 0;
}

void h2d_run_state_close(struct h2d_run_state *state)
{
	if (state)
		munmap(state, sizeof(*state));
}

const struct h2d_run_record *h2d_run_state_next(const struct h2d_run_state *state,
						size_t *index)
{
	while (*index < H2D_RUN_RECORDS) {
		const struct h2d_run_record *r = &state->records[(*index)++];

		if (atomic_load_explicit(&r->ready, memory_order_acquire) == READABLE)
			return r;
	}
	return NULL;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 32;
}

static bool same(const struct h2d_run_record *r, uint64_t image, int32_t pid, uint64_t device,
		 uint64_t inode)
{
	return r->image == image && r->pid == pid && r->device == device && r->inode == inode;
}

struct h2d_run_record *h2d_run_state_claim(struct h2d_run_state *state, uint64_t image,
					   int32_t pid, uint64_t device, uint64_t inode,
					   bool *claimed)
{
	uint64_t at = mix(mix(mix(mix(0, image), (uint64_t)pid), device), inode);

	*claimed = false;
	for (size_t i = 0; i < H2D_RUN_RECORDS; i++) {
		struct h2d_run_record *r = &state->records[(at + i) % H2D_RUN_RECORDS];
		uint32_t ready = atomic_load_explicit(&r->ready, memory_order_acquire);

		/* One being claimed belongs to somebody else: see the header. */
		if (ready == READABLE && same(r, image, pid, device, inode))
			return r;
		if (ready != FREE ||
		    !atomic_compare_exchange_strong(&r->ready, &ready, CLAIMED))
			continue;
		r->image = image;
		r->pid = pid;
		r->device = device;
		r->inode = inode;
		r->order = atomic_fetch_add(&state->order, 1);
		*claimed = true;
		return r;
	}
	return NULL;
}

void h2d_run_state_publish(struct h2d_run_record *record)
{
	atomic_store_explicit(&record->ready, READABLE, memory_order_release);
}

void h2d_run_record_path(struct h2d_run_record *record, const char *path)
{
	size_t n = strlen(path);

	if (n >= sizeof(record->path)) {
		path += n - (sizeof(record->path) - 1);
		n = sizeof(record->path) - 1;
		atomic_fetch_or(&record->flags, H2D_RUN_PATH_CUT);
	}
	memcpy(record->path, path, n);
	record->path[n] = 0;
}

#define ADD(to, from, member) atomic_fetch_add(&(to)->member, atomic_load(&(from)->member))

static void add_record(struct h2d_run_record *to, const struct h2d_run_record *from)
{
	atomic_fetch_or(&to->flags, atomic_load(&from->flags));
	ADD(to, from, mapping_count);
	ADD(to, from, mapping_bytes);
	ADD(to, from, opened_bytes);
	ADD(to, from, fault_count);
	ADD(to, from, kernel_open_count);
	ADD(to, from, device_open_count);
	ADD(to, from, released_bytes);
	ADD(to, from, written_page_count);
	ADD(to, from, counted_bytes);
}

void h2d_run_state_add(struct h2d_run_state *to, const struct h2d_run_state *from)
{
	uint64_t base = ADD(to, from, image_count), order = ADD(to, from, order);
	const struct h2d_run_record *r;
	size_t index = 0;
	struct h2d_run_record *mine;
	bool claimed;

	ADD(to, from, candidate_count);
	ADD(to, from, added_syscall_count);
	ADD(to, from, lost_record_count);
	ADD(to, from, refused_handler_count);
	ADD(to, from, refused_limit_count);
	ADD(to, from, refused_memory_count);
	while ((r = h2d_run_state_next(from, &index))) {
		mine = h2d_run_state_claim(to, base + r->image, r->pid, r->device, r->inode,
					   &claimed);
		if (!mine) {
			atomic_fetch_add(&to->lost_record_count, 1);
			continue;
		}
		if (claimed) {
			mine->order = order + r->order;
			mine->format = r->format;
			memcpy(mine->command, r->command, sizeof(mine->command));
			memcpy(mine->path, r->path, sizeof(mine->path));
			mine->command[sizeof(mine->command) - 1] = 0;
			mine->path[sizeof(mine->path) - 1] = 0;
		}
		add_record(mine, r);
		if (claimed)
			h2d_run_state_publish(mine);
	}
}
