/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t kib(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

static void read_usage(struct h2d_memory_usage *u)
{
	char text[4096];
	ssize_t n = -1;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	u->rss_anon_bytes = kib(text, "\nRssAnon:");
	u->rss_file_bytes = kib(text, "\nRssFile:");
	u->rss_shmem_bytes = kib(text, "\nRssShmem:");
	u->locked_bytes = kib(text, "\nVmLck:");
	u->pinned_bytes = kib(text, "\nVmPin:");
	u->hugetlb_bytes = kib(text, "\nHugetlbPages:");
}

static void raise_to(uint64_t *peak, uint64_t now)
{
	if (now > *peak)
		*peak = now;
}

static void sample_locked(struct h2d_memory_sampler *s)
{
	struct h2d_memory_usage now;

	read_usage(&now);
	raise_to(&s->peak.rss_anon_bytes, now.rss_anon_bytes);
	raise_to(&s->peak.rss_file_bytes, now.rss_file_bytes);
	raise_to(&s->peak.rss_shmem_bytes, now.rss_shmem_bytes);
	raise_to(&s->peak.locked_bytes, now.locked_bytes);
	raise_to(&s->peak.pinned_bytes, now.pinned_bytes);
	raise_to(&s->peak.hugetlb_bytes, now.hugetlb_bytes);
	s->sample_count++;
}

void h2d_memory_sample(struct h2d_memory_sampler *s)
{
	pthread_mutex_lock(&s->lock);
	sample_locked(s);
	pthread_mutex_unlock(&s->lock);
}

static void *run(void *arg)
{
	struct h2d_memory_sampler *s = arg;
	struct timespec due;

	clock_gettime(CLOCK_MONOTONIC, &due);
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		due.tv_nsec += H2D_MEMORY_INTERVAL_MS * 1000000L;
		if (due.tv_nsec >= 1000000000L) {
			due.tv_nsec -= 1000000000L;
			due.tv_sec++;
		}
		if (pthread_cond_timedwait(&s->wake, &s->lock, &due) == ETIMEDOUT)
			sample_locked(s);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void h2d_memory_start(struct h2d_memory_sampler *s)
{
	pthread_condattr_t attr;

	memset(s, 0, sizeof(*s));
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
	read_usage(&s->before);
	s->peak = s->before;
	s->sample_count = 1;
	s->running = !pthread_create(&s->thread, NULL, run, s);
}

void h2d_memory_stop(struct h2d_memory_sampler *s)
{
	if (s->running) {
		pthread_mutex_lock(&s->lock);
		sample_locked(s);
		s->stop = true;
		pthread_cond_signal(&s->wake);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
		s->running = false;
	}
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
}
