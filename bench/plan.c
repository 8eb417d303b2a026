/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/clock.h"
#include "core/mem.h"
#include "file/cache.h"

enum { PROBE_BYTES = 64 << 20, START_NS = 50000000 };

static uint64_t rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* Read once from storage and once from memory. */
static void probe(const struct h2d_bench_checkpoint *c, struct h2d_bench_plan *p)
{
	struct h2d_log silent = {0};
	struct h2d_file f;
	uint64_t bytes, begin;
	unsigned char *buf;

	if (h2d_file_open(&f, h2d_checkpoint_file(c->handle, 0), &silent))
		return;
	bytes = f.id.size_bytes < PROBE_BYTES ? f.id.size_bytes : PROBE_BYTES;
	buf = h2d_mem->malloc(bytes + 1);
	if (buf && bytes && !h2d_cache_evict(&f, 0, bytes, &silent)) {
		memset(buf, 1, bytes);
		begin = h2d_now_ns();
		if (!h2d_file_read(&f, buf, bytes, 0, &silent))
			p->storage_bytes_per_s = rate(bytes, h2d_now_ns() - begin);
		begin = h2d_now_ns();
		if (!h2d_file_read(&f, buf, bytes, 0, &silent))
			p->memory_bytes_per_s = rate(bytes, h2d_now_ns() - begin);
	}
	free(buf);
	h2d_file_close(&f);
}

static double seconds(uint64_t bytes, uint64_t bytes_per_s)
{
	return bytes_per_s ? (double)bytes / (double)bytes_per_s : 0;
}

void h2d_bench_plan_make(const struct h2d_bench_matrix *m, struct h2d_bench_plan *out)
{
	double each, all = 0;

	memset(out, 0, sizeof(*out));
	probe(&m->checkpoints[0], out);
	for (size_t i = 0; i < m->cell_count; i++) {
		const struct h2d_bench_cell *cell = &m->cells[i];
		const uint64_t size = cell->checkpoint->size_bytes;
		const bool cold = cell->cache == H2D_BENCH_COLD;
		uint64_t bytes, moved;

		if (cell->status)
			continue;
		out->cell_count++;
		out->sample_count += m->block_count;
		each = seconds(size, cold ? out->storage_bytes_per_s : out->memory_bytes_per_s);
		each += m->verify ? seconds(2 * size, out->memory_bytes_per_s) : 0;
		each += (double)START_NS / 1e9;
		all += each * (double)m->block_count;
		if (!h2d_mul_u64(size, m->block_count, &moved))
			moved = UINT64_MAX / 4;
		bytes = m->verify ? 2 * moved : moved;
		out->moved_bytes += moved;
		out->read_bytes += bytes;
	}
	out->estimated_ns = all < 9e9 ? (uint64_t)(all * 1e9) : UINT64_MAX / 2;
}

void h2d_bench_plan_write(struct h2d_json *j, const struct h2d_bench_matrix *m,
			  const struct h2d_bench_plan *p)
{
	h2d_json_object_begin(j, "plan");
	h2d_json_string(j, "name", m->name);
	h2d_json_u64(j, "cell_count", m->cell_count);
	h2d_json_u64(j, "measured_cell_count", p->cell_count);
	h2d_json_u64(j, "block_count", m->block_count);
	h2d_json_u64(j, "sample_count", p->sample_count);
	h2d_json_u64(j, "moved_bytes", p->moved_bytes);
	h2d_json_u64(j, "read_bytes", p->read_bytes);
	h2d_json_u64(j, "storage_bytes_per_s", p->storage_bytes_per_s);
	h2d_json_u64(j, "memory_bytes_per_s", p->memory_bytes_per_s);
	h2d_json_u64(j, "estimated_ns", p->estimated_ns);
	h2d_json_object_end(j);
	h2d_json_array_begin(j, "cells");
	for (size_t i = 0; i < m->cell_count; i++) {
		h2d_json_object_begin(j, NULL);
		h2d_json_string(j, "id", m->cells[i].id);
		h2d_value_write(j, "key", m->cells[i].key, false);
		if (m->cells[i].status) {
			h2d_json_string(j, "status", m->cells[i].status);
			h2d_json_string(j, "reason",
					m->cells[i].reason ? m->cells[i].reason : "");
		}
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
}
