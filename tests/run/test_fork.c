/* SPDX-License-Identifier: Apache-2.0 */
/* links: h2d_run_atfork */
/* Children: what is locked when they are made, and what is counted of them. */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "under.h"

extern pthread_mutex_t atfork_lock;

static unsigned char *map;
static _Atomic int over;

/* In a lock that is held over fork(): memory calls, and first writes. */
static void *under_the_lock(void *user)
{
	(void)user;
	for (size_t i = 0; !over; i++) {
		void *p;

		pthread_mutex_lock(&atfork_lock);
		p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(p, MIB);
		map[i * 4096 % UNDER_FILE_BYTES] = 1;
		if (i % 64 == 0) {
			munmap(map, UNDER_FILE_BYTES);
			map = under_map(under_file, UNDER_FILE_BYTES);
		}
		pthread_mutex_unlock(&atfork_lock);
	}
	return NULL;
}

static void other_libraries_lock(void)
{
	pthread_t thread;

	/* Hung, it has every signal blocked. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	map = under_map(under_file, UNDER_FILE_BYTES);
	REQUIRE(map && !pthread_create(&thread, NULL, under_the_lock, NULL));
	for (int i = 0; i < 300; i++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			alarm(20);
			pthread_mutex_lock(&atfork_lock);
			map[5 * MIB] = 2;
			pthread_mutex_unlock(&atfork_lock);
			_exit(map[5 * MIB] != 2);
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
	over = 1;
	pthread_join(thread, NULL);
}

enum { PAGES = 50, CHILDREN = 4 };

static void children_that_write(void)
{
	map = under_map(under_file, UNDER_FILE_BYTES);
	REQUIRE(map);
	for (size_t i = 0; i < PAGES; i++)
		map[MIB + i * 4096] = 1;
	for (int i = 0; i < CHILDREN; i++) {
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			map[MIB] = 3;
			map[9 * MIB] = 1;
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
}

/* What the parent had written is the parent's. */
static void look_children(struct h2d_run_state *s)
{
	if (s->page_bytes == 4096)
		CHECK_EQ(UNDER_SUM(s, written_page_count), PAGES + 2 * CHILDREN);
}

static void not_called(int sig)
{
	(void)sig;
	_exit(5);
}

/* A child of which the C library knows nothing. */
static void by_a_system_call(void)
{
	int status = -1;
	pid_t pid;

	map = under_map(under_file, UNDER_FILE_BYTES);
	REQUIRE(map);
	/* Where it cannot be told from a child that shares the memory, it is taken for one. */
	if (syscall(SYS_kcmp, getpid(), getpid(), 1, 0, 0))
		return;
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		signal(SIGSEGV, not_called);
		map[9 * MIB] = 1;
		_exit(map[9 * MIB] != 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	map[4 * MIB] = 1;
	CHECK(map[4 * MIB] == 1);
}

static const struct under_case cases[] = {
	{"other_libraries_lock", other_libraries_lock, NULL, 0, NULL},
	{"children_that_write", children_that_write, look_children, 0, NULL},
	{"by_a_system_call", by_a_system_call, NULL, 0, NULL},
};

UNDER_MAIN(cases)
