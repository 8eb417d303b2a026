/* SPDX-License-Identifier: Apache-2.0 */
/* The SIGBUS guard: faults inside it are survived and noted, all others go where they went. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/mem.h"
#include "file/map.h"
#include "scratch.h"
#include "test.h"

enum { FILE_PAGES = 512, THREADS = 8 };

static size_t page;

struct mapped {
	struct h2d_file f;
	struct h2d_map m;
	char path[256];
};

static int map_file(struct mapped *mp, const char *name, enum h2d_map_kind kind)
{
	snprintf(mp->path, sizeof(mp->path), "%s", scratch_file(name, FILE_PAGES * page));
	if (h2d_file_open(&mp->f, mp->path, &scratch_log))
		return -1;
	return h2d_map_open(&mp->m, &mp->f, kind, &scratch_log);
}

static void unmap_file(struct mapped *mp)
{
	h2d_map_close(&mp->m);
	h2d_file_close(&mp->f);
}

static void action_now(struct sigaction *sa)
{
	sigaction(SIGBUS, NULL, sa);
}

static int same_as(const struct sigaction *a)
{
	/* The C library adds this one; it says nothing of the handler. */
	const int restorer = 0x04000000;
	struct sigaction now;

	action_now(&now);
	for (int sig = 1; sig < 32; sig++)
		if (sigismember(&now.sa_mask, sig) != sigismember(&a->sa_mask, sig))
			return 0;
	return now.sa_sigaction == a->sa_sigaction &&
	       (now.sa_flags | restorer) == (a->sa_flags | restorer);
}

/* A page of the program's own whose access raises SIGBUS, outside every guard. */
static volatile unsigned char *bad_page(void)
{
	int fd = open(scratch_file("bad", page), O_RDONLY);
	void *p = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);

	if (truncate(scratch_path("bad"), 0))
		perror("truncate");
	close(fd);
	return p;
}

/* ---- faults inside guards */

struct copier {
	const struct h2d_map *m;
	unsigned char *dst;
	pthread_barrier_t *start;
};

static void *copy_all(void *arg)
{
	struct copier *c = arg;

	pthread_barrier_wait(c->start);
	memcpy(c->dst, c->m->base, c->m->bytes);
	return NULL;
}

static void truncated_under_eight_threads(enum h2d_map_kind kind)
{
	unsigned char *dst = malloc(THREADS * FILE_PAGES * page);
	struct copier copiers[THREADS];
	struct sigaction before;
	struct h2d_guard *guard;
	pthread_barrier_t start;
	pthread_t threads[THREADS];
	struct mapped mp;
	int good = 1;

	action_now(&before);
	REQUIRE(dst && !map_file(&mp, "truncated", kind));
	REQUIRE(!h2d_guard_add(&mp.m, &guard, &scratch_log));
	CHECK(guard && !h2d_guard_faulted(guard));
	REQUIRE(!truncate(mp.path, (off_t)(100 * page + 10)));
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		copiers[i] =
			(struct copier){&mp.m, dst + (size_t)i * FILE_PAGES * page, &start};
		REQUIRE(!h2d_mem->thread_create(&threads[i], copy_all, &copiers[i]));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	CHECK(h2d_guard_faulted(guard));
	CHECK_EQ(atomic_load(&mp.m.damaged), 1);
	for (int i = 0; i < THREADS; i++) {
		const unsigned char *p = dst + (size_t)i * FILE_PAGES * page;

		good &= scratch_same(p, 100 * page + 10, 0);
		for (size_t at = 101 * page; at < FILE_PAGES * page; at++)
			good &= !p[at];
	}
	CHECK(good);
	CHECK(h2d_guard_remove(guard));
	CHECK(same_as(&before));

	/* The zeros stay, so nobody may load from this mapping again. */
	CHECK_EQ(h2d_guard_add(&mp.m, &guard, &scratch_log), H2D_E_CHANGED);
	CHECK(!guard && scratch_logged("SIGBUS") && scratch_logged("truncated:"));
	CHECK(same_as(&before));
	unmap_file(&mp);
	free(dst);
}

static void truncated_private(void)
{
	truncated_under_eight_threads(H2D_MAP_READ);
}

static void truncated_shared(void)
{
	truncated_under_eight_threads(H2D_MAP_SHARED);
}

static void truncated_writable(void)
{
	truncated_under_eight_threads(H2D_MAP_WRITABLE);
}

/* A driver that asks for write access to a writable mapping must get it after the fault too. */
static void written_after_a_fault(void)
{
	struct h2d_guard *guard;
	struct mapped mp;

	REQUIRE(!map_file(&mp, "written", H2D_MAP_WRITABLE));
	REQUIRE(!h2d_guard_add(&mp.m, &guard, &scratch_log));
	REQUIRE(!truncate(mp.path, 0));
	((volatile unsigned char *)mp.m.base)[5 * page] = 7;
	CHECK_EQ(mp.m.base[5 * page], 7);
	CHECK(h2d_guard_remove(guard));
	unmap_file(&mp);
}

/* hugetlbfs: nothing smaller than its pages can be replaced. */
static void huge_pages(void)
{
	int fd = memfd_create("h2d", MFD_HUGETLB);
	struct h2d_guard *guard;
	struct h2d_file f;
	struct h2d_map m;

	if (fd < 0 || ftruncate(fd, 8 << 20)) {
		printf("huge_pages: no hugetlbfs here\n");
		return;
	}
	REQUIRE(!h2d_file_open_fd(&f, fd, "huge", &scratch_log));
	close(fd);
	if (h2d_map_open(&m, &f, H2D_MAP_SHARED, &scratch_log)) {
		printf("huge_pages: none are reserved (vm.nr_hugepages)\n");
		h2d_file_close(&f);
		return;
	}
	CHECK(m.page_bytes > page);
	REQUIRE(!h2d_guard_add(&m, &guard, &scratch_log));
	REQUIRE(!ftruncate(f.fd, 0));
	CHECK_EQ(((volatile unsigned char *)m.base)[m.page_bytes + 12345], 0);
	CHECK_EQ(((volatile unsigned char *)m.base)[m.bytes - 1], 0);
	CHECK(h2d_guard_remove(guard));
	h2d_map_close(&m);
	h2d_file_close(&f);
}

/* A program may block SIGBUS in the thread that calls us; the fault must not kill it. */
static void blocked_in_the_callers_thread(void)
{
	struct h2d_guard *guard;
	sigset_t bus, old, now;
	struct mapped mp;
	bool blocked;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	REQUIRE(!map_file(&mp, "blocked", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &guard, &scratch_log));
	REQUIRE(!truncate(mp.path, 0));
	pthread_sigmask(SIG_BLOCK, &bus, &old);
	blocked = h2d_guard_thread_begin();
	CHECK(blocked);
	CHECK_EQ(((volatile unsigned char *)mp.m.base)[0], 0);
	h2d_guard_thread_end(blocked);
	pthread_sigmask(SIG_SETMASK, &old, &now);
	CHECK(sigismember(&now, SIGBUS));
	blocked = h2d_guard_thread_begin();
	CHECK(!blocked);
	h2d_guard_thread_end(blocked);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	CHECK(!sigismember(&now, SIGBUS));
	CHECK(h2d_guard_remove(guard));
	unmap_file(&mp);
}

static void nothing_happens_without_a_fault(void)
{
	struct h2d_guard *guard, *none;
	struct h2d_map empty = {0};
	struct mapped mp;

	REQUIRE(!map_file(&mp, "whole", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &guard, &scratch_log));
	CHECK(scratch_same(mp.m.base, mp.m.bytes, 0));
	CHECK(!h2d_guard_remove(guard));
	REQUIRE(!h2d_guard_add(&mp.m, &guard, &scratch_log)); /* it is as good as new */
	CHECK(!h2d_guard_remove(guard));
	unmap_file(&mp);

	REQUIRE(!h2d_guard_add(&empty, &none, &scratch_log));
	CHECK(!none && !h2d_guard_faulted(none) && !h2d_guard_remove(none));
}

/* Damage done by one load is seen by another that has the same mapping, before and after. */
static void two_loads_from_one_mapping(void)
{
	struct h2d_guard *a, *b;
	struct mapped mp;

	REQUIRE(!map_file(&mp, "two", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &a, &scratch_log));
	REQUIRE(!h2d_guard_add(&mp.m, &b, &scratch_log));
	REQUIRE(!truncate(mp.path, 0));
	CHECK_EQ(((volatile unsigned char *)mp.m.base)[3 * page], 0);
	CHECK(h2d_guard_remove(a));
	CHECK(h2d_guard_faulted(b));
	CHECK(h2d_guard_remove(b));
	unmap_file(&mp);
}

static void all_places_taken(void)
{
	static struct h2d_guard *guards[H2D_GUARD_MAX];
	struct h2d_guard *more;
	struct sigaction before;
	struct mapped mp;
	int rc = 0;

	action_now(&before);
	REQUIRE(!map_file(&mp, "places", H2D_MAP_READ));
	for (int i = 0; i < H2D_GUARD_MAX && !rc; i++)
		rc = h2d_guard_add(&mp.m, &guards[i], &scratch_log);
	CHECK_EQ(rc, 0);
	CHECK_EQ(h2d_guard_add(&mp.m, &more, &scratch_log), H2D_E_NOMEM);
	CHECK(!same_as(&before));
	for (int i = 0; i < H2D_GUARD_MAX; i++)
		h2d_guard_remove(guards[i]);
	CHECK(same_as(&before));
	REQUIRE(!h2d_guard_add(&mp.m, &more, &scratch_log));
	h2d_guard_remove(more);
	unmap_file(&mp);
}

/* Guards come and go in several threads while others take faults. */
static void *guard_and_fault(void *arg)
{
	const char *name = arg;
	struct mapped mp;
	uintptr_t ok = 1;

	for (int round = 0; round < 2; round++) {
		int cut = round == 1; /* whole in the first, truncated in the second */
		struct h2d_guard *guard;

		if (h2d_file_open(&mp.f, name, &scratch_log))
			return NULL;
		if (h2d_map_open(&mp.m, &mp.f, H2D_MAP_READ, &scratch_log) ||
		    h2d_guard_add(&mp.m, &guard, &scratch_log) || (cut && truncate(name, 0)))
			return NULL;
		for (size_t at = 0; at < mp.m.bytes; at += 5 * page)
			ok &= ((volatile unsigned char *)mp.m.base)[at] ==
			      (cut ? 0 : scratch_byte(at));
		ok &= h2d_guard_remove(guard) == cut;
		unmap_file(&mp);
	}
	return (void *)ok;
}

static void guards_come_and_go(void)
{
	pthread_t threads[THREADS];
	char names[THREADS][256];
	struct sigaction before;
	void *ok;

	action_now(&before);
	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < THREADS; i++) {
			char name[16];

			snprintf(name, sizeof(name), "go%d", i);
			snprintf(names[i], sizeof(names[i]), "%s",
				 scratch_file(name, FILE_PAGES * page));
		}
		for (int i = 0; i < THREADS; i++)
			REQUIRE(!h2d_mem->thread_create(&threads[i], guard_and_fault,
							names[i]));
		for (int i = 0; i < THREADS; i++) {
			pthread_join(threads[i], &ok);
			CHECK(ok != NULL);
		}
	}
	CHECK(same_as(&before));
}

/* ---- faults outside: the program's own handlers */

static sigjmp_buf escape;
static volatile sig_atomic_t own_calls, top_calls, last_code;
static void *volatile last_addr;
static sigset_t mask_seen;
static struct sigaction under_top;

static void own_handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	(void)sig;
	own_calls++;
	last_code = info->si_code;
	last_addr = info->si_addr;
	pthread_sigmask(SIG_BLOCK, NULL, &mask_seen);
	siglongjmp(escape, 1);
}

static void plain_handler(int sig)
{
	(void)sig;
	own_calls++;
	pthread_sigmask(SIG_BLOCK, NULL, &mask_seen);
	siglongjmp(escape, 1);
}

/* A well-behaved handler that the program puts over ours. */
static void top_handler(int sig, siginfo_t *info, void *context)
{
	top_calls++;
	under_top.sa_sigaction(sig, info, context);
}

static void set_action(struct sigaction *sa, void (*fn)(int, siginfo_t *, void *), int flags)
{
	memset(sa, 0, sizeof(*sa));
	sa->sa_sigaction = fn;
	sa->sa_flags = SA_SIGINFO | flags;
	sigemptyset(&sa->sa_mask);
}

static void default_again(void)
{
	struct sigaction dfl;

	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	sigaction(SIGBUS, &dfl, NULL);
	own_calls = top_calls = 0;
}

/* Touch a page; @return whether a handler jumped out */
static int touch(volatile unsigned char *p)
{
	if (sigsetjmp(escape, 1))
		return 1;
	(void)p[0];
	return 0;
}

static void program_handler_before_ours(void)
{
	volatile unsigned char *bad = bad_page();
	struct h2d_guard *volatile guard;
	struct h2d_guard *g;
	struct sigaction own;
	struct mapped mp;

	set_action(&own, own_handler, 0);
	sigaddset(&own.sa_mask, SIGUSR1);
	sigaction(SIGBUS, &own, NULL);
	REQUIRE(!map_file(&mp, "before", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
	guard = g;
	REQUIRE(!truncate(mp.path, 0));
	for (int i = 1; i <= 3; i++) {
		CHECK(touch(bad));
		CHECK_EQ(own_calls, i);
		CHECK(last_addr == bad && last_code == BUS_ADRERR);
		/* It ran under its own mask. */
		CHECK(sigismember(&mask_seen, SIGUSR1) && sigismember(&mask_seen, SIGBUS));
		CHECK(!h2d_guard_faulted(guard));
	}
	CHECK(!touch(mp.m.base));
	CHECK_EQ(own_calls, 3);
	CHECK(h2d_guard_remove(guard));
	CHECK(same_as(&own));
	CHECK(touch(bad));
	CHECK_EQ(own_calls, 4);
	munmap((void *)bad, page);
	unmap_file(&mp);
	default_again();
}

static void nodefer_and_plain_handlers(void)
{
	volatile unsigned char *bad = bad_page();
	struct h2d_guard *volatile guard;
	struct h2d_guard *g;
	struct sigaction own;
	struct mapped mp;

	REQUIRE(!map_file(&mp, "plain", H2D_MAP_READ));
	memset(&own, 0, sizeof(own));
	own.sa_handler = plain_handler;
	own.sa_flags = SA_NODEFER;
	sigaction(SIGBUS, &own, NULL);
	REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
	guard = g;
	CHECK(touch(bad));
	CHECK_EQ(own_calls, 1);
#ifndef __SANITIZE_THREAD__ /* which blocks every signal around handlers */
	CHECK(!sigismember(&mask_seen, SIGBUS));
#endif
	h2d_guard_remove(guard);
	CHECK(same_as(&own));
	munmap((void *)bad, page);
	unmap_file(&mp);
	default_again();
}

static void program_handler_over_ours(void)
{
	volatile unsigned char *bad = bad_page();
	struct h2d_guard *volatile guard;
	struct h2d_guard *g;
	struct sigaction own, top, ours;
	struct mapped mp;

	set_action(&own, own_handler, 0);
	sigaction(SIGBUS, &own, NULL);
	set_action(&top, top_handler, SA_NODEFER);
	REQUIRE(!map_file(&mp, "over", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
	guard = g;
	sigaction(SIGBUS, &top, &under_top);
	ours = under_top;

	/* It calls us, and we tell ours from others'. */
	CHECK(touch(bad));
	CHECK(top_calls == 1 && own_calls == 1);
	REQUIRE(!truncate(mp.path, 0));
	CHECK(!touch(mp.m.base));
	CHECK(top_calls == 2 && own_calls == 1);
	CHECK(h2d_guard_remove(guard));

	/* It is left in place, and its calls still reach the one before us. */
	CHECK(same_as(&top));
	CHECK(touch(bad));
	CHECK(top_calls == 3 && own_calls == 2);
	unmap_file(&mp);

	/* A later guard goes over it; kernel → ours → top → ours → own ends. */
	REQUIRE(!map_file(&mp, "over2", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
	guard = g;
	CHECK(!same_as(&top));
	for (int i = 0; i < 3; i++) { /* own jumps out of all of them each time */
		CHECK(touch(bad));
		CHECK(top_calls == 4 + i && own_calls == 3 + i);
	}
	REQUIRE(!truncate(mp.path, 0));
	CHECK(!touch(mp.m.base));
	CHECK(top_calls == 6 && own_calls == 5); /* neither was asked */
	CHECK(h2d_guard_remove(guard));
	CHECK(same_as(&top));
	CHECK(touch(bad));
	CHECK(top_calls == 7 && own_calls == 6);

	/* The program takes its handler away: ours is uncovered, and passes everything on. */
	sigaction(SIGBUS, &ours, NULL);
	CHECK(touch(bad));
	CHECK(top_calls == 7 && own_calls == 7);
	unmap_file(&mp);
	REQUIRE(!map_file(&mp, "over3", H2D_MAP_READ));
	REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
	guard = g;
	CHECK(touch(bad));
	CHECK_EQ(own_calls, 8);
	CHECK(!h2d_guard_remove(guard));
	CHECK(same_as(&own));
	munmap((void *)bad, page);
	unmap_file(&mp);
	default_again();
}

static void one_shot_handler(void)
{
	volatile unsigned char *bad = bad_page();
	struct h2d_guard *volatile guard;
	struct sigaction own, now;
	struct h2d_guard *g;
	struct mapped mp;

	set_action(&own, own_handler, SA_RESETHAND);
	REQUIRE(!map_file(&mp, "once", H2D_MAP_READ));
	for (int i = 1; i <= 20; i++) { /* the same action takes no place again */
		sigaction(SIGBUS, &own, NULL);
		REQUIRE(!h2d_guard_add(&mp.m, &g, &scratch_log));
		guard = g;
		CHECK(touch(bad));
		CHECK_EQ(own_calls, i);
		h2d_guard_remove(guard);
		action_now(&now);
		CHECK(now.sa_handler == SIG_DFL); /* it has fired */
	}
	munmap((void *)bad, page);
	unmap_file(&mp);
	default_again();
}

/* ---- the default action and SIG_IGN, in a child. @return its wait status */

enum ending { FAULT_OUTSIDE, KILLED, FAULT_ON_RELEASED };

static int child(void (*disposition)(int), enum ending ending)
{
	struct h2d_guard *guard;
	struct sigaction sa;
	struct mapped mp;
	int status = -1;
	pid_t pid;

	if (map_file(&mp, "child", H2D_MAP_READ))
		return -1;
	pid = fork();
	if (!pid) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		memset(&sa, 0, sizeof(sa));
		sa.sa_handler = disposition;
		sigaction(SIGBUS, &sa, NULL);
		if (h2d_guard_add(&mp.m, &guard, &scratch_log))
			_exit(2);
		if (ending == FAULT_OUTSIDE) {
			(void)bad_page()[0];
		} else if (ending == KILLED) {
			kill(getpid(), SIGBUS);
		} else {
			h2d_guard_remove(guard);
			if (truncate(mp.path, 0))
				_exit(2);
			(void)((volatile unsigned char *)mp.m.base)[0];
		}
		_exit(0);
	}
	waitpid(pid, &status, 0);
	unmap_file(&mp);
	return status;
}

static int died_of_sigbus(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

static void default_and_ignored(void)
{
	CHECK(died_of_sigbus(child(SIG_DFL, FAULT_OUTSIDE)));
	CHECK(died_of_sigbus(child(SIG_DFL, KILLED)));
	CHECK(died_of_sigbus(child(SIG_DFL, FAULT_ON_RELEASED)));
	/* As without us: sent signals are ignored, faults cannot be. */
	CHECK_EQ(child(SIG_IGN, KILLED), 0);
	CHECK(died_of_sigbus(child(SIG_IGN, FAULT_OUTSIDE)));
}

/* Threads of the library never block the signals that their instructions raise. */
static void *note_mask(void *arg)
{
	pthread_sigmask(SIG_BLOCK, NULL, arg);
	return NULL;
}

static void thread_masks(void)
{
	sigset_t all, before, seen;
	pthread_t t;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	REQUIRE(!h2d_mem->thread_create(&t, note_mask, &seen));
	pthread_join(t, NULL);
	CHECK(!sigismember(&seen, SIGBUS) && !sigismember(&seen, SIGSEGV));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	REQUIRE(!h2d_mem->thread_create(&t, note_mask, &seen));
	pthread_join(t, NULL);
	CHECK(sigismember(&seen, SIGINT) && sigismember(&seen, SIGTERM));
	pthread_sigmask(SIG_BLOCK, NULL, &seen);
	CHECK_EQ(sigismember(&seen, SIGINT), sigismember(&before, SIGINT));
}

int main(void)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	default_again(); /* a sanitizer may have put one of its own there */
	RUN(truncated_private);
	RUN(truncated_shared);
	RUN(truncated_writable);
	RUN(written_after_a_fault);
	RUN(huge_pages);
	RUN(blocked_in_the_callers_thread);
	RUN(nothing_happens_without_a_fault);
	RUN(two_loads_from_one_mapping);
	RUN(all_places_taken);
	RUN(guards_come_and_go);
	RUN(program_handler_before_ours);
	RUN(nodefer_and_plain_handlers);
	RUN(program_handler_over_ours);
	RUN(one_shot_handler);
	RUN(default_and_ignored);
	RUN(thread_masks);
	return TEST_DONE();
}
