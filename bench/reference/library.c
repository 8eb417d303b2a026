/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "h2d/h2d.h"

/* So that reading is not optimised away. */
static volatile uint64_t sink;

static void print_line(void *user, enum h2d_log_level level, const char *line)
{
	(void)user;
	if (level == H2D_LOG_ERROR)
		fprintf(stderr, "%s\n", line);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int open_checkpoint(const struct reference_opts *o, struct h2d_checkpoint **ckpt)
{
	struct h2d_open_opts opts = H2D_OPTS(opts);

	opts.log = print_line;
	return h2d_checkpoint_open(o->file, &opts, ckpt);
}

int reference_open(const struct reference_opts *o)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *ckpt;
	uint64_t begin = cpu_ns(), cpu;

	if (open_checkpoint(o, &ckpt))
		return 3;
	cpu = cpu_ns() - begin;
	h2d_checkpoint_info(ckpt, &info);
	printf("{\"cpu_ns\": %llu, \"tensor_count\": %llu, \"header_bytes\": %llu}\n",
	       (unsigned long long)cpu, (unsigned long long)info.tensor_count,
	       (unsigned long long)info.header_bytes);
	h2d_checkpoint_close(ckpt);
	return 0;
}

/* Sum of a key of /proc/PID/smaps_rollup in bytes. */
static uint64_t rollup(pid_t pid, const char *key)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			kib = strtoull(line + strlen(key), NULL, 10);
	fclose(f);
	return kib * 1024;
}

/* One viewer: view every tensor (timed), touch every page, tell the parent, wait for its end.
 */
static int viewer(const struct reference_opts *o, int ready, int go)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *ckpt;
	uint64_t begin, elapsed, sum = 0, bytes;
	char c;

	if (open_checkpoint(o, &ckpt))
		return 3;
	h2d_checkpoint_info(ckpt, &info);
	begin = reference_now_ns();
	for (uint64_t i = 0; i < info.tensor_count; i++) {
		const void *data;

		if (h2d_checkpoint_view(ckpt, i, &data, &bytes))
			return 1;
	}
	elapsed = reference_now_ns() - begin;
	for (uint64_t i = 0; i < info.tensor_count; i++) {
		const unsigned char *p;
		const void *data;

		h2d_checkpoint_view(ckpt, i, &data, &bytes);
		p = data;
		for (uint64_t at = 0; at < bytes; at += 4096)
			sum += p[at];
	}
	sink = sum;
	if (write(ready, &elapsed, sizeof(elapsed)) != sizeof(elapsed))
		return 5;
	while (read(go, &c, 1) > 0)
		;
	return 0;
}

int reference_view(const struct reference_opts *o)
{
	struct h2d_checkpoint_info info = H2D_OPTS(info);
	struct h2d_checkpoint *ckpt;
	uint64_t elapsed, total_ns = 0, pss = 0, pss_file = 0;
	int ready[2], go[2], status, rc = 0;
	pid_t pids[256];

	if (open_checkpoint(o, &ckpt))
		return 3;
	h2d_checkpoint_info(ckpt, &info);
	h2d_checkpoint_close(ckpt);
	if (pipe(ready) || pipe(go))
		return 5;
	for (unsigned i = 0; i < o->threads; i++) {
		pids[i] = fork();
		if (pids[i] < 0)
			return 5;
		if (pids[i] == 0) {
			close(go[1]);
			close(ready[0]);
			_exit(viewer(o, ready[1], go[0]));
		}
	}
	close(ready[1]);
	for (unsigned i = 0; i < o->threads; i++) {
		if (read(ready[0], &elapsed, sizeof(elapsed)) != sizeof(elapsed)) {
			rc = 5;
			break;
		}
		total_ns += elapsed;
	}
	for (unsigned i = 0; i < o->threads && !rc; i++) {
		pss += rollup(pids[i], "Pss:");
		pss_file += rollup(pids[i], "Pss_File:");
	}
	close(go[1]);
	for (unsigned i = 0; i < o->threads; i++)
		waitpid(pids[i], &status, 0);
	if (!rc)
		printf("{\"process_count\": %u, \"tensor_count\": %llu, \"size_bytes\": %llu, "
		       "\"pss_bytes\": %llu, \"pss_file_bytes\": %llu, \"view_ns_per_tensor\": "
		       "%.1f}\n",
		       o->threads, (unsigned long long)info.tensor_count,
		       (unsigned long long)(info.size_bytes + info.header_bytes),
		       (unsigned long long)pss, (unsigned long long)pss_file,
		       (double)total_ns / o->threads /
			       (double)(info.tensor_count ? info.tensor_count : 1));
	return rc;
}
