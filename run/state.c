/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/state.h"

enum { FREE, CLAIMED, READABLE };

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");

void h2d_run_state_init(struct h2d_run_state *state, uint64_t page_bytes)
{
	state->version = H2D_RUN_STATE_VERSION;
	state->record_count = H2D_RUN_RECORDS;
	state->state_bytes = sizeof(*state);
	state->page_bytes = page_bytes;
	state->magic = H2D_RUN_STATE_MAGIC;
}

static int map_state(int fd, struct h2d_run_state **state)
{
	void *p = mmap(NULL, sizeof(**state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*state = p;
	return 0;
}

int h2d_run_state_create(const char *path, struct h2d_run_state **state)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, sizeof(**state)) ? -errno : map_state(fd, state);
	close(fd);
	if (rc) {
		unlink(path);
		return rc;
	}
	h2d_run_state_init(*state, (uint64_t)sysconf(_SC_PAGESIZE));
	return 0;
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
	if (!rc)
		rc = map_state(fd, &s);
	close(fd);
	if (rc)
		return rc;
	if (s->magic != H2D_RUN_STATE_MAGIC || s->version != H2D_RUN_STATE_VERSION ||
	    s->record_count != H2D_RUN_RECORDS || s->state_bytes != sizeof(*s)) {
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
