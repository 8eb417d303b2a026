/* SPDX-License-Identifier: Apache-2.0 */
/* needs: h2d_run_core */
/* Everything at once from several threads. Meant for the thread sanitizer; wrong bytes and a
 * broken table are found without it too. */
#include <pthread.h>
#include <signal.h>

#include "run/keep.h"
#include "run/memory.h"
#include "run/signals.h"
#include "run/sys.h"
#include "test.h"

enum { BYTES = 8 << 20, THREADS = 6, ROUNDS = 60 };

static int file;
static unsigned char *common;
static _Atomic int wrong;
static pthread_barrier_t start;

static unsigned char file_byte(size_t i)
{
	return i == 0 ? 8 : i == 8 ? '{' : i == 9 ? '}' : i < 16 ? 0 : (unsigned char)(i >> 12);
}

static unsigned char *map_file(void)
{
	void *p = ro_mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void expect(bool right)
{
	if (!right)
		atomic_fetch_add(&wrong, 1);
}

/* A mapping of its own, cut and moved about. */
static void own_mapping(size_t me, size_t round)
{
	unsigned char *p = map_file(), *q;
	size_t at = (me * 977 + round * 131) % (BYTES / 4096) * 4096;

	expect(p != NULL);
	if (!p)
		return;
	p[at] = (unsigned char)me;
	expect(p[at] == me && p[at + 1] == file_byte(at + 1));
	expect(!ro_munmap(p + BYTES / 2, BYTES / 4));
	expect(!ro_mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p[100] = 1;
	ro_open(p + BYTES / 4, 5000, RO_KERNEL_WRITE);
	q = ro_mremap(p, BYTES / 4, BYTES / 8, 0, NULL);
	expect(q == p);
	p[BYTES / 8 - 1] = 9;
	expect(p[BYTES / 8 - 1] == 9);
	expect(!ro_munmap(p, BYTES));
}

static void common_mapping(size_t me, size_t round)
{
	for (size_t at = me + 16; at < BYTES; at += 65536 + 512) {
		common[at] = (unsigned char)(me + round);
		expect(common[at] == (unsigned char)(me + round));
	}
}

static void signals(size_t round)
{
	struct sigaction act = {.sa_handler = SIG_DFL}, old;
	sigset_t set, was;

	act.sa_flags = round % 2 ? SA_RESTART : 0;
	expect(!ro_sigaction(SIGSEGV, &act, &old));
	sigfillset(&set);
	expect(!ro_sigmask(SIG_BLOCK, &set, &was));
	common[5 * 4096 + round % 4096] = 1;
	expect(!ro_sigmask(SIG_SETMASK, &was, NULL));
}

static void *work(void *user)
{
	size_t me = (size_t)user;

	for (size_t round = 0; round < ROUNDS; round++) {
		if (round % 6 == 0)
			pthread_barrier_wait(&start);
		if (me == 0 && round % 6 == 0) {
			unsigned char *fresh = ro_mmap(common, BYTES, PROT_READ | PROT_WRITE,
						       MAP_PRIVATE | MAP_FIXED, file, 0);

			expect(fresh == common);
		}
		if (round % 6 == 0)
			pthread_barrier_wait(&start);
		common_mapping(me, round);
		own_mapping(me, round);
		if (me == 0)
			signals(round);
	}
	return NULL;
}

static void several_threads(void)
{
	pthread_t threads[THREADS];

	common = map_file();
	REQUIRE(common);
	pthread_barrier_init(&start, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		REQUIRE(!pthread_create(&threads[i], NULL, work, (void *)i));
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(atomic_load(&wrong), 0);
	CHECK(ro_table_valid(&ro.table));
	CHECK(!ro_munmap(common, BYTES));
	CHECK_EQ(ro.table.piece_count, 0);
	CHECK(ro.handling && atomic_load(&ro.state->refused_handler_count) == 0);
}

/* What other libraries do while the lock is held for fork(). */
static void inside_fork(void)
{
	unsigned char *p;

	ro_fork_prepare();
	p = map_file();
	expect(p != NULL);
	p[4096 * 700] = 3;
	expect(p[4096 * 700] == 3 && !ro_munmap(p, BYTES));
	ro_fork_parent();
	CHECK_EQ(atomic_load(&wrong), 0);
	CHECK_EQ(atomic_load(&ro.lock.word), 0);
}

/* 200 000 ranges in random order, in the table alone. */
static void many_ranges(void)
{
	enum { N = 200000 };
	static struct ro_table t;
	size_t at = 1;
	bool kept = true;

	for (size_t i = 0; i < N; i++, at = (at * 5 + 12345) % (1 << 18)) {
		REQUIRE(ro_table_reserve(&t, 1));
		if (!ro_table_at(&t, at * 8192 + 4096))
			ro_table_insert(&t, at * 8192, at * 8192 + 8192, false,
					ro_table_mapping(&t));
	}
	CHECK(t.piece_count > N / 2);
	CHECK(ro_table_valid(&t));
	for (struct ro_piece *p = ro_table_from(&t, 0); p; p = ro_table_from(&t, 0)) {
		kept = kept && ro_table_at(&t, p->start) == p && !ro_table_at(&t, p->start - 1);
		ro_table_remove(&t, p);
	}
	CHECK(kept && !t.piece_count);
}

int main(void)
{
	file = memfd_create("stress", MFD_CLOEXEC);
	for (size_t at = 0; at < BYTES; at += 4096) {
		unsigned char page[4096];

		for (size_t i = 0; i < sizeof(page); i++)
			page[i] = file_byte(at + i);
		if (pwrite(file, page, sizeof(page), (off_t)at) != sizeof(page))
			return 1;
	}
	ro.sigaction = sigaction;
	RUN(several_threads);
	RUN(inside_fork);
	RUN(many_ranges);
	return TEST_DONE();
}
