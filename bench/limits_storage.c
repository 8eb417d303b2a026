/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one file, from storage and from the page cache, as plainly as it can be done. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/limits.h"
#include "core/clock.h"
#include "device/hostmem.h"
#include "file/cache.h"

enum {
	DIRECT_ALIGN = 4096,
	BUFFERED_BLOCK = 1 << 20,
	PROBE_BYTES = 256 << 20, /* of one try at a block and a depth */
};

static void drop(const char *path)
{
	struct h2d_log silent = {0};
	struct h2d_file f;

	if (h2d_file_open(&f, path, &silent))
		return;
	h2d_cache_evict(&f, 0, f.id.size_bytes, &silent);
	h2d_file_close(&f);
}

/* Read whole blocks of the file once. @return ns, or a negative errno */
static int64_t read_direct(int fd, unsigned char *buffers, uint64_t bytes, uint64_t block,
			   unsigned depth)
{
	uint64_t next = 0, done = 0, begin;
	unsigned in_flight = 0;
	struct io_uring ring;
	int rc = io_uring_queue_init(depth, &ring, 0);

	if (rc)
		return rc;
	bytes -= bytes % block;
	begin = h2d_now_ns();
	while (done < bytes && !rc) {
		struct io_uring_cqe *cqe;

		while (in_flight < depth && next < bytes) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			/* Which buffer takes what does not matter: nobody looks. */
			io_uring_prep_read(sqe, fd, buffers + block * (next / block % depth),
					   (unsigned)block, next);
			next += block;
			in_flight++;
		}
		io_uring_submit(&ring);
		if (io_uring_wait_cqe(&ring, &cqe))
			continue;
		if ((uint32_t)cqe->res != block) /* whole blocks of a file: never short */
			rc = cqe->res < 0 ? cqe->res : -EIO;
		done += block;
		io_uring_cqe_seen(&ring, cqe);
		in_flight--;
	}
	/* What is still under way writes into the buffers. */
	while (in_flight) {
		struct io_uring_cqe *cqe;

		if (io_uring_wait_cqe(&ring, &cqe))
			continue;
		io_uring_cqe_seen(&ring, cqe);
		in_flight--;
	}
	io_uring_queue_exit(&ring);
	return rc ? rc : (int64_t)(h2d_now_ns() - begin);
}

void h2d_limit_direct(const struct h2d_limits_opts *o, const char *path, uint64_t bytes,
		      struct h2d_limit *l)
{
	static const uint64_t blocks[] = {512 << 10, 1 << 20, 4 << 20, 8 << 20};
	static const unsigned depths[] = {2, 4, 8, 16};
	const uint64_t room = 8 << 20 << 4, probe = bytes < PROBE_BYTES ? bytes : PROBE_BYTES;
	unsigned char *buffers = h2d_hostmem_alloc(room);
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
	uint64_t best = 0;
	int64_t ns = 0;

	if (fd < 0 || !buffers) {
		snprintf(l->why, sizeof(l->why), "O_DIRECT: %s",
			 strerrordesc_np(fd < 0 ? errno : ENOMEM));
		goto out;
	}
	memset(buffers, 1, room);
	drop(path); /* cached pages would have to be dropped by the reads */
	for (size_t b = 0; b < 4; b++)
		for (size_t d = 0; d < 4 && ns >= 0; d++) {
			struct h2d_limit_try *t = &l->tries[l->try_count];

			if (blocks[b] * depths[d] > probe)
				continue;
			ns = read_direct(fd, buffers, probe, blocks[b], depths[d]);
			if (ns <= 0)
				break;
			*t = (struct h2d_limit_try){
				blocks[b], depths[d],
				(uint64_t)((double)(probe - probe % blocks[b]) * 1e9 /
					   (double)ns)};
			l->try_count++;
			if (t->bytes_per_s > best) {
				best = t->bytes_per_s;
				l->block_bytes = blocks[b];
				l->depth_count = depths[d];
			}
		}
	l->size_bytes = best ? bytes - bytes % l->block_bytes : 0;
	for (unsigned i = 0; i < o->repeat && ns > 0 && best; i++) {
		ns = read_direct(fd, buffers, bytes, l->block_bytes, (unsigned)l->depth_count);
		if (ns > 0)
			h2d_limit_add(l, l->size_bytes, (uint64_t)ns);
	}
	if (!l->count)
		snprintf(l->why, sizeof(l->why), "O_DIRECT reads through io_uring: %s",
			 ns < 0 ? strerrordesc_np((int)-ns) : "the file is too small");
out:
	if (fd >= 0)
		close(fd);
	h2d_hostmem_free(buffers, room);
}

struct readers {
	int fd;
	uint64_t bytes;
	_Atomic uint64_t next;
	_Atomic int err;
};

struct reader {
	struct readers *all;
	unsigned char *buffer;
	pthread_t thread;
};

/* Blocks in file order, into a buffer of the thread's own. */
static void *read_blocks(void *arg)
{
	struct reader *r = arg;
	struct readers *all = r->all;

	for (;;) {
		uint64_t at = atomic_fetch_add(&all->next, BUFFERED_BLOCK), end;

		if (at >= all->bytes || atomic_load(&all->err))
			return NULL;
		end = all->bytes - at < BUFFERED_BLOCK ? all->bytes : at + BUFFERED_BLOCK;
		while (at < end) {
			const ssize_t n = pread(all->fd, r->buffer, end - at, (off_t)at);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0) {
				atomic_store(&all->err, n ? errno : EIO);
				return NULL;
			}
			at += (uint64_t)n;
		}
	}
}

/* @return ns, or a negative errno */
static int64_t read_once(struct reader *readers, unsigned count, int fd, uint64_t bytes)
{
	struct readers all = {.fd = fd, .bytes = bytes};
	const uint64_t begin = h2d_now_ns();
	unsigned started = 1;

	for (unsigned i = 0; i < count; i++)
		readers[i].all = &all;
	while (started < count &&
	       !pthread_create(&readers[started].thread, NULL, read_blocks, &readers[started]))
		started++;
	read_blocks(&readers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(readers[i].thread, NULL);
	return all.err ? -all.err : (int64_t)(h2d_now_ns() - begin);
}

void h2d_limit_buffered(const struct h2d_limits_opts *o, int fd, uint64_t bytes, bool warm,
			struct h2d_limit *l)
{
	const unsigned threads = warm ? o->threads : 1;
	struct reader *readers = calloc(threads, sizeof(*readers));
	const uint64_t room = (uint64_t)threads * BUFFERED_BLOCK;
	unsigned char *buffers = h2d_hostmem_alloc(room);
	struct h2d_log silent = {0};
	struct h2d_cache_state state;
	struct h2d_file f = {.fd = -1};
	int64_t ns = 0;

	l->thread_count = threads;
	l->block_bytes = BUFFERED_BLOCK;
	l->size_bytes = bytes;
	if (!readers || !buffers || h2d_file_open_fd(&f, fd, "the file", &silent)) {
		snprintf(l->why, sizeof(l->why), "out of memory");
		goto out;
	}
	memset(buffers, 1, room);
	for (unsigned i = 0; i < threads; i++)
		readers[i].buffer = buffers + (uint64_t)i * BUFFERED_BLOCK;
	/* One round in vain makes it warm. */
	for (unsigned i = 0; i < o->repeat + warm && ns >= 0; i++) {
		if (!warm)
			h2d_cache_evict(&f, 0, bytes, &silent);
		h2d_cache_query(&f, 0, bytes, &state);
		if ((i || !warm) && state.method != H2D_CACHE_UNKNOWN &&
		    (warm ? state.cached_bytes < bytes / 100 * 99
			  : state.cached_bytes > bytes / 50)) {
			snprintf(l->why, sizeof(l->why), "the page cache could not be made %s",
				 warm ? "warm" : "cold");
			break;
		}
		ns = read_once(readers, threads, fd, bytes);
		if (ns > 0 && (i || !warm))
			h2d_limit_add(l, bytes, (uint64_t)ns);
	}
	if (ns < 0)
		snprintf(l->why, sizeof(l->why), "pread: %s", strerrordesc_np((int)-ns));
out:
	if (f.fd >= 0)
		h2d_file_close(&f);
	h2d_hostmem_free(buffers, room);
	free(readers);
}
