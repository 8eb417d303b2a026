/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/checkpoint.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <xxhash.h>

#include "core/envelope.h"
#include "core/mem.h"
#include "file/file.h"

enum { DIGEST_BUFFER_BYTES = 4 << 20 };

static void fold(XXH3_state_t *state, const void *data, size_t bytes)
{
	XXH3_64bits_update(state, &bytes, sizeof(bytes));
	XXH3_64bits_update(state, data, bytes);
}

static int fingerprint(struct h2d_bench_checkpoint *c, const struct h2d_log *log)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	XXH3_state_t *state = XXH3_createState();
	int rc = 0;

	if (!state)
		return h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", c->path);
	XXH3_64bits_reset(state);
	for (uint64_t i = 0; i < c->tensor_count && !rc; i++) {
		rc = h2d_checkpoint_tensor(c->handle, i, &t);
		if (rc)
			break;
		fold(state, t.name, t.name_bytes);
		fold(state, t.dtype, strlen(t.dtype));
		fold(state, t.shape, t.rank * sizeof(*t.shape));
		fold(state, &t.file, sizeof(t.file));
		fold(state, &t.offset_bytes, sizeof(t.offset_bytes));
		fold(state, &t.size_bytes, sizeof(t.size_bytes));
	}
	snprintf(c->fingerprint, sizeof(c->fingerprint), "%016llx",
		 (unsigned long long)XXH3_64bits_digest(state));
	XXH3_freeState(state);
	return rc;
}

/* Many pieces make a cold read slower than the disk; FIEMAP tells (fs/ioctl.c). */
static void count_extents(struct h2d_bench_checkpoint *c, const struct h2d_log *log)
{
	for (uint32_t i = 0; i < c->file_count; i++) {
		struct fiemap map = {.fm_length = ~0ull};
		struct h2d_file f;

		if (h2d_file_open(&f, h2d_checkpoint_file(c->handle, i), log))
			continue;
		if (ioctl(f.fd, FS_IOC_FIEMAP, &map))
			snprintf(c->extent_why, sizeof(c->extent_why), "FIEMAP: %s",
				 strerrordesc_np(errno));
		c->extent_count += map.fm_mapped_extents;
		h2d_file_close(&f);
	}
}

int h2d_bench_checkpoint_open(struct h2d_bench_checkpoint *c, const char *name,
			      const char *path, const struct h2d_log *log)
{
	struct h2d_open_opts opts = H2D_OPTS(opts);
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_log silent = {0};
	int rc;

	memset(c, 0, sizeof(*c));
	c->name = strdup(name);
	c->path = realpath(path, NULL);
	if (!c->path)
		return h2d_fail_errno(log, errno, "checkpoint %s: %s", name, path);
	if (!c->name)
		return h2d_fail(log, H2D_E_NOMEM, "checkpoint %s: out of memory", name);
	opts.log = log->fn;
	opts.log_user = log->user;
	rc = h2d_checkpoint_open(c->path, &opts, &c->handle);
	if (!rc)
		rc = h2d_checkpoint_info(c->handle, &info);
	if (rc)
		return rc;
	c->format = info.format;
	c->file_count = info.file_count;
	c->tensor_count = info.tensor_count;
	c->size_bytes = info.size_bytes;
	count_extents(c, &silent);
	return fingerprint(c, log);
}

void h2d_bench_checkpoint_close(struct h2d_bench_checkpoint *c)
{
	h2d_checkpoint_close(c->handle);
	free(c->name);
	free(c->path);
	memset(c, 0, sizeof(*c));
}

/* One tensor after the other; the open file changes only where the file does. */
static int digest_all(struct h2d_bench_checkpoint *c, XXH3_state_t *state, unsigned char *buf,
		      int (*stop)(void *user), void *user, const struct h2d_log *log)
{
	struct h2d_tensor_info t = H2D_OPTS(t);
	struct h2d_file f = {.fd = -1};
	uint32_t open_file = UINT32_MAX;
	int rc = 0;

	for (uint64_t i = 0; i < c->tensor_count && !rc; i++) {
		rc = h2d_checkpoint_tensor(c->handle, i, &t);
		if (!rc && t.file != open_file) {
			if (open_file != UINT32_MAX)
				h2d_file_close(&f);
			open_file = UINT32_MAX;
			rc = h2d_file_open(&f, h2d_checkpoint_file(c->handle, t.file), log);
			open_file = rc ? UINT32_MAX : t.file;
		}
		for (uint64_t at = 0; at < t.size_bytes && !rc; at += DIGEST_BUFFER_BYTES) {
			const uint64_t left = t.size_bytes - at;
			const uint64_t n =
				left < DIGEST_BUFFER_BYTES ? left : DIGEST_BUFFER_BYTES;

			rc = stop && stop(user)
				     ? H2D_E_CANCELLED
				     : h2d_file_read(&f, buf, n, t.offset_bytes + at, log);
			if (!rc)
				XXH3_128bits_update(state, buf, n);
		}
	}
	if (open_file != UINT32_MAX)
		h2d_file_close(&f);
	return rc;
}

int h2d_bench_checkpoint_digest(struct h2d_bench_checkpoint *c, int (*stop)(void *user),
				void *user, const struct h2d_log *log)
{
	XXH3_state_t *state = XXH3_createState();
	unsigned char *buf = h2d_mem->malloc(DIGEST_BUFFER_BYTES);
	XXH128_hash_t hash;
	int rc;

	if (!state || !buf) {
		rc = h2d_fail(log, H2D_E_NOMEM, "%s: out of memory", c->path);
		goto out;
	}
	XXH3_128bits_reset(state);
	rc = digest_all(c, state, buf, stop, user, log);
	if (!rc) {
		hash = XXH3_128bits_digest(state);
		snprintf(c->digest, sizeof(c->digest), "%016llx%016llx",
			 (unsigned long long)hash.high64, (unsigned long long)hash.low64);
	}
out:
	XXH3_freeState(state);
	free(buf);
	return rc;
}

void h2d_bench_checkpoint_write(struct h2d_json *j, const struct h2d_bench_checkpoint *c,
				bool redact)
{
	h2d_json_object_begin(j, NULL);
	h2d_json_string(j, "name", c->name);
	h2d_json_string(j, "path", h2d_redacted_path(c->path, redact));
	h2d_json_string(j, "format", c->format);
	h2d_json_u64(j, "file_count", c->file_count);
	h2d_json_u64(j, "tensor_count", c->tensor_count);
	h2d_json_u64(j, "size_bytes", c->size_bytes);
	h2d_json_string(j, "fingerprint", c->fingerprint);
	if (c->extent_why[0]) {
		h2d_json_null(j, "extent_count");
		h2d_json_string(j, "extent_count_why", c->extent_why);
	} else {
		h2d_json_u64(j, "extent_count", c->extent_count);
	}
	h2d_json_object_end(j);
}
