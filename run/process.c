/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>

#include "run/keep.h"
#include "run/sys.h"

struct ro_process ro;
__thread struct ro_thread ro_thread __attribute__((tls_model("initial-exec")));

static ro_signals before_fork;

void ro_take(void)
{
	if (!ro_thread.forking)
		ro_lock_take(&ro.lock);
}

void ro_drop(void)
{
	if (!ro_thread.forking)
		ro_lock_drop(&ro.lock);
}

ro_signals ro_enter(void)
{
	ro_signals before = ro_signals_block();

	ro_take();
	ro_count_calls(2);
	return before;
}

void ro_leave(ro_signals before)
{
	ro_drop();
	ro_signals_restore(before);
}

void ro_count_calls(unsigned n)
{
	if (ro.state)
		atomic_fetch_add_explicit(&ro.state->added_syscall_count, n,
					  memory_order_relaxed);
}

bool ro_readable(const void *addr, size_t bytes)
{
	enum { STEP = 4096, WORD = 8 }; /* no page is smaller; what the call reads */
	uintptr_t at = (uintptr_t)addr, last = at + bytes - WORD;
	int saved = errno;
	long rc;

	if (!at || bytes < WORD || last < at)
		return false;
	for (;;) {
		rc = syscall(SYS_rt_sigprocmask, -1, at, NULL, (size_t)WORD);
		ro_count_calls(1);
		if ((rc && errno == EFAULT) || at == last)
			break;
		at = last - at < STEP ? last : at + STEP;
	}
	rc = rc && errno == EFAULT;
	errno = saved;
	return !rc;
}

/* Under vm.overcommit_memory=2 a private writable mapping is paid for when it is made, so that
 * no write can fail later. Made read-only it would not be. */
static bool strict_overcommit(void)
{
	int fd = sys_open("/proc/sys/vm/overcommit_memory", O_RDONLY, 0);
	char c = 0;

	if (fd < 0)
		return false;
	if (sys_pread(fd, &c, 1, 0) != 1)
		c = 0;
	sys_close(fd);
	return c == '2';
}

static void copy_variable(char *to, size_t bytes, const char *name)
{
	const char *value = getenv(name);

	if (value && strlen(value) < bytes)
		strcpy(to, value);
}

/* Without a state file, one that forked children share. */
static void attach_state(void)
{
	const char *path = getenv(H2D_RUN_STATE_ENV);
	struct h2d_run_state *s;

	if (path && *path && !h2d_run_state_open_any(path, &s)) {
		ro.state = s;
	} else {
		s = sys_mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (s == MAP_FAILED)
			return;
		h2d_run_state_init(s, ro.page_bytes);
		ro.state = s;
	}
	ro.image = atomic_fetch_add(&ro.state->image_count, 1) + 1;
}

void ro_init(void)
{
	const char *verbose;
	ro_signals before;
	int saved = errno;

	if (atomic_load_explicit(&ro.ready, memory_order_acquire))
		return;
	before = ro_signals_block();
	ro_lock_take(&ro.lock);
	if (!atomic_load_explicit(&ro.ready, memory_order_relaxed)) {
		ro.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store(&ro.pid, getpid());
		ro.generation = 1;
		ro.strict_overcommit = strict_overcommit();
		copy_variable(ro.patterns, sizeof(ro.patterns), H2D_RUN_PATTERN_ENV);
		copy_variable(ro.report, sizeof(ro.report), H2D_RUN_REPORT_ENV);
		verbose = getenv(H2D_RUN_VERBOSE_ENV);
		ro.verbose = verbose && *verbose && strcmp(verbose, "0");
		attach_state();
		atomic_store_explicit(&ro.ready, 1, memory_order_release);
	}
	ro_lock_drop(&ro.lock);
	ro_signals_restore(before);
	errno = saved;
}

/* A child made by a raw system call called no handler of fork(); one of vfork() shares memory.
 */
bool ro_own_memory(void)
{
	int pid = getpid(), owner = atomic_load(&ro.pid);

	if (!atomic_load(&ro.ready))
		return false;
	if (pid == owner)
		return true;
	ro_count_calls(1);
	if (syscall(SYS_kcmp, pid, owner, KCMP_VM, 0, 0) <= 0)
		return false;
	atomic_store(&ro.pid, pid);
	ro.ended = false;
	return true;
}

void ro_fork_prepare(void)
{
	ro_signals before = ro_enter();

	before_fork = before;
	ro_thread.forking = true;
	/* Who calls _Fork() may write to kept pages, and no other signal may be handled now. */
	ro_signals_restore(~RO_SIGNAL(SIGSEGV));
}

void ro_fork_parent(void)
{
	ro_signals before = before_fork;

	ro_signals_block();
	ro_thread.forking = false;
	ro_leave(before);
}

void ro_fork_child(void)
{
	atomic_store(&ro.pid, getpid());
	ro.ended = false;
	ro_fork_parent();
}
