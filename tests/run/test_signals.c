/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own handling of SIGSEGV beside ours, and real crashes. */
#include <pthread.h>
#include <setjmp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <ucontext.h>

#include "under.h"

/* Not to be known to the compiler: handlers change the one, and the other is no object. */
static unsigned char *volatile map, *volatile nowhere = (unsigned char *)16;
static sigjmp_buf back;
static volatile int calls, nested_writes;
static void *volatile fault_at;

static void begin(void)
{
	map = under_map(under_file, UNDER_FILE_BYTES);
	if (!map || strcmp(under_permissions(map), "r--p")) {
		fprintf(stderr, "the mapping is not kept: the test is void\n");
		exit(1);
	}
}

static void recover(int sig, siginfo_t *info, void *context)
{
	(void)context;
	calls += sig == SIGSEGV;
	fault_at = info->si_addr;
	siglongjmp(back, 1);
}

static void install(void (*handler)(int, siginfo_t *, void *), int flags, int block_all)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&act.sa_mask);
	if (block_all)
		sigfillset(&act.sa_mask);
	REQUIRE(!sigaction(SIGSEGV, &act, NULL));
}

/* A real fault, from which the handler recovers. @return whether it came with the right address
 */
static int faults(volatile unsigned char *p)
{
	int before = calls;

	if (!sigsetjmp(back, 1)) {
		*p = 1;
		return 0;
	}
	return calls == before + 1 && fault_at == (void *)p;
}

/* Kept writes and real faults by turns. */
static void both(void)
{
	unsigned char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *constant =
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 5; i++) {
		map[(size_t)(2 * i + 1) * MIB] = 1;
		CHECK(map[(size_t)(2 * i + 1) * MIB] == 1);
		CHECK(faults(none + i));
		CHECK(faults(constant + i));
		CHECK(faults(nowhere + i));
	}
}

static void handler_before(void)
{
	install(recover, 0, 0);
	begin();
	both();
}

static void handler_after(void)
{
	begin();
	map[0] = 1;
	install(recover, 0, 1);
	both();
}

static void on_an_alternate_stack(void)
{
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};

	REQUIRE(!sigaltstack(&stack, NULL));
	install(recover, SA_ONSTACK, 0);
	begin();
	both();
	install(recover, SA_ONSTACK | (int)SA_NODEFER, 0);
	both();
}

static void by_signal(void)
{
	begin();
	CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
	CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
	CHECK(!raise(0) && map[0] == 8);
	map[MIB] = 1;
	CHECK(map[MIB] == 1);
}

static void write_inside(int sig, siginfo_t *info, void *context)
{
	sigset_t now;

	(void)sig;
	(void)info;
	(void)context;
	map[8 * MIB] = 3; /* kept: must come through though SIGSEGV counts as blocked here */
	nested_writes += map[8 * MIB] == 3;
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	nested_writes += sigismember(&now, SIGSEGV) == 1;
	siglongjmp(back, 1);
}

static void a_write_inside_the_handler(void)
{
	sigset_t now;

	begin();
	install(write_inside, 0, 0);
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
	CHECK_EQ(nested_writes, 2);
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	CHECK_EQ(sigismember(&now, SIGSEGV), 0);
	install(recover, 0, 0);
	both();
}

static void fault_inside(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	calls++;
	if (calls > 1)
		_exit(9);
	*(volatile char *)info->si_addr = 2;
}

static void a_fault_inside_the_handler(void)
{
	begin();
	install(fault_inside, 0, 0);
	*nowhere = 1;
}

static void lower_down(int sig)
{
	calls += sig == SIGUSR2 || sig == SIGSEGV;
}

/* The old interfaces, of which the C library's own would undo ours. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void old_interfaces(void)
{
	const int both_bits = 1 << (SIGSEGV - 1) | 1 << (SIGUSR2 - 1);
	sigset_t now;

	begin();
	CHECK(sysv_signal(SIGSEGV, lower_down) == SIG_DFL);
	map[0] = 1;
	raise(SIGSEGV);
	CHECK_EQ(calls, 1);
	CHECK(signal(SIGSEGV, lower_down) == SIG_DFL); /* once, and then it was reset */
	CHECK(!sighold(SIGSEGV));
	map[3 * MIB] = 1;
	raise(SIGSEGV);
	CHECK_EQ(calls, 1);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &now) && sigismember(&now, SIGSEGV) == 1);
	CHECK(!sigrelse(SIGSEGV));
	CHECK_EQ(calls, 2);
	CHECK(sigset(SIGSEGV, SIG_HOLD) == lower_down);
	map[6 * MIB] = 1;
	CHECK(sigset(SIGSEGV, lower_down) == SIG_HOLD);
	raise(SIGSEGV);
	CHECK_EQ(calls, 3);
	CHECK(!sigignore(SIGSEGV));
	raise(SIGSEGV);
	map[9 * MIB] = 1;
	CHECK(map[3 * MIB] == 1 && map[9 * MIB] == 1 && calls == 3);
	CHECK(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
	CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL && signal(4711, SIG_IGN) == SIG_ERR);
	CHECK_EQ(sigblock(both_bits), 0);
	map[11 * MIB] = 1;
	CHECK_EQ(sigsetmask(0), both_bits);
	CHECK_EQ(sigblock(0), 0);
}
#pragma GCC diagnostic pop

/* As runtimes do that turn a fault into something of their own: go on elsewhere. */
static void *volatile resume_at;

static void elsewhere(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	calls += sig == SIGSEGV;
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)resume_at;
#elif defined(__aarch64__)
	uc->uc_mcontext.pc = (unsigned long)resume_at;
#else
	(void)uc;
	_exit(0);
#endif
}

static void by_changing_the_context(void)
{
	void *volatile *where = &resume_at;

	begin();
	install(elsewhere, SA_RESTART, 0);
	for (int i = 1; i <= 3; i++) {
		*where = &&behind;
		map[(size_t)i * 3 * MIB] = 1;
		if (*where != &&behind)
			goto *resume_at;
		*nowhere = 1;
		_exit(4);
	behind:
		CHECK_EQ(calls, i);
	}
}

static void another_signals_mask(void)
{
	struct sigaction act = {.sa_handler = lower_down}, same;

	begin();
	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGSEGV);
	CHECK(!sigaction(SIGUSR2, &act, NULL));
	CHECK(!sigaction(SIGUSR2, &act, &same) && same.sa_handler == lower_down);
	CHECK_EQ(sigismember(&same.sa_mask, SIGSEGV), 1);
	raise(SIGUSR2);
	CHECK_EQ(calls, 1);
	CHECK(signal(SIGUSR2, SIG_DFL) == lower_down);
}

static void count_only(int sig)
{
	calls += sig == SIGSEGV;
}

static void told_what_it_asked(void)
{
	struct sigaction act = {.sa_handler = count_only, .sa_flags = SA_RESTART}, old;
	sigset_t set, was;

	begin();
	map[0] = 1;
	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGUSR1);
	CHECK(!sigaction(SIGSEGV, &act, &old) && old.sa_handler == SIG_DFL);
	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_handler == count_only);
	CHECK(sigismember(&old.sa_mask, SIGUSR1) && !sigismember(&old.sa_mask, SIGUSR2));
	CHECK_EQ(old.sa_flags & (SA_RESTART | SA_ONSTACK | SA_SIGINFO), SA_RESTART);
	sigfillset(&act.sa_mask);
	CHECK(!sigaction(SIGUSR1, &act, NULL) && !sigaction(SIGUSR1, NULL, &old));
	CHECK_EQ(sigismember(&old.sa_mask, SIGSEGV), 1);

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(!sigprocmask(SIG_BLOCK, &set, &was) && !sigismember(&was, SIGSEGV));
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &was) && sigismember(&was, SIGSEGV) == 1);
	map[5 * MIB] = 1; /* would kill if it were blocked */
	raise(SIGSEGV);
	CHECK_EQ(calls, 0);
	CHECK(!sigprocmask(SIG_UNBLOCK, &set, &was) && sigismember(&was, SIGSEGV) == 1);
	CHECK_EQ(calls, 1);
	raise(SIGSEGV);
	CHECK_EQ(calls, 2);
	sigfillset(&set);
	CHECK(!pthread_sigmask(SIG_SETMASK, &set, &was) && !sigismember(&was, SIGSEGV));
	map[7 * MIB] = 1;
	CHECK(!pthread_sigmask(SIG_SETMASK, &was, &set) && sigismember(&set, SIGSEGV) == 1);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &was) && !sigismember(&was, SIGSEGV));
	CHECK_EQ(sigprocmask(77, &set, NULL), -1);
}

static void in_another_handler(int sig)
{
	calls += sig == SIGUSR1;
	map[6 * MIB] = 4;
	map = under_map(under_file, UNDER_FILE_BYTES); /* and one is made there */
	map[9 * MIB] = 5;
}

static void other_handlers_write(void)
{
	struct sigaction act = {.sa_handler = in_another_handler};
	unsigned char *first;
	sigset_t all;

	begin();
	first = map;
	sigfillset(&act.sa_mask);
	REQUIRE(!sigaction(SIGUSR1, &act, NULL));
	raise(SIGUSR1);
	CHECK(first[6 * MIB] == 4 && map != first && map[9 * MIB] == 5);
	CHECK_STR(under_permissions(map), "r--p");
	sigfillset(&all);
	sigdelset(&all, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &act.sa_mask, NULL);
	raise(SIGUSR1);
	sigsuspend(&all);
	CHECK_EQ(calls, 2);
}

static void *write_blocked(void *user)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	map[(size_t)user * 2 * MIB] = 1;
	return NULL;
}

static void threads_with_all_blocked(void)
{
	pthread_t threads[4];

	begin();
	for (size_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, write_blocked, (void *)(i + 1));
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(map[2 * MIB] == 1 && map[8 * MIB] == 1);
}

static void reset_after_one(void)
{
	struct sigaction old;

	begin();
	install(recover, (int)SA_RESETHAND, 0);
	map[0] = 1; /* ours: not the one */
	CHECK(faults(nowhere));
	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_handler == SIG_DFL);
	map[4 * MIB] = 1;
	*nowhere = 1;
}

static void ignored_but_real(void)
{
	begin();
	signal(SIGSEGV, SIG_IGN);
	raise(SIGSEGV);
	map[MIB] = 1;
	*nowhere = 1;
	_exit(3);
}

static void sent(void)
{
	begin();
	raise(SIGSEGV);
	_exit(3);
}

/* A debugger sees the last SIGSEGV where the write was, and so does a core dump. */
static void crash_at_the_right_place(void)
{
	static unsigned char *volatile target;
	int status = 0, stops = 0;
	siginfo_t info = {0};
	pid_t pid;
#if defined(__x86_64__)
	struct user_regs_struct first = {0}, last = {0};
#endif

	begin();
	target = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		map[0] = 1;
		target[5] = 1;
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		CHECK_EQ(WSTOPSIG(status), SIGSEGV);
		ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
		if (info.si_addr == target + 5) {
			stops++;
#if defined(__x86_64__)
			ptrace(PTRACE_GETREGS, pid, NULL, stops == 1 ? &first : &last);
#endif
		}
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status));
	}
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(stops >= 2 && info.si_addr == target + 5 && info.si_code == SEGV_ACCERR);
#if defined(__x86_64__)
	CHECK(last.rip == first.rip && last.rsp == first.rsp && last.rip);
#endif
}

static void look_crash(struct h2d_run_state *s)
{
	/* Counted at the crash, too. */
	CHECK_EQ(UNDER_SUM(s, written_page_count), 1);
}

/* The smallest stack that a signal may have, with a report to write at the end. */
static void crash_on_a_small_stack(void)
{
	size_t bytes = (size_t)sysconf(_SC_MINSIGSTKSZ) + 4096;
	stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
	struct sigaction act = {.sa_handler = SIG_DFL, .sa_flags = SA_ONSTACK};
	int status = 0, last = 0;
	siginfo_t info = {0};
	pid_t pid;

	begin();
	REQUIRE(!sigaltstack(&stack, NULL) && !sigaction(SIGSEGV, &act, NULL));
	map[0] = 1;
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		map[5 * MIB] = 1;
		*nowhere = 1;
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
		last = info.si_addr == (void *)nowhere;
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status));
	}
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV && last);
}

/* A runtime that goes past the C library, as Go's does: what the kernel calls an action. */
struct raw_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static void install_raw(void)
{
	struct sigaction act = {.sa_sigaction = recover, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct raw_action raw;

	/* By way of another signal, to have the restorer of the C library. */
	REQUIRE(!sigaction(SIGUSR2, &act, NULL));
	REQUIRE(!syscall(SYS_rt_sigaction, SIGUSR2, NULL, &raw, sizeof(raw.mask)));
	REQUIRE(!syscall(SYS_rt_sigaction, SIGSEGV, &raw, NULL, sizeof(raw.mask)));
}

static void raw_handler_before(void)
{
	install_raw();
	begin();
	both();
}

static void raw_handler_after(void)
{
	begin();
	install_raw();
	CHECK_STR(under_permissions(under_map(under_file, UNDER_FILE_BYTES)), "rw-p");
}

/* Go's runtime: a stack of its own for each thread's signals, and what happened in code that is
 * not its own goes to the handler that was there before. */
static struct raw_action passed_on;

static void pass_on(int sig, siginfo_t *info, void *context)
{
	void (*next)(int, siginfo_t *, void *);

	memcpy(&next, &passed_on.handler, sizeof(next));
	if (info->si_addr == (void *)nowhere)
		recover(sig, info, context);
	next(sig, info, context);
}

static void *on_a_stack_of_its_own(void *user)
{
	stack_t stack = {.ss_sp = malloc(32768), .ss_size = 32768};

	CHECK(!sigaltstack(&stack, NULL));
	for (size_t at = (size_t)user * MIB / 4; at < UNDER_FILE_BYTES; at += MIB)
		map[at] = (unsigned char)at;
	return NULL;
}

static void raw_handler_that_passes_on(void)
{
	struct sigaction act = {.sa_sigaction = pass_on,
				.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	struct raw_action raw;
	pthread_t threads[3];

	begin();
	sigfillset(&act.sa_mask);
	REQUIRE(!sigaction(SIGUSR2, &act, NULL));
	REQUIRE(!syscall(SYS_rt_sigaction, SIGUSR2, NULL, &raw, sizeof(raw.mask)));
	raw.mask = ~0ul;
	REQUIRE(!syscall(SYS_rt_sigaction, SIGSEGV, &raw, &passed_on, sizeof(raw.mask)));
	for (size_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, on_a_stack_of_its_own, (void *)i);
	for (size_t i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(faults(nowhere));
	map[11 * MIB + 5] = 1;
	CHECK(map[11 * MIB + 5] == 1);
}

/* ---- SIGSEGV blocked */

static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(!pthread_sigmask(how, &set, NULL));
}

static int is_blocked(void)
{
	sigset_t now;

	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
	return sigismember(&now, SIGSEGV);
}

/* With nothing kept, too: what is sent waits. */
static void sent_while_blocked(void)
{
	sigset_t waiting;
	int status = -1;

	block(SIG_BLOCK);
	kill(getpid(), SIGSEGV);
	CHECK(is_blocked() && !sigpending(&waiting) && sigismember(&waiting, SIGSEGV));
	if (!fork())
		_exit(sigpending(&waiting) || sigismember(&waiting, SIGSEGV));
	CHECK(wait(&status) > 0 && !status);
	CHECK(signal(SIGSEGV, count_only) == SIG_DFL && !calls);
	block(SIG_UNBLOCK);
	CHECK(calls == 1 && !sigpending(&waiting) && !sigismember(&waiting, SIGSEGV));
	begin();
	map[0] = 1;
	CHECK(map[0] == 1 && calls == 1);
}

static void must_not_run(int sig)
{
	(void)sig;
	_exit(3);
}

/* A real fault then ends the program, whatever its handler. */
static void fault_while_blocked(void)
{
	begin();
	signal(SIGSEGV, must_not_run);
	block(SIG_BLOCK);
	map[MIB] = 1;
	*nowhere = 1;
}

static void fault_while_blocked_before(void)
{
	signal(SIGSEGV, must_not_run);
	block(SIG_BLOCK);
	*nowhere = 1;
}

static void fault_while_masked(void)
{
	struct sigaction act = {.sa_sigaction = fault_inside,
				.sa_flags = SA_SIGINFO | (int)SA_NODEFER};

	begin();
	sigemptyset(&act.sa_mask);
	sigaddset(&act.sa_mask, SIGSEGV);
	REQUIRE(!sigaction(SIGSEGV, &act, NULL));
	*nowhere = 1;
}

static void *write_and_tell(void *user)
{
	map[6 * MIB] = 2;
	*(int *)user = is_blocked();
	return NULL;
}

/* By threads, by children, by those of vfork() not; and by what is executed. */
static void block_is_inherited(void)
{
	const char *file = under_file, *plain = under_plain;
	int told = -1, status = -1;
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all;

	begin();
	block(SIG_BLOCK);
	REQUIRE(!pthread_create(&thread, NULL, write_and_tell, &told));
	pthread_join(thread, NULL);
	CHECK_EQ(told, 1);
	block(SIG_UNBLOCK);
	sigfillset(&all);
	map = under_map(under_file, UNDER_FILE_BYTES);
	told = -1;
	REQUIRE(!pthread_attr_init(&attributes) &&
		!pthread_attr_setsigmask_np(&attributes, &all) &&
		!pthread_create(&thread, &attributes, write_and_tell, &told));
	pthread_join(thread, NULL);
	CHECK_EQ(told, 1);
	if (!vfork()) {
		sigprocmask(SIG_BLOCK, &all, NULL);
		_exit(0);
	}
	wait(&status);
	CHECK_EQ(is_blocked(), 0);
	map[MIB] = 1;
	for (int child = 0; child < 2; child++) {
		block(child ? SIG_UNBLOCK : SIG_BLOCK);
		if (!fork()) {
			setenv("EXPECTED", child ? "0" : "1", 1);
			execl("/proc/self/exe", "self", "mask_as_expected", file, plain, NULL);
			_exit(9);
		}
		CHECK(wait(&status) > 0 && !status);
	}
	block(SIG_BLOCK);
	CHECK(execl("/nonexistent", "x", NULL) == -1 && errno == ENOENT && is_blocked());
	map[9 * MIB] = 1;
}

/* As the kernel has it, in a program without us. */
static void exec_without(void)
{
	sigset_t all, was;
	int status = -1;

	begin();
	unsetenv("LD_PRELOAD");
	sigfillset(&all);
	/* As Python starts programs. */
	CHECK(!pthread_sigmask(SIG_BLOCK, &all, &was));
	if (!vfork()) {
		pthread_sigmask(SIG_SETMASK, &was, NULL);
		execlp("grep", "grep", "-q", "^SigBlk:.*0000000000000000$", "/proc/self/status",
		       NULL);
		_exit(9);
	}
	CHECK(wait(&status) > 0 && !status);
	CHECK(!pthread_sigmask(SIG_SETMASK, &was, NULL));
	block(SIG_BLOCK);
	execlp("grep", "grep", "-q", "^SigBlk:.*0000000400$", "/proc/self/status", NULL);
	_exit(9);
}

static void mask_as_expected(void)
{
	const char *expected = getenv("EXPECTED");

	begin();
	CHECK_EQ(is_blocked(), expected ? atoi(expected) : 0);
	map[MIB] = 1;
}

/* siglongjmp() brings back the mask of then. */
static void block_comes_back(void)
{
	begin();
	block(SIG_BLOCK);
	if (!sigsetjmp(back, 1)) {
		block(SIG_UNBLOCK);
		CHECK_EQ(is_blocked(), 0);
		siglongjmp(back, 1);
	}
	CHECK_EQ(is_blocked(), 1);
	map[MIB] = 1;
	CHECK(map[MIB] == 1);
}

static __thread jmp_buf without_mask;
static _Atomic int waits;

static void leave(int sig)
{
	(void)sig;
	longjmp(without_mask, 1);
}

/* A jump that does not restore the mask leaves SIGSEGV blocked, and nothing else. */
static void *cancelled(void *user)
{
	char c;

	if (!setjmp(without_mask))
		*nowhere = 1;
	CHECK_EQ(is_blocked(), 1);
	map[3 * MIB] = 1;
	waits = 1;
	while (read(*(int *)user, &c, 1) < 1)
		;
	return NULL;
}

static void cancel_after_a_jump(void)
{
	void *result = NULL;
	pthread_t thread;
	int pair[2];

	begin();
	alarm(20);
	signal(SIGSEGV, leave);
	REQUIRE(!pipe(pair) && !pthread_create(&thread, NULL, cancelled, &pair[0]));
	while (!waits)
		usleep(1000);
	usleep(100000); /* until it waits in the kernel */
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

static void look_raw_after(struct h2d_run_state *s)
{
	CHECK_EQ(UNDER_SUM(s, mapping_count), 1);
	CHECK_EQ(atomic_load(&s->refused_handler_count), 1);
}

static const struct under_case cases[] = {
	{"handler_before", handler_before, NULL, 0, NULL},
	{"handler_after", handler_after, NULL, 0, NULL},
	{"on_an_alternate_stack", on_an_alternate_stack, NULL, 0, NULL},
	{"by_signal", by_signal, NULL, 0, NULL},
	{"a_write_inside_the_handler", a_write_inside_the_handler, NULL, 0, NULL},
	{"a_fault_inside_the_handler", a_fault_inside_the_handler, NULL, SIGSEGV, NULL},
	{"by_changing_the_context", by_changing_the_context, NULL, 0, NULL},
	{"another_signals_mask", another_signals_mask, NULL, 0, NULL},
	{"old_interfaces", old_interfaces, NULL, 0, NULL},
	{"told_what_it_asked", told_what_it_asked, NULL, 0, NULL},
	{"other_handlers_write", other_handlers_write, NULL, 0, NULL},
	{"threads_with_all_blocked", threads_with_all_blocked, NULL, 0, NULL},
	{"reset_after_one", reset_after_one, NULL, SIGSEGV, NULL},
	{"ignored_but_real", ignored_but_real, look_crash, SIGSEGV, NULL},
	{"sent", sent, NULL, SIGSEGV, NULL},
	{"raw_handler_before", raw_handler_before, NULL, 0, NULL},
	{"raw_handler_after", raw_handler_after, look_raw_after, 0, NULL},
	{"raw_handler_that_passes_on", raw_handler_that_passes_on, NULL, 0, NULL},
	{"sent_while_blocked", sent_while_blocked, NULL, 0, NULL},
	{"fault_while_blocked", fault_while_blocked, NULL, SIGSEGV, NULL},
	{"fault_while_blocked_before", fault_while_blocked_before, NULL, SIGSEGV, NULL},
	{"fault_while_masked", fault_while_masked, NULL, SIGSEGV, NULL},
	{"block_is_inherited", block_is_inherited, NULL, 0, NULL},
	{"exec_without", exec_without, NULL, 0, NULL},
	{"mask_as_expected", mask_as_expected, NULL, 0, NULL},
	{"block_comes_back", block_comes_back, NULL, 0, NULL},
	{"cancel_after_a_jump", cancel_after_a_jump, NULL, 0, NULL},
	{"crash_on_a_small_stack", crash_on_a_small_stack, NULL, 0, NULL},
	{"crash_at_the_right_place", crash_at_the_right_place, look_crash, 0, NULL},
};

UNDER_MAIN(cases)
