/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file faults.h
 * Loads of a small checkpoint while something fails, and the question whether everything was
 * released afterwards and the next load works.
 *
 * A fault is armed for the n-th call of one kind. Tests walk n upward until a load ends without
 * having met it, so that every single call has failed once.
 */
#ifndef H2D_FAULTS_H
#define H2D_FAULTS_H

#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "core/mem.h"
#include "device/engine_thread.h"
#include "file/io.h"
#include "load_fixture.h"
#include "transfer/tuning.h"

enum fault_call {
	FAULT_NONE,
	FAULT_READ, /* pread and preadv */
	FAULT_OPEN, /* with O_DIRECT */
	FAULT_FSTAT,
	FAULT_MMAP,
	FAULT_CACHESTAT,
	FAULT_URING_INIT,
	FAULT_URING_SUBMIT,
	FAULT_URING_WAIT,     /* the call itself */
	FAULT_URING_COMPLETE, /* the completion's result */
	FAULT_MEMORY,	      /* any allocation */
	FAULT_THREAD,
};

enum {
	FAULT_SHORT = -1, /* give a part of what was asked for */
	FAULT_EOF = -2,	  /* give nothing */
};

static struct {
	enum fault_call call;
	uint64_t first, count; /* calls concerned, from 1 */
	int error;	       /* errno, or FAULT_SHORT or FAULT_EOF */
	_Atomic uint64_t seen;
	_Atomic uint64_t hit;
	bool direct_only, no_uring; /* reads of O_DIRECT descriptors; no ring at all */
	_Atomic uint64_t reads;	    /* of any kind, whatever is armed */
} fault;

static inline void fault_arm(enum fault_call call, uint64_t first, uint64_t count, int error)
{
	fault.call = call;
	fault.first = first;
	fault.count = count;
	fault.error = error;
	atomic_store(&fault.seen, 0);
	atomic_store(&fault.hit, 0);
}

static inline bool fault_now(enum fault_call call)
{
	uint64_t n;

	if (fault.call != call)
		return false;
	n = atomic_fetch_add(&fault.seen, 1) + 1;
	if (n < fault.first || n - fault.first >= fault.count)
		return false;
	atomic_fetch_add(&fault.hit, 1);
	return true;
}

static inline bool fault_errno(enum fault_call call)
{
	if (!fault_now(call))
		return false;
	errno = fault.error;
	return true;
}

static inline bool fault_read(int fd)
{
	atomic_fetch_add(&fault.reads, 1);
	if (fault.direct_only && !(fcntl(fd, F_GETFL) & O_DIRECT))
		return false;
	return fault_now(FAULT_READ);
}

/* A part that is neither everything nor a round number. */
static inline size_t fault_part(size_t bytes)
{
	return bytes > 2 ? bytes / 3 : 1;
}

static inline ssize_t fault_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	if (!fault_read(fd))
		return pread(fd, buf, bytes, offset);
	if (fault.error == FAULT_EOF)
		return 0;
	if (fault.error == FAULT_SHORT) {
		size_t part = fcntl(fd, F_GETFL) & O_DIRECT ? 4096 : fault_part(bytes);

		return pread(fd, buf, part < bytes ? part : bytes, offset);
	}
	errno = fault.error;
	return -1;
}

static inline ssize_t fault_preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	if (!fault_read(fd))
		return preadv(fd, iov, count, offset);
	if (fault.error == FAULT_EOF)
		return 0;
	if (fault.error == FAULT_SHORT)
		return pread(fd, iov->iov_base, fault_part(iov->iov_len), offset);
	errno = fault.error;
	return -1;
}

static inline int fault_open(const char *path, int flags)
{
	return (flags & O_DIRECT) && fault_errno(FAULT_OPEN) ? -1 : open(path, flags);
}

static inline int fault_fstat(int fd, struct stat *st)
{
	return fault_errno(FAULT_FSTAT) ? -1 : fstat(fd, st);
}

static inline void *fault_mmap(void *addr, size_t bytes, int prot, int flags, int fd,
			       off_t offset)
{
	return fault_errno(FAULT_MMAP) ? MAP_FAILED
				       : mmap(addr, bytes, prot, flags, fd, offset);
}

static inline int fault_cachestat(int fd, uint64_t offset, uint64_t bytes,
				  struct h2d_cachestat *out)
{
	return fault_errno(FAULT_CACHESTAT) ? -1
					    : h2d_io_system.cachestat(fd, offset, bytes, out);
}

static inline int fault_uring_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	if (fault.no_uring)
		return -EPERM;
	return fault_now(FAULT_URING_INIT) ? -fault.error
					   : h2d_io_system.uring_init(entries, ring, flags);
}

static inline int fault_uring_submit(struct io_uring *ring)
{
	return fault_now(FAULT_URING_SUBMIT) ? -fault.error : io_uring_submit(ring);
}

static inline int fault_uring_wait(struct io_uring *ring, struct io_uring_cqe **cqe)
{
	int rc;

	if (fault_now(FAULT_URING_WAIT))
		return -fault.error;
	rc = h2d_io_system.uring_wait(ring, cqe);
	if (rc)
		return rc;
	atomic_fetch_add(&fault.reads, 1);
	if (!fault_now(FAULT_URING_COMPLETE))
		return 0;
	if (fault.error == FAULT_SHORT)
		(*cqe)->res = (*cqe)->res > 8192 ? 4096 : 1;
	else if (fault.error == FAULT_EOF)
		(*cqe)->res = 0;
	else
		(*cqe)->res = -fault.error;
	return 0;
}

static inline void *fault_malloc(size_t bytes)
{
	return fault_errno(FAULT_MEMORY) ? NULL : malloc(bytes);
}

static inline void *fault_calloc(size_t count, size_t size)
{
	return fault_errno(FAULT_MEMORY) ? NULL : calloc(count, size);
}

static inline void *fault_realloc(void *p, size_t bytes)
{
	return fault_errno(FAULT_MEMORY) ? NULL : realloc(p, bytes);
}

static inline void *fault_map(size_t bytes, int prot)
{
	return fault_errno(FAULT_MEMORY) ? NULL : h2d_mem_libc.map(bytes, prot);
}

static inline int fault_thread(pthread_t *t, void *(*fn)(void *), void *arg)
{
	return fault_now(FAULT_THREAD) ? fault.error : h2d_mem_libc.thread_create(t, fn, arg);
}

static inline void faults_install(void)
{
	static struct h2d_io_ops io;
	static struct h2d_mem_ops mem;
	static struct h2d_tuning tuning;

	io = h2d_io_system;
	io.pread = fault_pread;
	io.preadv = fault_preadv;
	io.open = fault_open;
	io.fstat = fault_fstat;
	io.mmap = fault_mmap;
	io.cachestat = fault_cachestat;
	io.uring_init = fault_uring_init;
	io.uring_submit = fault_uring_submit;
	io.uring_wait = fault_uring_wait;
	h2d_io = &io;
	mem = h2d_mem_libc;
	mem.malloc = fault_malloc;
	mem.calloc = fault_calloc;
	mem.realloc = fault_realloc;
	mem.map = fault_map;
	mem.thread_create = fault_thread;
	h2d_mem = &mem;
	tuning = h2d_tuning_default;
	tuning.progress_interval_ns = 0;
	tuning.direct_block_bytes = 16384;
	tuning.pageable_bytes_per_s = UINT64_C(1) << 40;
	h2d_tuning = &tuning;
}

/* ---------------------------------------------------------------- what is loaded */

enum { FAULT_FILE_BYTES = 700001, FAULT_CHUNK = 65536 };

static const struct extent fault_extents[] = {
	{1000, 3},	  {1003, 0},	{1003, 5000},	  {6003, 100},
	{6103, 250000},	  {260000, 1},	{260001, 77},	  {260078, 4000},
	{290000, 100000}, {390000, 12}, {400000, 123456}, {523456, 176545},
};

static const char *const fault_paths[] = {"pinned", "pread",  "mmap", "mmap-rw", "clone",
					  "eager",  "direct", "auto", NULL};

struct way { /* a path, a device, and whether staging is used where it need not be */
	const char *path, *device;
	bool staging;
};

/* Every way in which bytes travel; ends when `i` is past the last. */
static inline bool fault_way(unsigned i, struct way *w)
{
	static const char *const devices[] = {"host", "null", "host"};

	if (i >= 8 * 3)
		return false;
	*w = (struct way){fault_paths[i / 3], devices[i % 3], i % 3 != 0};
	return true;
}

static inline struct h2d_load_opts fault_opts(const struct way *w)
{
	struct h2d_load_opts o = H2D_OPTS(o);

	o.path = w->path;
	o.chunk_bytes = FAULT_CHUNK;
	o.threads = 2;
	o.staging_bytes = w->staging ? 4 * (FAULT_CHUNK + 16384) : 0;
	return o;
}

static inline struct h2d_device *fault_device(struct fixture *f, const char *spec,
					      uint64_t timeout_ns)
{
	struct h2d_device_opts o = H2D_OPTS(o);
	struct h2d_device *dev = NULL;

	o.log = fixture_log;
	o.log_user = f;
	o.copy_timeout_ns = timeout_ns;
	CHECK_EQ(h2d_device_open(spec, &o, &dev), 0);
	return dev;
}

static inline bool fault_correct(const struct fixture *f, const struct h2d_weights *w)
{
	for (uint64_t i = 0; i < h2d_weights_count(w); i++) {
		uint64_t index, bytes;
		void *data;

		h2d_weights_data(w, i, &index, &data, &bytes);
		if (fixture_differs(data, bytes, f->ckpt->cat.tensors[index].offset_bytes) !=
		    UINT64_MAX)
			return false;
	}
	return true;
}

/* Descriptors that the process has open. */
static inline int fault_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Mappings of the fixture's file. */
static inline int fault_mappings(const struct fixture *f)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, strrchr(f->path, '/')) != NULL;
	if (maps)
		fclose(maps);
	return n;
}

/* Nothing of a failed load is left. */
static inline void fault_released(struct fixture *f, struct h2d_device *dev, int descriptors)
{
	struct h2d_soft_counts c;

	h2d_device_host_trim(dev);
	h2d_soft_count(dev->priv, &c);
	CHECK_EQ(c.alloc_count, 0);
	CHECK_EQ(c.host_alloc_count, 0);
	CHECK_EQ(c.stream_count, 0);
	CHECK_EQ(c.event_count, 0);
	CHECK_EQ(fault_descriptors(), descriptors);
	CHECK_EQ(fault_mappings(f), 0);
}

/**
 * Load once under the armed fault.
 * @return the status; a success is checked for right bytes. The fault is disarmed afterwards.
 */
static inline int fault_load(struct fixture *f, struct h2d_device *dev,
			     const struct h2d_load_opts *o, bool readable)
{
	struct h2d_weights *w = (struct h2d_weights *)(uintptr_t)1;
	int descriptors = fault_descriptors(), rc;

	f->error_count = 0;
	rc = h2d_load(f->ckpt, dev, o, &w);
	fault.call = FAULT_NONE;
	if (rc) {
		CHECK(w == NULL);
		/* One line says why. Cancellation is no error. */
		CHECK_EQ(f->error_count > 0, rc != H2D_E_CANCELLED);
	} else {
		if (readable)
			CHECK(fault_correct(f, w));
		h2d_weights_free(w);
	}
	if (!atomic_load(&dev->lost))
		fault_released(f, dev, descriptors);
	return rc;
}

static inline bool way_readable(const struct way *w)
{
	return !strcmp(w->device, "host");
}

#endif
