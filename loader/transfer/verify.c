/* SPDX-License-Identifier: Apache-2.0 */
/* Delivered bytes against a read of the file that shares nothing with the load. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/checked.h"
#include "core/mem.h"
#include "core/opts.h"
#include "transfer/weights.h"

enum { COMPARE_BYTES = 8 << 20 };

struct verifier {
	struct h2d_weights *w;
	struct h2d_load_opts opts;
	struct h2d_log log;
	struct h2d_verify_result result;
	struct h2d_file file; /* opened afresh */
	uint32_t file_index;  /* UINT32_MAX: none */
	unsigned char *buf;
	XXH3_state_t *hash;
	uint64_t total_bytes;
};

/* Done with a file. `rc`, unless the file changed while it was read again: then what was found
 * says nothing of the load, be it equal or not. */
static int close_fresh(struct verifier *v, int rc)
{
	int changed = 0;

	if (v->file_index == UINT32_MAX)
		return rc;
	if (!rc || rc == H2D_E_MISMATCH)
		changed = h2d_file_check_unchanged(&v->file, &v->log);
	h2d_file_close(&v->file);
	v->file_index = UINT32_MAX;
	return changed ? changed : rc;
}

/* A description of its own, proven to be the file that was loaded. */
static int open_fresh(struct verifier *v, uint32_t index)
{
	const struct h2d_file *was = &v->w->origins[index].file;
	int rc;

	if (v->file_index == index)
		return 0;
	rc = close_fresh(v, 0);
	if (rc)
		return rc;
	rc = h2d_origin_reopen(was, &v->file, &v->log);
	if (rc)
		return rc;
	v->file_index = index;
	return h2d_file_check_unchanged(&v->file, &v->log);
}

/* Bytes [offset, offset+bytes) of a target, from the file. */
static int read_again(struct verifier *v, const struct h2d_plan_target *t, uint64_t offset,
		      uint64_t bytes)
{
	const struct h2d_slice *s;
	uint64_t done = 0;
	int rc = 0;

	if (!t->slice)
		return h2d_file_read(&v->file, v->buf, bytes, t->file_offset + offset, &v->log);
	s = &v->w->slices[t->slice - 1];
	while (!rc && done < bytes) {
		uint64_t row = (offset + done) / s->row_bytes;
		uint64_t in = (offset + done) % s->row_bytes;
		uint64_t n =
			s->row_bytes - in < bytes - done ? s->row_bytes - in : bytes - done;

		rc = h2d_file_read(&v->file, v->buf + done, n,
				   t->file_offset + row * s->src_pitch + in, &v->log);
		done += n;
	}
	return rc;
}

static int compare(struct verifier *v, uint64_t i, uint64_t offset, const unsigned char *got,
		   uint64_t bytes)
{
	const struct h2d_plan_target *t = &v->w->targets[i];
	uint64_t at = 0;
	int rc;

	rc = read_again(v, t, offset, bytes);
	if (rc)
		return rc;
	XXH3_128bits_update(v->hash, v->buf, bytes);
	v->result.compared_bytes += bytes;
	if (!memcmp(v->buf, got, bytes))
		return 0;
	while (v->buf[at] == got[at])
		at++;
	v->result.mismatch_tensor = t->tensor;
	v->result.mismatch_offset = offset + at;
	return h2d_fail(&v->log, H2D_E_MISMATCH,
			"%s: tensor #%llu differs from the file at its byte %llu (offset "
			"%llu): it was not delivered right, or the file was written through a "
			"mapping meanwhile, which need not move its times",
			v->w->origins[t->file].file.path, (unsigned long long)t->tensor,
			(unsigned long long)(offset + at),
			(unsigned long long)(t->file_offset + offset + at));
}

static int verify_tensor(struct verifier *v, uint64_t i)
{
	const struct h2d_plan_target *t = &v->w->targets[i];
	uint64_t offset = 0;
	int rc = t->bytes ? open_fresh(v, t->file) : 0;

	while (!rc && offset < t->bytes) {
		uint64_t n = t->bytes - offset;
		const unsigned char *got;

		if (n > COMPARE_BYTES)
			n = COMPARE_BYTES;
		rc = h2d_weights_fetch(v->w, i, offset, &n, &got, &v->log);
		if (!rc)
			rc = compare(v, i, offset, got, n);
		offset += n;
		if (!rc && v->opts.progress &&
		    v->opts.progress(v->opts.progress_user, v->result.compared_bytes,
				     v->total_bytes))
			rc = h2d_fail(&v->log, H2D_E_CANCELLED, "cancelled by the caller");
	}
	if (!rc)
		v->result.tensor_count++;
	return rc;
}

int h2d_verify(const struct h2d_weights *weights, const struct h2d_load_opts *opts,
	       struct h2d_verify_result *result)
{
	struct verifier v = {.file_index = UINT32_MAX};
	XXH128_hash_t digest;
	int rc = 0;

	if (!weights || !result || h2d_opts_read(&v.opts, sizeof(v.opts), opts))
		return H2D_E_INVALID;
	v.w = (struct h2d_weights *)(uintptr_t)weights; /* as h2d_weights_read() */
	v.log = v.opts.log ? (struct h2d_log){v.opts.log, v.opts.log_user} : v.w->log;
	v.result.size = sizeof(v.result);
	v.result.algorithm = "memcmp+xxh3-128";
	v.result.mismatch_tensor = UINT64_MAX;
	if (!v.w->view && !(v.w->dev->caps & H2D_DEV_READABLE))
		return h2d_fail(&v.log, H2D_E_UNSUPPORTED,
				"device %s: what it was given cannot be read back, so it "
				"cannot be verified",
				v.w->dev->facts.name);
	for (uint64_t i = 0; i < v.w->count; i++)
		v.total_bytes += v.w->targets[i].bytes;
	v.buf = h2d_mem->malloc(COMPARE_BYTES);
	v.hash = XXH3_createState();
	if (!v.buf || !v.hash) {
		rc = h2d_fail(&v.log, H2D_E_NOMEM, "verify: out of memory");
		goto out;
	}
	XXH3_128bits_reset(v.hash);
	pthread_mutex_lock(&v.w->readback.lock);
	for (uint64_t i = 0; !rc && i < v.w->count; i++)
		rc = verify_tensor(&v, i);
	rc = close_fresh(&v, rc);
	pthread_mutex_unlock(&v.w->readback.lock);
	if (!rc || rc == H2D_E_MISMATCH) {
		digest = XXH3_128bits_digest(v.hash);
		v.result.hash_low = digest.low64;
		v.result.hash_high = digest.high64;
	}
	if (h2d_info_write(result, &v.result, sizeof(v.result)))
		rc = H2D_E_INVALID;
out:
	XXH3_freeState(v.hash);
	free(v.buf);
	return rc;
}
