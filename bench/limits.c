/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/stats.h"
#include "core/mem.h"

void h2d_limit_add(struct h2d_limit *l, uint64_t bytes, uint64_t ns)
{
	if (l->count < H2D_LIMIT_SAMPLES && ns)
		l->samples[l->count++] = (uint64_t)((double)bytes * 1e9 / (double)ns);
}

static int ascending(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

uint64_t h2d_limit_median(const struct h2d_limit *l)
{
	uint64_t sorted[H2D_LIMIT_SAMPLES];

	if (!l->count)
		return 0;
	memcpy(sorted, l->samples, sizeof(sorted));
	qsort(sorted, l->count, sizeof(*sorted), ascending);
	return sorted[(l->count - 1) / 2];
}

/* A file of incompressible bytes, on disk. */
static int make_file(const struct h2d_limits_opts *o, char *path, size_t cap)
{
	enum { BLOCK = 1 << 20 };
	struct h2d_random r = {(uint64_t)getpid()};
	uint64_t *block = h2d_mem->malloc(BLOCK);
	int fd, rc = 0;

	snprintf(path, cap, "%s/h2d-limits-XXXXXX", o->dir);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		rc = h2d_fail_errno(&o->log, errno, "%s", path);
		path[0] = 0;
	}
	for (uint64_t at = 0; !rc && at < o->size_bytes; at += BLOCK) {
		if (!block)
			rc = h2d_fail(&o->log, H2D_E_NOMEM, "out of memory");
		for (size_t i = 0; !rc && i < BLOCK / sizeof(*block); i++)
			block[i] = h2d_random_next(&r);
		if (!rc && pwrite(fd, block, BLOCK, (off_t)at) != BLOCK)
			rc = h2d_fail_errno(&o->log, errno ? errno : ENOSPC, "%s", path);
	}
	if (!rc && fsync(fd) && errno != EINVAL)
		rc = h2d_fail_errno(&o->log, errno, "%s", path);
	if (fd >= 0)
		close(fd);
	free(block);
	return rc;
}

static const struct {
	const char *name, *what;
} names[H2D_LIMIT_COUNT] = {
	{"storage_direct", "O_DIRECT through io_uring at the best block and depth"},
	{"storage_buffered_cold", "one thread of pread, nothing cached before"},
	{"page_cache_read", "threads of pread from the page cache into buffers used again"},
	{"memory_copy", "memcpy by one thread, larger than the caches"},
	{"memory_copy_threads", "memcpy by all threads"},
	{"device_link_pinned", "asynchronous copies from pinned memory"},
	{"device_link_pageable", "copies from ordinary memory"},
};

static void measure(const struct h2d_limits_opts *o, const char *path, int fd, uint64_t bytes,
		    size_t which, struct h2d_limit *l)
{
	switch (which) {
	case 0:
		h2d_limit_direct(o, path, bytes, l);
		break;
	case 1:
	case 2:
		h2d_limit_buffered(o, fd, bytes, which == 2, l);
		break;
	case 3:
		h2d_limit_memory(o, 1, l);
		break;
	case 4:
		h2d_limit_memory(o, o->threads, l);
		break;
	default:
		h2d_limit_link(o, which == 5, l);
	}
}

int h2d_limits_measure(const struct h2d_limits_opts *o, struct h2d_limits *out)
{
	char path[4096] = "";
	uint64_t bytes = o->size_bytes;
	struct stat st;
	int fd = -1, rc = o->file ? 0 : make_file(o, path, sizeof(path));

	memset(out, 0, sizeof(*out));
	if (!rc) {
		fd = open(o->file ? o->file : path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0 || fstat(fd, &st))
			rc = h2d_fail_errno(&o->log, errno, "%s", o->file);
		else if (!S_ISREG(st.st_mode) || st.st_size < 1 << 20)
			rc = h2d_fail(&o->log, H2D_E_FORMAT,
				      "%s: not a regular file of at least 1 MiB", o->file);
		else if ((uint64_t)st.st_size < bytes)
			bytes = (uint64_t)st.st_size;
	}
	for (size_t i = 0; i < H2D_LIMIT_COUNT && !rc; i++) {
		struct h2d_limit *l = &out->limit[out->count++];

		l->name = names[i].name;
		l->what = names[i].what;
		measure(o, o->file ? o->file : path, fd, bytes, i, l);
		if (o->progress && o->progress(o->user, i + 1, H2D_LIMIT_COUNT))
			rc = H2D_E_CANCELLED;
	}
	if (fd >= 0)
		close(fd);
	if (path[0])
		unlink(path);
	return rc;
}

static void write_null(struct h2d_json *j, const char *key, const char *why)
{
	char name[64];

	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, why);
}

static void write_limit(struct h2d_json *j, const struct h2d_limit *l)
{
	static const char *const keys[] = {"bytes_per_s", "min_bytes_per_s", "max_bytes_per_s"};
	uint64_t values[3] = {h2d_limit_median(l), UINT64_MAX, 0};

	for (size_t i = 0; i < l->count; i++) {
		values[1] = l->samples[i] < values[1] ? l->samples[i] : values[1];
		values[2] = l->samples[i] > values[2] ? l->samples[i] : values[2];
	}
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", l->name);
	h2d_json_string(j, "what", l->what);
	for (int i = 0; i < 3; i++)
		if (l->count)
			h2d_json_u64(j, keys[i], values[i]);
		else
			write_null(j, keys[i], l->why);
	h2d_json_array_begin(j, "samples_bytes_per_s");
	for (size_t i = 0; i < l->count; i++)
		h2d_json_u64(j, NULL, l->samples[i]);
	h2d_json_array_end(j);
	h2d_json_object_begin(j, "settings");
	if (l->block_bytes)
		h2d_json_u64(j, "block_bytes", l->block_bytes);
	if (l->depth_count)
		h2d_json_u64(j, "depth_count", l->depth_count);
	if (l->thread_count)
		h2d_json_u64(j, "thread_count", l->thread_count);
	if (l->size_bytes)
		h2d_json_u64(j, "size_bytes", l->size_bytes);
	if (l->device[0])
		h2d_json_string(j, "device", l->device);
	h2d_json_object_end(j);
	if (l->try_count) {
		h2d_json_array_begin(j, "tried");
		for (size_t i = 0; i < l->try_count; i++) {
			h2d_json_object_begin(j, NULL);
			h2d_json_u64(j, "block_bytes", l->tries[i].block_bytes);
			h2d_json_u64(j, "depth_count", l->tries[i].depth_count);
			h2d_json_u64(j, "bytes_per_s", l->tries[i].bytes_per_s);
			h2d_json_object_end(j);
		}
		h2d_json_array_end(j);
	}
	h2d_json_object_end(j);
}

void h2d_limits_write(struct h2d_json *j, const struct h2d_limits *l)
{
	h2d_json_array_begin(j, "limits");
	for (size_t i = 0; i < l->count; i++)
		write_limit(j, &l->limit[i]);
	h2d_json_array_end(j);
}
