/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIGBUS guard.
 *
 * Two tables are read by the handler without a lock, in whatever thread faulted:
 *
 * places[]   the guarded ranges. A writer (under `lock`) makes the version odd, changes the
 *            range and makes it even again; a reader takes a range only when it saw the same
 *            even version before and after. The range of the faulting address itself cannot
 *            change, since its owner promised that no copy runs when it removes the guard.
 *
 * actions[]  every different SIGBUS action found in force when our handler was installed.
 *            A slot never changes once it is used, so a reader cannot see half of one.
 *            below[] lists, oldest first, the slots of the actions under our installations.
 *
 * A handler which the program installs over ours is left in place when the last guard goes, and
 * it may go on calling ours. With no guard in the table ours then only passes the signal to the
 * action under it. When a later guard finds such a handler T in force, ours is installed again
 * over it, and the calls may go: kernel → ours → T → ours. The inner call is recognised (same
 * siginfo, deeper frame, same thread) and goes one step further down, so nothing loops.
 */
#include "file/map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/checked.h"

enum {
	ACTION_MAX = 16, /* different SIGBUS actions of one program */
	BELOW_MAX = 16,	 /* handlers of the program stacked over ours */
};

struct h2d_guard {
	_Atomic unsigned version;     /* odd while it changes */
	_Atomic uintptr_t begin, end; /* end 0: free */
	_Atomic(struct h2d_map *) map;
};

struct action {
	struct sigaction sa;
	_Atomic int spent; /* an SA_RESETHAND handler that has run */
};

static struct h2d_guard places[H2D_GUARD_MAX];
static _Atomic unsigned place_count; /* places that were ever used */

static struct action actions[ACTION_MAX];
static unsigned action_count; /* under `lock` */
static _Atomic unsigned below[BELOW_MAX];
static _Atomic unsigned below_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned guard_count; /* under `lock` */

/* Where this thread is in the chain of actions for the signal it handles. Initial-exec, since
 * the lazy allocation of other TLS models is not async-signal-safe. */
static _Thread_local struct {
	const siginfo_t *info;
	uintptr_t frame;
	unsigned level;
} walk __attribute__((tls_model("initial-exec")));

/* ---- the faulting side: async-signal-safe */

static struct h2d_map *find_map(uintptr_t addr, uintptr_t *end)
{
	unsigned n = atomic_load(&place_count);

	for (unsigned i = 0; i < n; i++) {
		struct h2d_guard *g = &places[i];
		unsigned version = atomic_load(&g->version);
		uintptr_t lo = atomic_load(&g->begin), hi = atomic_load(&g->end);
		struct h2d_map *m = atomic_load(&g->map);

		if (addr < lo || addr >= hi || version & 1 ||
		    atomic_load(&g->version) != version)
			continue;
		*end = hi;
		return m;
	}
	return NULL;
}

#ifdef SYS_mmap2
#define RAW_MMAP SYS_mmap2 /* 32 bits: counts the offset in pages, and ours is 0 */
#else
#define RAW_MMAP SYS_mmap
#endif

/* The bare call: an interposed mmap() need not be async-signal-safe. */
static bool cover(uintptr_t begin, uintptr_t end, int prot)
{
	return syscall(RAW_MMAP, begin, end - begin, prot,
		       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L) != -1;
}

static bool repair(const siginfo_t *info)
{
	uintptr_t addr = (uintptr_t)info->si_addr, page, end;
	struct h2d_map *m;

	/* Only a fault of this thread: not kill(), not a machine check elsewhere. */
	if (info->si_code != BUS_ADRERR && info->si_code != BUS_MCEERR_AR)
		return false;
	m = find_map(addr, &end);
	if (!m)
		return false;
	/* Before the zeros can be read by anyone, so that no load takes them for the file. */
	atomic_store(&m->damaged, 1);
	page = addr & ~(uintptr_t)(m->page_bytes - 1);
	/* When the process has no mapping left to spend, one to the end costs only one. */
	return cover(page, page + m->page_bytes, m->prot) || cover(page, end, m->prot);
}

/* The default action, at the same instruction, so that a core dump shows the culprit. */
static void default_action(int sig, const siginfo_t *info)
{
	struct sigaction dfl;
	sigset_t set;

	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	sigaction(sig, &dfl, NULL);
	if (info->si_code > 0 && info->si_code != BUS_MCEERR_AO)
		return; /* the access is repeated and kills */
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), sig);
}

static void call_action(struct action *a, int sig, siginfo_t *info, void *context)
{
	bool once = a->sa.sa_flags & SA_RESETHAND;
	sigset_t mask = a->sa.sa_mask, old;

	if (!(a->sa.sa_flags & SA_SIGINFO) && a->sa.sa_handler == SIG_IGN) {
		/* The kernel does not let a fault be ignored either. */
		if (info->si_code > 0 && info->si_code != BUS_MCEERR_AO)
			default_action(sig, info);
		return;
	}
	if ((!(a->sa.sa_flags & SA_SIGINFO) && a->sa.sa_handler == SIG_DFL) ||
	    (once && atomic_exchange(&a->spent, 1))) {
		default_action(sig, info);
		return;
	}
	/* As the kernel would have called it: its mask, and SIGBUS unless SA_NODEFER. */
	if (!(a->sa.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, &old);
	if (a->sa.sa_flags & SA_SIGINFO)
		a->sa.sa_sigaction(sig, info, context);
	else
		a->sa.sa_handler(sig);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	unsigned level = atomic_load(&below_count);
	__typeof__(walk) outer = walk;
	int saved_errno = errno;

	if (!repair(info)) {
		/* Deeper than an outer call for the same signal: we are called by the handler
		 * that call passed it to. (After a siglongjmp() out of a handler `walk` is
		 * stale, but then the frame is not deeper.) Nothing below although the kernel
		 * called us: the last guard went between the two, and the action is the one it
		 * restored. */
		if (outer.info == info && frame < outer.frame)
			level = outer.level;
		else if (!level)
			level = 1;
		if (level) {
			walk.info = info;
			walk.frame = frame;
			walk.level = level - 1;
			call_action(&actions[atomic_load(&below[level - 1])], sig, info,
				    context);
			walk = outer;
		} else {
			default_action(sig, info);
		}
	}
	errno = saved_errno;
}

/* ---- installing and removing, under `lock` and with signals blocked */

static bool is_ours(const struct sigaction *sa)
{
	return (sa->sa_flags & SA_SIGINFO) && sa->sa_sigaction == on_sigbus;
}

/* sigset_t is larger than what the kernel fills in: no memcmp(). */
static bool same_mask(const sigset_t *a, const sigset_t *b)
{
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (sigismember(a, sig) != sigismember(b, sig))
			return false;
	return true;
}

static bool same_action(const struct sigaction *a, const struct sigaction *b)
{
	bool same_fn = a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction
						: a->sa_handler == b->sa_handler;

	return same_fn && a->sa_flags == b->sa_flags && same_mask(&a->sa_mask, &b->sa_mask);
}

static bool push_below(const struct sigaction *sa)
{
	unsigned n = atomic_load(&below_count), i = 0;

	if (n == BELOW_MAX)
		return false;
	while (i < action_count && !same_action(&actions[i].sa, sa))
		i++;
	if (i == ACTION_MAX)
		return false;
	if (i == action_count) {
		actions[i].sa = *sa;
		action_count++;
	}
	atomic_store(&actions[i].spent, 0);
	atomic_store(&below[n], i);
	atomic_store(&below_count, n + 1);
	return true;
}

static bool install(void)
{
	struct sigaction old, ours;

	memset(&old, 0, sizeof(old));
	if (sigaction(SIGBUS, NULL, &old))
		return false;
	if (is_ours(&old)) /* uncovered by the handler that had been over us */
		return true;
	if (!push_below(&old))
		return false;
	memset(&ours, 0, sizeof(ours));
	ours.sa_sigaction = on_sigbus;
	sigemptyset(&ours.sa_mask);
	/* SA_NODEFER: what is blocked meanwhile is decided for each action in call_action().
	 * SA_ONSTACK: the fault may be in a small stack, as of Go's threads. SA_RESTART: a
	 * signal that ended no system call before us must not end one now. */
	ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	if ((old.sa_flags & SA_RESTART) ||
	    (!(old.sa_flags & SA_SIGINFO) &&
	     (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN)))
		ours.sa_flags |= SA_RESTART;
	if (!sigaction(SIGBUS, &ours, NULL))
		return true;
	atomic_fetch_sub(&below_count, 1);
	return false;
}

static void uninstall(void)
{
	unsigned n = atomic_load(&below_count);
	struct sigaction now, old;

	if (sigaction(SIGBUS, NULL, &now) || !is_ours(&now) || !n)
		return; /* the program's handler stays, and so does what it may call in us */
	old = actions[atomic_load(&below[n - 1])].sa;
	if ((old.sa_flags & SA_RESETHAND) &&
	    atomic_load(&actions[atomic_load(&below[n - 1])].spent)) {
		memset(&old, 0, sizeof(old));
		old.sa_handler = SIG_DFL;
	}
	sigaction(SIGBUS, &old, NULL);
	atomic_store(&below_count, n - 1);
}

static void enter(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, old);
	pthread_mutex_lock(&lock);
}

static void leave(const sigset_t *old)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void set_place(struct h2d_guard *g, uintptr_t begin, uintptr_t end, struct h2d_map *m)
{
	atomic_fetch_add(&g->version, 1);
	atomic_store(&g->begin, begin);
	atomic_store(&g->end, end);
	atomic_store(&g->map, m);
	atomic_fetch_add(&g->version, 1);
}

int h2d_guard_add(struct h2d_map *m, struct h2d_guard **out, const struct h2d_log *log)
{
	struct h2d_guard *g = NULL;
	bool installed;
	uint64_t bytes;
	sigset_t old;

	*out = NULL;
	if (!m->base || m->borrowed)
		return 0;
	if (!h2d_align_up_u64(m->bytes, m->page_bytes, &bytes))
		return H2D_E_INTERNAL;
	enter(&old);
	for (unsigned i = 0; i < H2D_GUARD_MAX && !g; i++)
		if (!atomic_load(&places[i].end))
			g = &places[i];
	installed = g && (guard_count || install());
	if (installed) {
		guard_count++;
		set_place(g, (uintptr_t)m->base, (uintptr_t)m->base + bytes, m);
		if (atomic_load(&place_count) < (unsigned)(g - places) + 1)
			atomic_store(&place_count, (unsigned)(g - places) + 1);
	}
	leave(&old);
	if (!g)
		return h2d_fail(log, H2D_E_NOMEM, "more than %d mapped files are being loaded",
				H2D_GUARD_MAX);
	if (!installed)
		return h2d_fail(log, H2D_E_UNAVAILABLE,
				"the SIGBUS handler cannot be installed over the program's");
	/* Asked last: a fault that came before the guard was in place is seen here, a later one
	 * by h2d_guard_remove(). */
	if (atomic_load(&m->damaged)) {
		h2d_guard_remove(g);
		return h2d_fail(log, H2D_E_CHANGED,
				"%s: a page of its mapping was lost (SIGBUS): the file was "
				"truncated while in use, or could not be read",
				m->name);
	}
	*out = g;
	return 0;
}

bool h2d_guard_faulted(const struct h2d_guard *g)
{
	struct h2d_guard *place =
		(struct h2d_guard *)(uintptr_t)g; /* C11 loads want no const */

	return place && atomic_load(&atomic_load(&place->map)->damaged);
}

bool h2d_guard_remove(struct h2d_guard *g)
{
	bool faulted;
	sigset_t old;

	if (!g)
		return false;
	faulted = h2d_guard_faulted(g);
	enter(&old);
	set_place(g, 0, 0, NULL);
	if (!--guard_count)
		uninstall();
	leave(&old);
	return faulted;
}

bool h2d_guard_thread_begin(void)
{
	sigset_t bus, old;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, &old);
	return sigismember(&old, SIGBUS) == 1;
}

void h2d_guard_thread_end(bool was_blocked)
{
	sigset_t bus;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	if (was_blocked)
		pthread_sigmask(SIG_BLOCK, &bus, NULL);
}
