/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/state.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *method_name(enum h2d_cache_method method)
{
	return method == H2D_CACHE_CACHESTAT ? "cachestat"
	       : method == H2D_CACHE_MINCORE ? "mincore"
					     : NULL;
}

void h2d_bench_state_query(const struct h2d_bench_checkpoint *c, struct h2d_bench_state *out)
{
	struct h2d_log silent = {0};
	uint64_t cached = 0, total = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < c->file_count; i++) {
		struct h2d_cache_state state = {.why = "the file cannot be opened"};
		struct h2d_file f;

		if (!h2d_file_open(&f, h2d_checkpoint_file(c->handle, i), &silent)) {
			h2d_cache_query(&f, 0, f.id.size_bytes, &state);
			h2d_file_close(&f);
		}
		out->method = method_name(state.method);
		if (!out->method) {
			out->why = state.why;
			return;
		}
		cached += state.cached_bytes;
		total += state.total_bytes;
	}
	out->pct = total ? (double)cached * 100 / (double)total : 100;
}

static int each_file(const struct h2d_bench_checkpoint *c, unsigned pct, bool warm,
		     const struct h2d_log *log)
{
	int rc = 0;

	for (uint32_t i = 0; i < c->file_count && !rc; i++) {
		struct h2d_file f;

		rc = h2d_file_open(&f, h2d_checkpoint_file(c->handle, i), log);
		if (rc)
			break;
		/* Else the reader runs ahead past what is to be cached. */
		if (warm && pct < 100)
			posix_fadvise(f.fd, 0, 0, POSIX_FADV_RANDOM);
		rc = warm ? h2d_cache_warm(&f, 0,
					   f.id.size_bytes / 100 * pct +
						   f.id.size_bytes % 100 * pct / 100,
					   log)
			  : h2d_cache_evict(&f, 0, f.id.size_bytes, log);
		h2d_file_close(&f);
	}
	return rc;
}

/* Pages belong to the group of the process that reads them first, so another process reads. */
static int warm_in_group(const struct h2d_bench_checkpoint *c, unsigned pct, const char *procs)
{
	struct h2d_log silent = {0};
	int status, fd;
	pid_t pid;

	if (!procs)
		return each_file(c, pct, true, &silent);
	pid = fork();
	if (pid < 0)
		return H2D_E_NOMEM;
	if (!pid) {
		fd = open(procs, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "0", 1) != 1)
			_exit(1);
		close(fd);
		_exit(each_file(c, pct, true, &silent) ? 1 : 0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return H2D_E_IO;
	/* A limit too small for the file kills the reader; what is cached will be seen. */
	return 0;
}

static void drop_all(char *note, size_t cap)
{
	int fd;

	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "1", 1) != 1)
		snprintf(note, cap, "; drop_caches: %s", strerrordesc_np(errno));
	else
		snprintf(note, cap, "; drop_caches did not help");
	if (fd >= 0)
		close(fd);
}

static bool reached(const struct h2d_bench_cell *cell, const struct h2d_bench_state_opts *o,
		    double pct)
{
	switch (cell->cache) {
	case H2D_BENCH_COLD:
		return pct <= o->cold_max_pct;
	case H2D_BENCH_WARM:
		return pct >= o->warm_min_pct;
	case H2D_BENCH_PARTIAL:
		return fabs(pct - cell->cache_pct) <= o->partial_tolerance_pct;
	case H2D_BENCH_ASIS:
		break;
	}
	return true;
}

static int bring_about(const struct h2d_bench_cell *cell, const struct h2d_bench_state_opts *o,
		       unsigned attempt, char *note, size_t cap)
{
	const struct h2d_bench_checkpoint *c = cell->checkpoint;
	struct h2d_log silent = {0};
	int rc = 0;

	/* In a group even warm pages are dropped first: they may belong to another one. */
	if (cell->cache != H2D_BENCH_WARM || (o->cgroup_procs && !attempt))
		rc = each_file(c, 0, false, &silent);
	if (!rc && attempt && cell->cache == H2D_BENCH_COLD && o->drop_caches)
		drop_all(note, cap);
	if (!rc && cell->cache != H2D_BENCH_COLD)
		rc = warm_in_group(c, cell->cache == H2D_BENCH_WARM ? 100 : cell->cache_pct,
				   o->cgroup_procs);
	return rc;
}

int h2d_bench_state_set(const struct h2d_bench_cell *cell,
			const struct h2d_bench_state_opts *opts, struct h2d_bench_state *before,
			unsigned *tries, char *why, size_t why_bytes)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	char note[160] = "";
	int rc;

	*tries = 0;
	why[0] = 0;
	h2d_bench_state_query(cell->checkpoint, before);
	if (cell->cache == H2D_BENCH_ASIS)
		return 0;
	while (*tries < H2D_BENCH_STATE_TRIES && before->method) {
		if (*tries)
			nanosleep(&pause, NULL);
		rc = bring_about(cell, opts, (*tries)++, note, sizeof(note));
		h2d_bench_state_query(cell->checkpoint, before);
		if (rc) {
			snprintf(why, why_bytes, "the page cache could not be made %s: %s",
				 cell->cache_name, h2d_status_string(rc));
			return H2D_E_UNSUPPORTED;
		}
		if (before->method && reached(cell, opts, before->pct))
			return 0;
	}
	if (!before->method)
		snprintf(why, why_bytes, "the page cache cannot be looked at: %s", before->why);
	else
		snprintf(why, why_bytes,
			 "the page cache could not be made %s: %.2f %% is cached after %u "
			 "attempts%s",
			 cell->cache_name, before->pct, *tries, note);
	return H2D_E_UNSUPPORTED;
}
