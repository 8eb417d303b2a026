/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hmm-fuzz: requests of any sense to /dev/h2d_hmm, on mappings of any kind, while other threads
 * unmap, protect, truncate and fork, and while the process is signalled, killed, exits or calls
 * exec.
 *
 * Goes on for -t seconds and then, up to ten times as long, until every outcome that shows that
 * something was reached has been met.
 *
 * usage: hmm-fuzz [-s SEED] [-t SECONDS] [-j PROCESSES] [-u] [-p] DIRECTORY
 *
 * What must hold: a child dies soon after SIGKILL; outputs are written when the interface says
 * so and agree with each other; errors are those of the interface; afterwards the device still
 * works and, with -u, the module can be unloaded, so nothing holds it any more. With -p a part
 * of the outcomes will do, for guests too slow to meet them all. That the
 * kernel's log stays clean is for the caller to see. Some huge pages are reserved for the time.
 * A seed repeats the choices, not the interleaving. Output is TAP.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum {
	MAPS_MAX = 4,
	REQUESTERS_MAX = 3,
	DISTURBERS_MAX = 3,
	CHILD_MS_MAX = 120,
	DEATH_MS_MAX = 120000, /* a window takes a second, a starved guest takes its time */
};

static struct fuzz_shared *shared;
static const char *directory;

uint64_t fuzz_next(struct fuzz_random *r)
{
	r->state ^= r->state >> 12;
	r->state ^= r->state << 25;
	r->state ^= r->state >> 27;
	return r->state * 0x2545f4914f6cdd1dULL;
}

uint64_t fuzz_below(struct fuzz_random *r, uint64_t n)
{
	return (fuzz_next(r) >> 16) % n;
}

bool fuzz_one_in(struct fuzz_random *r, unsigned n)
{
	return !fuzz_below(r, n);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t ms)
{
	struct timespec t = {.tv_sec = (time_t)(ms / 1000),
			     .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}

/* One thread of a child. */
struct thread {
	pthread_t id;
	struct fuzz_random random;
	struct fuzz_map *maps;
	unsigned map_count;
	uint64_t until;
	const struct h2d_hmm *device; /* shared with other threads; NULL: open one of its own */
};

static void *requester(void *argument)
{
	static const struct h2d_log silent;
	struct thread *t = argument;
	struct h2d_hmm own = {.fd = -1};

	if (!t->device && h2d_hmm_open(NULL, &silent, &own))
		return NULL;
	while (now_ms() < t->until)
		fuzz_request(&t->random, shared, t->device ? t->device : &own, t->maps,
			     t->map_count);
	h2d_hmm_close(&own);
	return NULL;
}

static void *disturber(void *argument)
{
	struct thread *t = argument;

	while (t->map_count && now_ms() < t->until) {
		fuzz_map_disturb(&t->random, &t->maps[fuzz_below(&t->random, t->map_count)]);
		sleep_ms(fuzz_below(&t->random, 4));
		atomic_fetch_add(&shared->disturbed, 1);
	}
	return NULL;
}

static void ignore_signal(int number)
{
	(void)number;
}

/* A child's life: mappings, threads, an end. */
static void child(uint64_t seed)
{
	struct fuzz_random r = {seed | 1};
	struct thread threads[REQUESTERS_MAX + DISTURBERS_MAX];
	struct sigaction action = {.sa_handler = ignore_signal};
	static const struct h2d_log silent;
	struct fuzz_map maps[MAPS_MAX];
	struct h2d_hmm device;
	unsigned map_count = 0, requesters, count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGUSR1, &action, NULL);
	if (h2d_hmm_open(NULL, &silent, &device))
		_exit(3);
	for (unsigned i = fuzz_one_in(&r, 16) ? 0 : 1 + fuzz_below(&r, MAPS_MAX); i; i--)
		if (fuzz_map_make(&r, directory, &maps[map_count]))
			map_count++;
	requesters = (unsigned)(1 + fuzz_below(&r, REQUESTERS_MAX));
	count = requesters + (unsigned)fuzz_below(&r, DISTURBERS_MAX + 1);
	for (unsigned i = 0; i < count; i++) {
		threads[i] = (struct thread){.random = {fuzz_next(&r) | 1},
					     .maps = maps,
					     .map_count = map_count,
					     .device = fuzz_one_in(&r, 2) ? &device : NULL,
					     .until = now_ms() + fuzz_below(&r, CHILD_MS_MAX)};
		if (pthread_create(&threads[i].id, NULL, i < requesters ? requester : disturber,
				   &threads[i]))
			_exit(3);
	}
	switch (fuzz_below(&r, 4)) {
	case 0: /* in the middle of it */
		sleep_ms(fuzz_below(&r, CHILD_MS_MAX / 2));
		_exit(0);
	case 1:
		sleep_ms(fuzz_below(&r, CHILD_MS_MAX / 2));
		execl("/proc/self/exe", "hmm-fuzz", "-x", (char *)NULL);
		_exit(0);
	default:
		for (unsigned i = 0; i < count; i++)
			pthread_join(threads[i].id, NULL);
		_exit(0);
	}
}

/* Wait for the child; false when it outlives its death sentence. */
static bool reap(pid_t pid)
{
	const uint64_t limit = now_ms() + DEATH_MS_MAX;

	while (waitpid(pid, NULL, WNOHANG) != pid) {
		if (now_ms() > limit)
			return false;
		sleep_ms(1);
	}
	return true;
}

/* Outcomes without which a run has reached nothing. */
static bool reached(void)
{
	return atomic_load(&shared->by_code[0]) && atomic_load(&shared->by_code[1]) &&
	       atomic_load(&shared->by_code[2]) && atomic_load(&shared->by_errno[1]) &&
	       atomic_load(&shared->by_errno[2]) && atomic_load(&shared->by_errno[3]) &&
	       atomic_load(&shared->windows) && atomic_load(&shared->foreign) &&
	       atomic_load(&shared->killed);
}

/* Where the threads of a process are in the kernel. */
static void print_stacks(pid_t pid)
{
	char pattern[64], line[256];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stack", pid);
	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");

		printf("# %s\n", found.gl_pathv[i]);
		while (f && fgets(line, sizeof(line), f))
			printf("#   %s", line);
		if (f)
			fclose(f);
	}
	fflush(stdout);
	globfree(&found);
}

static void worker(uint64_t seed, uint64_t until, uint64_t limit)
{
	struct fuzz_random r = {seed | 1};

	while (now_ms() < until || (now_ms() < limit && !reached())) {
		pid_t pid = fork();

		if (!pid)
			child(fuzz_next(&r));
		if (pid < 0)
			_exit(1);
		atomic_fetch_add(&shared->children, 1);
		fuzz_next(&r);
		for (unsigned i = fuzz_below(&r, 6); i; i--) {
			sleep_ms(fuzz_below(&r, 20));
			kill(pid, SIGUSR1);
		}
		if (fuzz_one_in(&r, 2)) {
			sleep_ms(fuzz_below(&r, CHILD_MS_MAX));
			kill(pid, fuzz_one_in(&r, 4) ? SIGTERM : SIGKILL);
			atomic_fetch_add(&shared->killed, 1);
		} else {
			sleep_ms(2 * CHILD_MS_MAX);
			kill(pid, SIGKILL);
		}
		if (!reap(pid)) {
			print_stacks(pid);
			fuzz_violation(shared, "process %d outlives SIGKILL by %d ms", pid,
				       DEATH_MS_MAX);
			_exit(1);
		}
	}
	_exit(0);
}

/* The device after all that: exact counters of a request that needs no luck. */
static void check_device(void)
{
	const size_t bytes = 4 * SPAN;
	struct h2d_hmm_copy_source q;
	struct h2d_hmm hmm;
	uint64_t spans;
	void *map;
	int err;

	if (h2d_hmm_open(NULL, &guest_log, &hmm))
		guest_die("device");
	map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (map == MAP_FAILED || madvise(map, bytes, MADV_NOHUGEPAGE))
		guest_die("mmap");
	guest_touch(map, bytes, PAGE);
	if (mprotect(map, bytes, PROT_READ | PROT_WRITE))
		guest_die("mprotect");
	spans = guest_present_spans(map, bytes);
	h2d_hmm_request_init(&q, map, bytes);
	q.timeout_ms = 10;
	err = h2d_hmm_copy_source(&hmm, &guest_log, &q);
	guest_check(!err && !q.last_code && spans >= 4 && q.windows == spans &&
			    q.pfns_writable == bytes / PAGE,
		    "afterwards: %llu windows in %llu spans, code %d", q.windows,
		    (unsigned long long)spans, q.last_code);
	h2d_hmm_close(&hmm);
}

static void reserve_huge_pages(const char *count)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "we");

	if (f && fputs(count, f) >= 0 && !fclose(f))
		return;
	printf("# no huge pages\n");
}

static void unload(void)
{
	int err = syscall(SYS_delete_module, H2D_HMM_MODULE_NAME, O_NONBLOCK) ? errno : 0;

	guest_check(!err && access(H2D_HMM_DEVICE_PATH, F_OK), "unloaded: %s", strerror(err));
}

static void report(bool partial)
{
	printf("# %llu requests of %llu children (%llu killed), %llu disturbances\n",
	       atomic_load(&shared->requests), atomic_load(&shared->children),
	       atomic_load(&shared->killed), atomic_load(&shared->disturbed));
	for (int i = 0; i < FUZZ_ERRNOS; i++)
		printf("# %s: %llu\n", fuzz_errnos[i] ? strerror(fuzz_errnos[i]) : "accepted",
		       atomic_load(&shared->by_errno[i]));
	for (int i = 0; i < FUZZ_CODES; i++)
		printf("# accepted, code %d: %llu\n", fuzz_codes[i],
		       atomic_load(&shared->by_code[i]));
	printf("# %llu windows, %llu callbacks, %llu foreign, %llu by the shipped driver\n",
	       atomic_load(&shared->windows), atomic_load(&shared->callbacks),
	       atomic_load(&shared->foreign), atomic_load(&shared->shipped));
	guest_check(!atomic_load(&shared->violations), "%u violations%s%s",
		    atomic_load(&shared->violations), *shared->first_violation ? ": " : "",
		    shared->first_violation);
	if (partial)
		guest_check(atomic_load(&shared->by_code[0]) > 0, "requests done");
	else
		guest_check(reached(),
			    "requests done, restarted to the bound, failed, refused and "
			    "interrupted, windows, foreign callbacks and killed processes");
}

int main(int argc, char **argv)
{
	unsigned jobs = 3, seconds = 30;
	uint64_t seed = 1, began;
	bool leave = false, partial = false;
	int option;

	while ((option = getopt(argc, argv, "s:t:j:upx")) != -1) {
		switch (option) {
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 't':
			seconds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'j':
			jobs = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'u':
			leave = true;
			break;
		case 'p':
			partial = true;
			break;
		case 'x': /* what a child turns into */
			return 0;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc || !jobs || jobs > 64)
		return 2;
	directory = argv[optind];
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		guest_die("mmap");
	printf("# seed %llu, %u s, %u processes\n", (unsigned long long)seed, seconds, jobs);
	fflush(stdout);
	reserve_huge_pages("8");
	began = now_ms();
	for (unsigned i = 0; i < jobs; i++) {
		pid_t pid = fork();

		if (pid < 0)
			guest_die("fork");
		if (!pid)
			worker(seed * 0x9e3779b97f4a7c15ULL + i * 2 + 1,
			       began + seconds * 1000ULL,
			       began + seconds * (partial ? 1000ULL : 10000ULL));
	}
	while (wait(NULL) > 0 || errno == EINTR)
		;
	report(partial);
	reserve_huge_pages("0");
	check_device();
	if (leave)
		unload();
	return guest_finish();
}
