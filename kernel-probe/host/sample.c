/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sample.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/hostfs.h"
#include "host/task.h"

enum { TEXT_BYTES = 16 << 10, THREADS_MAX = 256 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The clock is part of the sample, so that a capture keeps it. */
static void take_time(const char *root, struct h2d_sample *s)
{
	static const char name[] = "/h2d/time_ns";
	char text[32];

	if (root) {
		h2d_hostfs_u64(root, name, &s->time_ns);
		return;
	}
	s->time_ns = now_ns();
	snprintf(text, sizeof(text), "%" PRIu64, s->time_ns);
	h2d_hostfs_note(H2D_HOSTFS_TEXT, name, text, strlen(text), 0);
}

/* proc(5): 3 state, 10 minor, 12 major faults, 14 user, 15 kernel time, 20 threads, 22 start.
 * @return a thread that lives, whose status is that of the process */
static int take_stat(const char *root, int pid, struct h2d_sample *s)
{
	char path[64], text[2048], *close;
	uint64_t user, kernel, tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (h2d_hostfs_read(root, path, text, sizeof(text)) <= 0) {
		s->gone = true;
		return 0;
	}
	close = strrchr(text, ')');
	if (!close || sscanf(close + 1,
			     " %c %*d %*d %*d %*d %*d %*u %" SCNu64 " %*u %" SCNu64
			     " %*u %" SCNu64 " %" SCNu64 " %*d %*d %*d %*d %u %*d %" SCNu64,
			     &s->state, &s->minor_fault_count, &s->major_fault_count, &user,
			     &kernel, &s->threads, &s->start_ticks) != 7) {
		s->gone = true;
		return 0;
	}
	s->user_ns = user * tick;
	s->kernel_ns = kernel * tick;
	if (h2d_task_ended(s->state))
		pid = h2d_task_alive(root, pid, &s->state);
	s->gone = !pid;
	return pid;
}

static void member(const char *text, const char *key, uint64_t unit, struct h2d_known_u64 *out)
{
	char value[64];

	if (h2d_text_field(text, key, value, sizeof(value)) <= 0)
		return;
	out->known = true;
	out->value = strtoull(value, NULL, 10) * unit;
}

static void take_status(const char *root, int pid, struct h2d_sample *s)
{
	struct h2d_known_u64 forced = {0};
	char path[64], text[TEXT_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (h2d_hostfs_read(root, path, text, sizeof(text)) > 0) {
		member(text, "RssAnon", 1024, &s->rss_anon_bytes);
		member(text, "RssFile", 1024, &s->rss_file_bytes);
		member(text, "RssShmem", 1024, &s->rss_shmem_bytes);
		member(text, "VmSwap", 1024, &s->swap_bytes);
		member(text, "voluntary_ctxt_switches", 1, &s->switch_count);
		member(text, "nonvoluntary_ctxt_switches", 1, &forced);
		s->switch_count.value += forced.value;
	}
	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	if (h2d_hostfs_read(root, path, text, sizeof(text)) > 0) {
		member(text, "rchar", 1, &s->read_call_bytes);
		member(text, "read_bytes", 1, &s->read_storage_bytes);
	}
}

/* /sys/class/kfd/kfd/proc/PID/vram_GPU holds bytes, stats_GPU/evicted_ms the time in which its
 * queues there were evicted, one of each for each GPU (amdkfd, kfd_process.c). */
static void take_gpus(const char *root, int pid, struct h2d_sample *s)
{
	char dir[64], path[128], **names;
	uint64_t bytes, ms;
	int n;

	snprintf(dir, sizeof(dir), "/sys/class/kfd/kfd/proc/%d", pid);
	n = h2d_hostfs_list(root, dir, &names);
	for (int i = 0; i < n; i++) {
		if (!strncmp(names[i], "stats_", 6)) {
			snprintf(path, sizeof(path), "%s/%.40s/evicted_ms", dir, names[i]);
			if (!h2d_hostfs_u64(root, path, &ms)) {
				s->evicted_ms.known = true;
				if (ms > s->evicted_ms.value)
					s->evicted_ms.value = ms;
			}
		}
		if (strncmp(names[i], "vram_", 5))
			continue;
		snprintf(path, sizeof(path), "%s/%.40s", dir, names[i]);
		if (!h2d_hostfs_u64(root, path, &bytes)) {
			s->vram_bytes.known = true;
			s->vram_bytes.value += bytes;
		}
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
}

/* One whose worker hangs in the kernel may have a first thread that waits for it in peace. */
static void take_states(const char *root, int pid, char *const *names, int n,
			struct h2d_sample *s)
{
	char path[128];

	/* The first one's state is that of the process. */
	s->thread_states_known = s->threads == 1;
	s->threads_in_kernel = s->thread_states_known && s->state == 'D';
	for (int i = 0; s->threads > 1 && i < n && i < H2D_TASKS_MAX; i++) {
		char state;

		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat", pid, names[i]);
		state = h2d_task_state(root, path);
		s->thread_states_known |= state != 0;
		s->threads_in_kernel += state == 'D';
	}
}

/* /proc/PID/task/TID/syscall begins with the number of the call a thread is in. */
static void take_threads(const char *root, int pid, struct h2d_sample *s)
{
	static const long ioctl_number =
#ifdef __aarch64__
		29;
#else
		16;
#endif
	char dir[64], path[128], text[256], **names;
	int n;

	names = NULL;
	snprintf(dir, sizeof(dir), "/proc/%d/task", pid);
	n = h2d_hostfs_list(root, dir, &names);
	take_states(root, pid, names, n, s);
	for (int i = 0; i < n && i < THREADS_MAX; i++) {
		snprintf(path, sizeof(path), "%s/%.20s/syscall", dir, names[i]);
		if (h2d_hostfs_read(root, path, text, sizeof(text)) <= 0)
			continue;
		s->threads_known = true;
		s->threads_in_ioctl += strtol(text, NULL, 10) == ioctl_number && text[0] == '1';
	}
	if (n >= 0)
		h2d_hostfs_list_free(names);
}

void h2d_sample_take(const char *root, int pid, struct h2d_sample *out)
{
	int task;

	memset(out, 0, sizeof(*out));
	if (root && !root[0])
		root = NULL;
	take_time(root, out);
	task = take_stat(root, pid, out);
	if (out->gone)
		return;
	take_status(root, task, out);
	take_gpus(root, pid, out);
	take_threads(root, pid, out);
	h2d_pressure_read(root, "memory", &out->memory);
}

void h2d_sample_must_be(struct h2d_sample *s, uint64_t start_ticks)
{
	s->gone = s->gone || s->start_ticks != start_ticks;
}

bool h2d_sample_recorded(const char *root, unsigned k, int pid, struct h2d_sample *out)
{
	char path[H2D_HOSTFS_PATH_BYTES];
	uint64_t time;

	if (snprintf(path, sizeof(path), "%s/h2d/sample/%u", root, k) >= (int)sizeof(path) ||
	    h2d_hostfs_u64(path, "/h2d/time_ns", &time))
		return false;
	h2d_sample_take(path, pid, out);
	return true;
}

/* ---- what it says ---- */

const char *h2d_progress_name(enum h2d_progress p)
{
	static const char *const names[] = {"unknown", "moving", "slow",
					    "busy",    "still",	 "exited"};

	return names[p];
}

static int64_t delta(const struct h2d_known_u64 *a, const struct h2d_known_u64 *b)
{
	return a->known && b->known ? (int64_t)(b->value - a->value) : 0;
}

static void most(uint64_t *best, int64_t value)
{
	if (value > 0 && (uint64_t)value > *best)
		*best = (uint64_t)value;
}

/* Counters of a damaged capture may go backwards. */
static uint64_t rise(uint64_t a, uint64_t b)
{
	return b > a ? b - a : 0;
}

static uint64_t per_second(uint64_t count, uint64_t elapsed_ns)
{
	double rate = elapsed_ns ? (double)count * 1e9 / (double)elapsed_ns : 0;

	return rate < 9e18 ? (uint64_t)rate : UINT64_MAX;
}

static unsigned stuck(const struct h2d_sample *samples, size_t count)
{
	unsigned least = samples[0].threads_in_kernel;

	for (size_t i = 1; i < count; i++)
		if (!samples[i].gone && samples[i].threads_in_kernel < least)
			least = samples[i].threads_in_kernel;
	return least;
}

void h2d_trend_of(const struct h2d_sample *samples, size_t count, struct h2d_trend *out)
{
	const struct h2d_sample *a = samples, *b = samples;
	uint64_t busy_ns;

	memset(out, 0, sizeof(*out));
	/* The last one that found the process alive. */
	for (size_t i = 1; i < count; i++)
		if (!samples[i].gone)
			b = &samples[i];
	out->threads_stuck = count ? stuck(samples, count) : 0;
	if (count && samples[count - 1].gone)
		out->progress = H2D_PROGRESS_EXITED;
	if (!count || b == a || b->time_ns <= a->time_ns)
		return;
	out->elapsed_ns = b->time_ns - a->time_ns;
	out->state = b->state;
	out->threads_in_ioctl = b->threads_in_ioctl;
	out->anon_delta_bytes = delta(&a->rss_anon_bytes, &b->rss_anon_bytes);
	out->file_delta_bytes = delta(&a->rss_file_bytes, &b->rss_file_bytes);
	out->swap_delta_bytes = delta(&a->swap_bytes, &b->swap_bytes);
	out->vram_delta_bytes = delta(&a->vram_bytes, &b->vram_bytes);
	/* Copy-on-write moves bytes from one kind to the other: that is a gain as well. */
	most(&out->gained_bytes,
	     out->anon_delta_bytes + out->file_delta_bytes + out->swap_delta_bytes);
	most(&out->gained_bytes, out->anon_delta_bytes);
	most(&out->gained_bytes, out->vram_delta_bytes);
	most(&out->gained_bytes, delta(&a->read_call_bytes, &b->read_call_bytes));
	most(&out->gained_bytes, delta(&a->read_storage_bytes, &b->read_storage_bytes));
	out->bytes_per_s = per_second(out->gained_bytes, out->elapsed_ns);
	out->major_faults_per_s =
		per_second(rise(a->major_fault_count, b->major_fault_count), out->elapsed_ns);
	out->minor_faults_per_s =
		per_second(rise(a->minor_fault_count, b->minor_fault_count), out->elapsed_ns);
	busy_ns = rise(a->user_ns, b->user_ns) + rise(a->kernel_ns, b->kernel_ns);
	out->cpu_pct = 100.0 * (double)busy_ns / (double)out->elapsed_ns;
	out->kernel_pct =
		100.0 * (double)rise(a->kernel_ns, b->kernel_ns) / (double)out->elapsed_ns;
	out->evictions_known = a->evicted_ms.known && b->evicted_ms.known;
	if (out->evictions_known)
		out->evicted_pct = 1e8 *
				   (double)rise(a->evicted_ms.value, b->evicted_ms.value) /
				   (double)out->elapsed_ns;
	if (out->progress == H2D_PROGRESS_EXITED)
		return;
	if (out->bytes_per_s >= H2D_SLOW_BYTES_PER_S)
		out->progress = H2D_PROGRESS_MOVING;
	else if (out->gained_bytes >= 1 << 16)
		out->progress = H2D_PROGRESS_SLOW;
	else if (out->cpu_pct >= 5)
		out->progress = H2D_PROGRESS_BUSY;
	else
		out->progress = H2D_PROGRESS_STILL;
}

/* ---- document ---- */

static void known(struct h2d_json *j, const char *key, const struct h2d_known_u64 *n)
{
	char name[64];

	if (n->known) {
		h2d_json_u64(j, key, n->value);
		return;
	}
	snprintf(name, sizeof(name), "%s_why", key);
	h2d_json_null(j, key);
	h2d_json_string(j, name, "not told");
}

void h2d_samples_write(struct h2d_json *j, const struct h2d_sample *samples, size_t count,
		       const struct h2d_trend *t)
{
	h2d_json_array_begin(j, "samples");
	for (size_t i = 0; i < count; i++) {
		const struct h2d_sample *s = &samples[i];

		h2d_json_object_begin(j, NULL);
		h2d_json_u64(j, "elapsed_ns", s->time_ns - samples[0].time_ns);
		h2d_json_bool(j, "gone", s->gone);
		if (!s->gone) {
			h2d_json_stringf(j, "state", "%c", s->state);
			h2d_json_u64(j, "thread_count", s->threads);
			if (s->threads_known) {
				h2d_json_u64(j, "threads_in_ioctl_count", s->threads_in_ioctl);
			} else {
				h2d_json_null(j, "threads_in_ioctl_count");
				h2d_json_string(j, "threads_in_ioctl_count_why",
						"the threads' system calls are not visible");
			}
			if (s->thread_states_known) {
				h2d_json_u64(j, "threads_in_kernel_count",
					     s->threads_in_kernel);
			} else {
				h2d_json_null(j, "threads_in_kernel_count");
				h2d_json_string(j, "threads_in_kernel_count_why",
						"the threads' states are not visible");
			}
			h2d_json_u64(j, "minor_fault_count", s->minor_fault_count);
			h2d_json_u64(j, "major_fault_count", s->major_fault_count);
			h2d_json_u64(j, "user_ns", s->user_ns);
			h2d_json_u64(j, "kernel_ns", s->kernel_ns);
			known(j, "rss_anon_bytes", &s->rss_anon_bytes);
			known(j, "rss_file_bytes", &s->rss_file_bytes);
			known(j, "rss_shmem_bytes", &s->rss_shmem_bytes);
			known(j, "swap_bytes", &s->swap_bytes);
			known(j, "read_call_bytes", &s->read_call_bytes);
			known(j, "read_storage_bytes", &s->read_storage_bytes);
			known(j, "device_memory_bytes", &s->vram_bytes);
			known(j, "queues_stopped_ms", &s->evicted_ms);
		}
		h2d_json_object_end(j);
	}
	h2d_json_array_end(j);
	h2d_json_object_begin(j, "trend");
	h2d_json_string(j, "progress", h2d_progress_name(t->progress));
	h2d_json_u64(j, "elapsed_ns", t->elapsed_ns);
	h2d_json_u64(j, "gained_bytes", t->gained_bytes);
	h2d_json_u64(j, "gained_bytes_per_s", t->bytes_per_s);
	h2d_json_i64(j, "rss_anon_delta_bytes", t->anon_delta_bytes);
	h2d_json_i64(j, "rss_file_delta_bytes", t->file_delta_bytes);
	h2d_json_i64(j, "swap_delta_bytes", t->swap_delta_bytes);
	h2d_json_i64(j, "device_memory_delta_bytes", t->vram_delta_bytes);
	h2d_json_u64(j, "major_faults_per_s", t->major_faults_per_s);
	h2d_json_u64(j, "minor_faults_per_s", t->minor_faults_per_s);
	h2d_json_double(j, "cpu_pct", t->cpu_pct);
	h2d_json_double(j, "kernel_pct", t->kernel_pct);
	if (t->evictions_known) {
		h2d_json_double(j, "queues_stopped_pct", t->evicted_pct);
	} else {
		h2d_json_null(j, "queues_stopped_pct");
		h2d_json_string(j, "queues_stopped_pct_why", "amdkfd does not tell it here");
	}
	h2d_json_object_end(j);
}
